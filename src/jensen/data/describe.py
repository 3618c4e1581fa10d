"""Columns as a table of text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from jensen.data.dates import SECONDS, what_is
from jensen.data.names import listed

MOST_LINES, MOST_LETTERS = 40, 44
HEAD = ("column", "kind", "values", "bounds", "atoms", "missing", "measure")


def describe(record: Mapping[str, Any], measure: tuple[str, ...]) -> str:
    """A line per column: name, kind, levels or range, bounds if some have any, atoms, missing share, measure."""
    names = record["names"]
    lines = [HEAD] + [line(record, j, measure[j]) for j in range(min(len(names), MOST_LINES))]
    if not any(cells[HEAD.index("bounds")] for cells in lines[1:]):
        lines = [tuple(cell for cell, head in zip(cells, HEAD, strict=True) if head != "bounds") for cells in lines]
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(size) for cell, size in zip(cells, width, strict=True)).rstrip() for cells in lines]
    if len(names) > MOST_LINES:
        text.append(f"... and {len(names) - MOST_LINES} more columns")
    if record["left_out"]:
        text.append(f"left out: {listed(record['left_out'])}")
    return "\n".join(text)


def line(record: Mapping[str, Any], j: int, measure: str) -> tuple[str, ...]:
    n_rows, n_observed = record["n_rows"], int(record["n_observed"][j])
    missing = f"{1 - n_observed / n_rows:.1%}" if n_rows else ""
    atoms = ", ".join(f"{atom:g}" for atom in record["atoms"][j])
    bounds = bounds_text(*record["support"][j].tolist())
    return str(record["names"][j]), record["kinds"][j], values_of(record, j), bounds, atoms, missing, measure


def bounds_text(low: float, high: float) -> str:
    """Bounds of a density, which does not reach them."""
    if np.isfinite([low, high]).all():
        return f"{low:g} to {high:g}"
    return f"above {low:g}" if np.isfinite(low) else f"below {high:g}" if np.isfinite(high) else ""


def values_of(record: Mapping[str, Any], j: int) -> str:
    """The levels of a column, or the range of its numbers, or their mean and deviation if these are what is known."""
    kind, unit = record["kinds"][j], record["units"][j]
    levels = record["levels"][0 if kind == "grid" else j]
    if levels and not unit:
        few = ", ".join(f"{level:g}" if isinstance(level, float) else str(level) for level in levels)
        return few if len(few) <= MOST_LETTERS else f"{len(levels)} levels: {few[: MOST_LETTERS - 14]}..."
    low, high = (levels[0], levels[0]) if levels else record["ranges"][j].tolist()
    if not np.isfinite([low, high]).all():
        return f"{float(record['location'][j]):g} ± {float(record['scale'][j]):g}"
    if unit:
        ends = [time_text(value * SECONDS[unit], what_is(record["dtypes"][j])) for value in dict.fromkeys((low, high))]
        return " to ".join(ends) + ("" if levels else f", in {unit}")
    return f"{low:g} to {high:g}"


def time_text(seconds: float, what: str) -> str:
    passed = timedelta(seconds=seconds)
    if what == "timedelta":
        return str(passed)
    moment = datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + passed
    if what == "time":
        return str(moment.time())
    return str(moment.date() if seconds % SECONDS["days"] == 0 else moment)
