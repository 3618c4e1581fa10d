"""What a user asks of columns: `columns={"zip": "level", "gain": {"kind": "number", "atoms": [0], "low": 0}}`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from jensen.data.cells import Cells
from jensen.data.levels import ALL_KINDS, numbers_of_text
from jensen.data.names import column_name, listed, shown

LEFT_OUT = "left out"
CHOICES = ("auto", *ALL_KINDS, LEFT_OUT)
OPTIONS = ("kind", "atoms", "low", "high")


@dataclass(frozen=True)
class Asked:
    """What is asked of one column: its kind or "auto", its atoms and its bounds, None where these follow the rules."""

    kind: str = "auto"
    atoms: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Those that are given, ∓∞ where there is none."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    @property
    def given_bounds(self) -> dict[str, float]:
        """The finite ones among them, as a user writes them."""
        return {name: bound for name, bound in zip(("low", "high"), self.bounds, strict=True) if math.isfinite(bound)}


def asked_columns(columns: Any, names: Sequence[str | int]) -> list[Asked]:
    """One `Asked` per column, from a kind or options for all, or from a dictionary of these by name or number."""
    if columns is None:
        return [Asked()] * len(names)
    is_for_all = isinstance(columns, str) or (isinstance(columns, Mapping) and set(columns) & {"kind"} == {"kind"})
    if is_for_all and "kind" not in names:
        return [asked_of(columns, f"columns={columns!r}")] * len(names)
    if not isinstance(columns, Mapping):
        raise ValueError(f"columns={columns!r} must be a kind, or a dictionary of kinds by column, or None")
    # A whole number is a name first, and otherwise the number of a column.
    place: dict[str | int, int] = dict(zip(range(len(names)), range(len(names)), strict=True))
    place |= {name: j for j, name in enumerate(names)}
    asked = [Asked()] * len(names)
    for key, value in columns.items():
        name = column_name(key)
        if name not in place:
            raise ValueError(
                f"columns names the column {shown(name)}, which X does not have; its columns are {listed(names)}"
            )
        asked[place[name]] = asked_of(value, f"columns={{{key!r}: {value!r}}}")
    return asked


def asked_of(value: Any, where: str) -> Asked:
    options = {"kind": value} if isinstance(value, str) else value
    if not isinstance(options, Mapping) or not set(options) <= set(OPTIONS):
        raise ValueError(f"{where} must be one of the kinds {CHOICES}, or a dictionary of {', '.join(OPTIONS)}")
    kind = options.get("kind", "number" if set(options) & {"atoms", "low", "high"} else "auto")
    if kind not in CHOICES:
        raise ValueError(f"{where} asks for {kind!r}; choose one of {', '.join(map(repr, CHOICES))}")
    if kind not in ("number", "auto") and len(options) > 1:
        raise ValueError(f"{where} has bounds or atoms, which only a column of the kind 'number' can have")
    low, high = options.get("low"), options.get("high")
    atoms = [given] if isinstance(given := options.get("atoms"), Real) else given
    for bound in (low, high, *(() if atoms is None else atoms)):
        if bound is not None and not (isinstance(bound, Real) and math.isfinite(bound)):
            raise ValueError(f"{where} holds {bound!r}; bounds and atoms must be finite numbers")
    asked = Asked(
        kind,
        None if atoms is None else tuple(sorted({float(atom) for atom in atoms})),
        # A bound that is given as None is none, not even a natural one.
        (-math.inf if low is None else float(low)) if "low" in options else None,
        (math.inf if high is None else float(high)) if "high" in options else None,
    )
    if asked.bounds[0] >= asked.bounds[1]:
        raise ValueError(f"{where} has low={low} and high={high}; low must be less than high")
    return asked


def with_asked_numbers(cells: Cells, asked: Sequence[Asked]) -> Cells:
    """The same cells with text as numbers where numbers are asked for; text that writes out none is an error."""
    chosen = [j for j in cells.texts if asked[j].kind in ("number", "count")]
    if not chosen:
        return cells
    numbers = cells.numbers.astype(np.float64)
    for j in chosen:
        numbers[:, j] = numbers_of_text(cells, j)
    return replace(
        cells,
        numbers=numbers,
        texts={j: texts for j, texts in cells.texts.items() if j not in chosen},
        orders={j: order for j, order in cells.orders.items() if j not in chosen},
        sorts=tuple("float" if j in chosen else sort for j, sort in enumerate(cells.sorts)),
    )
