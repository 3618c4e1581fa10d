"""Columns that are given and not modelled: ln p(x | covariates), with networks that see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.blocks import row_blocks
from jensen.data.columns import Columns
from jensen.data.expand import Plan, expand
from jensen.data.names import listed, shown
from jensen.data.network_columns import NetworkColumns, atom_pairs
from jensen.engines.sgd.streams import TrainingData
from jensen.engines.sgd.training_set import TrainingSet

# Rows whose covariates a fitted model keeps, to draw from, at most.
MOST_KEPT = 10_000


@dataclass(frozen=True)
class GivenView:
    """What the decoder sees of rows (b, D): the columns in some places, levels one-hot."""

    places: tuple[int, ...]
    kinds: tuple[str, ...]
    plan: Plan

    @classmethod
    def of(cls, columns: Columns, places: Sequence[int]) -> GivenView:
        kinds = tuple(columns.kinds[j] for j in places)
        return cls(tuple(places), kinds, Plan.of(kinds, [columns.n_levels[j] for j in places]))

    @property
    def n_expanded(self) -> int:
        return len(self.plan.source)

    def __call__(self, x: Tensor) -> Tensor:
        return expand(self.plan, self.kinds, x[:, list(self.places)])


def check_names(condition_on: Sequence[str | int] | None, table: Columns) -> list[str | int]:
    """The names of the covariates; an error for one that the table does not have."""
    asked = [] if condition_on is None else list(condition_on)
    if isinstance(condition_on, str):
        raise ValueError(
            f"condition_on={condition_on!r} must be a list of columns; write condition_on=[{condition_on!r}]"
        )
    for name in asked:
        if name not in table.table_names:
            raise ValueError(
                f"condition_on names the column {shown(name)}, which X does not have; its columns are "
                f"{listed(table.table_names)}"
            )
        if name not in table.names:
            raise ValueError(
                f"condition_on names the column {shown(name)}, which is left out because it names rows; give its kind "
                f"in columns, such as columns={{{name!r}: 'level'}}, or leave it out of condition_on"
            )
    if asked and len(set(asked)) >= len(table.names):
        raise ValueError(f"condition_on={asked!r} names all columns of X, so there is nothing to model; leave some out")
    return asked


def places_of(names: Sequence[str | int], parts: NetworkColumns) -> tuple[int, ...]:
    """Where covariates are among the columns of networks; a constant is nowhere."""
    numbers = {parts.table.names.index(name) for name in names}
    own = [i for i, j in enumerate(parts.places) if j in numbers]
    return (*own, *(pair.level for pair in atom_pairs(parts.inner) if pair.number in own))


def check_complete(x: Tensor, places: Sequence[int], parts: NetworkColumns, start: int = 0) -> None:
    """An error for rows (n, D) from a number on without a value of a covariate."""
    # A number is missing where it is an atom, but the level of its atom is not.
    pairs = {pair.number: pair.level for pair in atom_pairs(parts.inner)}
    for i in places:
        missing = x[:, pairs.get(i, i)].isnan()
        if missing.any():
            name = parts.table.names[parts.places[i]]
            raise ValueError(
                f"X has no value of {shown(name)} in {int(missing.sum())} rows, first in row "
                f"{start + int(missing.nonzero()[0, 0])}, but condition_on needs it in every row; fill it in, or leave "
                "these rows out"
            )


def check_known(unseen: Tensor, places: Sequence[int], parts: NetworkColumns) -> None:
    """An error for rows with a level of a covariate that was not in the training data; unseen (n, D) marks them."""
    for i in places:
        rows = unseen[:, i].nonzero()
        if len(rows) and i < len(parts.places):
            name = parts.table.names[parts.places[i]]
            raise ValueError(
                f"X has a level of {shown(name)} that the model was not trained on in {len(rows)} rows, first in row "
                f"{int(rows[0, 0])}, and condition_on needs known levels: {listed(parts.inner.levels[i])}"
            )


def check_training_set(data: TrainingData, places: Sequence[int], parts: NetworkColumns) -> None:
    """The same for rows to train on."""
    if not isinstance(data, TrainingSet):
        raise ValueError("condition_on takes no scan; give an array or a data frame")
    if data.events.is_in_memory:
        return check_complete(data.x, places, parts)
    for numbers in row_blocks(data.events.n_rows, len(data.events.columns.names)):
        check_complete(data.events.read(numbers), places, parts, int(numbers[0]))


def table_of(given: Mapping[str | int, Any], names: Sequence[str | int], columns: Columns, n: int) -> Any:
    """A table of n rows with the values of covariates, and no other values."""
    if not isinstance(given, Mapping) or set(given) != set(names):
        asked = list(given) if isinstance(given, Mapping) else given
        raise ValueError(f"given={asked!r} must have a value, or one per row, of each of {listed(names)}")
    values = {}
    for name, value in given.items():
        many = np.ndim(value) > 0
        if many and len(value) != n:
            raise ValueError(f"given has {len(value)} values of {shown(name)}; expected one, or {n}, one per row")
        values[name] = list(value) if many else [value] * n
    if not columns.is_frame:
        table = np.full((n, len(columns.table_names)), np.nan)
        for name, value in values.items():
            table[:, columns.table_names.index(name)] = value
        return table
    import pandas as pd

    return pd.DataFrame({name: values.get(name, [None] * n) for name in columns.table_names})


def kept_rows(x: Tensor, places: Sequence[int]) -> Tensor:
    """The covariates of training rows (n, D), of every so many of them if there are many."""
    return x[:: max(1, len(x) // MOST_KEPT), list(places)][:MOST_KEPT]


def draw_rows(kept: Tensor, places: Sequence[int], n: int, n_columns: int, generator: torch.Generator) -> Tensor:
    """n rows (n, D) with covariates of training rows, NaN elsewhere."""
    rows = torch.full((n, n_columns), torch.nan)
    rows[:, list(places)] = kept[torch.randint(len(kept), (n,), generator=generator)]
    return rows
