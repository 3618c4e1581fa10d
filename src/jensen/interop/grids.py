"""Numbers on a grid: pixels and counts, whose values are equal steps from the least to the greatest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jensen.interop.cells import shown

if TYPE_CHECKING:
    from jensen.interop.columns import Columns

__all__ = ["Grid", "find_grid", "is_off", "numbers_on_grid", "with_grid"]

MOST_LEVELS = 256
# In steps of the grid; values such as k/255 are rounded in single precision.
TOLERANCE = 1e-3
# Values looked at to guess the step; all are compared with it afterwards.
N_LOOKED_AT = 200_000


@dataclass(frozen=True)
class Grid:
    low: float
    step: float
    n_levels: int

    def places(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers - self.low) / self.step


def find_grid(numbers: np.ndarray, asked: Any, is_image: bool) -> Grid | None:
    """The grid that all numbers (n, d) lie on, NaN apart; None for numbers that are to have a density.

    Args:
        numbers: the data.
        asked: "auto" finds whole numbers of at most 256 levels, in images also those that were scaled; a number of
            levels must fit; None is no grid.
        is_image: whether these are pixels.
    """
    if asked is None:
        return None
    low, high = float(np.fmin.reduce(numbers, None)), float(np.fmax.reduce(numbers, None))
    if not np.isfinite([low, high]).all():
        return None  # the reader of columns says what is wrong
    if asked != "auto":
        return asked_grid(numbers, int(asked), low, high)
    if low == high:
        return None
    candidates = [1.0]
    if is_image:
        part = np.unique(numbers.ravel()[:: max(1, numbers.size // N_LOOKED_AT)])
        gaps = np.diff(part[~np.isnan(part)])
        # First the widest step that may be: of pixels 0 and 255 there are two.
        candidates = [float(gaps.min()), 1.0] if 0 < len(gaps) < MOST_LEVELS else [1.0]
    for step in candidates:
        n_levels = round((high - low) / step) + 1
        # The step again from the whole range: a gap between neighbours is a rounded number.
        grid = Grid(low, (high - low) / max(n_levels - 1, 1), n_levels)
        if 2 <= n_levels <= MOST_LEVELS and off_grid(numbers, grid) is None:
            return grid
    return None


def asked_grid(numbers: np.ndarray, n_levels: int, low: float, high: float) -> Grid:
    """So many levels: from the least to the greatest number, or 0, 1, 2, ..., or from 0 to 1, whichever fits."""
    step = (high - low) / (n_levels - 1)
    candidates = [Grid(low, step, n_levels)] if step > 0 else []
    candidates += [Grid(0.0, 1.0, n_levels), Grid(0.0, 1 / (n_levels - 1), n_levels)]
    for grid in candidates:
        off = off_grid(numbers, grid)
        if off is None:
            return grid
    wrong = off_grid(numbers, candidates[0])
    assert wrong is not None
    raise ValueError(
        f"data_levels={n_levels} does not fit X: {numbers[wrong]:g} is none of {n_levels} equal steps from {low:g} to "
        f"{high:g}, nor are all values whole numbers from 0 to {n_levels - 1}, or these by {n_levels - 1}; give the "
        "data's own number of levels, or data_levels=None for a density"
    )


def off_grid(numbers: np.ndarray, grid: Grid) -> tuple[int, ...] | None:
    """Where the first number is that is none of the grid's."""
    for start in range(0, len(numbers), 4096):
        wrong = is_off(grid.places(numbers[start : start + 4096]), grid.n_levels)
        if wrong.any():
            row, column = (int(where[0]) for where in np.nonzero(wrong))
            return start + row, column
    return None


def is_off(places: np.ndarray, n_levels: int) -> np.ndarray:
    """Which places (n, d), in steps of a grid, are none of its levels; NaN is missing and not among them."""
    nearest = np.rint(places)
    wrong: np.ndarray = (np.abs(places - nearest) > TOLERANCE) | (nearest < 0) | (nearest > n_levels - 1)
    return wrong


def with_grid(columns: Columns, grid: Grid) -> Columns:
    """Columns of numbers, all on one grid; encoded they are the numbers of levels, from 0."""
    d = len(columns.names)
    values = tuple(grid.low + grid.step * k for k in range(grid.n_levels))
    return replace(
        columns,
        kinds=("grid",) * d,
        levels=(values,) * d,
        location=torch.full((d,), grid.low, dtype=torch.float64),
        scale=torch.full((d,), grid.step, dtype=torch.float64),
    )


def numbers_on_grid(places: np.ndarray, columns: Columns) -> np.ndarray:
    """The numbers of levels (n, d) of places in steps of the grid; what lies between or outside is an error."""
    n_levels = columns.n_levels[0]
    off = off_grid(places, Grid(0.0, 1.0, n_levels))
    if off is not None:
        values = columns.levels[0]
        value = columns.location[0].item() + columns.scale[0].item() * places[off]
        raise ValueError(
            f"X holds {value:g} in row {off[0]}, column {shown(columns.names[off[1]])}, which is none of the "
            f"{n_levels} levels {values[0]:g}, {values[1]:g}, ..., {values[-1]:g} that the model was fitted on; "
            "give X in these units (pixels from 0 to 1 times 255, if the levels are 0 to 255), or fit a model to X as "
            "it is, with data_levels=None if it has a density"
        )
    numbers: np.ndarray = np.rint(places)
    return numbers
