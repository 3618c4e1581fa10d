"""What the rules for columns need to know of a table, gathered chunk by chunk of its rows.

The statistics add: those of a table are the sum of those of its chunks, in any order, so that a table need not fit
into memory. Distinct values are counted exactly up to a limit; beyond it the most frequent ones are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from jensen.data.cells import Cells
from jensen.data.dates import DAY
from jensen.data.levels import plain
from jensen.data.names import shown
from jensen.runtime.threads import in_threads

# Distinct values of a column that are kept, and rows that are read at a time.
MOST_KEPT, CHUNK = 20_000, 32_768
# Rows whose columns are copied together.
BLOCK = 512


@dataclass(frozen=True)
class ColumnStatistics:
    """Sums over the rows of one column.

    Args:
        n_rows: all rows.
        n_observed: those with a value.
        values: the distinct values, sorted: numbers, or texts as objects.
        counts: rows with each of them.
        is_full: whether there were more distinct values than are kept.
        low, high: the least and the greatest number; inf and -inf without one.
        total, squares: sums of the numbers and of their squares.
        is_whole: whether all numbers are whole.
        are_days: whether all numbers are whole days in seconds.
    """

    n_rows: int
    n_observed: int
    values: np.ndarray
    counts: np.ndarray
    is_full: bool
    low: float
    high: float
    total: float
    squares: float
    is_whole: bool
    are_days: bool

    @property
    def is_text(self) -> bool:
        return self.values.dtype == object

    @property
    def n_distinct(self) -> int:
        """The number of distinct values; at least this many if `is_full`."""
        return len(self.values)

    @property
    def mean(self) -> float:
        return self.total / max(self.n_observed, 1)

    @property
    def std(self) -> float:
        """The standard deviation; infinity where the squares are."""
        if self.squares == np.inf:
            return np.inf
        return float(np.sqrt(max(self.squares / max(self.n_observed, 1) - self.mean**2, 0.0)))

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        values, counts = merged(self, other)
        values, counts, is_cut = most_frequent(values, counts)
        return ColumnStatistics(
            self.n_rows + other.n_rows,
            self.n_observed + other.n_observed,
            values,
            counts,
            self.is_full or other.is_full or is_cut,
            min(self.low, other.low),
            max(self.high, other.high),
            self.total + other.total,
            self.squares + other.squares,
            self.is_whole and other.is_whole,
            self.are_days and other.are_days,
        )


def merged(one: ColumnStatistics, other: ColumnStatistics) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of both and their counts; text beside numbers makes them all objects."""
    if not one.n_observed or not other.n_observed:
        own = one if one.n_observed else other
        return own.values, own.counts
    if np.array_equal(one.values, other.values):
        return one.values, one.counts + other.counts
    if one.is_text or other.is_text:
        counter: Counter[Any] = Counter()
        for part in (one, other):
            counter.update(dict(zip(part.values.tolist(), part.counts.tolist(), strict=True)))
        return sorted_texts(counter)
    values, place = np.unique(np.concatenate([one.values, other.values]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, place, np.concatenate([one.counts, other.counts]))
    return values, counts


def sorted_texts(counter: Counter[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Texts, sorted; objects of several types are sorted by type first."""
    items = sorted(counter.items(), key=lambda item: (type(item[0]).__name__, item[0]))
    values = np.empty(len(items), dtype=object)
    values[:] = [value for value, _ in items]
    return values, np.array([count for _, count in items], dtype=np.int64)


def most_frequent(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """At most so many values, in order; of equally frequent ones the first."""
    if len(values) <= MOST_KEPT:
        return values, counts, False
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_KEPT])
    return values[kept], counts[kept], True


def statistics_of_column(cells: Cells, column: int) -> ColumnStatistics:
    """Those of one chunk."""
    return statistics_of_cells(cells, column, cells.numbers[:, column])


def statistics_of_cells(cells: Cells, column: int, cells_of_column: np.ndarray) -> ColumnStatistics:
    """Those of the cells (n,) of a column, which should be contiguous."""
    n_rows = len(cells_of_column)
    if column in cells.texts:
        seen = ~np.isnan(cells_of_column)
        texts = cells.texts[column] if seen.all() else cells.texts[column][seen]
        values, counts = sorted_texts(Counter({plain(value): n for value, n in Counter(texts.tolist()).items()}))
        values, counts, is_cut = most_frequent(values, counts)
        return ColumnStatistics(n_rows, len(texts), values, counts, is_cut, np.inf, -np.inf, 0.0, 0.0, False, False)
    numbers, counted = cells_of_column, counted_bytes(cells_of_column)
    if counted is None:
        numbers = cells_of_column[~np.isnan(cells_of_column)].astype(np.float64)
        counted = counted_bytes(numbers) or np.unique(numbers, return_counts=True)
    values, counts = counted
    is_whole = bool((values == np.floor(values)).all())
    are_days = cells.sorts[column] == "time" and bool((values % DAY == 0).all())
    low, high = (float(values[0]), float(values[-1])) if len(values) else (np.inf, -np.inf)
    with np.errstate(over="ignore"):
        few = len(values) < len(numbers)
        total = float(values @ counts if few else numbers.sum())
        squares = float(values**2 @ counts if few else numbers @ numbers)
    values, counts, is_cut = most_frequent(values, counts.astype(np.int64))
    return ColumnStatistics(n_rows, len(numbers), values, counts, is_cut, low, high, total, squares, is_whole, are_days)


def counted_bytes(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The distinct values and their counts, without sorting, if all are whole numbers from 0 to 255."""
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.uint8)
    if not len(whole) or not np.array_equal(whole, numbers):
        return None
    if whole.max() <= 1:
        n_ones = np.count_nonzero(whole)
        counts = np.array([len(whole) - n_ones, n_ones])
    else:
        counts = np.bincount(whole)
    values = np.flatnonzero(counts)
    return values.astype(np.float64), counts[values]


@dataclass(frozen=True)
class TableStatistics:
    """The statistics of all columns, with the head of the table: names, types and no rows."""

    head: Cells
    columns: tuple[ColumnStatistics, ...]

    def __add__(self, other: TableStatistics) -> TableStatistics:
        if self.head.names != other.head.names:
            raise ValueError(f"the chunks have the columns {self.head.names} and {other.head.names}; give the same")
        columns = tuple(map(add, self.columns, other.columns))
        sorts = tuple(common_sort(self, other, j) for j in range(len(columns)))
        merged_orders = {**other.head.orders}
        for column, order in self.head.orders.items():
            merged_orders[column] = list(dict.fromkeys([*order, *merged_orders.get(column, [])]))
        texts = {j: np.empty(0, dtype=object) for j, sort in enumerate(sorts) if sort == "text"}
        foreign = {**self.head.foreign, **other.head.foreign}
        head = replace(self.head, sorts=sorts, texts=texts, orders=merged_orders, foreign=foreign)
        return TableStatistics(head, columns)


@dataclass(frozen=True)
class CountStatistics:
    """Less of columns that are known to be counts, and may be those of a sparse table: ends and observed entries (d,),
    rows, names and types.
    """

    names: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    container: str
    low: np.ndarray
    high: np.ndarray
    n_observed: np.ndarray
    n_rows: int

    @classmethod
    def of(cls, table: Cells) -> CountStatistics:
        cells = table.with_numbers_only()
        n, d = cells.numbers.shape
        n_observed = np.full(d, n) if cells.is_sparse else n - np.isnan(cells.numbers).sum(0)
        return cls(cells.names, cells.dtypes, cells.kind.container, *cells.limits, n_observed, n)

    def __add__(self, other: CountStatistics) -> CountStatistics:
        return replace(
            self,
            low=np.fmin(self.low, other.low),
            high=np.fmax(self.high, other.high),
            n_observed=self.n_observed + other.n_observed,
            n_rows=self.n_rows + other.n_rows,
        )


def common_sort(one: TableStatistics, other: TableStatistics, column: int) -> str:
    """What the cells of a column are in both chunks; a chunk without values may be anything."""
    found = {part.head.sorts[column] for part in (one, other) if part.columns[column].n_observed}
    if not found:
        return one.head.sorts[column]
    if len(found) == 1:
        return found.pop()
    if found == {"int", "float"}:
        return "float"
    raise ValueError(
        f"X: column {shown(one.head.names[column])} holds {' in some rows and '.join(sorted(found))} in others; "
        "give values of one kind"
    )


def statistics_of(cells: Cells) -> TableStatistics:
    """Those of a table in memory, the sum over its chunks."""
    return reduce(add, in_threads(statistics_of_chunk, chunks(cells)))


def statistics_of_chunk(cells: Cells) -> TableStatistics:
    # Copies: a view of no rows would keep all of them in memory.
    texts = {j: texts[:0].copy() for j, texts in cells.texts.items()}
    head = replace(cells, numbers=cells.numbers[:0].copy(), texts=texts, row_numbers=None)
    columns = column_major(cells.numbers)
    return TableStatistics(head, tuple(statistics_of_cells(cells, j, own) for j, own in enumerate(columns)))


def column_major(rows: np.ndarray) -> np.ndarray:
    """Rows (n, d) as (d, n), block by block: a copy column by column would read every row of memory d times."""
    if rows.flags.f_contiguous:
        return rows.T
    columns = np.empty(rows.shape[::-1], dtype=rows.dtype)
    for start in range(0, len(rows), BLOCK):
        columns[:, start : start + BLOCK] = rows[start : start + BLOCK].T
    return columns


def chunks(cells: Cells, size: int = CHUNK) -> Iterator[Cells]:
    n = len(cells.numbers)
    for start in range(0, max(n, 1), size):
        yield cells.take(np.arange(start, min(start + size, n)))
