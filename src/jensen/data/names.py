"""Names of columns: what a message shows, what a model keeps and what must be unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from numbers import Integral
from typing import Any

MOST_SHOWN = 10


def column_name(name: Any) -> str | int:
    """A name as `Columns` and messages have it."""
    return int(name) if isinstance(name, Integral) else str(name)


def name_to_keep(name: Any) -> Any:
    """A name as a data frame has it, if a model file can hold it."""
    kept = isinstance(name, (float, bytes, date)) and name == name
    return tuple(map(name_to_keep, name)) if isinstance(name, tuple) else name if kept else column_name(name)


def shown(name: Any) -> str:
    """A column's name in a message: quoted, or its number."""
    return repr(str(name)) if isinstance(name, str) else str(name)


def word_name(word: Any) -> str:
    """A word as people read it; one that has only a column's number is x0, x1, ..."""
    return word if isinstance(word, str) else f"x{word}"


def listed(values: Sequence[Any]) -> str:
    """The first values, for a message."""
    more = f" and {len(values) - MOST_SHOWN} more" if len(values) > MOST_SHOWN else ""
    return ", ".join(map(repr, values[:MOST_SHOWN])) + more


def check_names(names: Sequence[str | int], n_rows: int) -> None:
    """A data frame must have columns, each with a name of its own."""
    if not names:
        raise ValueError(f"X has {n_rows} rows and 0 columns; give at least one of each")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"X has more than one column of the name {', '.join(map(shown, twice))}; rename them")
