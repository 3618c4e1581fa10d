"""The odd cells of a table as a list, and what its columns can hold.

A Gaussian has a density everywhere, and a table has columns that end: incomes at 0, ratings at 5. A column of numbers
ends where many usual rows have exactly the same value and no row but a few lies beyond, and levels are a closed list if
all but some have many rows. A cell beyond is odd, whatever the rest of its row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jensen.contract.given_rest import GivenRest
from jensen.data.columns import Columns

# At the end of a column, this share of the usual values is equal, and at most this share lies beyond.
PILE, BEYOND = 0.05, 0.001
# Rows of every level of a closed list, at least, and of the other side of an end.
MANY = 10
# Smaller probabilities are statements about the formula of a tail, and not about rows.
SMALLEST = 1e-6
NUMBERS = ("number", "count", "date")


@dataclass(frozen=True)
class Limits:
    """What the columns of a table can hold.

    Args:
        ranges: {column: (least, greatest)} of the values of usual rows, impossible ones left out.
        is_impossible: (n, d), cells that lie beyond the end of their column, or have a level that is no other row's.
    """

    ranges: dict[int, tuple[Any, Any]]
    is_impossible: np.ndarray


def limits_of(table: Any, kinds: tuple[str, ...], is_usual: np.ndarray) -> Limits:
    """Limits of the columns of a pandas frame or an array, by their kinds."""
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    is_impossible, ranges = np.zeros(frame.shape, dtype=bool), {}
    for j, kind in enumerate(kinds):
        column = frame.iloc[:, j]
        if kind in ("number", "count") and column.dtype.kind in "iuf":
            values = column.to_numpy(dtype=np.float64)
            low, high = ends_of(values[is_usual & np.isfinite(values)])
            is_impossible[:, j] = (values < low) | (values > high)
        elif kind == "level":
            is_impossible[:, j] = is_lone_level(column)
        usual = column[is_usual & ~is_impossible[:, j]].dropna()
        if kind in NUMBERS and column.dtype.kind in "iufM" and len(usual):
            ranges[j] = usual.min(), usual.max()
    return Limits(ranges, is_impossible)


def ends_of(usual: np.ndarray) -> tuple[float, float]:
    """Where a column of numbers ends; infinite where it does not.

    Example:
        >>> import numpy as np
        >>> income = np.r_[np.zeros(30), np.random.default_rng(0).exponential(size=70), -5.0]
        >>> ends_of(income)
        (0.0, inf)
    """
    values, counts = np.unique(usual, return_counts=True)
    allowed = max(1.0, BEYOND * len(usual))
    below = np.cumsum(counts) - counts
    above = len(usual) - below - counts
    is_pile = counts >= max(MANY, PILE * len(usual))
    lowest = values[is_pile & (below <= allowed) & (above >= MANY)]
    highest = values[is_pile & (above <= allowed) & (below >= MANY)]
    return float(min(lowest, default=-np.inf)), float(max(highest, default=np.inf))


def is_lone_level(column: pd.Series) -> np.ndarray:
    """Which cells have a level that is theirs alone, where all levels of more than one row have many."""
    rows = column.map(column.value_counts()).to_numpy(dtype=np.float64, na_value=np.nan)
    alone, others = rows == 1, rows[rows > 1]
    is_closed = len(others) > 0 and others.min() >= MANY and alone.sum() <= max(1.0, BEYOND * len(others))
    return np.asarray(alone & is_closed)


def listed(
    frame: pd.DataFrame, rows: np.ndarray, found: GivenRest, most: float, columns: Columns, limits: Limits
) -> pd.DataFrame:
    """Cells with a tail of at most `most`, one per line. What is expected stays within the range of the usual rows.

    No usual row has an impossible value, so that its tail is at most 1/(n+1).
    """
    names, kept = [*frame.columns], columns.kept
    is_impossible = limits.is_impossible[rows]
    tail = np.where(is_impossible, np.fmin(found.tail, 1 / (len(frame) + 1)), found.tail)
    kinds = dict(zip(columns.kept, columns.kinds, strict=True))
    lines = []
    for i, j in zip(*np.nonzero(tail <= most), strict=True):
        column, row = kept[j], rows[i]
        has_interval = kinds.get(column, "number") in NUMBERS
        shown = [within(part.iat[i, j], limits.ranges.get(j)) for part in (found.expected, found.low, found.high)]
        lines.append(
            {
                "row": frame.index[row],
                "number": int(row),
                "column": names[column],
                "value": frame.iat[row, column],
                "expected": shown[0],
                "low": shown[1] if has_interval else None,
                "high": shown[2] if has_interval else None,
                "tail": float(tail[i, j]),
                "nats": float(found.nats[i, j]),
                "is_impossible": bool(is_impossible[i, j]),
            }
        )
    order = ["row", "number", "column", "value", "expected", "low", "high", "tail", "nats", "is_impossible"]
    return pd.DataFrame(lines, columns=order)


def within(value: Any, ends: tuple[Any, Any] | None) -> Any:
    return value if ends is None or pd.isna(value) else min(max(value, ends[0]), ends[1])
