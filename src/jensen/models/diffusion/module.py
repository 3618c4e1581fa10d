"""The network of a diffusion; forward returns the terms of its bound, estimated at one level per row.

    -ln p(x) ≤ L_T + Σ_{t=2}^T L_{t-1} + L_0 = L_T + E_{t~π} [L_{t-1} / π_t],   L_0 = -ln p(x_0|x_1)
One function, `terms`, computes L_{t-1} and L_0 for training and for scores. The levels of a batch are drawn together,
one from each of b equal parts of π (Kingma et al. 2021). π is half uniform and half proportional to β_t / (1-ᾱ_t),
which is uniform in ln SNR: the terms of the bound fall by orders of magnitude from the first levels to the last.

If values are missing, the network sees a mask of the observed values and 0 in place of the missing ones, and all terms
are sums over the observed values, as in Ouyang et al. (2023). This objective is a bound for complete rows only. With
`masks`, the network is also told what is known of a row, which then enters no term either; by default nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from jensen.contract.gradient import blocks
from jensen.contract.image_sizes import held_out_levels
from jensen.formulas.noising import Noising, kl_entries, observed_sum, prior_kl, simple_weight
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.completion import with_atoms
from jensen.models.diffusion.masks import Known, Masks
from jensen.models.diffusion.space import Belief, Space
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws

# Fraction of the labels that a training step hides; Ho & Salimans (2022).
HIDDEN_LABELS = 0.1
# Rough number of hidden units per input of the network: it decides how many pairs fit into memory.
N_HIDDEN = 32


@dataclass(frozen=True)
class Terms:
    """Terms of rows at one level each (b,), summed over the observed values.

    Args:
        nats: L_{t-1}; at level 1, L_0.
        simple: the simple loss: squared error of the prediction for numbers and cross-entropy for levels, per column.
        error: ‖x_0 - x̂_0‖².
    """

    nats: Tensor
    simple: Tensor
    error: Tensor


class View(Protocol):
    """Turns points (b, D) at any level, and what lies beside them (b, ...), such as masks, into the network's input."""

    def __call__(self, xt: Tensor, *beside: Tensor) -> Tensor: ...


class DiffusionModule(nn.Module):
    """
    Args:
        view: prepares the network's input.
        network: f(x, t, y).
        space: turns the network's outputs into a belief about x_0.
        schedule: the noise schedule.
        n_classes: number of classes; the class number `n_classes` stands for no class.
        is_uniform: whether training draws levels uniformly rather than where the terms of the bound are large.
        stops_mean: whether the gradient of the bound reaches only the learned variance.
        has_missing: whether values may be missing.
        masks: of what training tells the network; None is a network that is never told.
    """

    table: Tensor
    times: Tensor
    share: Tensor
    uniform: Tensor

    def __init__(
        self,
        view: View,
        network: nn.Module,
        space: Space,
        schedule: Schedule,
        *,
        n_classes: int = 0,
        is_uniform: bool,
        stops_mean: bool = False,
        has_missing: bool = False,
        masks: Masks | None = None,
    ) -> None:
        super().__init__()
        self.view, self.network, self.space, self.schedule = view, network, space, schedule
        self.n_classes, self.is_uniform, self.stops_mean = n_classes, is_uniform, stops_mean
        self.has_missing, self.masks = has_missing, masks
        self.register_buffer("table", Noising.table(schedule).float(), persistent=False)
        self.register_buffer("times", torch.tensor(schedule.time).float(), persistent=False)
        self.register_buffer("share", torch.tensor(level_shares(schedule)), persistent=False)
        self.register_buffer("uniform", torch.full_like(self.share, 1 / schedule.n_levels), persistent=False)

    def forward(self, x: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
        """Estimates of the bound's terms per row (b,), and the simple loss: from one level, in evaluation from several.

        For a row with a label they are terms of ln p(x|y). Training hides some labels to train ln p(x), too.
        """
        x, cost = with_atoms(self.space, x)
        y = None if label is None else self.class_numbers(label)
        if self.training and y is not None:
            y = torch.where(torch.rand(len(y), device=y.device) < HIDDEN_LABELS, self.n_classes, y)
        if self.training:
            level, weight = training_levels(self.uniform if self.is_uniform else self.share, len(x))
            x0 = self.space.embed(x)
            known = None if self.masks is None else self.masks.draw(x0, self.observed(x), x.shape[1])
            found = self.terms(x, x0, level[:, 0], torch.randn_like(x0), y, known)
            nats, simple = found.nats[:, None], found.simple[:, None]
        else:
            level, weight = evaluation_levels(self.share, len(x), held_out_levels(self.space.n_dims))
            nats, simple, _ = self.evaluate(x, level, y)
        nats, observed = nats * weight.to(nats), self.observed(x)
        seen = None if observed is None else self.space.spread(observed)
        return {
            "reconstruction": cost - torch.where(level == 1, nats, 0.0).sum(1),
            "prior": prior_kl(self.space.embed(x), self.schedule, seen),
            "denoising": torch.where(level == 1, 0.0, nats).sum(1),
            "simple": (simple * weight.to(simple)).sum(1) / self.schedule.n_levels,
        }

    def observed(self, x: Tensor) -> Tensor | None:
        """Mask of the observed values of rows (b, d); None if all are."""
        return ~x.isnan() if self.has_missing else None

    def class_numbers(self, label: Tensor) -> Tensor:
        """Class numbers for the network, from labels that are -1 where unknown."""
        return torch.where(label < 0, self.n_classes, label)

    @property
    def n_entries(self) -> int:
        """Rough number of entries of the tensors for a row at one level."""
        return self.space.is_level.numel() + N_HIDDEN * self.space.n_dims

    def evaluate(
        self,
        x: Tensor,
        level: Tensor,
        y: Tensor | None = None,
        draws: RowDraws | None = None,
        is_shown: bool = False,
    ) -> Tensor:
        """Terms of rows (n, d) at levels (n, k), in blocks of pairs: nats, the simple loss and the error, (3, n, k)."""
        n, k = level.shape
        parts, flat = [], level.reshape(-1)
        for pairs in progress(list(blocks(n * k, self.n_entries)), "Bound", is_shown):
            row = torch.arange(pairs.start, min(pairs.stop, n * k), device=x.device) // k
            x0 = self.space.embed(x[row])
            noise = torch.randn_like(x0) if draws is None else noise_of_pairs(draws, pairs, k, n, x0).to(x0)
            found = self.terms(x[row], x0, flat[pairs], noise, None if y is None else y[row])
            parts.append(torch.stack([found.nats, found.simple, found.error]))
        return torch.cat(parts, 1).view(3, n, k)

    def terms(
        self, x: Tensor, x0: Tensor, level: Tensor, noise: Tensor, y: Tensor | None = None, known: Known | None = None
    ) -> Terms:
        """The terms of rows x with points x_0, noised to the levels (b,) by this noise, given what is known."""
        space, at, observed = self.space, Noising.at(self.table, level), self.observed(x)
        xt = at.noised(x0, noise)
        columns = space.some_columns(len(x), x.device) if self.training else None
        belief = self.belief(xt, level, y, at, observed, columns, known)
        observed = observed if known is None else known.hidden(observed)
        n_per_term = 1.0
        if columns is not None:
            n_per_term = x.shape[1] / columns.shape[1]
            x, x0 = x.gather(1, columns), x0.gather(1, columns)
            observed = None if observed is None else observed.gather(1, columns)
        # Missing values enter no term, but a level must be a valid index.
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
        simple = simple * (n_per_term / len(space.columns.names))
        return Terms(n_per_term * nats, simple, n_per_term * observed_sum(squares.detach(), seen))

    def belief(
        self,
        xt: Tensor,
        level: Tensor,
        y: Tensor | None = None,
        at: Noising | None = None,
        observed: Tensor | None = None,
        columns: Tensor | None = None,
        known: Known | None = None,
    ) -> Belief:
        """The belief about x_0 from points (b, D) at levels (b,), with a mask (b, d) of observed values."""
        at = Noising.at(self.table, level) if at is None else at
        return self.denoise(xt, self.times[level - 1], at, y, observed=observed, columns=columns, known=known)

    def denoise(
        self,
        xt: Tensor,
        time: Tensor,
        at: Noising,
        y: Tensor | None = None,
        guidance: float = 0.0,
        observed: Tensor | None = None,
        columns: Tensor | None = None,
        known: Known | None = None,
    ) -> Belief:
        """The same at any times, with classifier-free guidance away from the output without a class.

        The outputs enter x̂_0 and the logits of levels linearly, so that guidance may extrapolate the outputs.
        """
        seen = self.given(xt, observed, known)
        output: Tensor = self.network(seen, time, y).flatten(1)
        if guidance:
            beyond = guidance * (output - self.network(seen, time, None).flatten(1))
            if self.space.has_variance:
                n = self.space.n_numbers
                beyond[:, n : 2 * n] = 0.0
            output = output + beyond
        return self.space.belief(output, xt, at, columns)

    def given(self, xt: Tensor, observed: Tensor | None = None, known: Known | None = None) -> Tensor:
        """The network's input for points; None means that all values are observed, and that nothing is known."""
        n_columns, beside = len(self.space.columns.names), []
        if self.has_missing:
            seen = torch.ones((len(xt), n_columns), device=xt.device).bool() if observed is None else observed
            xt = torch.where(self.space.spread(seen), xt, 0.0)
            beside += [seen]
        if self.masks is not None:
            known = Known.nothing(xt, n_columns) if known is None else known
            is_known = self.space.spread(known.mask)
            xt = torch.where(is_known, 0.0, xt)
            beside += [torch.where(is_known, known.points, 0.0), known.mask]
        return self.view(xt, *beside)


def belief_at(belief: Belief, rows: Tensor) -> Belief:
    levels = None if belief.log_levels is None else belief.log_levels[rows]
    return Belief(belief.mean[rows], levels, belief.log_variance[rows])


def level_shares(schedule: Schedule) -> np.ndarray:
    """π_t (T,)."""
    by_snr = schedule.beta / schedule.noise_variance
    return np.asarray(0.5 / schedule.n_levels + 0.5 * by_snr / by_snr.sum())


def training_levels(share: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """A level (n, 1) for each of n rows, and the weight that makes its term an estimate of the sum over all levels."""
    level = spread_levels(share, n, 1)
    return level, 1 / share[level - 1]


def evaluation_levels(share: Tensor, n: int, k: int, draws: RowDraws | None = None) -> tuple[Tensor, Tensor]:
    """Levels (n, k) and weights with which the terms of a row sum to an estimate of the sum over all levels.

    Levels come in pairs of neighbours, so that the differences within pairs estimate the standard error. The first
    level, whose term is of another kind, is a pair of its own. If k is at least the number of levels, all levels are
    used.
    """
    n_levels = len(share)
    if k >= n_levels:
        level = torch.arange(1, n_levels + 1, device=share.device)
        # The first level twice: it has no neighbour to be paired with.
        return torch.cat([level[:1], level]).expand(n, -1), torch.cat(
            [share.new_full((2,), 0.5), share.new_ones(n_levels - 1)]
        ).expand(n, -1)
    n_parts = max(k // 2 - 1, 1)
    others = torch.cat([share.new_zeros(1), share[1:] / share[1:].sum()])
    level = paired_levels(others, n, n_parts, draws)
    weight = 1 / (2 * n_parts * others[level - 1])
    first = torch.ones_like(level[:, :2])
    return torch.cat([first, level], 1), torch.cat([torch.full_like(weight[:, :2], 0.5), weight], 1)


def paired_levels(share: Tensor, n: int, n_parts: int, draws: RowDraws | None = None) -> Tensor:
    """Levels (n, 2 n_parts): a pair of neighbours from each of `n_parts` equal parts of the distribution.

    With numbers of the rows' own, a row has one level in each of 2 n_parts equal parts, all at the same place of their
    part: systematic sampling, whose error is smaller than that of separate places (Madow & Madow 1944). Without, the
    pairs of all rows subdivide the parts, which suits a mean over rows.
    """
    if draws is None:
        return torch.stack([spread_levels(share, n, n_parts) for _ in range(2)], 2).flatten(1)
    k = 2 * n_parts
    return levels_at((torch.arange(k) + draws.uniform(1)) / k, share)


def spread_levels(share: Tensor, n: int, k: int) -> Tensor:
    """Levels (n, k), counted from 1: for each row one from each of k equal parts of the distribution, and over all rows
    one from each of n equal subparts of every part.
    """
    offset = torch.rand((n, k), dtype=torch.float64)
    order = torch.rand((n, k)).argsort(0)
    return levels_at((torch.arange(k) + (order + offset) / n) / k, share)


def levels_at(u: Tensor, share: Tensor) -> Tensor:
    """The levels, counted from 1, at places u in [0, 1) of the distribution."""
    cdf = share.cpu().cumsum(0)
    level = torch.searchsorted(cdf, u * cdf[-1], right=True).clamp_max(len(share) - 1)
    return level.to(share.device) + 1


def noise_of_pairs(draws: RowDraws, pairs: slice, k: int, n: int, x0: Tensor) -> Tensor:
    """Noise like x_0 (b, D) of pairs i of row i // k and draw i % k, each from a stream of its own."""
    row, number = np.divmod(np.arange(pairs.start, min(pairs.stop, n * k)), k)
    return draws.own(row, number).normal(x0.shape[1])
