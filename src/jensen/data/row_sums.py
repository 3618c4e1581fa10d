"""What the columns of rows are for networks, from sums over chunks of the rows that need not be in memory.

The rules are those of `learn_scaled`, and so is the result: they act on the statistics of a column instead of its
cells. Moments add about their own means, which loses no digits:
    n = n₁ + n₂,  m = m₁ + (n₂/n)(m₂ - m₁),  S = S₁ + S₂ + (n₁ n₂ / n)(m₂ - m₁)²
Chan, Golub & LeVeque (1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jensen.data.cells import Cells, cells_of_numbers
from jensen.data.columns import Columns
from jensen.data.dates import SECONDS
from jensen.data.edits import LEFT_OUT, Asked, asked_columns, with_asked_numbers
from jensen.data.findings import own_kind
from jensen.data.infer import learn_columns
from jensen.data.levels import are_on_grid, plain
from jensen.data.names import shown
from jensen.data.rows import ColumnRules, grid_columns, repeated
from jensen.data.rules import Found, Given, find_column, is_mostly_distinct, is_running_number, levels_of
from jensen.data.scaled import columns_kept, columns_of, find_scaled, network_columns_asked, pooled_scale
from jensen.data.statistics import TableStatistics, statistics_of


@dataclass(frozen=True)
class Moments:
    """The observed numbers of every column (d,): how many, their mean, their squares about it, and their ends."""

    n: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> Moments:
        """Of rows (n, d), at least one."""
        seen = ~np.isnan(numbers)
        n = seen.sum(0)
        filled = np.where(seen, numbers, 0.0).astype(np.float64, copy=False)
        mean = filled.sum(0) / np.maximum(n, 1)
        squares = (np.square(filled - mean) * seen).sum(0)
        low, high = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
        return cls(n, mean, squares, low.astype(np.float64), high.astype(np.float64))

    def __add__(self, other: Moments) -> Moments:
        n = self.n + other.n
        apart, share = other.mean - self.mean, other.n / np.maximum(n, 1)
        return Moments(
            n,
            self.mean + share * apart,
            self.squares + other.squares + self.n * share * np.square(apart),
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
        )

    def some(self, columns: Sequence[int]) -> Moments:
        return Moments(*(getattr(self, name)[list(columns)] for name in ("n", "mean", "squares", "low", "high")))

    def without(self, values: np.ndarray, counts: np.ndarray) -> Moments:
        """Those of one column without some of its values."""
        n = self.n - counts.sum()
        mean = (self.n * self.mean - (values * counts).sum()) / n
        squares = self.squares + self.n * np.square(self.mean - mean) - (counts * np.square(values - mean)).sum()
        return replace(self, n=n, mean=mean, squares=np.maximum(squares, 0.0))

    def together(self) -> Moments:
        """Those of all columns as one."""
        total = self.some([0])
        for j in range(1, len(self.n)):
            total = total + self.some([j])
        return total

    @property
    def scale(self) -> np.ndarray:
        """The standard deviation; of a single value its size, or 1, as `moments` of rows in memory has it."""
        std = np.sqrt(self.squares / np.maximum(self.n, 1))
        size = np.where(self.mean == 0, 1.0, np.abs(self.mean))
        return np.where((self.low == self.high) | (std == 0), size, std)


@dataclass(frozen=True)
class RowSums:
    """Sums over rows: statistics of the columns, or of all pixels of images as one column; and moments."""

    table: TableStatistics
    moments: Moments

    @classmethod
    def of(cls, cells: Cells, rules: ColumnRules, is_image: bool) -> RowSums:
        """Of rows, at least one."""
        if is_image:
            pixels = cells_of_numbers(cells.numbers.reshape(-1, 1), cells.kind)
            return cls(statistics_of(pixels), Moments.of(cells.numbers))
        asked = network_columns_asked(rules.columns, rules.kinds, cells.names, rules.counts)
        cells = with_asked_numbers(cells, asked)
        return cls(statistics_of(cells), Moments.of(cells.numbers))

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.table + other.table, self.moments + other.moments)


def columns_of_sums(sums: RowSums, rules: ColumnRules, head: Cells, is_image: bool, n_rows: int) -> Columns:
    """The columns of rows with these sums; `head` has their names and types."""
    check_observed(sums.moments.n, head)
    if not is_image:
        head = replace(sums.table.head, numbers=head.numbers)
    # A grid, and levels of pixels, follow from the distinct values alone.
    distinct = replace(head, numbers=distinct_numbers(sums.table)[:, None])
    is_complete = not any(column.is_full for column in sums.table.columns)
    if all(one.kind in ("auto", "number") for one in asked_columns(rules.columns, head.names)):
        on_grid = grid_columns(distinct, rules.data_levels if is_complete else None, is_image)
        if on_grid is not None:
            return replace(on_grid, n_rows=n_rows)
        if not is_complete and rules.data_levels not in (None, "auto", "images"):
            grid_columns(distinct, rules.data_levels, is_image)  # raises the error, unless its levels are very many
    if is_image and rules.kinds == "level":
        pixels = cells_of_numbers(distinct.numbers, head.kind)
        return repeated(learn_columns(pixels, "level"), len(head.names))
    asked = network_columns_asked(rules.columns, rules.kinds, head.names, rules.counts)
    if is_image:
        ends = two_rows(sums, head)
        found = [find_scaled(ends, j, asked[j], False, False) for j in range(len(asked))]
    else:
        atoms = rules.atoms and not (is_complete and is_on_grid(head, distinct.numbers))
        found = [find_summed(given_of(sums.table, j), asked[j], head.is_frame, atoms) for j in range(len(asked))]
    columns = sums.table.columns
    kept = columns_kept(head.names, asked, found, lambda j: own_kind(head.sorts[j] == "text", columns[j].n_distinct))
    location, scale = scaling_of_sums(sums, kept, [found[j] for j in kept], rules, is_image, n_rows)
    return columns_of(head, found, kept, location, scale, n_rows, sums.moments.n)


def check_observed(n_observed: np.ndarray, head: Cells) -> None:
    empty = [shown(head.names[j]) for j in np.flatnonzero(n_observed == 0)]
    if empty:
        raise ValueError(
            f"X has no observed value in column {', '.join(empty)}; drop it: there is nothing to learn from"
        )


def distinct_numbers(table: TableStatistics) -> np.ndarray:
    """The distinct numbers of all columns, sorted."""
    found = [column.values for column in table.columns if not column.is_text]
    return np.unique(np.concatenate([np.empty(0), *found]))


def is_on_grid(head: Cells, numbers: np.ndarray) -> bool:
    """As `is_grid` of rows in memory."""
    others = head.texts or head.orders or {"time", "bool"} & set(head.sorts)
    return not others and are_on_grid(numbers)


def two_rows(sums: RowSums, head: Cells) -> Cells:
    """Images that have the ends of every pixel, and a value between if there is any: what a yes/no pixel depends on."""
    values, ends = distinct_numbers(sums.table), [sums.moments.low, sums.moments.high]
    between = [np.full_like(ends[0], values[len(values) // 2])] if len(values) > 2 else []
    return replace(head, numbers=np.stack([*ends, *between]))


def given_of(table: TableStatistics, column: int) -> Given:
    head = table.head
    return Given(head.names[column], head.sorts[column], head.orders.get(column), table.columns[column])


def find_summed(given: Given, asked: Asked, is_frame: bool, atoms: bool) -> Found:
    """What a column is, as `find_scaled` finds it from its cells."""
    s, kind = given.statistics, asked.kind
    if kind == LEFT_OUT:
        return Found(LEFT_OUT)
    if given.sort == "time" or kind in ("date", "constant"):
        return find_column(given, Asked("date" if kind in ("auto", "number") else kind), False)
    if kind == "auto" and is_frame and is_identifier(given):
        return Found(LEFT_OUT)
    if s.n_distinct == 1 and not (kind == "yes/no" and not s.is_text):
        return find_column(given, Asked(), False)
    if kind == "auto":
        kind = kind_of(given, is_frame)
    if kind == "level":
        return Found(kind, levels_of(given, kind))
    if kind == "yes/no":
        return Found(kind, binary_levels(given))
    if kind == "count":
        return find_column(given, Asked(kind), False)
    if not (atoms or asked.atoms or is_frame):
        return Found(kind)
    found = find_column(given, Asked(kind, asked.atoms), atoms)
    if not is_frame:
        return Found(kind, atoms=found.atoms)
    return replace(found, is_whole=found.is_whole and given.sort != "bool")


def is_identifier(given: Given) -> bool:
    s = given.statistics
    if s.is_text:
        return is_mostly_distinct(s)
    return given.order is None and s.is_whole and is_running_number(s)


def kind_of(given: Given, is_frame: bool) -> str:
    s = given.statistics
    if given.sort == "bool" and is_frame:
        return "yes/no"
    if s.is_text or given.order is not None:
        return "yes/no" if s.n_distinct == 2 else "level"
    return "yes/no" if is_frame and s.values.tolist() == [0.0, 1.0] else "number"


def binary_levels(given: Given) -> tuple[Any, ...]:
    """The two values, or 0 and 1 for numbers between them."""
    s = given.statistics
    if given.sort == "bool":
        return (False, True)
    if s.is_text or given.order is not None:
        return levels_of(given, "yes/no")
    if s.low >= 0 and s.high <= 1:
        return plain(0.0, given.sort), plain(1.0, given.sort)
    if s.n_distinct != 2:
        wrong = s.low if s.low < 0 else s.high
        raise ValueError(
            f"X holds {plain(wrong, given.sort)} in column {shown(given.name)}, outside [0, 1]; scale it to [0, 1] or "
            'model it as a number (likelihood "gaussian")'
        )
    return plain(s.low, given.sort), plain(s.high, given.sort)


def scaling_of_sums(
    sums: RowSums, kept: Sequence[int], used: Sequence[Found], rules: ColumnRules, is_image: bool, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale of the columns that are kept: 0 and 1 where they have levels."""
    location, scale = np.zeros(len(kept)), np.ones(len(kept))
    places = [place for place, one in enumerate(used) if one.kind in ("number", "date")]
    if not places:
        return location, scale
    if is_image:
        own = sums.moments.some([kept[place] for place in places])
    else:
        own = beside(*(moments_of(sums, kept[place], used[place]) for place in places))
    if rules.is_common(is_image):
        common = own.together()
        location[places], scale[places] = common.mean, common.scale
        return location, scale
    location[places], scale[places] = own.mean, own.scale
    if rules.scaling == "pooled":
        scale[places] = pooled_scale(np.where(own.low < own.high, scale[places], 0.0), n_rows)
    return location, scale


def moments_of(sums: RowSums, column: int, found: Found) -> Moments:
    """Those of one column in its unit, without its atoms unless it has nothing else."""
    own, s = sums.moments.some([column]), sums.table.columns[column]
    if found.atoms:
        at_atom = np.isin(s.values, found.atoms)
        if s.counts[at_atom].sum() < s.n_observed:
            own = own.without(s.values[at_atom], s.counts[at_atom])
    if not found.unit:
        return own
    unit = SECONDS[found.unit]
    return Moments(own.n, own.mean / unit, own.squares / unit**2, own.low / unit, own.high / unit)


def beside(*parts: Moments) -> Moments:
    names = ("n", "mean", "squares", "low", "high")
    return Moments(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
