"""Cells as numbers: codes for mixtures, which mark unseen levels, and encoded rows for networks, which refuse them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from jensen.data.cells import Cells
from jensen.data.dates import SECONDS
from jensen.data.levels import check_grey, find_levels, is_off, level_numbers, numbers_of_text, numbers_on_grid, plain
from jensen.data.names import shown
from jensen.data.present import ColumnView
from jensen.runtime.messages import levels_inside

# What an unseen value means to a mixture.
UNSEEN = "an unseen value has the probability 1/(n+1) in every component"


class UnseenValueWarning(UserWarning):
    """A value of a column was not in the training data."""


@dataclass(frozen=True)
class Codes:
    """Rows for a model: x (n, d) float64, NaN where missing or unseen, and unseen (n, d) bool."""

    x: Tensor
    unseen: Tensor

    @property
    def missing(self) -> Tensor:
        """(n, d): the cells without a value, which `Columns.restore` may fill; an unseen value is not missing."""
        return self.x.isnan() & ~self.unseen


def codes_of_column(
    cells: Cells, column: int, view: ColumnView, bounds: Sequence[float]
) -> tuple[np.ndarray, np.ndarray | bool] | None:
    """The codes (n,) of a column and which are unseen; None if they are its numbers as they are."""
    numbers, is_text = cells.numbers[:, column], column in cells.texts
    check_sort(cells, column, view)
    if view.levels:
        found = find_levels(cells, column, view.levels)
        unseen = found < 0
        return np.where(unseen, np.nan, found), unseen
    if is_text:
        numbers = numbers_of_text(cells, column)
    check_numbers(cells, column, view, numbers, bounds)
    if view.kind == "date":
        return numbers / SECONDS[view.unit], False
    return (numbers, False) if is_text else None


def check_sort(cells: Cells, column: int, view: ColumnView) -> None:
    """An error for dates where there were none, and for other values where there were dates."""
    is_time, was_time = cells.sorts[column] == "time", bool(view.unit)
    if is_time == was_time or np.isnan(cells.numbers[:, column]).all():
        return
    given, wanted = ("dates or times", "none") if is_time else ("no dates or times", "these")
    raise ValueError(
        f"X holds {given} in column {shown(view.name)} ({cells.dtypes[column]}), but the model was fitted on {wanted}; "
        "give the column in the type that it was fitted on"
    )


def check_numbers(cells: Cells, column: int, view: ColumnView, numbers: np.ndarray, bounds: Sequence[float]) -> None:
    """An error for a count that is none, and for a number outside of its bounds."""
    low, high = bounds
    if view.kind != "count" and low == -np.inf and high == np.inf:
        return
    # Comparisons are false for NaN.
    wrong = (numbers < low) | (numbers > high)
    if view.kind == "count":
        wrong |= numbers % 1 > 0
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "a column of counts: 0, 1, 2, ..." if view.kind == "count" else f"between {low:g} and {high:g}"
        raise ValueError(
            f"X holds {plain(numbers[row], cells.sorts[column])} in row {cells.row(row)}, column {shown(view.name)}, "
            f"which is {what}; correct the value or make it missing"
        )


def warn_of_unseen(cells: Cells, kept: Sequence[int], names: Sequence[Any], unseen: np.ndarray, meaning: str) -> None:
    """One warning for all levels of these cells (n, d) that were not in the training data."""
    n_unseen = int(unseen.sum())
    if not n_unseen:
        return
    row, place = (int(where[0]) for where in np.nonzero(unseen))
    column = kept[place]
    value = (
        cells.texts[column][row] if column in cells.texts else plain(cells.numbers[row, column], cells.sorts[column])
    )
    more = f", and {n_unseen - 1} more cells hold such values" if n_unseen > 1 else ""
    warnings.warn(
        f"X holds {value!r} in row {cells.row(row)}, column {shown(names[place])}, which was not in the training data"
        f"{more}; {meaning}",
        UnseenValueWarning,
        stacklevel=levels_inside(),
    )


# For networks


def encoded_rows(views: Sequence[ColumnView], location: np.ndarray, scale: np.ndarray, cells: Cells) -> np.ndarray:
    """Encoded rows (n, d), NaN where missing; an unseen level is an error."""
    values: np.ndarray = (cells.numbers - location) / scale
    if views[0].kind == "grid":
        return numbers_on_grid(cells, values, [view.name for view in views], views[0].levels)
    grey = grey_columns(views, cells)
    check_grey(cells, grey)
    for j in sorted(set(range(len(views))) - set(grey)):
        if views[j].kind != "number":
            values[:, j] = level_numbers(cells, j, views[j].levels)
        elif j in cells.texts:
            values[:, j] = (numbers_of_text(cells, j) - location[j]) / scale[j]
    return values


def known_cells(
    views: Sequence[ColumnView], location: np.ndarray, scale: np.ndarray, cells: Cells, takes_missing: bool
) -> np.ndarray:
    """Which cells (n, d) hold a number or a level of the fit, or are missing where `takes_missing`."""
    is_there: np.ndarray = takes_missing | ~np.isnan(cells.numbers)
    if views[0].kind == "grid":
        is_there &= ~is_off((cells.numbers - location) / scale, len(views[0].levels))
        return is_there
    known, grey = np.ones(cells.numbers.shape, dtype=bool), grey_columns(views, cells)
    known[:, grey] = ~((cells.numbers[:, grey] < 0) | (cells.numbers[:, grey] > 1))
    for j in sorted(set(range(len(views))) - set(grey)):
        if views[j].kind != "number":
            known[:, j] = ~(find_levels(cells, j, views[j].levels) < 0)
    known &= is_there
    return known


def grey_columns(views: Sequence[ColumnView], cells: Cells) -> list[int]:
    """The yes/no columns whose numbers may lie between 0 and 1."""
    return [
        j for j, view in enumerate(views) if view.kind == "yes/no" and view.levels == (0, 1) and j not in cells.texts
    ]
