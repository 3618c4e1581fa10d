"""The one reader of tables: a matrix of numbers, and text beside it, from any container.

Every model takes its rows from `Cells`: models of numbers the matrix, models of mixed columns also text and levels.
Missing is NaN, None, pd.NA, pd.NaT and polars' null. What a column's type means is decided in `read_column` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from torch import Tensor

from jensen.data.container import Kind, Table, as_array, is_frame, kind_of_frame, names_in
from jensen.data.dates import seconds_of
from jensen.data.names import check_names, column_name, shown
from jensen.data.refuse import check_container

# What the kinds of numpy's types hold, and below the types of Python objects; all else is "other".
SORTS = {"f": "float", "i": "int", "u": "int", "b": "bool", "m": "time", "M": "time"}
TRUTHS, WHOLE = (bool, np.bool_), (int, np.integer)
NUMBERS = (*WHOLE, float, np.floating, Decimal)
TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
# Rows whose copy is made at a time.
AT_ONCE = 2**15
# A column of objects may hold text and numbers.
TEXTS = (str, *TRUTHS, *WHOLE, float, np.floating)


@dataclass(frozen=True)
class Cells:
    """A table after reading, column by column: name, type, sort, numbers and texts.

    Args:
        kind: what the user gave.
        names: of the columns; their numbers for arrays.
        dtypes: the columns' types as their container writes them.
        sorts: what the cells of each column are: "float", "int", "bool", "text", "time" (dates, too) or "other".
        numbers: (n, d) float32 or float64, NaN exactly where a cell is missing, the seconds of dates and times, 0 for
            other cells without a number; a CSR matrix where the reader was asked for one. It may share memory with the
            table: it is not for writing.
        texts: {column: objects (n,)} of the columns of text.
        orders: {column: values} of columns whose type lists the values they may have.
        foreign: {column: type} of the columns of times and others, for messages.
        row_numbers: (n,) of the rows in the table that the user gave, None if these are all of it.
        are_new: whether the numbers are a copy that nobody else has, so that the last to read them may write there.
    """

    kind: Kind
    names: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    sorts: tuple[str, ...]
    numbers: np.ndarray
    texts: Mapping[int, np.ndarray] = field(default_factory=dict)
    orders: Mapping[int, list[Any]] = field(default_factory=dict)
    foreign: Mapping[int, str] = field(default_factory=dict)
    row_numbers: np.ndarray | None = None
    are_new: bool = False

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest number of each column."""
        if self.is_sparse:
            matrix: Any = self.numbers
            return matrix.min(axis=0).toarray().ravel(), matrix.max(axis=0).toarray().ravel()
        return np.fmin.reduce(self.numbers), np.fmax.reduce(self.numbers)

    @property
    def is_frame(self) -> bool:
        return self.kind.is_frame

    @property
    def is_sparse(self) -> bool:
        return bool(issparse(self.numbers))

    def row(self, place: int) -> int:
        """The number of a row in the user's table, for messages."""
        return int(place if self.row_numbers is None else self.row_numbers[place])

    def take(self, rows: np.ndarray) -> Cells:
        """The rows with these numbers, in ascending order; consecutive ones are not copied."""
        is_run = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        part = slice(rows[0], rows[-1] + 1) if is_run else rows
        texts = {column: objects[part] for column, objects in self.texts.items()}
        places = rows if self.row_numbers is None else self.row_numbers[rows]
        return replace(self, numbers=self.numbers[part], texts=texts, row_numbers=places)

    def check_readable(self, dates: bool = False) -> None:
        """An error for a column of neither numbers nor text, nor dates or times if `dates` are allowed."""
        for column, dtype in self.foreign.items():
            name = shown(self.names[column])
            if self.sorts[column] == "time" and dates:
                continue
            if self.sorts[column] == "time":
                # numpy would convert dates to nanoseconds without a warning.
                raise ValueError(
                    f"X holds dates or times in column {name} ({dtype}); "
                    "turn them into numbers, such as days since a date, or drop the column"
                )
            raise ValueError(
                f"X holds values of the type {dtype} in column {name}, which are neither numbers nor text; "
                "convert them to one of these, or drop the column"
            )

    def with_numbers_only(self, or_else: str = "") -> Cells:
        """The same with text that writes out numbers as numbers; other columns are an error that names them all.

        `or_else` is a further way out of the error, for text.
        """
        if not (self.texts or self.foreign):
            return self
        bad, numbers = dict.fromkeys(self.foreign, ""), self.numbers.copy()
        for column, objects in self.texts.items():
            numbers[:, column], is_number = parse_numbers(objects, ~np.isnan(self.numbers[:, column]))
            wrong = np.flatnonzero(~is_number)
            if len(wrong):
                is_rare = len(wrong) < len(objects)
                bad[column] = f", first {objects[wrong[0]]!r} in row {wrong[0]}" if is_rare else ""
        if bad:
            columns = ", ".join(f"{str(self.names[j])!r} ({self.dtypes[j]}{bad[j]})" for j in sorted(bad))
            raise ValueError(
                f"X has columns that are not numbers: {columns}; encode them as numbers, leave cells empty where "
                f"they are missing, or drop the column{or_else if self.texts else ''}"
            )
        sorts = tuple("float" if sort == "text" else sort for sort in self.sorts)
        return replace(self, numbers=numbers, sorts=sorts, texts={})


def read_cells(X: Table | Cells, dates: bool = False) -> Cells:
    """A table of numbers and text, and of dates where they are allowed, checked; `Cells` are returned unchanged.

    `Cells` are checked as well if dates are allowed: most readers refuse those before.
    """
    if isinstance(X, Cells) and not dates:
        return X
    cells = X if isinstance(X, Cells) else read_frame(X) if is_frame(X) else read_matrix(X)
    cells.check_readable(dates)
    check_finite(cells)
    return cells


# Arrays and tensors


def read_matrix(X: Any) -> Cells:
    check_container(X)
    array = as_array(X)
    if array.ndim != 2:
        raise ValueError(f"X has shape {array.shape}; expected rows and columns (n, d): reshape it")
    if array.dtype.kind in "mM":
        raise ValueError(f"X holds dates or times ({array.dtype}); turn them into numbers, such as days since a date")
    try:
        numbers = as_floats(array) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise ValueError(
            f"X is an array of type {array.dtype}, and arrays are read as numbers; "
            "give a data frame, whose columns may hold text"
        )
    kind = Kind("torch" if isinstance(X, Tensor) else "numpy", numbers.dtype.name)
    return replace(cells_of_numbers(numbers, kind), **same_type(array))


def cells_of_numbers(numbers: np.ndarray, kind: Kind, row_numbers: np.ndarray | None = None) -> Cells:
    """Numbers (n, d) in floating point, not checked."""
    names = tuple(range(numbers.shape[1]))
    return Cells(kind, names, numbers=numbers, row_numbers=row_numbers, **same_type(numbers))


def same_type(array: np.ndarray) -> dict[str, Any]:
    sort, d = SORTS.get(array.dtype.kind, "float"), array.shape[1]
    return {"dtypes": (str(array.dtype),) * d, "sorts": (sort,) * d}


def as_floats(array: np.ndarray) -> np.ndarray:
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


# Data frames


@dataclass(frozen=True)
class Column:
    """One column of a data frame, as in `Cells`."""

    sort: str
    numbers: np.ndarray
    objects: np.ndarray | None = None
    order: list[Any] | None = None
    foreign: str | None = None


def read_frame(X: Any) -> Cells:
    """A data frame of any library that narwhals knows; its values are not checked."""
    names = tuple(column_name(name) for name in names_in(X))
    check_names(names, X.shape[0])
    frame = nw.from_native(X, eager_only=True)
    types = frame.schema.dtypes()
    dtypes = tuple(map(dtype_text, X.dtypes)) if hasattr(X, "iloc") else tuple(map(str, types))
    if all(dtype.is_integer() or dtype.is_float() for dtype in types):
        numbers = as_floats(frame.to_numpy())
        sorts = tuple("int" if dtype.is_integer() else "float" for dtype in types)
        return Cells(kind_of_frame(frame, numbers.dtype.name), names, dtypes, sorts, numbers)
    numbers, columns = np.empty((len(frame), len(names))), []
    for j, dtype in enumerate(dtypes):
        column = read_column(frame[:, j], dtype)
        # Numbers are copied at once, so that no two copies of a whole table are in memory.
        numbers[:, j] = column.numbers
        columns.append(replace(column, numbers=numbers[:0, j]))
    return Cells(
        kind_of_frame(frame, "float64"),
        names,
        dtypes,
        tuple(column.sort for column in columns),
        numbers,
        {j: column.objects for j, column in enumerate(columns) if column.objects is not None},
        {j: column.order for j, column in enumerate(columns) if column.order is not None},
        {j: column.foreign for j, column in enumerate(columns) if column.foreign is not None},
        are_new=True,
    )


def dtype_text(dtype: Any) -> str:
    """A type as pandas writes it, but for the order of categories, which it does not write."""
    return "ordered category" if str(dtype) == "category" and dtype.ordered else str(dtype)


def read_column(column: nw.Series[Any], dtype: str) -> Column:
    """What a column holds: the one list of rules for types."""
    values, order, sort = column.to_numpy(), None, ""
    if column.dtype in (nw.Categorical, nw.Enum):
        categories = column.cat.get_categories()
        # Categories of polars and pyarrow have the order in which they occurred, unless it is an Enum.
        if isinstance(column.dtype, nw.Enum) or column.implementation.is_pandas_like():
            order = categories.to_list()
        sort = read_column(categories, "").sort
    elif column.dtype.is_integer():
        sort = "int"  # beside missing cells they are floats in numpy
    if values.dtype.kind in "biuf":
        return Column(sort or SORTS[values.dtype.kind], values.astype(np.float64, copy=False), order=order)
    seen = ~column.is_null().to_numpy()
    numbers = np.where(seen, 0.0, np.nan)
    found = object_sort(values[seen]) if values.dtype.kind in "OUT" else SORTS.get(values.dtype.kind, "other")
    if found == "text":
        return Column("text", numbers, values.astype(object, copy=False), order)
    if found in ("time", "other"):
        names = ", ".join(sorted({type(value).__name__ for value in values[seen]})) if dtype == "object" else dtype
        if found == "time":
            numbers[seen] = seconds_of(values[seen])
        return Column(found, numbers, foreign=names)
    numbers[seen] = values[seen].astype(np.float64)
    return Column(found, numbers, order=order)


def object_sort(objects: np.ndarray) -> str:
    """What observed objects are. A column of numbers or truth values and None often comes as objects."""
    types = set(map(type, objects))

    def are(known: tuple[type, ...]) -> bool:
        return all(issubclass(kind, known) for kind in types)

    if types and are((str,)):
        return "text"
    if types and are(TRUTHS):
        return "bool"
    if not any(issubclass(kind, TRUTHS) for kind in types) and are(NUMBERS):
        return "int" if types and are(WHOLE) else "float"
    if are(TIMES) or {kind.__name__ for kind in types} == {"Period"}:
        return "time"
    return "text" if are(TEXTS) else "other"


def parse_numbers(objects: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers (n,) that objects write out, NaN for the others, and which (n,) are numbers or missing."""
    try:
        return np.where(seen, objects, np.nan).astype(np.float64), np.ones(len(objects), dtype=bool)
    except (TypeError, ValueError):
        numbers, is_number = np.full(len(objects), np.nan), ~seen
        for row in np.flatnonzero(seen):
            try:
                numbers[row], is_number[row] = float(objects[row]), True
            except (TypeError, ValueError):
                continue
        return numbers, is_number


def check_finite(cells: Cells, largest: float = np.inf, names: Sequence[str | int] | None = None) -> None:
    """An error for infinity and for values beyond `largest`, the most that a model can square.

    `names` are those that the user knows the columns by, where X has none.
    """
    array: Any = cells.numbers
    is_sparse = cells.is_sparse
    values: np.ndarray = array.data if is_sparse else array
    # One product shows in one pass that all values are fine; NaN or a sum that overflows needs a closer look.
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(flat, flat)):
            return
    for first in range(0, len(values), AT_ONCE):
        part = values[first : first + AT_ONCE]
        # Single precision has no number so large, and a comparison would overflow.
        beyond = np.abs(part) > largest if largest < float(np.finfo(part.dtype).max) else np.isinf(part)
        if not beyond.any():
            continue
        where = first * (values.size // len(values)) + int(np.flatnonzero(beyond)[0])
        row, column = divmod(where, array.shape[1])
        if is_sparse:
            row, column = int(np.searchsorted(array.indptr, where, side="right")) - 1, int(array.indices[where])
        name = (cells.names if names is None else names)[column]
        value, place = values.flat[where], f"row {cells.row(row)}, column {shown(name)}"
        if np.isinf(value):
            raise ValueError(
                f"X contains infinity, first in {place}; replace it by NaN to treat it as missing, or drop the row"
            )
        raise ValueError(
            f"X contains {value:g} in {place}, too large to square; rescale it, or replace it by NaN if it is a mistake"
        )
