"""The diffusion classifier: which class makes a row most probable.

    p(y|x) ∝ p(y) exp(bound of ln p(x|y)), all classes at the same levels with the same noise ε and -ε
Noise that is common to the bounds of all classes cancels in their differences, and what is linear in ε cancels between
ε and -ε. If the classes are Gaussians that differ in their means, nothing else is left. A class far behind the best
needs no precise estimate.
Li, Prabhudesai, Duggal, Brown & Pathak (2023); antithetic variates Hammersley & Morton (1956).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.models.diffusion.inference import pair_error, without_nan
from jensen.models.diffusion.module import DiffusionModule, evaluation_levels, paired_levels
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws

# Stages of the budget; after each, classes far behind are dropped.
STAGES = (0.25, 0.25, 0.5)
# Least evaluations per stage: with fewer, the standard error is too uncertain to drop a class.
LEAST_STAGE = 12
# Every level is evaluated with a noise and its negative.
SIGNS = 2
# A class is dropped if it is so many nats plus so many standard errors of the difference behind the best. The errors,
# from differences of neighbouring levels, are rather too large.
LOST_NATS, LOST_ERRORS = 5.0, 2.0
# Nats of a draw that overflowed: larger than any other, but its square is finite.
LARGEST = 1e100
# Copies of the terms of all classes in memory: by stage, summed, and relative to the best.
N_COPIES = 4


@dataclass(frozen=True)
class Classification:
    """The result of the diffusion classifier for every row, as arrays of the kind of X.

    Args:
        probabilities: p(y|x), (n, C).
        log_odds: ln p(y|x) - ln p(best|x), (n, C), 0 for the best.
        standard_error: of the log-odds, from the draws of levels and noise, (n, C).
        n_evaluations: number of evaluations of the network, (n,).
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
    draws: RowDraws,
    device: torch.device,
    is_shown: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The fields of a `Classification` of rows (n, d)."""
    parts = []
    # Blocks of rows whose noise and whose terms of all classes fit into memory.
    per_level = max(module.space.n_dims, N_COPIES * len(log_prior))
    for rows in progress(list(blocks(len(x), budget * per_level)), "Classes", is_shown):
        parts.append(classify_block(module, x[rows].to(device), log_prior, weighting, budget, draws[rows]))
    fields = [torch.cat(part) for part in zip(*parts, strict=True)]
    return fields[0], fields[1], fields[2], fields[3]


def classify_block(
    module: DiffusionModule, x: Tensor, log_prior: Tensor, weighting: str, budget: int, draws: RowDraws
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n, n_classes = len(x), len(log_prior)
    is_alive = torch.ones((n, n_classes), dtype=torch.bool)
    leader = torch.arange(n_classes).repeat(n, 1)
    # The terms of every class's score, by stage (n, C, k). They are comparable within a stage only, because the draws
    # shift all classes of a row alike. So a dropped class keeps its distance to the best class of that stage and
    # follows it from then on.
    drawn: list[Tensor] = []
    n_evaluations, mass = torch.zeros(n, dtype=torch.long), 0
    # With a single class there is nothing to compute.
    score, error = log_prior.repeat(n, 1), torch.zeros((n, n_classes), dtype=torch.float64)
    best = torch.zeros((n, 1), dtype=torch.long)
    for size in stages(budget):
        # A row with one class left needs no more evaluations.
        is_asked = is_alive & (is_alive.sum(1, keepdim=True) > 1)
        if not is_asked.any():
            break
        terms, weight = stage_terms(module, x, is_asked, weighting, size, draws)
        values = -terms * weight[:, None]
        k = SIGNS * values.shape[2]
        mass += k
        n_evaluations += is_asked.sum(1) * k
        # New and old estimates are averaged with their numbers of evaluations as weights.
        steps = [*(-part for part in drawn), values]
        drawn = [*drawn, torch.zeros_like(values)]
        share = (k / mass) * is_asked[..., None]
        drawn = [part + followed(share * step, leader) for part, step in zip(drawn, steps, strict=True)]
        score = log_prior + torch.stack([part.sum(2) for part in drawn]).sum(0)
        best = torch.where(is_alive, score, -torch.inf).argmax(1, keepdim=True)
        error = error_to(best, drawn)
        behind = score.gather(1, best) - score
        is_lost = is_alive & (behind >= LOST_NATS + LOST_ERRORS * error)
        leader = torch.where(is_lost, best, leader)
        is_alive &= ~is_lost
    log_odds = score - score.gather(1, best)
    return log_odds.softmax(1), log_odds, error, n_evaluations.double()


def stages(budget: int) -> list[int]:
    """The number of evaluations in every stage; a small budget has one stage."""
    shares = (1.0,) if STAGES[0] * budget < LEAST_STAGE else STAGES
    # Levels come in pairs, and each has two signs.
    return [int(share * budget) // (2 * SIGNS) * 2 * SIGNS for share in shares]


def followed(step: Tensor, leader: Tensor) -> Tensor:
    """The steps (n, C, k) of classes; a dropped class takes those of its leader, which may have been dropped, too."""
    for _ in STAGES:
        step = of_classes(step, leader)
    return step


def of_classes(values: Tensor, number: Tensor) -> Tensor:
    """The values (n, C, k) of the classes with these numbers (n, m)."""
    return values.gather(1, number[..., None].expand(-1, -1, values.shape[2]))


def error_to(best: Tensor, drawn: Sequence[Tensor]) -> Tensor:
    """Standard errors (n, C) of the differences between the scores and the best score (n, 1)."""
    against = [part - of_classes(part, best) for part in drawn]
    errors = [pair_error(part.flatten(0, 1)).view(part.shape[:2]) for part in against]
    return torch.stack(errors).square().sum(0).sqrt()


def stage_terms(
    module: DiffusionModule, x: Tensor, is_alive: Tensor, weighting: str, n_evaluations: int, draws: RowDraws
) -> tuple[Tensor, Tensor]:
    """Terms (n, C, k) of the remaining classes at common levels, 0 for the others, and weights (n, k) to sum them.

    A term is the mean of those of ε and -ε.
    """
    n, n_classes = is_alive.shape
    level, weight = stage_levels(module, n, weighting, n_evaluations // SIGNS, draws)
    k = level.shape[1]
    noise = draws.normal(k, module.space.n_dims)
    row, number = is_alive.nonzero(as_tuple=True)
    found = torch.empty((len(row), k, SIGNS), dtype=torch.float64)
    for draws_of in blocks(found.numel(), module.n_entries):
        place = torch.arange(draws_of.start, min(draws_of.stop, found.numel()))
        pair, draw = place // (k * SIGNS), place // SIGNS % k
        i, sign = row[pair], 1 - 2 * (place % SIGNS)
        rows = x[i.to(x.device)]
        y = number[pair].to(x.device)
        at, own = level[i, draw].to(x.device), (sign[:, None] * noise[i, draw]).to(x.device)
        terms = module.terms(rows, module.space.embed(rows), at, own, y)
        kept = terms.nats if weighting == "variational" else terms.simple
        found.view(-1)[draws_of] = without_nan(kept.double()).cpu()
    out = torch.zeros((n, n_classes, k), dtype=torch.float64)
    out[row, number] = found.mean(2)
    # A draw that overflows for every class does not distinguish them.
    is_useless = (out.isinf() | ~is_alive[..., None]).all(1, keepdim=True)
    return torch.where(is_useless, 0.0, out.clamp_max(LARGEST)), weight


def stage_levels(module: DiffusionModule, n: int, weighting: str, k: int, draws: RowDraws) -> tuple[Tensor, Tensor]:
    """About k levels of n rows and their weights (n, k)."""
    if weighting == "simple":
        level = paired_levels(module.uniform.cpu(), n, k // 2, draws)
        return level, torch.full(level.shape, len(module.space.columns.names) / k, dtype=torch.float64)
    n_levels = len(module.share)
    # If k exceeds the number of levels, all levels are used, several times if k allows it.
    level, weight = evaluation_levels(module.share.cpu(), n, k if k > n_levels else min(k, n_levels - 1), draws)
    times = max(k // level.shape[1], 1)
    return level.repeat_interleave(times, 1), weight.repeat_interleave(times, 1) / times
