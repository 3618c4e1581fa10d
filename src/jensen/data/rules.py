"""The rules by which a column is a number, a count, levels, yes/no, a date, a constant, or left out.

`learn_columns` states them; here they act on the statistics of one column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jensen.data.dates import SECONDS
from jensen.data.edits import LEFT_OUT, Asked
from jensen.data.levels import MOST_EXACT, MOST_LEVELS, plain
from jensen.data.names import listed, shown
from jensen.data.statistics import ColumnStatistics

# Below this many rows all values may well differ.
MANY_ROWS = 30
# Whole numbers are codes of levels if there are at most so many of them, and each has at least so many rows on average:
# in less than so wide a range, or in any range.
FEW_LEVELS, CODE_RANGE, ROWS_PER_LEVEL, ROWS_PER_CODE = 10, 20, 5, 30
# The greatest count, and the deviations that separate a Gaussian's mean from 0 if it has little mass below 0.
LARGEST_COUNT, FAR_FROM_ZERO = 1000, 2
# An atom has at least this share of the rows, at 0 as the least value that one, and so many times the rows of its
# neighbours, the two next values on either side.
LEAST_SHARE, LEAST_SHARE_AT_ZERO, TIMES_NEIGHBOURS = 0.1, 0.01, 5


@dataclass(frozen=True)
class Given:
    """One column of a table: its name, what its cells are, the values that its type lists, and its statistics."""

    name: str | int
    sort: str
    order: list[Any] | None
    statistics: ColumnStatistics


@dataclass(frozen=True)
class Found:
    """What a column is; as in `Columns`."""

    kind: str
    levels: tuple[Any, ...] = ()
    atoms: tuple[float, ...] = ()
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    is_whole: bool = False
    least: float = -math.inf
    greatest: float = math.inf
    support: tuple[float, float] = (-math.inf, math.inf)


def find_column(given: Given, asked: Asked, with_atoms: bool) -> Found:
    """What a column is, by its values and by what is asked of it; contradictions are errors."""
    s, name = given.statistics, shown(given.name)
    if asked.kind == LEFT_OUT:
        return Found(LEFT_OUT)
    if not s.n_observed:
        raise ValueError(f"X has no observed value in column {name}; drop it: there is nothing to learn from")
    check_one_type(given)
    kind = asked.kind if asked.kind != "auto" else kind_of(given)
    if s.n_distinct == 1 and not (kind == "yes/no" and has_both_truths(given)):
        return constant(given)
    if kind == "constant":
        raise refusal(given, kind, f"{s.n_distinct} distinct values")
    if kind in ("level", "yes/no"):
        return Found(kind, levels_of(given, kind))
    if kind == "date":
        if given.sort != "time":
            raise refusal(given, kind, "no dates or times", "; convert it first, for example by pd.to_datetime")
        unit = "days" if s.are_days else "seconds"
        ends = (s.low / SECONDS[unit], s.high / SECONDS[unit])
        return Found(kind, unit=unit, is_whole=s.is_whole, low=ends[0], high=ends[1])
    if kind == LEFT_OUT:
        return Found(kind)
    return number(given, kind, asked, with_atoms)


def kind_of(given: Given) -> str:
    """The kind of a column of which nothing is asked."""
    s = given.statistics
    if s.n_distinct == 1:
        return "constant"
    if given.sort == "time":
        return "date"
    if given.sort == "bool":
        return "yes/no"
    if s.is_text and is_mostly_distinct(s):
        return LEFT_OUT
    if s.is_text or given.order is not None:
        return "yes/no" if s.n_distinct == 2 else "level"
    if s.n_distinct == 2 and (has_rows(s) or (s.low, s.high) == (0, 1)):
        return "yes/no"
    if not s.is_whole:
        return "number"
    return LEFT_OUT if is_running_number(s) else kind_of_whole(s)


def is_mostly_distinct(s: ColumnStatistics) -> bool:
    """Whether texts are names of rows, or free text."""
    if s.is_full:
        return bool(np.median(s.counts) == 1)
    return s.n_observed >= MANY_ROWS and s.n_distinct > s.n_observed / 2


def is_running_number(s: ColumnStatistics) -> bool:
    """Whether whole numbers are all distinct and fill at least half of their range, in whatever order."""
    are_distinct = s.counts.max() == 1
    return bool(s.n_observed >= MANY_ROWS and are_distinct and s.high - s.low + 1 <= 2 * s.n_observed)


def has_rows(s: ColumnStatistics, per_level: int = ROWS_PER_LEVEL) -> bool:
    """Whether there are enough rows for levels, on average."""
    return s.n_observed >= per_level * s.n_distinct


def kind_of_whole(s: ColumnStatistics) -> str:
    is_narrow = s.high - s.low < CODE_RANGE
    if s.n_distinct <= FEW_LEVELS and has_rows(s, ROWS_PER_LEVEL if is_narrow else ROWS_PER_CODE):
        return "level"
    is_near_zero = s.mean < FAR_FROM_ZERO * s.std
    return "count" if s.low >= 0 and s.high <= LARGEST_COUNT and is_near_zero else "number"


def check_exact(given: Given) -> None:
    """An error for whole numbers that float64 cannot tell apart, where each is a level of its own."""
    s, name = given.statistics, shown(given.name)
    if given.sort == "int" and max(-s.low, s.high) >= MOST_EXACT:
        raise ValueError(
            f"X holds {int(s.high)} in column {name}, too large a number to distinguish from its neighbours; "
            "turn the column into text to use its values as levels"
        )


def constant(given: Given) -> Found:
    check_exact(given)
    s = given.statistics
    value = plain(s.values[0], "" if given.order is not None else given.sort)
    return Found("constant", (value,), unit="seconds" if given.sort == "time" else "")


def has_both_truths(given: Given) -> bool:
    """Whether a column of one value is of truth values, or of 0 or 1."""
    return given.sort == "bool" or (not given.statistics.is_text and given.statistics.values[0] in (0, 1))


def levels_of(given: Given, kind: str) -> tuple[Any, ...]:
    """The levels of a column, sorted, or in the order that its type defines."""
    s, name = given.statistics, shown(given.name)
    if given.sort == "time":
        raise refusal(given, kind, "dates or times", "; their kind is 'date'")
    if s.is_full or s.n_distinct > MOST_LEVELS:
        n = f"more than {s.n_distinct}" if s.is_full else s.n_distinct
        raise ValueError(
            f"X has {n} distinct values in column {name}, and a column of levels has at most {MOST_LEVELS}; merge "
            f"rare values, give columns={{{given.name!r}: 'number'}} if it holds numbers, or leave it out by "
            f"columns={{{given.name!r}: 'left out'}}"
        )
    if kind == "yes/no" and s.n_distinct == 1:
        return (False, True) if given.sort == "bool" else (plain(0.0, given.sort), plain(1.0, given.sort))
    if kind == "yes/no" and s.n_distinct != 2:
        raise refusal(given, kind, f"{s.n_distinct} distinct values")
    check_exact(given)
    if given.order is not None:
        values = set(s.values.tolist())
        return tuple(plain(value) for value in given.order if value in values)
    return tuple(plain(value, given.sort) for value in s.values)


def check_one_type(given: Given) -> None:
    if given.statistics.is_text:
        types = sorted({type(value).__name__ for value in given.statistics.values})
        if len(types) > 1:
            raise ValueError(
                f"X mixes values of the kinds {', '.join(types)} in column {shown(given.name)}; give values of one kind"
            )


def number(given: Given, kind: str, asked: Asked, with_atoms: bool) -> Found:
    """A column of numbers or counts, with its bounds and atoms."""
    s = given.statistics
    if given.sort == "time":
        raise refusal(given, kind, "dates or times", "; their kind is 'date'")
    if s.is_text:
        raise refusal(given, kind, f"text, such as {s.values[0]!r}")
    if kind == "count" and (s.low < 0 or not s.is_whole):
        wrong = s.low if s.low < 0 else s.values[s.values % 1 > 0][0]
        raise refusal(given, kind, f"{wrong:g}", "; a count is 0, 1, 2, ...")
    found = Found(kind, is_whole=s.is_whole, low=s.low, high=s.high)
    if kind == "count":
        return replace(found, least=0.0)
    low, high = asked.bounds
    if s.low < low or s.high > high:
        wrong = s.low if s.low < low else s.high
        raise refusal(given, asked.given_bounds, f"{wrong:g}", f", outside of its bounds {low:g} and {high:g}")
    atoms = atoms_of(given, asked, with_atoms)
    support = support_of(given, asked, atoms if with_atoms else ())
    return replace(found, atoms=atoms, least=low, greatest=high, support=support)


def atoms_of(given: Given, asked: Asked, with_atoms: bool) -> tuple[float, ...]:
    """The numbers with a probability of their own: those asked for, or values at given bounds and those of the rule."""
    s = given.statistics
    at_bounds = {bound for bound in (s.low, s.high) if bound in asked.bounds}
    if asked.atoms is not None and not at_bounds <= set(asked.atoms):
        raise refusal(
            given, "number", f"its bound {min(at_bounds):g}", ", which has no density there; add it to its atoms"
        )
    found = set(asked.atoms) if asked.atoms is not None else at_bounds
    if with_atoms and asked.atoms is None:
        more = found | frequent(s)
        found = more if s.n_distinct - len(more) >= 2 else found
    return tuple(sorted(found))


def support_of(given: Given, asked: Asked, atoms: tuple[float, ...]) -> tuple[float, float]:
    """The open interval in which numbers have a density: bounds that are given, and natural ones at these atoms."""
    s = given.statistics
    low = 0.0 if asked.low is None and s.low >= 0 and 0 in atoms else asked.bounds[0]
    high = 1.0 if asked.high is None and s.low >= 0 and s.high <= 1 and 1 in atoms else asked.bounds[1]
    return low, high


def frequent(s: ColumnStatistics) -> set[float]:
    """Values with many rows of their own, far more than the values next to them."""
    around = np.convolve(np.pad(s.counts, 2), [1, 1, 0, 1, 1], mode="valid")
    stands_out = s.counts >= TIMES_NEIGHBOURS * around
    share = s.counts / s.n_observed
    is_zero = (s.values == 0) & (s.low == 0) & (s.counts > 1)
    return set(s.values[stands_out & ((share >= LEAST_SHARE) | (is_zero & (share >= LEAST_SHARE_AT_ZERO)))].tolist())


def refusal(given: Given, kind: str | Mapping[str, float], holds: str, more: str = "") -> ValueError:
    """An error for a kind that the values of a column contradict."""
    name = shown(given.name)
    values = f" (values {listed(given.statistics.values.tolist())})" if "distinct" in holds else ""
    return ValueError(f"columns={{{name}: {kind!r}}}, but X holds {holds} in column {name}{values}{more}")
