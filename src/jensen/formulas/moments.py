"""Weighted mean and variance of rows with missing values, as sums that add.

    N = Σ_i w_i,   m = Σ_i w_i x_i / N,   S = Σ_i w_i (x_i - m)²,   over the rows where a feature is observed
    N = N_a + N_b,   m = m_a + δ N_b / N,   S = S_a + S_b + δ² N_a N_b / N,   δ = m_b - m_a
Chan, Golub & LeVeque (1983): squares are taken about each part's own mean, so they lose no digits far from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, rows_matrix

# Rows of a chunk: its temporaries stay in the cache.
CHUNK = 2**14


@dataclass(frozen=True)
class Spread:
    """Weight, mean and sum of squared deviations (d,) of the observed entries of some rows.

    A feature that no row has gets weight 0 and mean 0.
    """

    mass: Tensor
    mean: Tensor
    squares: Tensor

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None = None) -> Spread:
        """From feature-major rows (d, n), NaN where missing, and their weights (n,)."""
        seen = x.isnan().logical_not_().to(x.dtype)
        w = seen if weight is None else seen.mul_(weight)
        mass = w.sum(1)
        divisor = mass.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        values = x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        mean = (values * w).sum(1, keepdim=True) / divisor
        deviation = values - mean
        weighted = deviation * w
        # The mean is corrected by the rounding error that the deviations show.
        error = weighted.sum(1, keepdim=True) / divisor
        squares = (weighted * deviation).sum(1) - mass * error.squeeze(1).square()
        return cls(mass, (mean + error).squeeze(1), squares)

    @classmethod
    def of_sparse(cls, x: Tensor, weight: Tensor | None = None) -> Spread:
        """The same of sparse ones, which have no missing values."""
        matrix = rows_matrix(x.mT)
        n, d = matrix.shape
        own = np.ones(n) if weight is None else weight.numpy()
        total = float(own.sum())
        mean = (own @ matrix) / max(total, np.finfo(np.float64).tiny)
        of_entries = np.repeat(own, np.diff(matrix.indptr))
        squares = np.bincount(matrix.indices, of_entries * (matrix.data - mean[matrix.indices]) ** 2, d)
        zeros = total - np.bincount(matrix.indices, of_entries, d)
        found = (torch.from_numpy(part) for part in (np.full(d, total), mean, squares + zeros * mean**2))
        return cls(*found)

    def __add__(self, other: Spread) -> Spread:
        mass = self.mass + other.mass
        share = torch.where(mass > 0, other.mass / mass, 0.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart.square() * self.mass * share
        return Spread(mass, self.mean + apart * share, squares)

    @property
    def variance(self) -> Tensor:
        """S / N: the maximum-likelihood variance."""
        return self.squares / self.mass


class Extent(Protocol):
    """Where the columns of a table lie: mean and variance, least and greatest value (d,), over the observed entries."""

    @property
    def spread(self) -> Spread: ...

    @property
    def low(self) -> Tensor: ...

    @property
    def high(self) -> Tensor: ...

    @property
    def n_features(self) -> int: ...

    def some(self, columns: Sequence[int]) -> Extent:
        """Of some columns."""


@dataclass(frozen=True)
class HeldExtent:
    """Of feature-major rows (d, n) in memory; nothing is computed before it is asked for."""

    x: Tensor
    weight: Tensor | None = None

    @property
    def n_features(self) -> int:
        return len(self.x)

    @cached_property
    def spread(self) -> Spread:
        if is_sparse(self.x):
            return Spread.of_sparse(self.x, self.weight)
        # Contiguous, so that sums do not depend on the layout of the user's table.
        return reduce(
            add,
            (
                Spread.of(self.x[:, c].contiguous(), None if self.weight is None else self.weight[c])
                for c in chunks_of(self.x)
            ),
        )

    @cached_property
    def low(self) -> Tensor:
        if is_sparse(self.x):
            return torch.from_numpy(rows_matrix(self.x.mT).min(0).toarray().ravel())
        return reduce(torch.minimum, (self.x[:, c].nan_to_num(nan=torch.inf).amin(1) for c in chunks_of(self.x)))

    @cached_property
    def high(self) -> Tensor:
        if is_sparse(self.x):
            return torch.from_numpy(rows_matrix(self.x.mT).max(0).toarray().ravel())
        return reduce(torch.maximum, (self.x[:, c].nan_to_num(nan=-torch.inf).amax(1) for c in chunks_of(self.x)))

    def some(self, columns: Sequence[int]) -> HeldExtent:
        is_all = list(columns) == list(range(len(self.x)))
        return self if is_all else HeldExtent(self.x[list(columns)], self.weight)


@dataclass(frozen=True)
class SummedExtent:
    """The same as values, which add over parts of the rows; a column without values has ends of ±∞."""

    spread: Spread
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None) -> SummedExtent:
        """Of feature-major rows (d, n)."""
        held = HeldExtent(x, weight)
        return cls(held.spread, held.low, held.high)

    @property
    def n_features(self) -> int:
        return len(self.low)

    def __add__(self, other: SummedExtent) -> SummedExtent:
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        return SummedExtent(self.spread + other.spread, low, high)

    def some(self, columns: Sequence[int]) -> SummedExtent:
        own = list(columns)
        spread = Spread(self.spread.mass[own], self.spread.mean[own], self.spread.squares[own])
        return SummedExtent(spread, self.low[own], self.high[own])


def chunks_of(x: Tensor) -> list[slice]:
    """Parts of the columns of feature-major rows (d, n)."""
    return [slice(start, start + CHUNK) for start in range(0, x.shape[1], CHUNK)]
