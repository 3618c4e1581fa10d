"""Rows of any shape: tables (n, d), images (n, h, w) or (n, c, h, w), memory-mapped arrays and torch Datasets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor
from torch.utils.data import Dataset

from jensen.data.cells import Cells, cells_of_numbers, check_finite
from jensen.data.container import Kind, Table, as_array, is_frame, read_items
from jensen.data.reader import known_names, read_rows
from jensen.runtime.messages import levels_inside


@dataclass(frozen=True)
class Given:
    """Rows before encoding; `rows` returns those with some numbers, in ascending order, read and checked.

    `numbers` are all of them (n, d), flat, if they are an array in memory.
    """

    n_rows: int
    shape: tuple[int, ...]
    kind: Kind
    rows: Callable[[np.ndarray], Cells]
    is_in_memory: bool
    can_have_missing: bool = True
    numbers: np.ndarray | None = None

    def subset(self, kept: np.ndarray) -> Given:
        if len(kept) == self.n_rows:
            return self
        rows = self.rows
        return replace(self, n_rows=len(kept), rows=lambda i: rows(kept[i]), numbers=None)


def open_rows(estimator: BaseEstimator, X: Table, *, reset: bool) -> Given:
    if isinstance(X, Dataset):
        return open_dataset(estimator, X, reset)
    if not is_frame(X) and (getattr(X, "ndim", 2) > 2 or isinstance(X, np.memmap)):
        return open_array(estimator, X, reset)
    cells = read_rows(estimator, X, reset=reset)
    cells.check_readable(dates=True)
    check_finite(cells, names=None if cells.is_frame else known_names(estimator))
    # Scores of data frames are in double precision, whatever the columns are in.
    kind = replace(cells.kind, dtype="float64") if cells.is_frame else cells.kind
    return Given(len(cells.numbers), cells.numbers.shape[1:], kind, cells.take, True, numbers=cells.numbers)


def open_array(estimator: BaseEstimator, X: Any, reset: bool) -> Given:
    """Images, and arrays that stay on disk: numbers that are not copied as a whole."""
    is_tensor = isinstance(X, Tensor)
    array = X if isinstance(X, np.memmap) else as_array(X)
    if array.dtype.kind not in "buif":
        raise ValueError(f"X holds {array.dtype}, and no numbers; encode it as numbers")
    if array.ndim in (2, 3, 4) and not len(array):
        raise ValueError(f"X has shape {array.shape}, and so no rows; give at least one")
    if array.ndim not in (2, 3, 4) or not len(array) or not math.prod(array.shape[1:]):
        raise ValueError(f"X has shape {array.shape}; expected rows (n, d) or images (n, h, w) or (n, c, h, w)")
    if reset and array.ndim == 4 and array.shape[-1] in (1, 3, 4) and array.shape[1] > 4:
        warnings.warn(
            f"X has shape {array.shape}, read as images with {array.shape[1]} channels; if the channels are the last "
            "axis, move them: np.moveaxis(X, -1, 1)",
            UserWarning,
            stacklevel=levels_inside(),
        )
    remember_width(estimator, array.shape[1:], reset)
    kind = Kind(
        "torch" if is_tensor else "numpy",
        "float64" if array.dtype == np.float64 else "float32",
        device=str(X.device) if is_tensor else "cpu",
    )
    is_in_memory, is_float = not isinstance(array, np.memmap), array.dtype.kind == "f"
    if is_in_memory and is_float:
        check_finite(cells_of_numbers(array.reshape(len(array), -1), kind))
    return Given(
        len(array),
        array.shape[1:],
        kind,
        lambda i: cells_of_block(array[run_of(i)], kind, i, is_checked=is_in_memory or not is_float),
        is_in_memory=is_in_memory,
        can_have_missing=is_float,
        numbers=array.reshape(len(array), -1) if is_in_memory else None,
    )


def run_of(rows: np.ndarray) -> slice | np.ndarray:
    """Rows with ascending numbers as a slice, which is read without a copy, if they follow one another."""
    is_run = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return slice(rows[0], rows[-1] + 1) if is_run else rows


def open_dataset(estimator: BaseEstimator, dataset: Any, reset: bool) -> Given:
    if not (hasattr(dataset, "__len__") and len(dataset)):
        raise ValueError("X is a Dataset without a length, or an empty one; give a map-style Dataset with rows")
    first = read_items(dataset, np.array([0]))
    shape = first.shape[1:]
    if len(shape) not in (1, 2, 3):
        raise ValueError(f"X is a Dataset with items of shape {shape}; expected (d,), (h, w) or (c, h, w)")
    remember_width(estimator, shape, reset)
    kind = Kind("numpy", "float32")
    return Given(
        len(dataset),
        shape,
        kind,
        lambda i: cells_of_block(read_items(dataset, i), kind, i),
        is_in_memory=False,
        can_have_missing=first.dtype.kind not in "bui",
    )


def remember_width(estimator: BaseEstimator, shape: tuple[int, ...], reset: bool) -> None:
    """What scikit-learn's reader does for tables."""
    if reset:
        estimator.n_features_in_ = math.prod(shape)
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_


def remember_range(estimator: BaseEstimator, images: np.ndarray | None) -> None:
    """The least and the greatest value of pixels, to which pictures of samples are clipped."""
    # Infinite values are refused before.
    low, high = (np.nan, np.nan) if images is None else (np.fmin.reduce(images, None), np.fmax.reduce(images, None))
    if low == low:
        estimator.pixel_range_ = (float(low), float(high))
    elif hasattr(estimator, "pixel_range_"):
        del estimator.pixel_range_


def cells_of_block(rows: np.ndarray, kind: Kind, numbers: np.ndarray, is_checked: bool = False) -> Cells:
    """Rows (b, ...) with these numbers, flat and in floating point."""
    flat = rows.reshape(len(rows), -1)
    flat = flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float32)
    cells = cells_of_numbers(flat, kind, numbers)
    if not is_checked:
        check_finite(cells)
    return cells
