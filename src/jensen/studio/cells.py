"""The cells of a row: what they may hold, and a row with some of them changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jensen.data.container import to_take_apart

# Columns and levels that the page shows at most.
MOST_COLUMNS, MOST_LEVELS = 60, 60


@dataclass(frozen=True)
class Column:
    """A column of the table: numbers between two ends, or one of several levels."""

    name: str
    low: float = 0.0
    high: float = 1.0
    is_whole: bool = False
    levels: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        return "level" if self.levels else "number"

    def described(self) -> dict[str, Any]:
        shown = {"name": self.name, "kind": self.kind, "low": self.low, "high": self.high, "is_whole": self.is_whole}
        return shown | {"levels": [str(level) for level in self.levels]}

    def read(self, given: Any) -> Any:
        """A value from the page; None is missing."""
        if given is None:
            return None
        if self.levels:
            found = [level for level in self.levels if str(level) == given]
            if not found:
                raise ValueError(f"{self.name}={given!r} is not one of {', '.join(map(str, self.levels[:20]))}")
            return found[0]
        if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
            raise ValueError(f"{self.name}={given!r} must be a number, or missing")
        return round(given) if self.is_whole else float(given)


def frame_of(X: Any) -> pd.DataFrame | None:
    """The rows as a data frame; None where cells cannot be set one by one: images, texts and sparse counts."""
    if hasattr(X, "tocsr"):
        return None
    table = to_take_apart(X)
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    if isinstance(table, pd.DataFrame):
        return table if table.shape[1] <= MOST_COLUMNS else None
    array = np.asarray(table)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or array.shape[1] > MOST_COLUMNS:
        return None
    return pd.DataFrame(array.astype(np.float64), columns=[f"x{j}" for j in range(array.shape[1])])


def columns_of(frame: pd.DataFrame) -> list[Column]:
    """What every column may hold, from the values in it."""
    found = []
    for name, column in frame.items():
        values = column.dropna()
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            numbers = values.to_numpy(dtype=np.float64)
            low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
            room = 0.15 * (high - low or abs(high) or 1.0)
            whole = column.dtype.kind in "iu" or str(column.dtype) == "Int64"
            ends = (low, high) if whole else (low - room, high + room)
            found.append(Column(str(name), *ends, is_whole=whole))
        else:
            levels = tuple(sorted(values.unique(), key=str))[:MOST_LEVELS]
            found.append(Column(str(name), levels=levels or ("",)))
    return found


def changed(frame: pd.DataFrame, row: int, cells: Mapping[str, Any], columns: list[Column]) -> pd.DataFrame:
    """One row of the table (1, d), with these cells in place of its own."""
    known = {column.name: (j, column) for j, column in enumerate(columns)}
    for name in cells:
        if name not in known:
            raise ValueError(f"there is no column {str(name)[:60]!r}; there are {', '.join(list(known)[:20])}")
    one = frame.iloc[[row]].reset_index(drop=True)
    values = {}
    for (key, own), column in zip(one.items(), columns, strict=True):
        values[key] = series_of(column.read(cells[column.name]), own) if column.name in cells else own
    return pd.DataFrame(values)


def series_of(value: Any, own: pd.Series[Any]) -> pd.Series[Any]:
    """One cell in the type of its column; a whole number that is missing needs a type that has missing values."""
    if value is not None:
        return (
            pd.Series([value]).astype(own.dtype, errors="ignore") if own.dtype.kind != "i" else pd.Series([int(value)])
        )
    if own.dtype.kind in "iu":
        return pd.Series([pd.NA], dtype="Int64")
    if own.dtype.kind == "f":
        return pd.Series([np.nan], dtype=own.dtype)
    if own.dtype.kind == "b":
        return pd.Series([None], dtype=object)
    return pd.Series([None], dtype=own.dtype)


def in_kind(frame: pd.DataFrame, X: Any) -> Any:
    """Rows as the model was given them: a data frame, or an array of numbers."""
    return frame if hasattr(X, "columns") else frame.to_numpy(dtype=np.float64)
