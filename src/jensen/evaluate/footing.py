"""What the numbers of a table are, so that a density and a probability can stand in one column.

    ln P(x) ≥ E_u ln p(x + u) + Σ_j ln h_j,   u uniform on a cell, h_j its size
A density has units and can be any number; the probability of a value on a grid is at most one. A model of densities
learns from rows with uniform noise on their cells, and what it says of new ones is a bound of their probability: Theis,
van den Oord & Bethge (2016). Without it, a density may grow beyond bounds on values that repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from jensen.interop.cells import Cells, read_cells
from jensen.interop.grids import MOST_LEVELS, find_grid
from jensen.interop.rows import as_array

__all__ = ["FEW_LEVELS", "Footing", "find_footing", "is_observed", "numbers_of"]

# Draws of u that a held-out row is scored with.
N_DRAWS = 4
# Above so many levels a probability for every one of them costs a VAE more than it gives.
FEW_LEVELS = 32


@dataclass(frozen=True, eq=False)
class Footing:
    """
    Args:
        unit: "density" of numbers, "probability" of values on a grid, or "mixed" columns.
        steps: h_j of a grid (d,), None where there is none.
        n_levels: the most of any column, 0 where there is no grid.
        has_one_grid: whether all columns together have at most as many levels, as a diffusion's grid must.
        shape: of a row as given.
        reason: what was decided and why, a sentence for people.
        has_flags: whether some column of a frame could pass for one of true and false, though numbers have a density.
    """

    unit: str
    steps: np.ndarray | None
    n_levels: int
    shape: tuple[int, ...]
    reason: str
    has_one_grid: bool = False
    has_flags: bool = False

    @property
    def is_image(self) -> bool:
        return len(self.shape) > 1

    @property
    def n_entries(self) -> int:
        """d."""
        return math.prod(self.shape)

    def as_table(self, X: Any) -> Any:
        """Rows (n, d), for models that know no images."""
        return np.asarray(X).reshape(len(X), -1) if self.is_image else X

    def with_noise(self, X: Any, rng: np.random.Generator) -> Any:
        """Rows (n, d) of a grid, anywhere in their cells: from x to x + h."""
        assert self.steps is not None
        numbers = numbers_of(X)
        noised = numbers + self.steps * rng.random(numbers.shape)
        if hasattr(X, "columns"):
            return pd.DataFrame(noised, index=getattr(X, "index", None), columns=list(X.columns))
        return np.asarray(noised)

    def log_cell(self, X: Any) -> np.ndarray:
        """Σ_j ln h_j over the observed entries of every row (n,)."""
        assert self.steps is not None
        return np.asarray(is_observed(X) @ np.log(self.steps))

    def n_observed(self, X: Any) -> np.ndarray:
        """Entries of every row (n,) that are there."""
        return np.asarray(is_observed(X).sum(1))

    def is_new(self, learnt: Any, held_out: Any) -> np.ndarray:
        """Which of the held-out rows (n,) have values that the learnt ones have not.

        To these a model of probabilities gives none: of text, and of a grid with few levels, the values of every
        column, of images those of all pixels, and of a grid with many levels what is less or greater than all.
        """
        if self.unit == "mixed":
            both = [read_cells(rows) for rows in (learnt, held_out)]
            columns = [[cells.texts.get(j, cells.numbers[:, j]) for cells in both] for j in texts_of(both[0])]
            return np.asarray(np.any([~pd.isna(new) & ~pd.Series(new).isin(old) for old, new in columns], 0))
        new = np.zeros(len(held_out), dtype=bool)
        if self.unit == "density":
            return new
        old, rows = numbers_of(learnt), numbers_of(held_out)
        if self.is_image:
            return np.asarray((~np.isin(rows, np.unique(old)) & ~np.isnan(rows)).any(1))
        if self.n_levels > FEW_LEVELS:
            return np.asarray(((rows < np.nanmin(old)) | (rows > np.nanmax(old))).any(1)) if self.has_one_grid else new
        for j in range(old.shape[1]):
            new |= ~np.isin(rows[:, j], old[:, j]) & ~np.isnan(rows[:, j])
        return new


def find_footing(X: Any, discrete: Any) -> Footing:
    """Of rows as a user gives them; `discrete` is "auto", True or False."""
    if discrete not in ("auto", True, False):
        raise ValueError(f"discrete={discrete!r} is not known; choose 'auto', True or False")
    shape = tuple(X.shape[1:])
    if issparse(X):
        raise TypeError("X is sparse, and most models here learn from dense rows; give X.toarray()")
    if not X.shape[0] or not math.prod(shape):
        raise ValueError(f"X has shape {tuple(X.shape)}, and so nothing to learn from; give rows with columns")
    if hasattr(X, "columns") and (texts := texts_of(cells := read_cells(X))):
        if discrete is True:
            raise ValueError("discrete=True is for tables of numbers, and X has columns of text or categories")
        named = ", ".join(str(cells.names[j]) for j in texts)
        reason = f"columns of text or categories ({named}) have probabilities, numbers a density"
        return Footing("mixed", None, 0, shape, reason)
    numbers = numbers_of(X)
    whole = (numbers == np.rint(numbers)) | np.isnan(numbers)
    has_flags = hasattr(X, "columns") and bool((whole.all(0) & (numbers == 0).any(0) & (numbers == 1).any(0)).any())
    if discrete is False:
        return Footing("density", None, 0, shape, "numbers have a density, as asked", has_flags=has_flags)
    names = [repr(name) for name in X.columns] if hasattr(X, "columns") else [*map(str, range(numbers.shape[1]))]
    steps, n_levels, wrong = steps_of(numbers, len(shape) > 1, names)
    if steps is None and discrete is True:
        raise ValueError(f"discrete=True needs columns of whole numbers of at most {MOST_LEVELS} levels; {wrong}")
    if steps is None:
        return Footing("density", None, 0, shape, f"numbers have a density: {wrong}", has_flags=has_flags)
    size = f"steps of {steps[0]:g}" if np.ptp(steps) == 0 and steps[0] != 1 else "whole numbers"
    reason = f"all values are {size} with at most {n_levels} levels: probabilities"
    has_one_grid = find_grid(numbers, "auto", len(shape) > 1) is not None
    return Footing("probability", steps, n_levels, shape, reason, has_one_grid)


def numbers_of(X: Any) -> np.ndarray:
    """Rows (n, d) as numbers, NaN where missing."""
    if hasattr(X, "columns"):
        return np.asarray(read_cells(X).numbers)
    return np.asarray(as_array(X), dtype=np.float64).reshape(len(X), -1)


def is_observed(X: Any) -> np.ndarray:
    """Which entries (n, d) of rows of any kind are there."""
    return np.asarray(~np.isnan(numbers_of(X)))


def texts_of(cells: Cells) -> list[int]:
    """The columns whose values are no numbers."""
    return sorted({*cells.texts, *cells.orders})


def steps_of(numbers: np.ndarray, is_image: bool, names: Sequence[str]) -> tuple[np.ndarray | None, int, str]:
    """h_j (d,), the most levels of any column, and why there are none."""
    d = numbers.shape[1]
    if is_image:
        grid = find_grid(numbers, "auto", True)
        if grid is None:
            return None, 0, f"pixels have more than {MOST_LEVELS} levels, or stand on no grid"
        return np.full(d, grid.step), grid.n_levels, ""
    low, high = np.fmin.reduce(numbers, 0), np.fmax.reduce(numbers, 0)
    fractional = (np.abs(numbers - np.rint(numbers)) > 0).any(0)
    if fractional.any():
        return None, 0, f"column {names[int(fractional.argmax())]} has numbers that are not whole"
    n_levels = np.nan_to_num(high - low) + 1
    if (n_levels > MOST_LEVELS).any():
        most = int(n_levels.argmax())
        return None, 0, f"column {names[most]} has {int(n_levels[most])} levels, more than {MOST_LEVELS}"
    return np.ones(d), int(n_levels.max()), ""
