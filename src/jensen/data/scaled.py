"""What the columns of a table are, found from its rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from jensen.data.cells import Cells
from jensen.data.columns import Columns
from jensen.data.levels import Grid, asked_kinds, learn_kind, numbers_of_text
from jensen.data.names import shown
from jensen.data.reader import check_columns
from jensen.runtime.messages import levels_inside

# Below this many rows all texts may well differ.
MANY_ROWS = 30


def learn_scaled(cells: Cells, kinds: str | Mapping[str | int, str], shared_scale: bool = False) -> Columns:
    """Columns for networks: numbers, yes/no and levels.

    Numbers get their mean as location and their standard deviation (of the population) as scale; a constant column gets
    the absolute value of its constant as scale, or 1 if that is 0.

    Args:
        cells: the table.
        kinds: "number", "yes/no" or "level" for all columns, or {name or number: kind} for some; or "auto": truth
            values are yes/no, text and categories are yes/no if they have two values and else levels, and numbers are
            numbers, but for a data frame's column of the values 0 and 1 only, which is yes/no.
        shared_scale: one location and scale for all numbers, as for the pixels of images.
    """
    n, d = cells.numbers.shape
    if n == 0 or d == 0:
        raise ValueError(f"X has {n} rows and {d} columns; give at least one of each")
    check_columns(cells.numbers, [shown(name) for name in cells.names])
    found = [learn_kind(cells, j, kind) for j, kind in enumerate(asked_kinds(kinds, cells.names))]
    warn_of_identifiers(cells, found)
    location, scale = np.zeros(d), np.ones(d)
    scaled = [j for j, (kind, _) in enumerate(found) if kind == "number"]
    if scaled:
        numbers = cells.numbers if len(scaled) == d else cells.numbers[:, scaled]
        texts = {place: j for place, j in enumerate(scaled) if j in cells.texts}
        if texts:
            numbers = numbers.copy()
            for place, j in texts.items():
                numbers[:, place] = numbers_of_text(cells, j)
        location[scaled], scale[scaled] = moments(numbers.reshape(-1, 1) if shared_scale else numbers)
    return Columns(
        cells.names,
        tuple(kind for kind, _ in found),
        tuple(levels for _, levels in found),
        torch.from_numpy(location),
        torch.from_numpy(scale),
        cells.dtypes,
        cells.kind.container,
        n_observed=torch.from_numpy((~np.isnan(cells.numbers)).sum(0)),
        n_rows=n,
    )


def warn_of_identifiers(cells: Cells, found: Sequence[tuple[str, Any]]) -> None:
    """Warn of columns in which most texts differ."""
    n = len(cells.numbers)
    for j, (kind, levels) in enumerate(found):
        if kind == "level" and j in cells.texts and n >= MANY_ROWS and len(levels) > n / 2:
            warnings.warn(
                f"column {shown(cells.names[j])} has {len(levels)} different texts in {n} rows, and each becomes a "
                "level; drop the column if it identifies rows, or correct its texts if it holds numbers",
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
    """Columns of numbers without scaling."""
    d = len(cells.names)
    location, scale = torch.zeros(d, dtype=torch.float64), torch.ones(d, dtype=torch.float64)
    return Columns(cells.names, ("number",) * d, ((),) * d, location, scale, cells.dtypes, cells.kind.container)


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
