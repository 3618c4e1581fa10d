"""What the rules found about the columns of a table, as its user reads it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from jensen.data.cells import Cells
from jensen.data.names import shown
from jensen.runtime.messages import levels_inside


def type_of(head: Cells, column: int) -> str:
    """The type of a column; that of the objects for dates that Python's types hold."""
    dtype = head.dtypes[column]
    return head.foreign.get(column, dtype) if dtype == "object" else dtype


def warn_of_left_out(is_text: Mapping[str | int, bool]) -> None:
    """One warning for columns, given by name, of text or of running numbers."""
    if is_text:
        first, own = next((name, "level" if text else "number") for name, text in is_text.items())
        warnings.warn(
            "X has columns that identify rows or hold free text, which are left out: "
            f"{', '.join(map(shown, is_text))}; keep one by its kind, such as columns={{{first!r}: {own!r}}}, "
            "or drop it",
            UserWarning,
            stacklevel=levels_inside(),
        )
