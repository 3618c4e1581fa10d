"""Kinds and levels of columns: the values of a column, the number of each cell's level, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from jensen.data.cells import Cells, check_finite, parse_numbers
from jensen.data.names import column_name, listed, shown

# What columns can be: for networks, and for mixtures. A "grid" is of all columns, or of none.
KINDS = ("number", "count", "yes/no", "level")
ALL_KINDS = ("number", "count", "level", "yes/no", "date", "constant")
MOST_LEVELS = 1000
# Whole numbers up to here are exact in float64.
MOST_EXACT = 2.0**53


def asked_kinds(kinds: str | Mapping[str | int, str], names: tuple[str | int, ...]) -> list[str]:
    """The kind requested for each column, "auto" where none is."""
    given = kinds if isinstance(kinds, Mapping) else dict.fromkeys(names, kinds)
    asked = ["auto"] * len(names)
    # A whole number is a name first, and otherwise the number of a column.
    place: dict[str | int, int] = dict(zip(range(len(names)), range(len(names)), strict=True))
    place |= {name: j for j, name in enumerate(names)}
    for key, kind in given.items():
        name = column_name(key)
        if name not in place:
            raise ValueError(
                f"likelihood names the column {shown(name)}, which X does not have; its columns are {listed(names)}"
            )
        if kind not in ("auto", *KINDS):
            raise ValueError(
                f"columns={kinds!r} asks for {kind!r}; choose 'auto', 'number', 'count', 'yes/no' or 'level', "
                "for all columns or as {column: kind}"
            )
        asked[place[name]] = kind
    return asked


def learn_kind(cells: Cells, column: int, asked: str) -> tuple[str, tuple[Any, ...]]:
    """The kind of a column and its levels."""
    kind = asked
    if asked == "auto":
        kind = "number"
        if cells.sorts[column] == "bool" and cells.is_frame:
            kind = "yes/no"
        elif column in cells.texts or column in cells.orders:
            kind = "yes/no" if len(distinct_levels(cells, column)) == 2 else "level"
        elif cells.is_frame and is_zero_one(cells.numbers[:, column]):
            kind = "yes/no"
    if kind in ("number", "count"):
        return kind, ()
    return kind, binary_levels(cells, column) if kind == "yes/no" else distinct_levels(cells, column)


def is_zero_one(numbers: np.ndarray) -> bool:
    zero, one = numbers == 0, numbers == 1
    return bool(zero.any() and one.any() and (zero | one | np.isnan(numbers)).all())


def distinct_levels(cells: Cells, column: int) -> tuple[Any, ...]:
    """The observed values, sorted, or in the order that the column's type defines."""
    name = shown(cells.names[column])
    numbers = cells.numbers[:, column]
    seen = ~np.isnan(numbers)
    if column in cells.texts:
        values = [plain(value) for value in dict.fromkeys(cells.texts[column][seen])]
        kinds = sorted({type(value).__name__ for value in values})
        if len(kinds) > 1:
            raise ValueError(
                f"X mixes values of the kinds {', '.join(kinds)} in column {name}; give values of one kind"
            )
    else:
        values = [plain(value, cells.sorts[column]) for value in np.unique(numbers[seen])]
        if cells.sorts[column] == "int" and values and max(-values[0], values[-1]) >= MOST_EXACT:
            raise ValueError(
                f"X holds {values[-1]} in column {name}, too large a number to distinguish from its neighbours; "
                "turn the column into text to use its values as levels"
            )
    if len(values) > MOST_LEVELS:
        raise ValueError(
            f"X has {len(values)} distinct values in column {name}, and a column of levels has at most {MOST_LEVELS}; "
            'merge rare values, drop the column, or model it as a number (likelihood "gaussian") if it holds numbers'
        )
    if column in cells.orders:
        return tuple(plain(value) for value in cells.orders[column] if value in set(values))
    return tuple(sorted(values))


def binary_levels(cells: Cells, column: int) -> tuple[Any, ...]:
    """The two values, or 0 and 1 for numbers between them: grey values are probabilities."""
    if cells.sorts[column] == "bool":
        return (False, True)
    if column in cells.texts or column in cells.orders:
        levels = distinct_levels(cells, column)
        if len(levels) != 2:
            raise ValueError(
                f"X has the values {listed(levels)} in column {shown(cells.names[column])}, "
                f"but a yes/no column has two; make it a level: columns={{{shown(cells.names[column])}: 'level'}}"
            )
        return levels
    numbers = cells.numbers[:, column]
    low, high = (float(limit[column]) for limit in cells.limits)
    if not (low >= 0 and high <= 1):
        if low == high or not ((numbers == low) | (numbers == high) | np.isnan(numbers)).all():
            check_grey(cells, [column])
        return plain(low, cells.sorts[column]), plain(high, cells.sorts[column])
    return plain(0.0, cells.sorts[column]), plain(1.0, cells.sorts[column])


def check_grey(cells: Cells, columns: list[int]) -> None:
    """An error for numbers of these columns outside [0, 1]."""
    block = cells.numbers if len(columns) == len(cells.names) else cells.numbers[:, columns]
    # Both comparisons are false for NaN.
    outside = (block < 0) | (block > 1)
    if outside.any():
        row, place = (int(where[0]) for where in np.nonzero(outside))
        column = columns[place]
        raise ValueError(
            f"X holds {plain(cells.numbers[row, column], cells.sorts[column])} in row {cells.row(row)}, "
            f"column {shown(cells.names[column])}, outside [0, 1]; scale it to [0, 1] or model it as a "
            'number (likelihood "gaussian")'
        )


def find_levels(cells: Cells, column: int, levels: tuple[Any, ...]) -> np.ndarray:
    """The number (n,) of each cell's level, -1 where it is none of them, NaN where missing."""
    numbers = cells.numbers[:, column]
    if column in cells.texts:
        place = {level: number for number, level in enumerate(levels)}
        # Twice as fast as a loop.
        found = np.fromiter(map(place.get, cells.texts[column], repeat(-1)), np.int64, len(numbers))
    elif isinstance(levels[0], str):
        found = np.full(len(numbers), -1)
    else:
        known = np.array(levels, dtype=np.float64)
        order = np.argsort(known)
        found = order[np.searchsorted(known, numbers, sorter=order).clip(max=len(known) - 1)]
        found = np.where(known[found] == numbers, found, -1)
    return np.where(np.isnan(numbers), np.nan, found)


def level_numbers(cells: Cells, column: int, levels: tuple[Any, ...]) -> np.ndarray:
    """The number (n,) of each cell's level, NaN where missing; a value that is none of them is an error."""
    numbers, found = cells.numbers[:, column], find_levels(cells, column, levels)
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        row = int(unknown[0])
        value = cells.texts[column][row] if column in cells.texts else plain(numbers[row], cells.sorts[column])
        raise ValueError(
            f"X holds {value!r} in row {cells.row(row)}, column {shown(cells.names[column])}, which is none of its "
            f"levels {listed(levels)}; leave the cell empty, or fit with rows that hold this value"
        )
    return found


def numbers_of_text(cells: Cells, column: int) -> np.ndarray:
    """The numbers (n,) that a text column writes out."""
    name, texts, seen = shown(cells.names[column]), cells.texts[column], ~np.isnan(cells.numbers[:, column])
    numbers, _ = parse_numbers(texts, seen)
    bad = np.flatnonzero(np.isnan(numbers) & seen)
    if len(bad):
        raise ValueError(
            f"X holds {texts[bad[0]]!r} in row {cells.row(bad[0])}, column {name}, which is a column of numbers, but "
            f"this is not one; leave the cell empty, or make the column a level: columns={{{name}: 'level'}}"
        )
    check_finite(replace(cells, numbers=numbers[:, None]), names=cells.names[column : column + 1])
    return numbers


def level_values(levels: tuple[Any, ...], number: np.ndarray, own: np.dtype[Any] | None) -> np.ndarray:
    """The level (n,) of each number; -1 is missing, which is None, or NaN if the levels are numbers."""
    known = np.array(levels, dtype=object if isinstance(levels[0], str) else None)
    is_number = known.dtype.kind in "if"
    if is_number and own is not None:
        known = known.astype(own)
    if (number < 0).any():
        known = np.append(known.astype(np.result_type(known, np.float32)), np.nan) if is_number else with_none(known)
    values: np.ndarray = known[number]
    return values


def with_none(known: np.ndarray) -> np.ndarray:
    """The levels with None as the last one, which the index -1 selects."""
    values = np.empty(len(known) + 1, dtype=object)
    values[:-1] = known
    return values


def plain(value: Any, sort: str = "") -> Any:
    """A value of a Python type, which a file can hold; numbers of the sort "int" or "bool" as such."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if sort == "int" else bool(value) if sort == "bool" else value


# Of a grid that is found; images have one that was rescaled, too.
MOST_GRID_LEVELS, MOST_IMAGE_LEVELS = 256, 4096
# In steps of the grid; values such as k/255 are rounded in single precision.
TOLERANCE = 1e-3
# Values from which the step is guessed; all values are compared with it afterwards.
N_LOOKED_AT = 200_000


@dataclass(frozen=True)
class Grid:
    low: float
    step: float
    n_levels: int

    def places(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers - self.low) / self.step


def find_grid(numbers: np.ndarray, asked: Any, is_image: bool) -> Grid | None:
    """The grid of all numbers (n, d) except NaN; None for numbers that have a density.

    Args:
        numbers: the data.
        asked: "auto" finds whole numbers of at most 256 levels, in images of at most 4096 levels, which may be scaled;
            a number of levels must fit; None is no grid.
        is_image: whether these are pixels.
    """
    if asked is None:
        return None
    low, high = float(np.fmin.reduce(numbers, None)), float(np.fmax.reduce(numbers, None))
    if not np.isfinite([low, high]).all():
        return None  # `learn_columns` raises the error
    if asked != "auto":
        return asked_grid(numbers, int(asked), low, high)
    if low == high:
        return None
    candidates, most = [1.0], MOST_IMAGE_LEVELS if is_image else MOST_GRID_LEVELS
    if is_image:
        part = np.unique(numbers.ravel()[:: max(1, numbers.size // N_LOOKED_AT)])
        gaps = np.diff(part[~np.isnan(part)])
        # The widest possible step first: pixels of 0 and 255 alone have two levels.
        candidates = [float(gaps.min()), 1.0] if 0 < len(gaps) < most else [1.0]
    for step in candidates:
        if not (high - low) / step < most:  # not even finite, at the ends of float64
            continue
        n_levels = round((high - low) / step) + 1
        # The step is computed again from the whole range, since a gap between neighbours is rounded.
        grid = Grid(low, (high - low) / max(n_levels - 1, 1), n_levels)
        if 2 <= n_levels <= most and off_grid(numbers, grid) is None:
            return grid
    return None


def are_on_grid(numbers: np.ndarray) -> bool:
    """Whether the numbers (n, d) of a table are all on one grid of few levels, scaled or not."""
    grid = find_grid(numbers, "auto", True)
    return grid is not None and grid.n_levels <= MOST_GRID_LEVELS


def asked_grid(numbers: np.ndarray, n_levels: int, low: float, high: float) -> Grid:
    """A grid of n levels: from the least to the greatest number, or 0, 1, 2, ..., or from 0 to 1, whichever fits."""
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
        f"{high:g}, nor are all values whole numbers from 0 to {n_levels - 1}, or these divided by {n_levels - 1}; "
        "give the data's own number of levels, or data_levels=None for a density"
    )


def off_grid(numbers: np.ndarray, grid: Grid) -> tuple[int, ...] | None:
    """The place of the first number that is not on the grid, if there is one."""
    for start in range(0, len(numbers), 4096):
        wrong = is_off(grid.places(numbers[start : start + 4096]), grid.n_levels)
        if wrong.any():
            row, column = (int(where[0]) for where in np.nonzero(wrong))
            return start + row, column
    return None


def is_off(places: np.ndarray, n_levels: int) -> np.ndarray:
    """Which places (n, d), in steps of a grid, are not on it; NaN is missing and never counts."""
    nearest = np.rint(places)
    wrong: np.ndarray = (np.abs(places - nearest) > TOLERANCE) | (nearest < 0) | (nearest > n_levels - 1)
    return wrong


def numbers_on_grid(cells: Cells, places: np.ndarray, names: Sequence[Any], values: Sequence[Any]) -> np.ndarray:
    """The number of each cell's level (n, d) from its place in steps of the grid; a place off the grid is an error."""
    n_levels = len(values)
    off = off_grid(places, Grid(0.0, 1.0, n_levels))
    if off is not None:
        value = values[0] + (values[1] - values[0]) * places[off]
        raise ValueError(
            f"X holds {value:g} in row {cells.row(off[0])}, column {shown(names[off[1]])}, which is none of the "
            f"{n_levels} levels {values[0]:g}, {values[1]:g}, ..., {values[-1]:g} that the model was fitted on; "
            "give X in these units (pixels from 0 to 1 times 255, if the levels are 0 to 255), or fit a model to X as "
            "it is, with data_levels=None if it has a density"
        )
    numbers: np.ndarray = np.rint(places)
    return numbers
