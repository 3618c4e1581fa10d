"""What the columns of a table are, found from its rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from jensen.data.cells import Cells, read_cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.levels import Grid, asked_kinds, learn_kind, numbers_of_text
from jensen.data.names import shown
from jensen.data.reader import check_columns
from jensen.runtime.messages import levels_inside

# Below this many rows all texts may well differ.
MANY_ROWS = 30


def learn_columns(
    X: Table | Cells, kinds: str | Mapping[str | int, str] = "auto", shared_scale: bool = False
) -> Columns:
    """What the columns of X are.

    Continuous columns get their mean as location and their standard deviation (of the population) as scale; a constant
    column gets the absolute value of its constant as scale, or 1 if that is 0.

    Args:
        X: a data frame, or numbers (n, d) as an array or tensor; NaN and its like are missing.
        kinds: "continuous", "binary" or "categorical" for all columns, or {name or number: kind} for some; or "auto":
            truth values are binary, text and categories are binary if they have two values and else categorical, and
            numbers are continuous, but for a data frame's column of the values 0 and 1 only, which is binary.
        shared_scale: one location and scale for all continuous columns, as for the pixels of images.

    Example:
        >>> import numpy as np
        >>> from jensen.data.infer import learn_columns
        >>> columns = learn_columns(np.array([[1.0, 0.0], [3.0, np.nan], [5.0, 1.0]]), kinds={1: "binary"})
        >>> columns.kinds, columns.location
        (('continuous', 'binary'), tensor([3., 0.], dtype=torch.float64))
    """
    cells = read_cells(X)
    n, d = cells.numbers.shape
    if n == 0 or d == 0:
        raise ValueError(f"X has {n} rows and {d} columns; give at least one of each")
    check_columns(cells.numbers, [shown(name) for name in cells.names])
    found = [learn_kind(cells, j, kind) for j, kind in enumerate(asked_kinds(kinds, cells.names))]
    warn_of_identifiers(cells, found)
    location, scale = np.zeros(d), np.ones(d)
    continuous = [j for j, (kind, _) in enumerate(found) if kind == "continuous"]
    if continuous:
        numbers = cells.numbers if len(continuous) == d else cells.numbers[:, continuous]
        texts = {place: j for place, j in enumerate(continuous) if j in cells.texts}
        if texts:
            numbers = numbers.copy()
            for place, j in texts.items():
                numbers[:, place] = numbers_of_text(cells, j)
        location[continuous], scale[continuous] = moments(numbers.reshape(-1, 1) if shared_scale else numbers)
    return Columns(
        cells.names,
        tuple(kind for kind, _ in found),
        tuple(levels for _, levels in found),
        torch.from_numpy(location),
        torch.from_numpy(scale),
        cells.dtypes,
        cells.kind.container,
    )


def warn_of_identifiers(cells: Cells, found: Sequence[tuple[str, Any]]) -> None:
    """Warn of columns in which most texts differ."""
    n = len(cells.numbers)
    for j, (kind, levels) in enumerate(found):
        if kind == "categorical" and j in cells.texts and n >= MANY_ROWS and len(levels) > n / 2:
            warnings.warn(
                f"column {shown(cells.names[j])} has {len(levels)} different texts in {n} rows, and each becomes a "
                "category; drop the column if it identifies rows, or correct its texts if it holds numbers",
                UserWarning,
                stacklevel=levels_inside(),
            )


def moments(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (d,) of the observed numbers (n, d), of any magnitude."""
    low, high = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
    # Squares of 1e200 overflow: everything is first divided by a power of two, which is exact.
    unit = np.ldexp(1.0, np.frexp(np.maximum(-low, high))[1].clip(-1000, 1000))
    seen = ~np.isnan(numbers)
    count = seen.sum(axis=0)
    scaled = numbers / unit
    scaled[~seen] = 0.0
    mean = scaled.sum(axis=0) / count
    scaled -= mean
    scaled[~seen] = 0.0
    std = np.sqrt(np.einsum("ij,ij->j", scaled, scaled) / count)
    is_constant = low == high
    size = np.where(low == 0, 1.0, np.abs(low))
    spread = np.maximum(std * unit, np.finfo(np.float64).tiny)
    return np.where(is_constant, low, mean * unit), np.where(is_constant, size, spread)


def columns_of_numbers(cells: Cells) -> Columns:
    """Continuous columns without scaling."""
    d = len(cells.names)
    location, scale = torch.zeros(d, dtype=torch.float64), torch.ones(d, dtype=torch.float64)
    return Columns(cells.names, ("continuous",) * d, ((),) * d, location, scale, cells.dtypes, cells.kind.container)


def with_grid(columns: Columns, grid: Grid) -> Columns:
    """Columns of numbers, all on one grid; encoded values are the numbers of levels, from 0."""
    d = len(columns.names)
    values = tuple(grid.low + grid.step * k for k in range(grid.n_levels))
    return replace(
        columns,
        kinds=("grid",) * d,
        levels=(values,) * d,
        location=torch.full((d,), grid.low, dtype=torch.float64),
        scale=torch.full((d,), grid.step, dtype=torch.float64),
    )
