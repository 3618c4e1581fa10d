"""Cells as numbers: codes in the units of the data for mixtures, and standardised ones for networks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.cells import Cells
from jensen.data.dates import SECONDS
from jensen.data.levels import check_grey, find_levels, is_off, level_numbers, numbers_of_text, numbers_on_grid, plain
from jensen.data.names import shown
from jensen.data.present import ColumnView
from jensen.data.sparse import rows_tensor
from jensen.runtime.messages import own_filters, warn_of_rows

# What the warning says an unseen value means.
UNSEEN = "an unseen value has the probability 1/(n+1), whatever the rest of its row is"


class UnseenValueWarning(UserWarning):
    """A value of a column was not in the training data."""


class ImpossibleValueWarning(UserWarning):
    """A value of a column has probability 0, because it is outside of what the column's distribution can have."""


@dataclass(frozen=True)
class Codes:
    """Rows for a model: x (n, d) float64, NaN where missing or unseen, and unseen (n, d) bool.

    Of sparse counts x is a CSR tensor, and unseen is (1, d), since none is.
    """

    x: Tensor
    unseen: Tensor

    @property
    def missing(self) -> Tensor:
        """(n, d): the cells without a value, which `Columns.restore` may fill; an unseen value is not missing."""
        return self.x.isnan() & ~self.unseen


def codes_of_sparse(cells: Cells) -> Codes:
    """The codes of sparse rows, all of whose columns are counts."""
    matrix: Any = cells.numbers
    wrong = ~((matrix.data >= 0) & (matrix.data == np.rint(matrix.data)))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        row, value = int(np.searchsorted(matrix.indptr, place, side="right")) - 1, matrix.data[place]
        where = f"{value:g} in row {cells.row(row)}, column {shown(cells.names[int(matrix.indices[place])])}"
        if np.isnan(value):
            raise ValueError(
                f"X is sparse and holds {where}; sparse counts have no missing values: give dense rows (X.toarray()), "
                "or remove the NaN for a count of 0"
            )
        raise ValueError(f"X is sparse and holds {where}, but it is for counts: 0, 1, 2, ...; correct the value")
    return Codes(rows_tensor(matrix), torch.zeros(1, matrix.shape[1], dtype=torch.bool))


def coded(
    cells: Cells,
    kept: Sequence[int],
    views: Sequence[ColumnView],
    bounds: Sequence[Sequence[float]],
    is_learnt: bool = False,
    meaning: str = UNSEEN,
) -> Codes:
    """Codes of the columns that are kept.

    Args:
        cells: of a table.
        kept: numbers of the columns in the table.
        views: of these columns.
        bounds: of their numbers.
        is_learnt: whether the columns were learnt from these cells, so that none holds an unseen level; the numbers of
            the cells may then be written over.
        meaning: of an unseen level, for the warning.
    """
    x = cells.numbers if len(kept) == cells.numbers.shape[1] else cells.numbers[:, list(kept)]
    is_new = len(kept) != cells.numbers.shape[1] or x.dtype != np.float64 or (is_learnt and cells.are_new)
    x, unseen = x.astype(np.float64, copy=False), np.zeros(x.shape, dtype=bool)
    for place, view in enumerate(views):
        found = codes_of_column(cells, kept[place], view, bounds[place], is_learnt)
        if found is not None and not is_new:
            x, is_new = x.copy(), True
        if found is not None:
            x[:, place] = found[0]
            # Memory that nobody writes to is never taken.
            if found[1] is not None:
                unseen[:, place] = found[1]
    if not is_learnt:
        warn_of_unseen(cells, kept, [view.name for view in views], unseen, meaning)
    # torch knows neither read-only memory nor negative strides.
    x = x if x.flags.writeable and min(x.strides) >= 0 else x.copy()
    return Codes(torch.from_numpy(x), torch.from_numpy(unseen))


def codes_of_column(
    cells: Cells, column: int, view: ColumnView, bounds: Sequence[float], is_learnt: bool = False
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The codes (n,) of a column and which are unseen, None if none is; None if they are its numbers as they are."""
    numbers, is_text = cells.numbers[:, column], column in cells.texts
    check_sort(cells, column, view)
    if view.levels:
        # Levels 0, 1, 2, ... are their own codes.
        if is_learnt and not is_text and view.levels == tuple(range(len(view.levels))):
            return None
        found = find_levels(cells, column, view.levels)
        unseen = found < 0
        return (np.where(unseen, np.nan, found), unseen) if unseen.any() else (found, None)
    if is_text:
        numbers = numbers_of_text(cells, column)
    check_numbers(cells, column, view, numbers, bounds)
    if view.kind == "date":
        return numbers / SECONDS[view.unit], None
    return (numbers, None) if is_text else None


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


@dataclass(frozen=True)
class Unseen:
    """The first of some values of a table, its place, and the number of such cells."""

    value: Any
    row: int
    name: str
    n_cells: int

    def __add__(self, other: Unseen) -> Unseen:
        return replace(self, n_cells=self.n_cells + other.n_cells)

    def described(self, what: str) -> str:
        more = f", and {self.n_cells - 1} more cells hold such values" if self.n_cells > 1 else ""
        return f"X holds {self.value!r} in row {self.row}, column {self.name}, which {what}{more}"

    def warn(self, meaning: str = UNSEEN) -> None:
        warn_of_rows(f"{self.described('was not in the training data')}; {meaning}", UnseenValueWarning)


def find_unseen(cells: Cells, kept: Sequence[int], names: Sequence[Any], unseen: np.ndarray) -> Unseen | None:
    """What a warning about the marked cells (n, d) of a table says; None without any."""
    n_unseen = int(unseen.sum())
    if not n_unseen:
        return None
    row, place = (int(where[0]) for where in np.nonzero(unseen))
    return Unseen(value_of(cells, row, kept[place]), cells.row(row), shown(names[place]), n_unseen)


def value_of(cells: Cells, row: int, column: int) -> Any:
    texts = cells.texts.get(column)
    return plain(cells.numbers[row, column], cells.sorts[column]) if texts is None else texts[row]


def warn_of_unseen(
    cells: Cells, kept: Sequence[int], names: Sequence[Any], unseen: np.ndarray, meaning: str = UNSEEN
) -> None:
    """One warning for all levels of these cells (n, d) that were not in the training data."""
    if found := find_unseen(cells, kept, names, unseen):
        found.warn(meaning)


@contextmanager
def without_unseen_warning() -> Iterator[None]:
    """Silence about unseen levels."""
    with own_filters():
        warnings.simplefilter("ignore", UnseenValueWarning)
        yield


def warn_of_impossible(cells: Cells, kept: Sequence[int], names: Sequence[Any], impossible: np.ndarray) -> None:
    """One warning for all numbers of these cells (n, d) that a model excludes."""
    if found := find_unseen(cells, kept, names, impossible):
        warn_of_rows(
            f"{found.described('has probability 0 in every component')}; such a row has the score -inf: correct the "
            "value, make it missing, or give the column another family or other bounds",
            ImpossibleValueWarning,
        )


# For networks

# The bounds of a count.
COUNTS = (0.0, np.inf)


@dataclass(frozen=True)
class Scaling:
    """What is known of d columns that networks see: their views, their numbers `kept` in the table, location and scale,
    and whether their training entries were `counted`: files of earlier versions have no counts.
    """

    views: Sequence[ColumnView]
    kept: Sequence[int]
    location: np.ndarray
    scale: np.ndarray
    counted: np.ndarray


def encoded_rows(columns: Scaling, cells: Cells, is_refused: bool) -> Codes:
    """Encoded rows, a new tensor; an unseen level is NaN, or an error if it is refused or entries were not counted."""
    views, kept, location, scale = columns.views, columns.kept, columns.location, columns.scale
    refused = is_refused | ~columns.counted
    numbers = cells.numbers if len(kept) == len(cells.names) else cells.numbers[:, list(kept)]
    values: np.ndarray = (numbers - location) / scale
    unseen = np.zeros(values.shape, dtype=bool)
    if views[0].kind == "grid":
        values = numbers_on_grid(cells, values, [view.name for view in views], views[0].levels)
        return Codes(torch.from_numpy(values), torch.from_numpy(unseen))
    grey = np.array([is_grey(view, kept[j], cells) for j, view in enumerate(views)])
    check_grey(cells, [kept[j] for j in np.flatnonzero(grey & refused).tolist()])
    if (grey & ~refused).any():
        unseen |= grey & ((values < 0) | (values > 1))
    has_dates = "time" in cells.sorts
    for j, view in enumerate(views):
        if has_dates or view.unit:
            check_sort(cells, kept[j], view)
        if grey[j]:
            continue
        if view.levels:
            find = level_numbers if refused[j] else find_levels
            values[:, j] = find(cells, kept[j], view.levels)
            unseen[:, j] = values[:, j] < 0
        elif view.unit:
            values[:, j] = (numbers[:, j] / SECONDS[view.unit] - location[j]) / scale[j]
        elif kept[j] in cells.texts:
            values[:, j] = (numbers_of_text(cells, kept[j]) - location[j]) / scale[j]
        if view.kind == "count":
            check_numbers(cells, kept[j], view, values[:, j], COUNTS)
    if unseen.any():
        values[unseen] = np.nan
    return Codes(torch.from_numpy(values), torch.from_numpy(unseen))


def known_cells(columns: Scaling, cells: Cells, is_refused: bool) -> np.ndarray:
    """Which cells (n, d) `encoded_rows` does not refuse."""
    if columns.views[0].kind == "grid":
        return ~is_off((cells.numbers - columns.location) / columns.scale, len(columns.views[0].levels))
    # A count that is none is refused, so it is not encoded as a count.
    views = [replace(view, kind="number") if view.kind == "count" else view for view in columns.views]
    codes = encoded_rows(replace(columns, views=views, counted=np.ones_like(columns.counted)), cells, is_refused=False)
    counts = [j for j, view in enumerate(columns.views) if view.kind == "count"]
    known = ~(codes.unseen.numpy() & (is_refused | ~columns.counted))
    numbers = codes.x.numpy()[:, counts]
    known[:, counts] &= ~((numbers < 0) | (numbers % 1 > 0))
    return known


def is_grey(view: ColumnView, column: int, cells: Cells) -> bool:
    """Whether a column is yes/no and its numbers may lie between 0 and 1."""
    return view.kind == "yes/no" and view.levels == (0, 1) and column not in cells.texts
