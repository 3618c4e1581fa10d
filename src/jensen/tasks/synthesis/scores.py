"""Normal scores: the values of a column of numbers as a standard Gaussian, and back through the observed quantiles.

    z = Φ⁻¹(F(x⁻) + u P(x)),  u uniform on (0, 1)        x = the value whose interval (F(x⁻), F(x)] holds Φ(z)
F is the distribution of the observed values that are no atoms. A value that occurs often owns a wide interval, so heaps
and whole numbers come back as they were, whatever the shape of the column. A value that occurs once stands for those
around it: the way back is linear between the midpoints to its neighbours. Nothing leaves the observed range.
Atoms, and missing cells, are codes beyond the scores: a mixture gives each a probability of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

# Codes of atoms are far from all scores, the first of them this one.
FIRST_CODE = 100.0
# The most decimals that values may all have; more are no rounding.
MOST_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class NormalScores:
    """The observed distribution of a column of numbers.

    Args:
        values: distinct, ascending, without atoms.
        counts: rows that have each of them.
        atoms: values with a probability of their own; NaN, the last, if cells are missing.
        is_exact: whether only observed values come back, also instead of those that occur once.
        decimals: all values are rounded to so many, None if they are not rounded.

    Example:
        >>> import numpy as np
        >>> ages = np.array([20, 20, 30, 30, 40, 40, np.nan])
        >>> scores = NormalScores.of(ages)
        >>> z = scores.forward(ages, np.random.default_rng(0))
        >>> scores.backward(z)
        array([20., 20., 30., 30., 40., 40., nan])
    """

    values: np.ndarray
    counts: np.ndarray
    atoms: tuple[float, ...]
    is_exact: bool
    decimals: int | None

    @classmethod
    def of(cls, x: np.ndarray, atoms: tuple[float, ...] = (), is_exact: bool = False) -> NormalScores:
        """Of a column (n,) with NaN where a cell is missing."""
        is_missing = np.isnan(x)
        seen = x[~is_missing & ~np.isin(x, atoms)]
        # A part of a table may have no other value; then nothing is drawn from here.
        values, counts = np.unique(seen if len(seen) else [np.nan], return_counts=True)
        return cls(values, counts, (*atoms, np.nan) if is_missing.any() else atoms, is_exact, decimals_of(values))

    @cached_property
    def limits(self) -> np.ndarray:
        """F before the first and at every value (m + 1,)."""
        return np.asarray(np.r_[0.0, np.cumsum(self.counts)] / self.counts.sum())

    @cached_property
    def edges(self) -> np.ndarray:
        """The ends (m + 1,) of the numbers that a value stands for."""
        v = self.values
        return np.asarray(np.r_[v[0], (v[1:] + v[:-1]) / 2, v[-1]])

    @cached_property
    def codes(self) -> np.ndarray:
        """Of the atoms."""
        return FIRST_CODE + np.arange(len(self.atoms))

    def forward(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Scores (n,) of observed values, at random within the interval of each."""
        low, high = self.cells(x)
        u = low + (high - low) * rng.uniform(size=len(x))
        # The outermost quantiles that n rows can tell.
        tip = 0.5 / self.counts.sum()
        z: np.ndarray = ndtri(u.clip(tip, 1 - tip))
        for atom, code in zip(self.atoms, self.codes, strict=True):
            z[same(x, atom)] = code
        return z

    def backward(self, z: np.ndarray) -> np.ndarray:
        """Values (n,) of scores."""
        u = ndtr(z)
        cell = np.clip(np.searchsorted(self.limits, u, side="right") - 1, 0, len(self.values) - 1)
        x = self.values[cell]
        if self.is_single.any():
            share = (u - self.limits[cell]) / (self.limits[cell + 1] - self.limits[cell])
            between = self.edges[cell] + share * (self.edges[cell + 1] - self.edges[cell])
            if self.decimals is not None:
                between = np.round(between, self.decimals)
            x = np.where(self.is_single[cell], between, x)
        for atom, code in zip(self.atoms, self.codes, strict=True):
            x[np.abs(z - code) < 0.5] = atom
        return x

    @cached_property
    def is_single(self) -> np.ndarray:
        """Which values (m,) stand for those around them."""
        return np.asarray((self.counts == 1) & (not self.is_exact))

    def cells(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends (n,) of the intervals of observed values, in terms of F; empty for other values."""
        return tuple(self.limits[np.searchsorted(self.values, x, side=side)] for side in ("left", "right"))  # type: ignore[return-value]

    def below(self, end: float, is_closed: bool) -> float:
        """The probability that `backward` gives a number below an end, or at it if it `is_closed`."""
        is_below = self.values <= end if is_closed else self.values < end
        width = np.where(self.edges[1:] > self.edges[:-1], self.edges[1:] - self.edges[:-1], 1.0)
        share = ((end - self.edges[:-1]) / width).clip(0, 1)
        return float(np.where(self.is_single, share, is_below) @ self.counts / self.counts.sum())


def same(x: np.ndarray, value: float) -> np.ndarray:
    return np.asarray(np.isnan(x) if np.isnan(value) else x == value)


def decimals_of(values: np.ndarray) -> int | None:
    """The fewest decimals to which all values are rounded; None if these are many."""
    for n in range(MOST_DECIMALS + 1):
        if np.array_equal(np.round(values, n), values):
            return n
    return None
