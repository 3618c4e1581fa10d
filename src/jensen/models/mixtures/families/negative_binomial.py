"""Counts whose variance is above their mean.

    p_k(x) = Π_j Γ(s+x_j) / (Γ(s) x_j!) · (s/(s+μ))^s · (μ/(s+μ))^x_j,  mean μ_kj, size s_kj, variance μ + μ²/s
    M:  μ = Σ r x / N,  Σ_i r_i (ψ(s+x_i) - ψ(s)) = N ln(1 + μ/s);  s = ∞ (Poisson) if the variance is not above μ
The size needs more than sums: the weight of every distinct count, Σ_i r_ik [x_ij = u], which adds. The counts u of the
training rows are known when the family is made, so the M-step is exact. A new count, as in `partial_fit`, enters by its
share of the equation at the current size, which leaves the fixed points of EM where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch
from jensen.formulas.counts import (
    LARGEST_SIZE,
    SMALLEST_SIZE,
    log_negative_binomial,
    negative_binomial_size,
    share_of_rise,
)
from jensen.models.mixtures.families.entries import (
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Entries,
    is_count,
    mass_of,
    product,
)
from jensen.models.mixtures.families.lookup import Codes, Layout, in_line, layout_of
from jensen.models.mixtures.families.poisson import LEAST_AT_START

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class New:
    """Entries whose count is not in the table: column, row in line, count (m,)."""

    column: Tensor
    row: Tensor
    count: Tensor


@dataclass(frozen=True)
class View:
    entries: Entries
    codes: Codes
    new: New | None


@dataclass(frozen=True)
class Tallies(Additive):
    """Weights (K,); over the rows that have feature j weights and sums (K, d); weights of every distinct count (K, U).

    `rest` (K, d) is the share that new counts have in the equation of the size.
    """

    mass: Tensor
    count: Tensor
    total: Tensor
    tally: Tensor
    rest: Tensor


@dataclass(frozen=True)
class NegativeBinomials(ColumnComponents[View, Tallies]):
    """Means μ and sizes s in (0, ∞] (K, d), and the distinct counts of every column, in order."""

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

    def view(self, batch: Batch) -> View:
        entries = Entries.of(batch, is_count(batch.x))
        x, known, layout = in_line(batch.x), tensor_of(self.counts), self.layout
        index = torch.stack(
            [torch.searchsorted(values, row.contiguous()) for values, row in zip(known, x, strict=True)]
        )
        index = torch.minimum(index, torch.tensor([len(values) - 1 for values in known])[:, None])
        index += layout.first[:, None]
        is_new = torch.cat(known)[index] != x
        if entries.seen is not None:
            missing = in_line(entries.seen.expand_as(batch.x)) == 0
            index, is_new = index.masked_fill_(missing, layout.n_rows), is_new & ~missing
        new = None
        if bool(is_new.any()):
            # A row outside the support is excluded as a whole.
            index, is_new = index.masked_fill_(is_new, layout.n_rows), is_new & is_count(x)
            column, row = is_new.nonzero().unbind(1)
            new = New(column, row, x[column, row])
        return View(entries, Codes(index, batch.x.shape[:-2]), new)

    def log_density(self, view: View) -> Tensor:
        layout = self.layout
        counts = torch.cat(tensor_of(self.counts))
        table = log_negative_binomial(counts, self.means[:, layout.column], self.sizes[:, layout.column])
        log_density = view.codes.lookup(table)
        if view.new is not None:
            column, row, count = view.new.column, view.new.row, view.new.count
            values = log_negative_binomial(count, self.means[:, column], self.sizes[:, column])
            log_density = view.codes.in_blocks(in_line(log_density).index_add(1, row, values)).contiguous()
        return view.entries.excluded(log_density)

    def moments(self, responsibilities: Tensor, view: View) -> Tallies:
        r, entries = responsibilities, view.entries
        tally = view.codes.tally(r, self.layout.n_rows)
        rest = torch.zeros_like(self.means)
        if view.new is not None:
            column, row, count = view.new.column, view.new.row, view.new.count
            share = share_of_rise(count, self.means[:, column], self.sizes[:, column])
            rest = rest.index_add(1, column, in_line(r)[:, row] * share)
        return Tallies(mass_of(r), entries.count(r), product(r, entries.x), tally, rest)

    def expected_moments(self, weights: Tensor) -> Tallies:
        layout, w = self.layout, weights[:, None]
        counts, column = torch.cat(tensor_of(self.counts)), layout.column
        probability = log_negative_binomial(counts, self.means[:, column], self.sizes[:, column]).exp()
        # Shares have the mean 1: what the counts of the table do not have, the others have.
        share = layout.total(probability * share_of_rise(counts, self.means[:, column], self.sizes[:, column]))
        # A Poisson distribution is a limit that tallies would only approach.
        tally = w * probability.masked_fill(self.sizes.isinf()[:, column], 0.0)
        rest = w * torch.where(self.sizes.isinf(), 1.0, 1 - share)
        count = w.expand_as(self.means)
        return Tallies(weights, count, count * self.means, tally, rest)

    def m_step(self, moments: Tallies) -> Self:
        known = moments.count > 0
        means = torch.where(known, moments.total / moments.count, self.means)
        mass = (moments.count - moments.rest).where(known, 0.0)
        counts = torch.cat(tensor_of(self.counts))
        sizes = negative_binomial_size(moments.tally, counts, self.layout.column, mass, means, self.sizes)
        return replace(self, means=means, sizes=sizes)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        where = component.to(self.means.device)
        means, sizes = self.means[where].cpu(), self.sizes[where].cpu()
        size = sizes.clamp(max=LARGEST_SIZE)
        factor = torch._standard_gamma(size, generator=generator) / size
        return torch.poisson(torch.where(sizes.isinf(), means, means * factor), generator=generator)


@lru_cache(maxsize=64)
def tensor_of(counts: Counts) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(values, dtype=torch.float64) for values in counts)


@dataclass(frozen=True)
class NegativeBinomialFamily(ColumnFamily[NegativeBinomials]):
    """
    Args:
        counts: the distinct counts of every column, in increasing order.
    """

    counts: Counts
    needs = (
        "a negative binomial column has only counts 0, 1, 2, ...; correct the value, or give the column another family"
    )

    @classmethod
    def of(cls, x: Tensor) -> NegativeBinomialFamily:
        """For rows (n, d), NaN where missing."""
        columns = (column[~column.isnan()].unique().tolist() or [0] for column in x.T)
        return cls(tuple(tuple(int(value) for value in column) for column in columns))

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
        column, counts = components.layout.column, torch.cat(tensor_of(self.counts))
        values = log_negative_binomial(counts, components.means[:, column], components.sizes[:, column])
        # A count that a component never had weighs nothing, even where it is impossible.
        return torch.where(moments.tally > 0, moments.tally * values, 0.0).sum()
