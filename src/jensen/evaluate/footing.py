"""Whether values are continuous or discrete, so that scores of all models have the same unit.

    ln P(x) ≥ E_u ln p(x + u) + Σ_j ln h_j,   u uniform on a cell, h_j its size
A density has units and can be any positive number; the probability of a value on a grid is at most one. So a model of
densities is trained on rows with uniform noise on their cells, and its score of new rows is a bound of their
probability: Theis, van den Oord & Bethge (2016). Without noise, a density can grow without limit on repeated values.

`measure_` of a model is "density" or "probability" for every column; two models can be ranked only if these agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from jensen.data.cells import Cells, read_cells
from jensen.data.columns import Columns
from jensen.data.container import as_array
from jensen.data.dates import SECONDS
from jensen.data.levels import MOST_GRID_LEVELS, MOST_IMAGE_LEVELS, find_grid, is_zero_one

# "density" or "probability" for every column.
Measure = tuple[str, ...]
# Draws of u per held-out row.
N_DRAWS = 4
# With more levels than this, a VAE scores better with a density than with a probability per level.
FEW_LEVELS = 32


@dataclass(frozen=True, eq=False)
class Footing:
    """
    Args:
        unit: "density" of numbers, "probability" of values on a grid, "mixed" columns, or "words" of documents.
        steps: h_j of the columns on a grid (d,), NaN for others; None where there is no grid.
        n_levels: the largest number of levels of a column, 0 where there is no grid.
        shape: of a row as given.
        measure: "density" or "probability", for every column (d,).
        reason: what was decided and why, for the caption.
        columns: what the columns of a mixed table are, where models are told of it.
        held: entries of a row that take memory, on average; 0 where all do.
    """

    unit: str
    steps: np.ndarray | None
    n_levels: int
    shape: tuple[int, ...]
    measure: Measure
    reason: str
    columns: Columns | None = None
    held: float = 0.0

    @property
    def is_image(self) -> bool:
        return len(self.shape) > 1

    @property
    def n_entries(self) -> int:
        """d."""
        return math.prod(self.shape)

    def as_table(self, X: Any) -> Any:
        """Rows (n, d), for models that do not take images."""
        return np.asarray(X).reshape(len(X), -1) if self.is_image else X

    def is_dequantised(self, measure: Measure) -> np.ndarray:
        """Which columns (d,) are on a grid while the model has a density for them."""
        if self.steps is None:
            return np.zeros(len(measure), dtype=bool)
        return np.array([word == "density" and step == step for word, step in zip(measure, self.steps, strict=True)])

    def counted(self, measure: Measure) -> Measure:
        """The measure after dequantisation, which turns a density on a grid into a probability."""
        return tuple(
            "probability" if cell else word for cell, word in zip(self.is_dequantised(measure), measure, strict=True)
        )

    def with_noise(self, X: Any, rng: np.random.Generator, columns: np.ndarray) -> Any:
        """Rows (n, d) on a grid with uniform noise from 0 to h in some columns (d,)."""
        assert self.steps is not None
        numbers = numbers_of(X)
        noised = numbers + np.where(columns, self.steps, 0.0) * rng.random(numbers.shape)
        if hasattr(X, "iloc"):
            return with_columns(X, {j: noised[:, j] for j in np.flatnonzero(columns).tolist()})
        if hasattr(X, "columns"):
            values = {
                name: noised[:, j] if columns[j] else np.asarray(X[name]) for j, name in enumerate(list(X.columns))
            }
            return pd.DataFrame(values, index=getattr(X, "index", None))
        return np.asarray(noised)

    def log_cell(self, X: Any, columns: np.ndarray | None = None) -> np.ndarray:
        """Σ_j ln h_j over the observed entries of every row (n,), for all columns or some (d,)."""
        assert self.steps is not None
        return np.asarray(is_observed(X) @ np.where(True if columns is None else columns, np.log(self.steps), 0.0))

    def without_dates(self, X: Any) -> Any:
        """Rows with dates as numbers in their unit, for models that do not read dates."""
        if self.columns is None or "date" not in self.columns.kinds:
            return X
        numbers = numbers_of(X)
        units = {j: SECONDS[unit] for j, unit in enumerate(self.columns.units) if unit}
        frame = X if hasattr(X, "iloc") else pd.DataFrame({name: np.asarray(X[name]) for name in list(X.columns)})
        return with_columns(frame, {j: numbers[:, j] / seconds for j, seconds in units.items()})

    def n_observed(self, X: Any) -> np.ndarray:
        """The number of observed entries of every row (n,), or of the words of every document."""
        if self.unit == "words":
            is_sparse: bool = issparse(X)
            return np.asarray(X.sum(1) if is_sparse else numbers_of(X).sum(1)).ravel()
        return np.asarray(is_observed(X).sum(1))


def find_footing(X: Any, discrete: Any) -> Footing:
    """The footing of rows as the user gives them; `discrete` is "auto", True or False."""
    if discrete not in ("auto", True, False):
        raise ValueError(f"discrete={discrete!r} is not known; choose 'auto', True or False")
    shape = tuple(X.shape[1:])
    if issparse(X):
        raise TypeError("X is sparse, and most models here take dense rows; give X.toarray()")
    if not X.shape[0] or not math.prod(shape):
        raise ValueError(f"X has shape {tuple(X.shape)}, which is empty; give rows with columns")
    cells = read_cells(X, dates=True) if hasattr(X, "columns") else None
    if cells is not None and not_numbers(cells):
        if discrete is True:
            raise ValueError("discrete=True needs a table of numbers, but X has columns of text or categories")
        measure = mixed_measure(cells)
        named = ", ".join(str(name) for name, word in zip(cells.names, measure, strict=True) if word == "probability")
        reason = f"columns of text, categories and flags ({named}) have probabilities, numbers a density"
        return Footing("mixed", None, 0, shape, measure, reason)
    densities, probabilities = ((word,) * math.prod(shape) for word in ("density", "probability"))
    numbers = numbers_of(X) if cells is None else np.asarray(cells.numbers)
    densities = measure_of_numbers(numbers, densities)
    if discrete is False:
        return Footing("density", None, 0, shape, densities, "numbers have a density, as asked")
    steps, n_levels, wrong = steps_of(numbers, len(shape) > 1, names_of(X))
    if steps is None and discrete is True:
        raise ValueError(f"discrete=True needs columns of whole numbers of at most {MOST_GRID_LEVELS} levels; {wrong}")
    if steps is None:
        return Footing("density", None, 0, shape, densities, f"numbers have a density: {wrong}")
    size = f"steps of {steps[0]:g}" if np.ptp(steps) == 0 and steps[0] != 1 else "whole numbers"
    reason = f"all values are {size} with at most {n_levels} levels: probabilities"
    return Footing("probability", steps, n_levels, shape, probabilities, reason)


def measure_of_numbers(numbers: np.ndarray, densities: Measure) -> Measure:
    """The measure of numbers (n, d) that have a density, but for columns with one value, which has a probability."""
    has_one = np.fmin.reduce(numbers, 0) == np.fmax.reduce(numbers, 0)
    return tuple("probability" if one else word for one, word in zip(has_one, densities, strict=True))


def networks_footing(footing: Footing, columns: Columns) -> Footing:
    """The footing of a table with text if there are networks alone: all numbers have a density, but for atoms."""
    both = [str(name) for name, atoms in zip(columns.names, columns.atoms, strict=True) if atoms]
    measure = tuple("both" if atoms else word for word, atoms in zip(footing.measure, columns.atoms, strict=True))
    more = f"; frequent numbers of {', '.join(both)} have a probability of their own" if both else ""
    return replace(footing, measure=measure, reason=footing.reason + more, columns=columns)


def names_of(X: Any) -> list[str]:
    """The names of the columns for messages; their numbers where they have none."""
    return [repr(name) for name in X.columns] if hasattr(X, "columns") else [*map(str, range(math.prod(X.shape[1:])))]


def numbers_of(X: Any) -> np.ndarray:
    """Rows (n, d) as numbers, NaN where missing."""
    if hasattr(X, "columns"):
        return np.asarray(read_cells(X, dates=True).numbers)
    return np.asarray(as_array(X), dtype=np.float64).reshape(len(X), -1)


def is_observed(X: Any) -> np.ndarray:
    """Which entries (n, d) of rows of any kind are observed."""
    return np.asarray(~np.isnan(numbers_of(X)))


def texts_of(cells: Cells) -> list[int]:
    """The columns whose values are not numbers."""
    return sorted({*cells.texts, *cells.orders})


def not_numbers(cells: Cells) -> list[int]:
    """The columns of text, categories, dates and times."""
    return sorted({*texts_of(cells), *(j for j, sort in enumerate(cells.sorts) if sort == "time")})


def with_columns(X: Any, values: Mapping[int, np.ndarray]) -> Any:
    """A pandas frame with some columns replaced, by their numbers."""
    parts = [pd.Series(values[j], X.index) if j in values else X.iloc[:, j] for j in range(X.shape[1])]
    out = pd.concat(parts, axis=1)
    out.columns = X.columns
    return out


def mixed_measure(cells: Cells) -> Measure:
    """The measure of a table with text: numbers have a density unless they are flags."""
    texts = texts_of(cells)
    return tuple(
        "probability" if j in texts or sort == "bool" or is_zero_one(cells.numbers[:, j]) else "density"
        for j, sort in enumerate(cells.sorts)
    )


def steps_of(numbers: np.ndarray, is_image: bool, names: Sequence[str]) -> tuple[np.ndarray | None, int, str]:
    """h_j (d,), the largest number of levels of a column, and the reason if there is no grid."""
    d = numbers.shape[1]
    if is_image:
        grid = find_grid(numbers, "auto", True)
        if grid is None:
            return None, 0, f"pixels have more than {MOST_IMAGE_LEVELS} levels, or are on no grid"
        return np.full(d, grid.step), grid.n_levels, ""
    low, high = np.fmin.reduce(numbers, 0), np.fmax.reduce(numbers, 0)
    fractional = (np.abs(numbers - np.rint(numbers)) > 0).any(0)
    if fractional.any():
        return None, 0, f"column {names[int(fractional.argmax())]} has numbers that are not whole"
    n_levels = np.nan_to_num(high - low) + 1
    if (n_levels > MOST_GRID_LEVELS).any():
        most = int(n_levels.argmax())
        return None, 0, f"column {names[most]} has {int(n_levels[most])} levels, more than {MOST_GRID_LEVELS}"
    return np.ones(d), int(n_levels.max()), ""
