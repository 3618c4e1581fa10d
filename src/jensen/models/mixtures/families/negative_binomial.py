"""Counts whose variance is above their mean.

    p_k(x) = Π_j Γ(s+x_j) / (Γ(s) x_j!) · (s/(s+μ))^s · (μ/(s+μ))^x_j,  mean μ_kj, size s_kj, variance μ + μ²/s
    M:  μ = Σ r x / N,  Σ_i r_i (ψ(s+x_i) - ψ(s)) = N ln(1 + μ/s);  s = ∞ (Poisson) if the variance is not above μ
The size needs more than sums: the weight of every distinct count, Σ_i r_ik [x_ij = u], which adds. The counts u of the
training rows are known when the family is made, so the M-step is exact. The table also has a ladder of other counts: a
new one, as in `partial_fit`, is split between its two neighbours so that the mean stays. Its score is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch, Footprint
from jensen.formulas.counts import (
    LARGEST_SIZE,
    SMALLEST_SIZE,
    log_negative_binomial,
    mass_for_size,
    negative_binomial_size,
)
from jensen.formulas.gamma import digamma_rise
from jensen.formulas.moments import CHUNK
from jensen.models.mixtures.families.entries import (
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    is_count,
)
from jensen.models.mixtures.families.lookup import (
    Codes,
    Layout,
    Table,
    footprint_of,
    in_blocks,
    in_line,
    layout_of,
    missing_in_line,
)
from jensen.models.mixtures.families.poisson import LEAST_AT_START

Counts = tuple[tuple[int, ...], ...]
# Counts below it are tallied one by one, others are sorted.
SMALL = 2**16
# Small counts, and larger ones in steps of a sixteenth up to 2³¹, between which ψ(s+x) is nearly linear.
LADDER = (*range(64), *(round(64 * (17 / 16) ** i) for i in range(288)))


@dataclass(frozen=True)
class New:
    """Entries whose count is not in the table (m,): column, row in line, count, neighbours, share of the upper one."""

    column: Tensor
    row: Tensor
    count: Tensor
    below: Tensor
    above: Tensor
    share: Tensor


@dataclass(frozen=True)
class View:
    """Places of entries in the table, and those that have none."""

    codes: Codes
    new: New | None


@dataclass(frozen=True)
class Tallies(Additive):
    """Weights (K,); over the rows that have feature j weights and sums (K, d); weights of every distinct count (K, U).

    `rest` (K, d) is the part of the weight that has no tallies.
    """

    mass: Tensor
    count: Tensor
    total: Tensor
    tally: Tensor
    rest: Tensor


@dataclass(frozen=True)
class NegativeBinomials(ColumnComponents[View, Tallies]):
    """Means μ and sizes s in (0, ∞] (K, d), and the counts in the table of every column, in order."""

    means: Tensor
    sizes: Tensor
    counts: Counts

    @property
    def expectation(self) -> Tensor:
        return self.means

    @property
    def n_parameters(self) -> int:
        return 2 * self.means.numel()

    @property
    def layout(self) -> Layout:
        return layout_of(tuple(len(values) for values in self.counts))

    @cached_property
    def table(self) -> Table:
        """ln p_kj(u) of the counts u of the table (K, U)."""
        column, counts = self.layout.column, torch.cat(tensor_of(self.counts))
        return Table(log_negative_binomial(counts, self.means[:, column], self.sizes[:, column]), self.layout)

    @property
    def footprint(self) -> Footprint:
        return footprint_of(tuple(map(len, self.counts)), self.n_components)

    def view(self, batch: Batch) -> View:
        x, known, layout = in_line(batch.x), tensor_of(self.counts), self.layout
        place = torch.stack(
            [torch.searchsorted(values, row.contiguous()) for values, row in zip(known, x, strict=True)]
        )
        place = torch.minimum(place, torch.tensor([len(values) - 1 for values in known])[:, None])
        inside, is_new = is_count(x), torch.cat(known)[place + layout.first[:, None]] != x
        sizes, new = tuple(map(len, known)), None
        if bool(is_new.any()):
            missing = missing_in_line(batch)
            is_new &= inside if missing is None else inside & ~missing
            # A row outside the support is excluded as a whole.
            column, row = is_new.nonzero().unbind(1)
            new = self.between(column, row, x[column, row], place[column, row] + layout.first[column])
            observed = ~is_new if missing is None else ~(is_new | missing)
            batch = replace(batch, observed=in_blocks(observed, batch.x.shape[:-2]))
        return View(Codes.of(batch, place.numpy(), inside.numpy(), sizes), new)

    def between(self, column: Tensor, row: Tensor, count: Tensor, above: Tensor) -> New:
        """New counts with the first place in the table (m,) that is above them, or the last if none is."""
        values = torch.cat(tensor_of(self.counts))
        below = torch.maximum(above - 1, self.layout.first[column])
        gap = values[above] - values[below]
        share = ((count - values[below]) / gap.where(gap > 0, 1.0)).clamp(0, 1)
        return New(column, row, count, below, above, share)

    def log_density(self, view: View) -> Tensor:
        log_density = view.codes.lookup(self.table)
        if view.new is None:
            return log_density
        column, row, count = view.new.column, view.new.row, view.new.count
        values = log_negative_binomial(count, self.means[:, column], self.sizes[:, column])
        return in_blocks(in_line(log_density).index_add(1, row, values), view.codes.blocks)

    def moments(self, responsibilities: Tensor, view: View) -> Tallies:
        tally, mass = view.codes.tally(responsibilities)
        count, total = self.layout.total(tally), self.layout.total(tally * torch.cat(tensor_of(self.counts)))
        if view.new is not None:
            new, of_new = view.new, in_line(responsibilities)[:, view.new.row]
            count, total = count.index_add(1, new.column, of_new), total.index_add(1, new.column, of_new * new.count)
            tally = tally.index_add(1, new.below, of_new * (1 - new.share))
            tally = tally.index_add(1, new.above, of_new * new.share)
        return Tallies(mass, count, total, tally, torch.zeros_like(self.means))

    def expected_moments(self, weights: Tensor) -> Tallies:
        layout, w = self.layout, weights[:, None]
        counts, column = torch.cat(tensor_of(self.counts)), layout.column
        sizes = self.sizes[:, column]
        probability = self.table.values.exp() * torch.cat(widths_of(self.counts))
        probability = probability / layout.total(probability)[:, column]
        # The table is coarse: the weight follows from the size that is to come out.
        rise, total = layout.total(probability * digamma_rise(sizes, counts)), layout.total(probability * counts)
        mass = mass_for_size(rise, total, self.sizes)
        # A Poisson distribution is a limit, which tallies do not reach; without any, a size stays.
        is_limit = self.sizes.isinf() | (self.means == 0)
        tally = w * probability.masked_fill(is_limit[:, column], 0.0)
        rest = w * (1 - mass.masked_fill(is_limit, 0.0))
        count = w.expand_as(self.means)
        return Tallies(weights, count, count * self.means, tally, rest)

    def m_step(self, moments: Tallies) -> Self:
        known = moments.count > 0
        means = torch.where(known, moments.total / moments.count, self.means)
        mass = (moments.count - moments.rest).where(known, 0.0)
        # Most of the ladder is empty.
        used = (moments.tally > 0).any(0)
        counts, column = torch.cat(tensor_of(self.counts))[used], self.layout.column[used]
        sizes = negative_binomial_size(moments.tally[:, used], counts, column, mass, self.sizes)
        return replace(self, means=means, sizes=sizes)

    def select(self, columns: Tensor) -> Self:
        counts = tuple(self.counts[int(column)] for column in columns)
        return replace(self, means=self.means[:, columns], sizes=self.sizes[:, columns], counts=counts)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        where = component.to(self.means.device)
        means, sizes = self.means[where].cpu(), self.sizes[where].cpu()
        size = sizes.clamp(max=LARGEST_SIZE)
        factor = torch._standard_gamma(size, generator=generator) / size
        return torch.poisson(torch.where(sizes.isinf(), means, means * factor), generator=generator)


def distinct_counts(x: Tensor) -> set[int]:
    """Those of a column (n,), NaN where missing, chunk by chunk; small ones are found without sorting."""
    found: set[int] = set()
    for part in x.split(CHUNK):
        counts = part[~part.isnan()]
        if len(counts) and bool(is_count(counts).all()) and float(counts.max()) < SMALL:
            found.update(counts.long().bincount().nonzero().squeeze(1).tolist())
        else:
            found.update(counts.unique().long().tolist())
    return found


@lru_cache(maxsize=64)
def tensor_of(counts: Counts) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(values, dtype=torch.float64) for values in counts)


@lru_cache(maxsize=64)
def widths_of(counts: Counts) -> tuple[Tensor, ...]:
    """How many counts each count of the table stands for: half of those up to its neighbours."""
    one = torch.ones(1, dtype=torch.float64)
    gaps = [torch.cat([one, values.diff(), one]) for values in tensor_of(counts)]
    return tuple((gap[:-1] + gap[1:]) / 2 for gap in gaps)


@dataclass(frozen=True)
class NegativeBinomialFamily(ColumnFamily[NegativeBinomials]):
    """
    Args:
        counts: those of every column that the table has, in increasing order; the M-step is exact for them.
    """

    counts: Counts
    needs = (
        "a negative binomial column has only counts 0, 1, 2, ...; correct the value, or give the column another family"
    )

    @classmethod
    def of(cls, x: Tensor) -> NegativeBinomialFamily:
        """For rows (n, d), NaN where missing: their distinct counts, and the ladder."""
        return cls(tuple(tuple(sorted({*distinct_counts(column), *LADDER})) for column in x.T))

    def inside(self, x: Tensor) -> Tensor:
        return is_count(x)

    def standard(self, k: int, d: int) -> NegativeBinomials:
        ones = torch.ones(k, d, dtype=torch.float64)
        return NegativeBinomials(ones, ones, self.counts)

    def first(self, components: NegativeBinomials, moments: Tallies, pseudo: float) -> NegativeBinomials:
        found = super().first(components, moments, pseudo)
        return replace(found, means=found.means.clamp(min=LEAST_AT_START))

    def project(self, components: NegativeBinomials) -> NegativeBinomials:
        sizes = components.sizes.clamp(min=SMALLEST_SIZE)
        return replace(components, sizes=sizes.masked_fill(sizes >= LARGEST_SIZE, torch.inf))

    def pack(self, components: NegativeBinomials) -> Tensor:
        means = components.means.log().clamp(-LARGEST_LOG, LARGEST_LOG)
        sizes = components.sizes.clamp(SMALLEST_SIZE, LARGEST_SIZE).log()
        return torch.cat([means.flatten(), sizes.flatten()])

    def unpack(self, vector: Tensor, k: int, d: int) -> NegativeBinomials:
        means, sizes = vector.reshape(2, k, d).clamp(-LARGEST_LOG, LARGEST_LOG).exp()
        return NegativeBinomials(means, sizes, self.counts)

    def expected_log_density(self, components: NegativeBinomials, moments: Tallies) -> Tensor:
        """Over the counts of the table; in the gradient of an exact fit nothing is left out."""
        # A count that a component never had weighs nothing, even where it is impossible.
        return torch.where(moments.tally > 0, moments.tally * components.table.values, 0.0).sum()
