"""Rows held out at random, by what they hold and not by where they stand.

Every row has a number between 0 and 1 that is a hash of the ranks of its values in their columns, and is held out if
this is below the share. So the split does not depend on the order of the rows, on the units of the data, or on columns
with one value. Each copy of a row has a number of its own, and a row of weight 2 is two copies, one of which may be
held out while the other is trained on.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from jensen.data.container import as_array, is_frame, is_missing

# Larger weights are split into so many parts.
MOST_PARTS = 64


def split(X: Any, weight: np.ndarray | None, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights (n,) with which rows are trained on, and with which they are held out: they add up to the weights."""
    key = hashed(codes_of(X, weight), seed)
    size = np.ones(len(key)) if weight is None else np.asarray(weight, dtype=np.float64)
    n_parts = np.ceil(np.minimum(size, MOST_PARTS)).astype(np.int64)
    row = np.repeat(np.arange(len(key)), n_parts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    whole = np.maximum(1.0, size / MOST_PARTS)[row]
    part = np.minimum(whole, size[row] - place * whole)
    u = uniform(key[row] + copies(key[row]) * np.uint64(0x9E3779B97F4A7C15))
    is_held = u < share
    if not is_held.any():
        is_held[u.argmin()] = True
    elif is_held.all():
        is_held[u.argmax()] = False
    held = np.bincount(row, part * is_held, minlength=len(key))
    return size - held, held


def codes_of(X: Any, weight: np.ndarray | None) -> np.ndarray:
    """The rank of every value among those of its column (n, d) in rows that count; 0 is missing."""
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        columns = [column_of(frame[:, j]) for j in range(frame.shape[1])]
    else:
        columns = list(as_array(X).reshape(len(X), -1).T.astype(np.float64))
    counts = slice(None) if weight is None else np.asarray(weight) > 0
    return np.stack([ranks(column, column[counts]) for column in columns], 1)


def column_of(column: Any) -> np.ndarray:
    """Numbers of a column; NaN is missing. Values that are no numbers count by the order of their texts."""
    missing = is_missing(column)
    if column.dtype.is_numeric():
        numbers = column.cast(nw.Float64).to_numpy().astype(np.float64)
        return np.where(missing, np.nan, numbers)
    texts = np.array([str(value) for value in column.to_list()])
    return np.where(missing, np.nan, np.unique(texts, return_inverse=True)[1].astype(np.float64))


def ranks(column: np.ndarray, counted: np.ndarray) -> np.ndarray:
    known = np.unique(counted[~np.isnan(counted)])
    return np.where(np.isnan(column), 0, np.searchsorted(known, column) + 1)


def hashed(codes: np.ndarray, seed: int) -> np.ndarray:
    """A hash of every row (n,), equal for equal rows; columns with one value do not enter."""
    codes = codes[:, (codes != codes[:1]).any(0)].astype(np.uint64)
    factors = np.random.default_rng(seed).integers(2**64, size=codes.shape[1], dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        return np.asarray((codes * factors).sum(1, dtype=np.uint64) + np.uint64(seed))


def copies(key: np.ndarray) -> np.ndarray:
    """How many equal ones come before each (n,)."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    out = np.empty(len(key), dtype=np.uint64)
    out[order] = np.arange(len(key)) - np.repeat(starts, np.diff(np.r_[starts, len(key)]))
    return out


def uniform(key: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 (n,) by the finaliser of splitmix64: Steele, Lea & Flood (2014)."""
    with np.errstate(over="ignore"):
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((key ^ (key >> np.uint64(31))) >> np.uint64(11)) / 2.0**53
