"""The network of a diffusion; forward gives the terms of its bound, estimated at a level per row.

    -ln p(x) ≤ L_T + Σ_{t=2}^T L_{t-1} + L_0 = L_T + E_{t~π} [L_{t-1} / π_t],   L_0 = -ln p(x_0|x_1)
One function, `terms`, gives L_{t-1} and L_0 to the training and to the scores. Levels are drawn together for a batch,
one in each of b equal parts of π (Kingma et al. 2021), half uniformly and half in proportion to β_t / (1-ᾱ_t), which is
uniform in ln SNR: the bound's terms fall by orders of magnitude from the first levels to the last.

Where rows have holes, the network sees which entries are observed, and 0 in the place of others, and all terms are sums
over the observed ones: an objective that says nothing of what is missing, as in Ouyang et al. (2023). It is a bound for
complete rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jensen.contract.gradient import blocks
from jensen.formulas.noising import Noising, kl_entries, observed_sum, prior_kl, simple_weight
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.space import Belief, Space
from jensen.runtime.progress import progress

__all__ = ["DiffusionModule", "Terms", "evaluation_levels", "paired_levels"]

# The share of labels that a step of the training hides; Ho & Salimans (2022).
HIDDEN_LABELS = 0.1
# Levels per held-out row that decide about stopping.
HELD_OUT_LEVELS = 16
# Numbers that a network computes in between for every one it is given, roughly: they decide how many pairs fit.
N_HIDDEN = 32


@dataclass(frozen=True)
class Terms:
    """Of rows at a level each (b,), sums over what is observed of them.

    Args:
        nats: L_{t-1}, at level 1 L_0.
        simple: the squared error of what the network says of numbers and the cross-entropy of levels, per column.
        error: ‖x_0 - x̂_0‖².
    """

    nats: Tensor
    simple: Tensor
    error: Tensor


class DiffusionModule(nn.Module):
    """
    Args:
        view: points (b, D) at any level as the network takes them.
        network: f(x, t, y).
        space: reads what it says.
        schedule: the noise.
        n_classes: classes that the network knows; the number after theirs stands for none.
        is_uniform: whether training draws levels uniformly rather than where the bound is large.
        stops_mean: whether the bound's gradient reaches the learned variance only.
        has_holes: whether rows may have missing entries; `view` is then also given the columns (b, d) observed.
    """

    table: Tensor
    times: Tensor
    share: Tensor
    uniform: Tensor

    def __init__(
        self,
        view: Any,
        network: nn.Module,
        space: Space,
        schedule: Schedule,
        *,
        n_classes: int = 0,
        is_uniform: bool,
        stops_mean: bool = False,
        has_holes: bool = False,
    ) -> None:
        super().__init__()
        self.view, self.network, self.space, self.schedule = view, network, space, schedule
        self.n_classes, self.is_uniform, self.stops_mean = n_classes, is_uniform, stops_mean
        self.has_holes = has_holes
        self.register_buffer("table", Noising.table(schedule).float(), persistent=False)
        self.register_buffer("times", torch.tensor(schedule.time).float(), persistent=False)
        self.register_buffer("share", torch.tensor(level_shares(schedule)), persistent=False)
        self.register_buffer("uniform", torch.full_like(self.share, 1 / schedule.n_levels), persistent=False)

    def forward(self, x: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
        """Estimates of the bound's terms per row (b,), and the simple loss: of one level, in evaluation of several.

        Of a row with a label they are of ln p(x|y); in training some labels are hidden, so that ln p(x) is learnt, too.
        """
        y = None if label is None else self.class_numbers(label)
        if self.training and y is not None:
            y = torch.where(torch.rand(len(y), device=y.device) < HIDDEN_LABELS, self.n_classes, y)
        if self.training:
            level, weight = training_levels(self.uniform if self.is_uniform else self.share, len(x))
            x0 = self.space.embed(x)
            found = self.terms(x, x0, level[:, 0], torch.randn_like(x0), y)
            nats, simple = found.nats[:, None], found.simple[:, None]
        else:
            level, weight = evaluation_levels(self.share, len(x), HELD_OUT_LEVELS)
            nats, simple, _ = self.evaluate(x, level, y)
        nats, observed = nats * weight.to(nats), self.observed(x)
        seen = None if observed is None else self.space.spread(observed)
        return {
            "reconstruction": -torch.where(level == 1, nats, 0.0).sum(1),
            "prior": prior_kl(self.space.embed(x), self.schedule, seen),
            "denoising": torch.where(level == 1, 0.0, nats).sum(1),
            "simple": (simple * weight.to(simple)).sum(1) / self.schedule.n_levels,
        }

    def observed(self, x: Tensor) -> Tensor | None:
        """Which entries of rows (b, d) are; None is all of them."""
        return ~x.isnan() if self.has_holes else None

    def class_numbers(self, label: Tensor) -> Tensor:
        """What the network is told of labels, which are -1 where unknown."""
        return torch.where(label < 0, self.n_classes, label)

    @property
    def n_entries(self) -> int:
        """Of the tensors that a row at a level needs, roughly."""
        return self.space.is_level.numel() + N_HIDDEN * self.space.n_dims

    def evaluate(
        self,
        x: Tensor,
        level: Tensor,
        y: Tensor | None = None,
        generator: torch.Generator | None = None,
        is_shown: bool = False,
    ) -> Tensor:
        """Terms of rows (n, d) at levels (n, k), in blocks of pairs: nats, the simple loss and the error, (3, n, k)."""
        n, k = level.shape
        parts, flat = [], level.reshape(-1)
        for pairs in progress(list(blocks(n * k, self.n_entries)), "Bound", is_shown):
            row = torch.arange(pairs.start, min(pairs.stop, n * k), device=x.device) // k
            x0 = self.space.embed(x[row])
            # A generator lives on the processor, whatever computes.
            device = x.device if generator is None else "cpu"
            noise = torch.randn(x0.shape, generator=generator, dtype=x0.dtype, device=device).to(x.device)
            found = self.terms(x[row], x0, flat[pairs], noise, None if y is None else y[row])
            parts.append(torch.stack([found.nats, found.simple, found.error]))
        return torch.cat(parts, 1).view(3, n, k)

    def terms(self, x: Tensor, x0: Tensor, level: Tensor, noise: Tensor, y: Tensor | None = None) -> Terms:
        """Of rows x with points x_0, noised to the levels (b,) by the noise."""
        space, at, observed = self.space, Noising.at(self.table, level), self.observed(x)
        xt = at.noised(x0, noise)
        belief = self.belief(xt, level, y, at, observed)
        # No term sees what stands in the place of a missing entry, but the number of a level must be one.
        x, seen = (x, None) if observed is None else (x.nan_to_num(), space.spread(observed))
        of_levels, of_numbers = space.observed_parts(observed)
        squares = (x0 - belief.mean).square()
        judged = squares.detach() if self.stops_mean else squares
        nats = observed_sum(kl_entries(judged, belief.log_variance, at), seen)
        first = (level == 1).nonzero()[:, 0]
        if len(first):
            own = None if observed is None else observed[first]
            nats = nats.index_copy(0, first, -space.log_prob(belief_at(belief, first), x[first], x0[first], own))
        simple = torch.zeros_like(nats)
        if space.n_numbers:
            numbers = squares[:, space.numbers] if belief.log_levels is not None else squares
            simple = simple + observed_sum(simple_weight(space.prediction, at) * numbers, of_numbers)
        if belief.log_levels is not None:
            simple = simple + observed_sum(space.cross_entropy(belief, x), of_levels)
        return Terms(nats, simple / len(space.columns.names), observed_sum(squares.detach(), seen))

    def belief(
        self,
        xt: Tensor,
        level: Tensor,
        y: Tensor | None = None,
        at: Noising | None = None,
        observed: Tensor | None = None,
    ) -> Belief:
        """What the network makes of points (b, D) at levels (b,), of rows whose entries (b, d) are observed or not."""
        at = Noising.at(self.table, level) if at is None else at
        return self.denoise(xt, self.times[level - 1], at, y, observed=observed)

    def denoise(
        self,
        xt: Tensor,
        time: Tensor,
        at: Noising,
        y: Tensor | None = None,
        guidance: float = 0.0,
        observed: Tensor | None = None,
    ) -> Belief:
        """The same at any times; guidance goes beyond the class, away from what is said without one.

        What is said enters x̂_0 and the logits of levels linearly, so it may be extrapolated itself.
        """
        seen = self.given(xt, observed)
        output: Tensor = self.network(seen, time, y).flatten(1)
        if guidance:
            beyond = guidance * (output - self.network(seen, time, None).flatten(1))
            if self.space.has_variance:
                n = self.space.n_numbers
                beyond[:, n : 2 * n] = 0.0
            output = output + beyond
        return self.space.belief(output, xt, at)

    def given(self, xt: Tensor, observed: Tensor | None) -> Tensor:
        """What the network is given of points; without word of what is observed everything is."""
        if not self.has_holes:
            return self.view(xt)  # type: ignore[no-any-return]
        if observed is None:
            observed = torch.ones((len(xt), len(self.space.columns.names)), dtype=torch.bool, device=xt.device)
        return self.view(torch.where(self.space.spread(observed), xt, 0.0), observed)  # type: ignore[no-any-return]


def belief_at(belief: Belief, rows: Tensor) -> Belief:
    levels = None if belief.log_levels is None else belief.log_levels[rows]
    return Belief(belief.mean[rows], levels, belief.log_variance[rows])


def level_shares(schedule: Schedule) -> Any:
    """π_t (T,)."""
    by_snr = schedule.beta / schedule.noise_variance
    return 0.5 / schedule.n_levels + 0.5 * by_snr / by_snr.sum()


def training_levels(share: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """A level (n, 1) for each of n rows, and the weight with which its term is an estimate of the sum over all."""
    level = spread_levels(share, n, 1)
    return level, 1 / share[level - 1]


def evaluation_levels(share: Tensor, n: int, k: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Levels (n, k) and weights with which the terms of a row sum to an estimate of the sum over all levels.

    They come in pairs from one part of the distribution each, so that differences within pairs tell the error; the
    first level, which is of another kind, is a pair of its own. As many as there are levels, or more, are all of them.
    """
    n_levels = len(share)
    if k >= n_levels:
        level = torch.arange(1, n_levels + 1, device=share.device)
        # The first twice: it has no neighbour.
        return torch.cat([level[:1], level]).expand(n, -1), torch.cat(
            [share.new_full((2,), 0.5), share.new_ones(n_levels - 1)]
        ).expand(n, -1)
    n_parts = max(k // 2 - 1, 1)
    others = torch.cat([share.new_zeros(1), share[1:] / share[1:].sum()])
    level = paired_levels(others, n, n_parts, generator)
    weight = 1 / (2 * n_parts * others[level - 1])
    first = torch.ones_like(level[:, :2])
    return torch.cat([first, level], 1), torch.cat([torch.full_like(weight[:, :2], 0.5), weight], 1)


def paired_levels(share: Tensor, n: int, n_parts: int, generator: torch.Generator | None = None) -> Tensor:
    """Levels (n, 2 n_parts): two side by side from each of so many equal parts of the distribution."""
    return torch.stack([spread_levels(share, n, n_parts, generator) for _ in range(2)], 2).flatten(1)


def spread_levels(share: Tensor, n: int, k: int, generator: torch.Generator | None = None) -> Tensor:
    """Levels (n, k), counted from 1: of each row one from each of k equal parts of the distribution, and of all rows
    together one from each of n smaller parts of these.
    """
    offset = torch.rand((n, k), generator=generator, dtype=torch.float64)
    order = torch.rand((n, k), generator=generator).argsort(0)
    u = (torch.arange(k) + (order + offset) / n) / k
    cdf = share.cpu().cumsum(0)
    level = torch.searchsorted(cdf, u * cdf[-1], right=True).clamp_max(len(share) - 1)
    return level.to(share.device) + 1
