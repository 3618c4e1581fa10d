"""Text files hold text: dates, and whole numbers beside empty cells, as the types that a model of all columns reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from jensen.files.tables import Table
    from jensen.registry import Model

# 2024-05-31, or with a time: 2024-05-31 12:30, 2024-05-31T12:30:59.5
DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


def typed(estimator: Model, table: Table) -> Table:
    """A table to fit a model to; a column that the model's arguments name keeps its type, unless it is to be a date."""
    import pandas as pd

    arguments = estimator.get_params(deep=False)
    if "columns" not in arguments or not isinstance(table, pd.DataFrame):
        return table
    asked: dict[Any, Any] = {}
    for argument in ("families", "columns"):
        asked |= dict(given) if isinstance(given := arguments.get(argument), Mapping) else {}
    out: pd.DataFrame = with_dates(table, [name for name, kind in asked.items() if kind != "date"])
    for name, column in out.items():
        if column.dtype.kind == "f" and column.isna().any() and is_whole(column):
            out[name] = column.astype("Int64")
    return out


def with_dates(table: Any, others: Collection[Any] = ()) -> Any:
    """A table in which text that writes out dates is dates, except in some columns."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        return table
    out = table.copy(deep=False)
    for name, column in table.items():
        if name not in others and holds_dates(column):
            out[name] = pd.to_datetime(column, format="ISO8601")
    return out


def typed_as_fitted(estimator: Model, table: Table) -> Table:
    """Rows for a fitted model: text and numbers in the types that `typed` gave the model."""
    import pandas as pd

    columns = getattr(estimator, "columns_", None)
    if columns is None or not isinstance(table, pd.DataFrame):
        return table
    out = table.copy(deep=False)
    for name, unit, dtype in zip(columns.names, columns.units, columns.dtypes, strict=True):
        if name not in out:
            continue
        if unit and pd.api.types.is_string_dtype(out[name].dropna()):
            check_dates(name, out[name])
            out[name] = pd.to_datetime(out[name], format="ISO8601")
        elif dtype == "Int64" and out[name].dtype.kind == "f" and is_whole(out[name]):
            out[name] = out[name].astype("Int64")
    return out


def holds_dates(column: pd.Series[Any]) -> bool:
    """Whether every cell with text writes out a date that exists."""
    import pandas as pd

    values = column.dropna()
    if not len(values) or not pd.api.types.is_string_dtype(values) or not values.map(is_date).all():
        return False
    return bool(pd.to_datetime(values, format="ISO8601", errors="coerce").notna().all())


def check_dates(name: Any, column: pd.Series[Any]) -> None:
    wrong = column.dropna()[lambda values: ~values.map(is_date)]
    if len(wrong):
        raise ValueError(
            f"the column {name!r} holds {wrong.iloc[0]!r} in row {wrong.index[0]}, but the model was fitted on dates; "
            "write 2024-05-31 or 2024-05-31 12:30"
        )


def is_date(value: Any) -> bool:
    return isinstance(value, str) and DATE.fullmatch(value) is not None


def is_whole(column: pd.Series[Any]) -> bool:
    values = column.dropna()
    return bool(len(values)) and bool((values % 1 == 0).all()) and bool((values.abs() < 2**53).all())


def left_out(estimator: Model) -> Collection[Any]:
    """The columns of the training table that a fitted model does not model."""
    return getattr(getattr(estimator, "columns_", None), "left_out", ())


def modelled(estimator: Model, table: Any) -> Any:
    """A table or images without the columns that a fitted model leaves out."""
    others = left_out(estimator)
    if not others:
        return table
    if hasattr(table, "columns"):
        return table.drop(columns=[name for name in others if name in table])
    return table[:, list(estimator.columns_.kept)]
