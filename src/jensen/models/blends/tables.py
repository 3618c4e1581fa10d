"""Tables of several models made one: cells averaged, rows chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from torch import Tensor

from jensen.data.container import as_array, fill_frame, fill_matrix, is_frame, is_missing, take


def averaged(X: Any, tables: Sequence[Any], share: np.ndarray) -> Any:
    """X with missing cells at the average of the tables, where model a counts for row i by its share (n, A).

    Values that are no numbers are those with the largest share. Whole numbers in all tables of a data frame remain
    whole.
    """
    if not is_frame(X):
        missing = np.isnan(as_array(X).astype(np.float64))
        mean = np.einsum("na,an...->n...", share, np.stack([as_array(table) for table in tables]))
        return fill_matrix(tables[0], missing, mean.astype(as_array(tables[0]).dtype))
    frame, filled = nw.from_native(X, eager_only=True), [nw.from_native(table, eager_only=True) for table in tables]
    missing = np.stack([is_missing(frame[:, j]) for j in range(frame.shape[1])], 1)
    return fill_frame(
        tables[0],
        missing,
        {j: average_of([one[:, j] for one in filled], share) for j in np.flatnonzero(missing.any(0)).tolist()},
    )


def average_of(columns: Sequence[Any], share: np.ndarray) -> np.ndarray:
    if all(column.dtype.is_numeric() for column in columns):
        cells = np.stack([column.cast(nw.Float64).to_numpy() for column in columns], 1)
        mean = np.asarray((share * cells).sum(1))
        if not (cells % 1 == 0).all():
            return mean
        whole = np.rint(mean)
        return np.asarray(whole if columns[0].dtype.is_float() else whole.astype(np.int64))
    cells = np.empty((len(share), len(columns)), dtype=object)
    for a, column in enumerate(columns):
        cells[:, a] = column.to_list()
    # The share of a value is that of all models that give it.
    votes = np.stack([(share * (cells == cells[:, [a]])).sum(1) for a in range(len(columns))], 1)
    return np.asarray(cells[np.arange(len(cells)), votes.argmax(1)])


def chosen(tables: Sequence[Any], model: np.ndarray) -> Any:
    """Row i of the table of model[i]; tables have the same rows."""
    n = len(model)
    return take(stacked(tables), model * n + np.arange(n)) if n else tables[0]


def stacked(tables: Sequence[Any]) -> Any:
    """The rows of all tables in one."""
    if is_frame(tables[0]):
        if hasattr(tables[0], "iloc"):
            import pandas as pd

            return pd.concat(tables)
        return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()
    if isinstance(tables[0], Tensor):
        return torch.cat(list(tables))
    return np.concatenate([as_array(table) for table in tables])
