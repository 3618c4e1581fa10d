"""Columns of numbers that have one value in the training rows: a point of probability 1 beside the model of the others.

    ln P(x_j) = 0 at the value,  ln ε_j elsewhere,  ε_j = 1 / (n_j + 1) with n_j observed training entries
Such a column tells nothing about anything hidden, so a model is fitted to the other columns. Rows are narrowed to these
where they are read, and what comes back is widened where it is written.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from jensen.data.names import MOST_SHOWN, shown
from jensen.runtime.messages import levels_inside

# Rows that are looked at first: most columns vary among them.
N_FIRST = 64


@dataclass(frozen=True, eq=False)
class Constants:
    """The columns of a table that have one value.

    Args:
        values: (d,) float64, the value of a constant column, NaN for one that varies.
        n_observed: (d,) int64, training entries that were not missing.
    """

    values: Tensor
    n_observed: Tensor

    @cached_property
    def columns(self) -> Tensor:
        """The numbers of the constant columns (c,)."""
        return (~self.values.isnan()).nonzero().squeeze(1)

    @cached_property
    def varying(self) -> Tensor:
        """The numbers of the others (d - c,)."""
        return self.values.isnan().nonzero().squeeze(1)

    def narrowed(self, value: Any, *axes: int) -> Any:
        """The entries of varying columns along these axes, of a tensor, an array or a sparse matrix."""
        for axis in axes:
            if isinstance(value, Tensor):
                value = value.index_select(axis, self.varying)
            else:
                is_sparse = bool(issparse(value))
                value = value[:, self.varying.numpy()] if is_sparse else np.take(value, self.varying, axis)
        return value

    def widened(self, value: Tensor, *axes: int, fill: float | None = None) -> Tensor:
        """All columns along these axes, of values of the varying ones; others get their constant, or `fill`."""
        for axis in axes:
            shape = list(value.shape)
            shape[axis] = len(self.values)
            given = self.values if fill is None else torch.full_like(self.values, fill)
            wide = given.to(value).reshape([-1 if i == axis % value.ndim else 1 for i in range(value.ndim)])
            value = wide.expand(shape).clone().index_copy_(axis, self.varying.to(value.device), value)
        return value

    def of_columns(self, columns: Sequence[int]) -> Constants | None:
        """Of some columns; None if all of them vary."""
        found = Constants(self.values[list(columns)], self.n_observed[list(columns)])
        return found if len(found.columns) else None

    def differing(self, x: Any) -> Constants | None:
        """Those columns in which rows (n, d) of a sparse matrix hold another value, or none; None without any."""
        low, high = ends_of_sparse(x)
        values, seen = self.values.numpy(), np.isfinite(low)
        differs = torch.from_numpy(~seen | (low != values) | (high != values))
        found = Constants(torch.where(differs, self.values, torch.nan), self.n_observed)
        return found if len(found.columns) else None

    def beside(self, x: Any) -> Tensor:
        """The constant columns (n, c) of rows (n, d), which may be sparse."""
        numbers, is_sparse = self.columns.numpy(), bool(issparse(x))
        part = x[:, numbers].toarray() if is_sparse else np.asarray(x)[:, numbers]
        return torch.from_numpy(np.asarray(part, dtype=np.float64))

    def unseen(self, beside: Tensor, is_single: bool = False) -> Tensor:
        """Which of these entries (n, c) hold another value, in single precision if that is what either came in.

        A missing one holds none.
        """
        dtype = torch.float32 if is_single else torch.float64
        return (beside.to(dtype) != self.values[self.columns].to(dtype)) & ~beside.isnan()

    def log_unseen(self, unseen: Tensor) -> Tensor:
        """Σ_j ln ε_j over the entries (n, c) of each row that hold another value: (n,)."""
        return unseen.double() @ (1 / (self.n_observed[self.columns].double() + 1)).log()

    def differences(self, beside: Tensor) -> Tensor:
        """x - c (n, c) of entries and their constants, 0 for a missing one."""
        return (beside - self.values[self.columns]).nan_to_num(nan=0.0)

    def completed(self, beside: Tensor) -> Tensor:
        """Entries (n, c) as they are given, missing ones at their constant."""
        return torch.where(beside.isnan(), self.values[self.columns], beside)

    def refuse(self, beside: Tensor, unseen: Tensor, names: Sequence[str]) -> None:
        """An error for an entry that holds another value."""
        rows, places = unseen.nonzero(as_tuple=True)
        if len(rows):
            row, place = int(rows[0]), int(places[0])
            j = int(self.columns[place])
            raise ValueError(
                f"X holds {beside[row, place].item():g} in row {row}, column {names[j]}, which had only the "
                f"value {self.values[j].item():g} in the rows of fit; fit all rows together, or begin with partial_fit"
            )

    def record(self) -> dict[str, Tensor]:
        """Values that a file can hold."""
        return {"values": self.values, "n_observed": self.n_observed}

    @classmethod
    def from_record(cls, record: Any, d: int) -> Constants:
        """Undo `record` for d columns; an error for anything else."""
        is_record = isinstance(record, Mapping) and set(record) == {"values", "n_observed"}
        if is_record and all(isinstance(value, Tensor) and value.shape == (d,) for value in record.values()):
            values, n_observed = record["values"], record["n_observed"]
            are_typed = values.dtype == torch.float64 and n_observed.dtype == torch.int64
            if are_typed and not values.isinf().any() and (n_observed >= 0).all() and not values.isnan().all():
                return cls(values, n_observed)
        raise ValueError(f"constants={record!r} do not describe {d} columns; the file is damaged")


def find_constants(x: Any) -> Constants | None:
    """The constant columns of rows (n, d), an array or a CSR matrix, whose columns all have observed values.

    None if there is no such column. Values are constant if they are equal in every bit but for the sign of 0.
    """
    is_sparse = bool(issparse(x))
    low, high = (ends_of_sparse if is_sparse else ends)(x)
    is_constant = low == high
    if not is_constant.any():
        return None
    values = np.where(is_constant, low, np.nan).astype(np.float64)
    n_missing = np.zeros(len(values), dtype=np.int64)
    if is_sparse:
        n_missing += np.bincount(x.indices[np.isnan(x.data)], minlength=len(values))
    else:
        n_missing[is_constant] = np.isnan(x[:, is_constant]).sum(0)
    n_observed = np.where(is_constant, x.shape[0] - n_missing, 0)
    return Constants(torch.from_numpy(values), torch.from_numpy(n_observed))


def ends(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest observed value of columns (d,); of those that vary in the first rows, of these."""
    low, high = np.fmin.reduce(x[:N_FIRST]), np.fmax.reduce(x[:N_FIRST])
    start, stop = N_FIRST, 8 * N_FIRST
    while start < len(x) and len(suspects := np.flatnonzero(~(low < high))):
        part = x[start:stop, suspects]
        low[suspects] = np.fmin(low[suspects], np.fmin.reduce(part))
        high[suspects] = np.fmax(high[suspects], np.fmax.reduce(part))
        start, stop = stop, 8 * stop
    return low, high


def ends_of_sparse(x: Any) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.utils.sparsefuncs import min_max_axis  # slow to import

    low, high = min_max_axis(x, axis=0, ignore_nan=True)
    return np.asarray(low), np.asarray(high)


def warn_of_constants(constants: Mapping[str | int, Any]) -> None:
    """One warning for all constant columns, with their values; None for one that is not shown."""
    if constants:
        first = itertools.islice(constants.items(), MOST_SHOWN)
        found = [shown(name) if value is None else f"{shown(name)} ({value!r})" for name, value in first]
        more = f" and {len(constants) - MOST_SHOWN} more" if len(constants) > MOST_SHOWN else ""
        warnings.warn(
            f"X has columns with one value: {', '.join(found)}{more}; this value has probability 1, so "
            "the column changes no score",
            UserWarning,
            stacklevel=levels_inside(),
        )


def check_same_constants(before: Constants | None, now: Constants | None, names: Sequence[str]) -> None:
    """An error for a warm start where other columns vary than in the last fit."""
    last, own = (set() if one is None else set(one.columns.tolist()) for one in (before, now))
    if last != own:
        j = min(last ^ own)
        what = (
            "had one value in the last fit and varies now"
            if j in last
            else "varied in the last fit, and has one value now"
        )
        raise ValueError(f"warm_start: column {names[j]} {what}; fit with warm_start=False")
