"""What a model has to say about the types of columns in a file, before its fit and after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jensen.files.layout import SIGNS, WORDS

if TYPE_CHECKING:
    import pandas as pd

    from jensen.files.reading import Reading
    from jensen.files.tables import Table
    from jensen.registry import Model

# Kinds of columns that a file need not tell from each other.
NUMBERS = ("number", "count")


def asked_for(estimator: Model, table_options: Reading) -> Reading:
    """How to read a table for a fit: a column that the model's arguments name is left as it is, unless it is a date."""
    arguments = estimator.get_params(deep=False)
    asked: dict[Any, Any] = {}
    for argument in ("families", "columns"):
        asked |= dict(given) if isinstance(given := arguments.get(argument), Mapping) else {}
    kinds = {str(name): kind.get("kind") if isinstance(kind, Mapping) else kind for name, kind in asked.items()}
    types = {n: "number" if kind in NUMBERS else "plain" for n, kind in kinds.items() if kind not in ("auto", "date")}
    return replace(table_options, fitted=types | dict(table_options.fitted))


def typed(estimator: Model, table: Table) -> Table:
    """A table to fit a model of all columns to: whole numbers beside empty cells are whole numbers."""
    return with_whole_numbers(table) if "columns" in estimator.get_params(deep=False) else table


def with_whole_numbers(table: Table) -> Table:
    """The same table, in which whole numbers beside empty cells are whole numbers and no floats."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        return table
    out = table.copy(deep=False)
    for name, column in out.items():
        if column.dtype.kind == "f" and column.isna().any() and is_whole(column):
            out[name] = column.astype("Int64")
    return out


def as_fitted(estimator: Model, table_options: Reading) -> Reading:
    """How to read rows for a fitted model: its texts are texts here, too, even if all of them are digits now."""
    columns = getattr(estimator, "columns_", None)
    types: dict[str, str] = {}
    if columns is not None:
        for name, levels, unit in zip(columns.names, columns.levels, columns.units, strict=True):
            # Levels are of one type.
            is_text = bool(levels) and isinstance(levels[0], str)
            # What is usually a code of missing values may be a level of this model.
            text = "text" if not (WORDS | SIGNS) & {*levels} else "as written"
            is_truth = bool(levels) and isinstance(levels[0], bool)
            types[str(name)] = "date" if unit else text if is_text else "plain" if is_truth else "number"
    return replace(table_options, fitted=types | dict(table_options.fitted), hints=False)


def typed_as_fitted(estimator: Model, table: Table) -> Table:
    """Rows for a fitted model: whole numbers as `typed` gave them to the model; an error where dates are expected."""
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
        elif dtype == "Int64" and out[name].dtype.kind == "f" and is_whole(out[name]):
            out[name] = out[name].astype("Int64")
    return out


def check_dates(name: Any, column: pd.Series[Any]) -> None:
    """An error that names the first text that is not a date."""
    from jensen.files.styles import DateStyle, styles_of

    values = column.dropna()
    for row, value in values.items():
        if not any(isinstance(style, DateStyle) for style in styles_of([value])):
            raise ValueError(
                f"the column {name!r} holds {value!r} in row {row}, but the model was fitted on dates; write "
                "2024-05-31 or 2024-05-31 12:30"
            )
    if len(values):
        raise ValueError(
            f"the column {name!r} holds dates of different forms, such as {values.iloc[0]!r} and {values.iloc[-1]!r}; "
            "write all in one form"
        )


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


def missing_elsewhere(cells: Table, X: Table) -> dict[str, int]:
    """The number of missing values in every column that the model was not trained on."""
    import numpy as np

    if isinstance(cells, np.ndarray) or isinstance(X, np.ndarray):
        return {}
    others = cells.drop(columns=list(X.columns))
    # Cells as they are written: an empty one is an empty text.
    empty = (others.isna() | (others == "")).sum()
    return {str(name): int(n) for name, n in empty.items() if n}
