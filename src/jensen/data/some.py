"""Some columns of a table, and single values of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.columns import Columns
from jensen.data.dates import SECONDS, seconds_of
from jensen.data.levels import plain
from jensen.data.names import listed, shown

# Fields that are not one value per modelled column.
WHOLE = ("container", "n_rows", "left_out", "kept")


def some_columns(columns: Columns, places: Sequence[int]) -> Columns:
    """The modelled columns with these numbers, in this order, as a table of their own."""
    own = {field.name: getattr(columns, field.name) for field in fields(columns) if field.name not in WHOLE}
    chosen: dict[str, Any] = {
        name: value[list(places)] if isinstance(value, Tensor) else tuple(value[j] for j in places)
        for name, value in own.items()
    }
    return replace(columns, **chosen, left_out=(), kept=tuple(range(len(places))))


def row_of(columns: Columns, given: Any) -> Tensor:
    """One row (1, d) of codes from {column: value}, NaN in the other columns, of which there must be some."""
    if not isinstance(given, Mapping):
        raise ValueError(f"given={given!r} must be a dictionary of values by column, {example(columns)}")
    if not given:
        raise ValueError(f"given={{}} names no column; give the value of at least one, {example(columns)}")
    places = [place_of(columns, name) for name in given]
    if len(given) == len(columns.names):
        raise ValueError(f"given names all {len(given)} columns; leave at least one")
    x = torch.full((1, len(columns.names)), torch.nan, dtype=torch.float64)
    for place, value in zip(places, given.values(), strict=True):
        x[0, place] = code_of(columns, place, value)
    return x


def places_of(columns: Columns, names: Any) -> list[int]:
    """The numbers of modelled columns, each named once."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"columns={names!r} must be a list of columns, such as [{names!r}]")
    places = [place_of(columns, name) for name in names]
    if not places or len(set(places)) < len(places):
        raise ValueError(f"columns={list(names)!r} must name at least one column, and none twice")
    return places


def place_of(columns: Columns, name: Any) -> int:
    if name not in columns.names:
        raise ValueError(f"column {name!r} is not among {listed(columns.names)}")
    return columns.names.index(name)


def example(columns: Columns) -> str:
    """How a value of a column can be given."""
    view = columns.views[0]
    value = view.levels[0] if view.levels else round(min(max(0.0, view.low), view.high), 3)
    return f"such as {{{view.name!r}: {'date' if view.unit else repr(value)}}}"


def code_of(columns: Columns, place: int, value: Any) -> float:
    """The code of a value that a user gives for one column; an error names a value that the column cannot have."""
    name, levels, unit = shown(columns.names[place]), columns.levels[place], columns.units[place]
    if levels:
        if plain(value) not in levels:
            raise ValueError(f"{value!r} is not a level of column {name}; its levels are {listed(levels)}")
        return float(levels.index(plain(value)))
    try:
        code = float(seconds_of(np.array([value], dtype=object))[0]) / SECONDS[unit] if unit else float(value)
    except (TypeError, ValueError):
        code = np.nan
    if not np.isfinite(code):
        raise ValueError(f"{value!r} is not a value of column {name}, which holds {'dates' if unit else 'numbers'}")
    return code


def check_same_columns(old: Columns, new: Columns) -> None:
    """An error for rows whose columns, kinds or levels differ from those of the last fit."""
    if old.names != new.names:
        raise ValueError(f"warm_start: the last fit had the columns {listed(old.names)}, X has {listed(new.names)}")
    for j, name in enumerate(old.names):
        for what in ("kinds", "levels", "atoms", "units", "support"):
            before, now = (getattr(columns, what)[j] for columns in (old, new))
            if what == "support":
                before, now = tuple(before.tolist()), tuple(now.tolist())
            if before != now:
                raise ValueError(
                    f"warm_start: column {shown(name)} has other {what} than in the last fit, {now!r} and {before!r}; "
                    "fit a new model, or give rows with the same values"
                )
