"""What the rules found about the columns of a table, as its user reads it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from jensen.data.cells import Cells
from jensen.data.levels import MOST_LEVELS
from jensen.data.names import shown
from jensen.runtime.messages import levels_inside


def type_of(head: Cells, column: int) -> str:
    """The type of a column; that of the objects for dates that Python's types hold."""
    dtype = head.dtypes[column]
    return head.foreign.get(column, dtype) if dtype == "object" else dtype


def own_kind(is_text: bool, n_distinct: int) -> str | None:
    """The kind by which a column of identifiers can be kept; None for text of more values than a column can have."""
    return "number" if not is_text else "level" if n_distinct <= MOST_LEVELS else None


def warn_of_left_out(kinds: Mapping[str | int, str | None]) -> None:
    """One warning for columns of text or of running numbers: their names, and the kinds by which they can be kept."""
    if kinds:
        first = next(((name, kind) for name, kind in kinds.items() if kind), None)
        way_out = (
            f"drop them, or merge values: a column of levels has at most {MOST_LEVELS}"
            if first is None
            else f"keep one by its kind, such as columns={{{first[0]!r}: {first[1]!r}}}, or drop it"
        )
        warnings.warn(
            "X has columns that identify rows or hold free text, which are left out: "
            f"{', '.join(map(shown, kinds))}; {way_out}",
            UserWarning,
            stacklevel=levels_inside(),
        )
