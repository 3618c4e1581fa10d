"""The diffusion classifier: which class makes a row most probable.

    p(y|x) ∝ p(y) exp(bound of ln p(x|y)), all classes at the same levels with the same noise
What the noise adds to the bounds of all classes is in their differences no more; and a class that lies far behind need
not be known well.
Li, Prabhudesai, Duggal, Brown & Pathak (2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jensen.contract.gradient import blocks, progress
from jensen.models.diffusion_answers import pair_error
from jensen.models.diffusion_module import DiffusionModule, evaluation_levels, paired_levels

__all__ = ["Classification", "classify_rows"]

# Shares of the budget, after each of which losing classes are dropped.
STAGES = (0.25, 0.25, 0.5)
# A class is lost that lies this many nats behind the best, and as many standard errors of the difference on top.
LOST_NATS, LOST_ERRORS = 5.0, 3.0


@dataclass(frozen=True)
class Classification:
    """What the classifier found of every row, as arrays of the kind of X.

    Args:
        probabilities: p(y|x), (n, C).
        log_odds: ln p(y|x) - ln p(best|x), (n, C), 0 for the best.
        standard_error: of the log-odds, from the draws of levels and noise, (n, C).
        n_evaluations: how often the network was asked, (n,).
    """

    probabilities: Any
    log_odds: Any
    standard_error: Any
    n_evaluations: Any


def classify_rows(
    module: DiffusionModule,
    x: Tensor,
    log_prior: Tensor,
    weighting: str,
    budget: int,
    generator: torch.Generator,
    device: torch.device,
    is_shown: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The fields of a `Classification` of rows (n, d)."""
    parts = []
    # Rows whose draws of the noise fit into memory together.
    for rows in progress(list(blocks(len(x), budget * module.space.n_dims)), "Classes", is_shown):
        parts.append(classify_block(module, x[rows].to(device), log_prior, weighting, budget, generator))
    fields = [torch.cat(part) for part in zip(*parts, strict=True)]
    return fields[0], fields[1], fields[2], fields[3]


def classify_block(
    module: DiffusionModule, x: Tensor, log_prior: Tensor, weighting: str, budget: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n, n_classes = len(x), len(log_prior)
    is_alive = torch.ones((n, n_classes), dtype=torch.bool)
    # Scores are comparable within a stage only: its draws shift those of all classes of a row alike. So of a class that
    # is dropped its distance to the best of that stage is kept, which it follows from then on.
    score, mass = log_prior.repeat(n, 1), 0
    leader = torch.arange(n_classes).repeat(n, 1)
    var = torch.zeros((n, n_classes), dtype=torch.float64)
    n_evaluations = torch.zeros(n, dtype=torch.long)
    for share in STAGES:
        # A row whose class is known is not asked about again.
        is_asked = is_alive & (is_alive.sum(1, keepdim=True) > 1)
        if not is_asked.any():
            break
        terms, weight = stage_terms(module, x, is_asked, weighting, max(int(share * budget) // 2 * 2, 4), generator)
        k = terms.shape[2]
        mass += k
        n_evaluations += is_asked.sum(1) * k
        values = -terms * weight[:, None]
        # New estimates are averaged with the old by the number of their levels.
        step = torch.where(is_asked, (log_prior + values.sum(2) - score) * (k / mass), 0.0)
        score = score + followed(step, leader)
        best = torch.where(is_alive, score, -torch.inf).argmax(1, keepdim=True)
        against = values - values.gather(1, best[..., None].expand(-1, -1, k))
        error = pair_error(against.flatten(0, 1)).view(n, n_classes)
        new = var * ((mass - k) / mass) ** 2 + error.square() * (k / mass) ** 2
        var = torch.where(is_asked, new, var)
        behind = score.gather(1, best) - score
        is_lost = is_alive & (behind >= LOST_NATS + LOST_ERRORS * var.sqrt())
        leader = torch.where(is_lost, best, leader)
        is_alive &= ~is_lost
    log_odds = score - score.amax(1, keepdim=True)
    return log_odds.softmax(1), log_odds, var.sqrt(), n_evaluations.double()


def followed(step: Tensor, leader: Tensor) -> Tensor:
    """The steps (n, C) of classes, those of a dropped one being its leader's, who may have been dropped since, too."""
    for _ in STAGES:
        step = step.gather(1, leader)
    return step


def stage_terms(
    module: DiffusionModule, x: Tensor, is_alive: Tensor, weighting: str, k: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Terms (n, C, k) of every class that is left at common levels, 0 of the others, and weights (n, k) to sum them."""
    n, n_classes = is_alive.shape
    if weighting == "variational":
        level, weight = evaluation_levels(module.share.cpu(), n, k, generator)
    else:
        level = paired_levels(module.uniform.cpu(), n, k // 2, generator)
        weight = torch.full(level.shape, len(module.space.columns.names) / k, dtype=torch.float64)
    k = level.shape[1]
    noise = torch.randn((n, k, module.space.n_dims), generator=generator)
    row, number = is_alive.nonzero(as_tuple=True)
    found = torch.empty((len(row), k), dtype=torch.float64)
    for pairs in blocks(len(row) * k, module.n_entries):
        place = torch.arange(pairs.start, min(pairs.stop, len(row) * k))
        i, draw = row[place // k], place % k
        rows = x[i.to(x.device)]
        y = number[place // k].to(x.device)
        at, own = level[i, draw].to(x.device), noise[i, draw].to(x.device)
        terms = module.terms(rows, module.space.embed(rows), at, own, y)
        kept = terms.nats if weighting == "variational" else terms.simple
        found.view(-1)[pairs] = kept.double().cpu()
    out = torch.zeros((n, n_classes, k), dtype=torch.float64)
    out[row, number] = found
    return out, weight
