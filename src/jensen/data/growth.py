"""Columns that grow with batches of rows: levels that earlier batches did not have, counts of rows, observed ranges."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from jensen.data.cells import Cells
from jensen.data.codes import Codes
from jensen.data.columns import Columns
from jensen.data.dates import SECONDS
from jensen.data.levels import MOST_LEVELS, find_levels, plain
from jensen.data.names import shown
from jensen.data.present import ColumnView
from jensen.runtime.messages import own_filters


def grown_columns(columns: Columns, cells: Cells) -> Columns:
    """The columns after one more batch; its new levels stand behind the known ones.

    What would change the kind of a column is an error: a third value of yes/no, or a second one of a constant number.
    """
    columns.check_names(cells)
    if cells.is_sparse:
        n = cells.numbers.shape[0]
        return replace(columns, n_rows=columns.n_rows + n, n_observed=columns.n_observed + n)
    kinds, levels, whole = list(columns.kinds), list(columns.levels), list(columns.whole)
    categories, ranges = list(columns.categories), columns.ranges.clone()
    for place, view in enumerate(columns.views):
        column = columns.kept[place]
        if view.levels:
            new = new_levels(cells, column, view)
            kinds[place], levels[place] = "level" if new else view.kind, (*view.levels, *new)
            listed = map(plain, cells.orders.get(column, ()))
            categories[place] = tuple(dict.fromkeys((*view.categories, *listed))) if view.categories else ()
        elif column not in cells.texts:
            numbers = cells.numbers[:, column].astype(np.float64)
            whole[place] = view.is_whole and not bool((numbers % 1 > 0).any())
            ends = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
            low, high = (end / SECONDS.get(view.unit, 1) for end in ends)
            ranges[place] = torch.tensor([np.fmin(view.low, low), np.fmax(view.high, high)])
    observed = ~np.isnan(cells.numbers[:, list(columns.kept)])
    return replace(
        columns,
        kinds=tuple(kinds),
        levels=tuple(levels),
        whole=tuple(whole),
        categories=tuple(categories),
        ranges=ranges,
        n_rows=columns.n_rows + len(observed),
        n_observed=columns.n_observed + torch.from_numpy(observed.sum(0)),
    )


def seen_codes(columns: Columns, cells: Cells, *, is_learnt: bool = False) -> Codes:
    """The codes of rows of one of several sites; an error for a level that the model they share does not have."""
    with own_filters():
        warnings.simplefilter("ignore")
        codes = columns.codes(cells, is_learnt=is_learnt)
    if not bool(codes.unseen.any()):
        return codes
    row, place = codes.unseen.nonzero()[0].tolist()
    column = columns.kept[place]
    value = cells.texts[column][row] if column in cells.texts else cells.numbers[row, column]
    raise ValueError(
        f"X holds {plain(value)!r} in row {cells.row(row)}, column {shown(columns.names[place])}, which the model has "
        "not seen, and one site cannot change what all share; begin with a model that has seen it, for example after "
        "partial_fit with a row of every level"
    )


def new_levels(cells: Cells, column: int, view: ColumnView) -> tuple[Any, ...]:
    """The values of a column that are none of its levels, sorted; an error if it cannot have more."""
    numbers = cells.numbers[:, column]
    unknown = np.flatnonzero(find_levels(cells, column, view.levels) < 0)
    if not len(unknown):
        return ()
    if column in cells.texts:
        new: Sequence[Any] = list(dict.fromkeys(map(plain, cells.texts[column][unknown])))
    else:
        new = [plain(value, cells.sorts[column]) for value in np.unique(numbers[unknown])]
    row, name, known = int(unknown[0]), shown(view.name), view.levels
    value = plain(cells.texts[column][row]) if column in cells.texts else plain(numbers[row], cells.sorts[column])
    where = f"partial_fit: X holds {value!r} in row {cells.row(row)}, column {name}"
    if {type(one) for one in new} != {type(known[0])}:
        raise ValueError(
            f"{where}, and earlier batches held values of another type, such as {known[0]!r}; give values of one type"
        )
    if view.kind == "yes/no":
        raise ValueError(
            f"{where}, a third value beside {known[0]!r} and {known[1]!r}, which made the column yes/no; "
            f"give columns={{{view.name!r}: 'level'}} to the model, and a level may have more values later"
        )
    if view.kind == "constant" and not isinstance(known[0], str):
        raise ValueError(
            f"{where}, and the first batch held {known[0]!r} alone, which does not show whether these are levels or "
            "numbers; begin with a batch that has several values of the column"
        )
    if len(known) + len(new) > MOST_LEVELS:
        raise ValueError(
            f"{where}, a new level beside {len(known)} others, and a column of levels has at most {MOST_LEVELS}; "
            "merge rare values, or leave the column out"
        )
    return tuple(sorted(new))
