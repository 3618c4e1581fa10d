"""Columns of levels.

    p_k(x) = Π_j θ_kj[x_j],   x_j = 0, ..., L_j - 1
    M:  θ_kj[l] = (C_kj[l] + α - 1) / (N_kj + L_j (α - 1)),  C_kj[l] = Σ_i r_ik [x_ij = l]
under a Dirichlet(α) prior; α = 1 gives maximum likelihood. Goodman (1974), latent classes. A level that a component
never had has probability 0 there. A column with one level costs 0 nats and has no parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch, Footprint
from jensen.models.mixtures.components import Conditional, Independent
from jensen.models.mixtures.families.entries import (
    EVEN,
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Hyper,
    check_concentration,
    xlogy,
)
from jensen.models.mixtures.families.lookup import Codes, Layout, Table, footprint_of, in_line, layout_of, numbers_of


@dataclass(frozen=True)
class Tallies(Additive):
    """Σ_i r_ik (K,), and the same over the rows with every level of every column (K, ΣL)."""

    mass: Tensor
    tally: Tensor

    def with_levels(self, old: tuple[int, ...], new: tuple[int, ...]) -> Self:
        """The same where columns have more levels, which no row had."""
        return replace(self, tally=widened(self.tally, old, new, torch.zeros(len(new), dtype=self.tally.dtype)))


@dataclass(frozen=True)
class Categoricals(ColumnComponents[Codes, Tallies]):
    """Probabilities θ (K, ΣL), the columns side by side, and the number of levels of every column."""

    probabilities: Tensor
    levels: tuple[int, ...]

    @property
    def layout(self) -> Layout:
        return layout_of(self.levels)

    @property
    def expectation(self) -> Tensor:
        """The mean number of a level (K, d), for its shape: `given` fills in the most probable level."""
        numbers = torch.arange(self.layout.n_rows) - self.layout.first[self.layout.column]
        return self.layout.total(self.probabilities * numbers)

    @property
    def n_components(self) -> int:
        return len(self.probabilities)

    @property
    def n_features(self) -> int:
        return len(self.levels)

    @property
    def n_parameters(self) -> int:
        return self.n_components * sum(n - 1 for n in self.levels)

    @property
    def footprint(self) -> Footprint:
        return footprint_of(self.levels, self.n_components)

    def view(self, batch: Batch) -> Codes:
        return Codes.of(batch, *numbers_of(in_line(batch.x), self.levels), self.levels)

    def log_density(self, view: Codes) -> Tensor:
        return view.lookup(self.table)

    @cached_property
    def table(self) -> Table:
        return Table(self.probabilities.log(), self.layout)

    def moments(self, responsibilities: Tensor, view: Codes) -> Tallies:
        tally, mass = view.tally(responsibilities)
        return Tallies(mass, tally)

    def expected_moments(self, weights: Tensor) -> Tallies:
        return Tallies(weights, weights[:, None] * self.probabilities)

    def m_step(self, moments: Tallies) -> Self:
        count = self.layout.total(moments.tally)[:, self.layout.column]
        return replace(self, probabilities=torch.where(count > 0, moments.tally / count, self.probabilities))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        of_rows = self.probabilities[component.to(self.probabilities.device)].cpu()
        drawn = [torch.multinomial(p, 1, generator=generator) for p in of_rows.split(self.levels, 1)]
        return torch.cat(drawn, 1).to(of_rows.dtype)

    def given(self, batch: Batch) -> Conditional:
        return MostProbable(self)

    def with_levels(self, levels: tuple[int, ...], share: Tensor) -> Self:
        """The same with more levels, which have this share (d,) of their column in every component."""
        more = torch.tensor(levels) - torch.tensor(self.levels)
        left = torch.where(more > 0, 1 - share, 1.0)[self.layout.column]
        return replace(
            self,
            probabilities=widened(self.probabilities * left, self.levels, levels, share / more.clamp(min=1)),
            levels=levels,
        )

    def select(self, columns: Tensor) -> Self:
        parts = self.probabilities.split(self.levels, 1)
        chosen = [int(column) for column in columns]
        levels = tuple(self.levels[column] for column in chosen)
        return replace(self, probabilities=torch.cat([parts[column] for column in chosen], 1), levels=levels)


def widened(values: Tensor, old: tuple[int, ...], new: tuple[int, ...], fill: Tensor) -> Tensor:
    """Values of levels (K, ΣL) with a number for the new levels of every column (d,), behind the old ones."""
    parts = []
    for part, before, after, value in zip(values.split(old, 1), old, new, fill, strict=True):
        parts += [part, value.expand(len(values), after - before)]
    return torch.cat(parts, 1)


@dataclass(frozen=True)
class MostProbable(Independent):
    """Levels given what is observed; a mean of their numbers means nothing, so the most probable one stands for it."""

    components: Categoricals

    def expected(self, responsibilities: Tensor) -> Tensor:
        p = self.components.probabilities.mT @ responsibilities
        modes = [part.argmax(-2, keepdim=True) for part in p.split(self.components.levels, -2)]
        return torch.cat(modes, -2).to(p.dtype)


@dataclass(frozen=True)
class CategoricalFamily(ColumnFamily[Categoricals]):
    """
    Args:
        levels: the number of levels of every column.
        alpha: of a Dirichlet prior on the probabilities of every column, one number or one for every level (ΣL,), at
            least 1; None is maximum likelihood.
    """

    levels: tuple[int, ...]
    alpha: Hyper | None = None
    needs = "a column of levels has only their numbers 0, ..., L-1; correct the value, or raise its number of levels"

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_concentration("alpha", self.alpha)
        if not all(n >= 1 for n in self.levels):
            raise ValueError(f"levels={self.levels} has a column without levels; every column needs at least 1")

    @property
    def share_of_levels(self) -> float:
        return 1.0

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """A coordinate per level: 1 where a row has it, and the share of the level where the value is missing."""
        rows = [(row == level).to(x.dtype) for row, n in zip(x, self.levels, strict=True) for level in range(n)]
        found = torch.stack(rows)
        missing = x.isnan()[layout_of(self.levels).column]
        average = found.sum(1) / (~missing).sum(1).clamp(min=1)
        return torch.where(missing, average[:, None], found), torch.ones(len(found), dtype=x.dtype)

    def inside(self, x: Tensor) -> Tensor:
        return (x >= 0) & (x == x.floor()) & (x < torch.tensor(self.levels))

    def standard(self, k: int, d: int) -> Categoricals:
        if d != len(self.levels):
            raise ValueError(
                f"levels={self.levels} has {len(self.levels)} columns, the rows have {d}; give one per column"
            )
        layout = layout_of(self.levels)
        even = 1 / torch.tensor(self.levels, dtype=torch.float64)
        return Categoricals(even[layout.column].expand(k, -1), self.levels)

    def m_step(self, components: Categoricals, moments: Tallies) -> Categoricals:
        if self.alpha is not None:
            moments = replace(moments, tally=moments.tally + (self.alpha - 1))
        return components.m_step(moments)

    def first(self, components: Categoricals, moments: Tallies, pseudo: float) -> Categoricals:
        found = super().first(components, moments, pseudo)
        even = self.standard(found.n_components, found.n_features).probabilities
        return replace(found, probabilities=(1 - EVEN) * found.probabilities + EVEN * even)

    def log_prior(self, components: Categoricals) -> Tensor:
        if self.alpha is None:
            return super().log_prior(components)
        p, layout = components.probabilities, components.layout
        alpha = torch.as_tensor(self.alpha, dtype=p.dtype).expand(1, layout.n_rows)
        normaliser = torch.lgamma(layout.total(alpha)).sum() - torch.lgamma(alpha).sum()
        return len(p) * normaliser + xlogy(alpha - 1, p).sum()

    def pack(self, components: Categoricals) -> Tensor:
        return components.probabilities.log().clamp(min=-LARGEST_LOG).flatten()

    def unpack(self, vector: Tensor, k: int, d: int) -> Categoricals:
        logits = vector.reshape(k, -1).split(self.levels, 1)
        return Categoricals(torch.cat([column.softmax(1) for column in logits], 1), self.levels)

    def expected_log_density(self, components: Categoricals, moments: Tallies) -> Tensor:
        return xlogy(moments.tally, components.probabilities).sum()
