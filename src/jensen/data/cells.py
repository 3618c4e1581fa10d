"""The cells of a table of any container: one matrix of numbers, and text beside it.

Missing is NaN, None, pd.NA, pd.NaT and polars' null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.container import as_array, check_finite, check_names, column_name, shown

__all__ = [
    "Cells",
    "fill_frame",
    "fill_matrix",
    "pandas_frame",
    "polars_frame",
    "read_cells",
    "shown",
]

NUMERIC = {
    "integer": "int",
    "floating": "float",
    "mixed-integer-float": "float",
    "decimal": "float",
    "boolean": "bool",
    "empty": "float",
}


@dataclass(frozen=True)
class Cells:
    """A table, read.

    Args:
        container: "numpy", "torch", "pandas" or "polars".
        names: of the columns; their numbers for arrays.
        dtypes: the columns' types as their container writes them.
        sorts: what is in the cells of each column: "float", "int", "bool" or "text".
        numbers: (n, d) float64, NaN exactly where a cell is missing, 0 where it holds text. It may share memory with
            the table: it is not for writing.
        texts: {column: objects (n,)} of the columns that are not numbers.
        orders: {column: values} of columns whose type lists the values they may have.
    """

    container: str
    names: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    sorts: tuple[str, ...]
    numbers: np.ndarray
    texts: Mapping[int, np.ndarray] = field(default_factory=dict)
    orders: Mapping[int, list[Any]] = field(default_factory=dict)

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest number of each column."""
        return np.fmin.reduce(self.numbers), np.fmax.reduce(self.numbers)

    @property
    def is_frame(self) -> bool:
        return self.container in ("pandas", "polars")


def read_cells(X: Any) -> Cells:
    container = type(X).__module__.split(".")[0] if hasattr(X, "columns") else "numpy"
    cells = read_frame(X, container) if container in ("pandas", "polars") else read_matrix(X)
    check_finite(cells.numbers, [shown(name) for name in cells.names])
    return cells


# Arrays and tensors


def read_matrix(X: Any) -> Cells:
    array = as_array(X)
    if array.ndim != 2:
        raise ValueError(f"X has shape {array.shape}; expected rows and columns (n, d): reshape it")
    if array.dtype.kind in "mM":
        raise ValueError(f"X holds dates or times ({array.dtype}); turn them into numbers, such as days since a date")
    try:
        numbers = array.astype(np.float64, copy=False) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise ValueError(
            f"X is an array of type {array.dtype}, and arrays are read as numbers; "
            "give a data frame, whose columns may hold text"
        )
    d = array.shape[1]
    sort = {"i": "int", "u": "int", "b": "bool"}.get(array.dtype.kind, "float")
    container = "torch" if isinstance(X, Tensor) else "numpy"
    return Cells(container, tuple(range(d)), (str(array.dtype),) * d, (sort,) * d, numbers)


# Data frames


@dataclass(frozen=True)
class Column:
    """One column of a data frame, as in `Cells`."""

    sort: str
    numbers: np.ndarray
    objects: np.ndarray | None = None
    order: list[Any] | None = None


def read_frame(X: Any, container: str) -> Cells:
    check_names(X)
    names = tuple(column_name(name) for name in X.columns)
    columns = []
    for number, (name, dtype) in enumerate(zip(names, X.dtypes, strict=True)):
        check_no_time(str(dtype), name)
        columns.append(
            pandas_column(X.iloc[:, number], name) if container == "pandas" else polars_column(X[:, number], name)
        )
    numbers = np.empty((len(X), len(columns)))
    for number, column in enumerate(columns):
        numbers[:, number] = column.numbers
    return Cells(
        container,
        names,
        tuple(map(dtype_text, X.dtypes)),
        tuple(column.sort for column in columns),
        numbers,
        {number: column.objects for number, column in enumerate(columns) if column.objects is not None},
        {number: column.order for number, column in enumerate(columns) if column.order is not None},
    )


def dtype_text(dtype: Any) -> str:
    """Whether categories have an order is not in pandas' own text."""
    return "ordered category" if str(dtype) == "category" and dtype.ordered else str(dtype)


def check_no_time(dtype: str, name: str | int) -> None:
    # Dates convert to numbers without a word, nanoseconds that nobody means.
    if any(word in dtype.split("(")[0].lower() for word in ("date", "time", "duration", "period")):
        raise ValueError(
            f"X holds dates or times in column {shown(name)} ({dtype}); "
            "turn them into numbers, such as days since a date, or drop the column"
        )


def pandas_column(column: Any, name: str | int) -> Column:
    import pandas as pd  # slow to import, and only data frames come here

    dtype, types = column.dtype, pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        categories = column.cat.categories
        check_no_time(str(categories.dtype), name)
        inner = pandas_column(categories.to_series(), name)
        if inner.objects is not None:
            return text_column(column.to_numpy(dtype=object), categories.tolist())
        # The code of a missing cell is -1, which is the last place.
        numbers = np.append(inner.numbers, np.nan)[column.cat.codes.to_numpy()]
        return Column(inner.sort, numbers, order=categories.tolist())
    if types.is_object_dtype(dtype):
        return object_column(column.to_numpy(), name)
    if types.is_string_dtype(dtype):
        return text_column(column.to_numpy(dtype=object))
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        sort = "bool" if types.is_bool_dtype(dtype) else "int" if types.is_integer_dtype(dtype) else "float"
        return Column(sort, column.to_numpy(dtype=np.float64, na_value=np.nan))
    raise unreadable(str(dtype), name)


def polars_column(column: Any, name: str | int) -> Column:
    import polars as pl

    dtype = column.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        order = dtype.categories.to_list() if isinstance(dtype, pl.Enum) else None
        return text_column(column.cast(pl.String).to_numpy(), order)
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        sort = "bool" if dtype == pl.Boolean else "int" if dtype.is_integer() else "float"
        return Column(sort, column.cast(pl.Float64).to_numpy())
    raise unreadable(str(dtype), name)


def object_column(objects: np.ndarray, name: str | int) -> Column:
    """Objects that are all numbers are read as numbers: a column of numbers and None often comes as objects."""
    import pandas as pd

    observed = ~pd.isna(objects)
    inferred = pd.api.types.infer_dtype(objects[observed], skipna=False)
    check_no_time(inferred, name)
    if inferred in NUMERIC:
        numbers = np.full(len(objects), np.nan)
        numbers[observed] = objects[observed].astype(np.float64)
        return Column(NUMERIC[inferred], numbers)
    usual = (str, bool, int, float, np.bool_, np.integer, np.floating)
    strange = sorted({kind.__name__ for kind in set(map(type, objects[observed])) if not issubclass(kind, usual)})
    if strange:
        raise unreadable(", ".join(strange), name)
    return text_column(objects)


def text_column(objects: np.ndarray, order: list[Any] | None = None) -> Column:
    import pandas as pd

    return Column("text", np.where(pd.isna(objects), np.nan, 0.0), objects, order)


def unreadable(dtype: str, name: str | int) -> ValueError:
    return ValueError(
        f"X holds values of the type {dtype} in column {shown(name)}, which are neither numbers nor text; "
        "turn them into such, or drop the column"
    )


def fill_matrix(X: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    """A copy of an array or tensor with the cells where `missing` (n, d) taken from `values`, and all others as is."""
    if isinstance(X, Tensor):
        table, holes = X.detach().clone(), torch.from_numpy(missing).to(X.device)
        table[holes] = torch.from_numpy(values[missing]).to(X.device, X.dtype)
        return table
    array = np.array(as_array(X))
    array[missing] = values[missing]
    return array


def fill_frame(X: Any, missing: np.ndarray, values: Mapping[int, np.ndarray]) -> Any:
    """The same for a data frame, with {column: values (n,)} of the columns that have holes."""
    if hasattr(X, "iloc"):
        frame = X.copy()
        for column, cells in values.items():
            frame.isetitem(column, filled_pandas(X.iloc[:, column], missing[:, column], cells))
        return frame
    series = X.get_columns()
    for column, cells in values.items():
        series[column] = filled_polars(series[column], missing[:, column], cells)
    return type(X)(series)


def filled_pandas(column: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    import pandas as pd

    types = pd.api.types
    cells = column.array.copy()
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = set(column.cat.categories)
        cells = cells.add_categories([value for value in pd.unique(values[missing]).tolist() if value not in known])
    elif types.is_integer_dtype(column.dtype) and values.dtype.kind == "f":
        cells = cells.astype("Float64")  # a mean of whole numbers is not one
    elif types.is_numeric_dtype(column.dtype) and values.dtype == object:
        cells = cells.astype(object)
    elif column.dtype != object and types.is_string_dtype(column.dtype) and values.dtype != object:
        values = values.astype(str)
    try:
        cells[missing] = values[missing]
    except (TypeError, ValueError):  # the type of the column cannot hold such values
        cells = cells.astype(object)
        cells[missing] = values[missing]
    return pd.Series(cells, index=column.index, dtype=cells.dtype)


def filled_polars(column: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    import polars as pl

    new, dtype = pl.Series(column.name, values[missing].tolist()), column.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        new = new.cast(pl.String)
        if isinstance(dtype, pl.Enum) and not set(new) <= set(dtype.categories):
            column = column.cast(pl.String)
    elif dtype == pl.Null or new.dtype == pl.String or (dtype == pl.Boolean and new.dtype != pl.Boolean):
        column = column.cast(new.dtype)
    elif new.dtype.is_float() and not dtype.is_float():
        column = column.cast(pl.Float64)  # a mean of whole numbers is not one
    place = np.zeros(len(values), dtype=np.int64)
    place[missing] = np.arange(len(new))
    return new.cast(column.dtype).gather(place).zip_with(pl.Series(missing), column)


def pandas_frame(
    names: Sequence[str | int],
    columns: Sequence[np.ndarray],
    dtypes: Sequence[str],
    levels: Sequence[tuple[Any, ...]],
    index: Any = None,
) -> Any:
    """A data frame whose columns have the types named, where these can hold them; "" leaves a type to pandas."""
    import pandas as pd

    def typed(values: np.ndarray, dtype: Any, known: tuple[Any, ...]) -> Any:
        if "category" in dtype and known:
            return pd.Categorical(values, categories=list(known), ordered=dtype == "ordered category")
        # None would become False.
        lacks = dtype == "bool" and values.dtype != bool
        if not dtype or lacks or not (known or "float" in dtype.lower()):
            return values
        try:
            return pd.Series(values, index=index, dtype=dtype)
        except (TypeError, ValueError):  # a whole number or a truth value that is missing
            return values

    data = {j: typed(*column) for j, column in enumerate(zip(columns, dtypes, levels, strict=True))}
    frame = pd.DataFrame(data, index=index)
    frame.columns = pd.Index(names)
    return frame


def polars_frame(
    names: Sequence[str | int], columns: Sequence[np.ndarray], dtypes: Sequence[str], levels: Sequence[tuple[Any, ...]]
) -> Any:
    """The same of polars."""
    import polars as pl

    def typed(name: str | int, values: np.ndarray, dtype: str, known: tuple[Any, ...]) -> Any:
        chosen = pl.Enum(known) if dtype.startswith("Enum") else getattr(pl, dtype, None)
        cells = values.tolist() if values.dtype == object else values
        return pl.Series(str(name), cells, dtype=chosen if known else None, strict=False, nan_to_null=bool(known))

    return pl.DataFrame([typed(*column) for column in zip(names, columns, dtypes, levels, strict=True)])
