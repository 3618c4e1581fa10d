"""Rows of any shape: tables (n, d), images (n, h, w) or (n, c, h, w), memory-mapped arrays and torch Datasets.

A network sees them flat, (b, d) in the units of `Columns`; the shape comes back at the end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor
from torch.utils.data import Dataset

from jensen.data.cells import Cells, cells_of_numbers, check_finite
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table, as_array, is_frame, read_items
from jensen.data.infer import learn_columns
from jensen.data.levels import find_grid
from jensen.data.names import shown
from jensen.data.reader import check_columns, known_names, read_rows, read_weights
from jensen.data.scaled import columns_of_numbers, with_grid
from jensen.runtime.messages import levels_inside

# Rows from which scaling and levels are learnt if the rows stay on disk; any scaling gives a true density.
N_LOOKED_AT = 50_000
# Rows encoded at a time, which bounds the memory that double precision needs.
BLOCK = 4_096
# Deviations from the mean of its column beyond which a number is refused: networks compute in single precision, where
# the square of 1e19 overflows, and the scale may be small.
FARTHEST = 1e12


@dataclass(frozen=True)
class Events:
    """Rows to be read by number.

    Args:
        n_rows: how many.
        shape: of one row, as the user has it.
        columns: what its entries are.
        kind: what the user gave.
        read: the rows with these numbers, encoded (b, d) in single precision.
        is_in_memory: whether all of them may be read at once.
        can_have_missing: whether their type has missing values; integers have none.
    """

    n_rows: int
    shape: tuple[int, ...]
    columns: Columns
    kind: Kind
    read: Callable[[np.ndarray], Tensor]
    is_in_memory: bool
    can_have_missing: bool = True

    def all(self) -> Tensor:
        """All rows (n, d)."""
        out = torch.empty((self.n_rows, len(self.columns.names)))
        for start in range(0, self.n_rows, BLOCK):
            numbers = np.arange(start, min(start + BLOCK, self.n_rows))
            out[start : start + BLOCK] = self.read(numbers)
        return out


def learn_events(
    estimator: BaseEstimator,
    X: Table,
    kinds: Any,
    scaling: str | None,
    sample_weight: Any = None,
    data_levels: Any = None,
) -> tuple[Events, Tensor | None, np.ndarray]:
    """Rows to train on, with what their columns are.

    Args:
        estimator: gets scikit-learn's `n_features_in_` and `feature_names_in_`, and for images `pixel_range_`.
        X: the rows.
        kinds: as in `learn_columns`.
        scaling: "feature", "common" for all entries together, or None: common for images.
        sample_weight: one per row; rows of weight 0 are left out.
        data_levels: as in `find_grid`, for rows of numbers.

    Returns:
        The rows with weight, their weights, None when all are 1, and a mask (n,) of them in X.
    """
    given = open_rows(estimator, X, reset=True)
    weight = read_weights(sample_weight, given.n_rows)
    kept = np.ones(given.n_rows, bool) if weight is None else (weight > 0).numpy()
    if weight is not None:
        given, weight = given.subset(np.flatnonzero(kept)), weight[weight > 0]
    numbers = np.arange(given.n_rows)
    if not given.is_in_memory and given.n_rows > N_LOOKED_AT:
        numbers = np.sort(np.random.default_rng(0).choice(given.n_rows, N_LOOKED_AT, replace=False))
    is_image, cells = len(given.shape) > 1, given.rows(numbers)
    remember_range(estimator, cells.numbers if is_image else None)
    columns = grid_columns(cells, data_levels, is_image)
    if columns is not None:
        return given.encoded(columns), weight, kept
    if is_image and kinds == "level":
        pixels = cells_of_numbers(cells.numbers.reshape(-1, 1), cells.kind)
        columns = repeated(learn_columns(pixels, kinds), len(cells.names))
    else:
        columns = learn_columns(cells, kinds, shared_scale=scaling == "common" or (scaling is None and is_image))
    return given.encoded(columns), weight, kept


def grid_columns(cells: Cells, data_levels: Any, is_image: bool) -> Columns | None:
    """The columns of rows that are all on one grid; None if they are not, or have a density."""
    if data_levels is None:
        return None
    if cells.texts:
        if data_levels != "auto":
            name = shown(cells.names[min(cells.texts)])
            raise ValueError(f"data_levels={data_levels} is for tables of numbers, and X has text in column {name}")
        return None
    if data_levels == "auto" and "bool" in cells.sorts:
        return None  # true and false are levels of their own, and no numbers
    grid = find_grid(cells.numbers, data_levels, is_image)
    if grid is None:
        return None
    check_columns(cells.numbers, [shown(name) for name in cells.names])
    return with_grid(columns_of_numbers(cells), grid)


def read_events(estimator: BaseEstimator, X: Table, columns: Columns, shape: tuple[int, ...]) -> Events:
    """Rows for a fitted model, which must have the shape of those it was fitted on."""
    return open_fitted(estimator, X, shape).encoded(columns)


def open_fitted(estimator: BaseEstimator, X: Table, shape: tuple[int, ...]) -> Given:
    """The same before encoding."""
    given = open_rows(estimator, X, reset=False)
    if given.shape != shape:
        raise ValueError(
            f"X has rows of shape {given.shape}, but the model was fitted on rows of shape {shape}; reshape X to "
            f"{('n', *shape)}".replace("'", "")
        )
    return given


def known_rows(
    estimator: BaseEstimator, X: Table, columns: Columns, shape: tuple[int, ...], takes_missing: bool = True
) -> np.ndarray:
    """Which rows (n,) hold only numbers, known levels and, if allowed, missing cells."""
    given = open_fitted(estimator, X, shape)
    blocks = np.split(np.arange(given.n_rows), range(BLOCK, given.n_rows, BLOCK))
    return np.concatenate([columns.are_known(given.rows(numbers), takes_missing).all(1) for numbers in blocks])


def repeated(column: Columns, n: int) -> Columns:
    """n columns like this one: all pixels have the levels that any of them has."""
    return Columns(
        tuple(range(n)),
        column.kinds * n,
        column.levels * n,
        column.location.repeat(n),
        column.scale.repeat(n),
        column.dtypes * n,
        column.container,
    )


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that networks see: images have channels."""
    return (1, *shape) if len(shape) == 2 else shape


@dataclass(frozen=True)
class Given:
    """Rows before encoding; `rows` returns those with some numbers, in ascending order, read and checked."""

    n_rows: int
    shape: tuple[int, ...]
    kind: Kind
    rows: Callable[[np.ndarray], Cells]
    is_in_memory: bool
    can_have_missing: bool = True

    def subset(self, kept: np.ndarray) -> Given:
        rows = self.rows
        return replace(self, n_rows=len(kept), rows=lambda i: rows(kept[i]))

    def encoded(self, columns: Columns) -> Events:
        def read(numbers: np.ndarray) -> Tensor:
            cells = self.rows(numbers)
            values = columns.encode(cells)
            refuse_far(values, columns, cells)
            return values.float()

        return Events(self.n_rows, self.shape, columns, self.kind, read, self.is_in_memory, self.can_have_missing)


def refuse_far(values: Tensor, columns: Columns, cells: Cells) -> None:
    """An error for encoded rows (b, d) with a value that networks cannot compute with."""
    far = (values.abs() > FARTHEST).nonzero()
    if len(far):
        i, j = far[0].tolist()
        name, location, scale = shown(columns.names[j]), columns.location[j].item(), columns.scale[j].item()
        raise ValueError(
            f"X holds {values[i, j].item() * scale + location:g} in row {cells.row(i)}, column {name}, whose mean is "
            f"{location:g} and deviation {scale:g}: the model's networks cannot compute with values more than "
            f"{FARTHEST:g} deviations away; correct the value, or make it missing"
        )


def open_rows(estimator: BaseEstimator, X: Table, *, reset: bool) -> Given:
    if isinstance(X, Dataset):
        return open_dataset(estimator, X, reset)
    if not is_frame(X) and (getattr(X, "ndim", 2) > 2 or isinstance(X, np.memmap)):
        return open_array(estimator, X, reset)
    cells = read_rows(estimator, X, reset=reset)
    cells.check_readable()
    check_finite(cells, names=None if cells.is_frame else known_names(estimator))
    # Scores of data frames are in double precision, whatever the columns are in.
    kind = replace(cells.kind, dtype="float64") if cells.is_frame else cells.kind
    return Given(len(cells.numbers), cells.numbers.shape[1:], kind, cells.take, True)


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
        lambda i: cells_of_block(array[i], kind, i, is_checked=is_in_memory or not is_float),
        is_in_memory=is_in_memory,
        can_have_missing=is_float,
    )


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
    if images is not None and (seen := images[np.isfinite(images)]).size:
        estimator.pixel_range_ = (float(seen.min()), float(seen.max()))
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
