"""Cells back into tables: holes filled in a copy of the table they came from, and new data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.interop.rows import as_array

__all__ = ["fill_frame", "fill_matrix", "pandas_frame", "polars_frame"]


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
