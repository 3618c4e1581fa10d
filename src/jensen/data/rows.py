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
from sklearn.utils.validation import validate_data
from torch import Tensor
from torch.utils.data import Dataset

from jensen.data.cells import read_cells, shown
from jensen.data.columns import Columns
from jensen.data.container import Kind, as_array, check_columns, check_names, read_array, read_items, read_weights
from jensen.data.infer import learn_columns, with_grid
from jensen.data.levels import find_grid
from jensen.runtime.messages import levels_inside

__all__ = ["Events", "image_shape", "known_rows", "learn_events", "read_events"]

# Rows that scaling and levels are learnt from where the rows stay on disk; any scaling gives a true density.
N_LOOKED_AT = 50_000
# Rows encoded at a time: what they need in double precision is gone again before the next.
BLOCK = 4_096
# Deviations from the mean of its column beyond which a number is refused: networks compute in single precision, where
# the square of 1e19 overflows, and what it is divided by may be small.
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
        is_in_memory: whether reading all of them at once is meant.
        can_have_holes: whether their type knows NaN or the like; integers do not.
    """

    n_rows: int
    shape: tuple[int, ...]
    columns: Columns
    kind: Kind
    read: Callable[[np.ndarray], Tensor]
    is_in_memory: bool
    can_have_holes: bool = True

    def all(self) -> Tensor:
        """All rows (n, d)."""
        out = torch.empty((self.n_rows, len(self.columns.names)))
        for start in range(0, self.n_rows, BLOCK):
            numbers = np.arange(start, min(start + BLOCK, self.n_rows))
            out[start : start + BLOCK] = self.read(numbers)
        return out


def learn_events(
    estimator: BaseEstimator,
    X: Any,
    kinds: Any,
    scaling: str | None,
    sample_weight: Any = None,
    data_levels: Any = None,
) -> tuple[Events, Tensor | None, np.ndarray]:
    """Rows to learn from: what their entries are is learnt here.

    Args:
        estimator: gets scikit-learn's `n_features_in_` and `feature_names_in_`, and of images `pixel_range_`.
        X: the rows.
        kinds: of `learn_columns`.
        scaling: "feature", "common" for all entries together, or None: common for images.
        sample_weight: of the rows; those of weight 0 are left out.
        data_levels: of `find_grid`, for rows of numbers.

    Returns:
        The rows that count, their weights, None when all are 1, and which of all rows they are (n,).
    """
    given = open_rows(estimator, X, reset=True)
    weight = read_weights(sample_weight, given.n_rows)
    kept = np.ones(given.n_rows, bool) if weight is None else (weight > 0).numpy()
    if weight is not None:
        given, weight = given.subset(np.flatnonzero(kept)), weight[weight > 0]
    numbers = np.arange(given.n_rows)
    if not given.is_in_memory and given.n_rows > N_LOOKED_AT:
        numbers = np.sort(np.random.default_rng(0).choice(given.n_rows, N_LOOKED_AT, replace=False))
    is_image, rows = len(given.shape) > 1, given.rows(numbers)
    remember_range(estimator, rows if is_image else None)
    columns = grid_columns(rows, data_levels, is_image)
    if columns is not None:
        return given.encoded(columns), weight, kept
    if is_image and kinds == "categorical":
        columns = repeated(learn_columns(rows.reshape(-1, 1), kinds), rows.shape[1])
    else:
        columns = learn_columns(rows, kinds, shared_scale=scaling == "common" or (scaling is None and is_image))
    return given.encoded(columns), weight, kept


def grid_columns(rows: Any, data_levels: Any, is_image: bool) -> Columns | None:
    """The columns of rows that are all on one grid, if they are and are meant to be."""
    if data_levels is None:
        return None
    numbers, table = rows, rows[:1]
    if not isinstance(rows, np.ndarray):
        cells = read_cells(rows)
        if cells.texts:
            if data_levels != "auto":
                name = shown(cells.names[min(cells.texts)])
                raise ValueError(f"data_levels={data_levels} is for tables of numbers, and X has text in column {name}")
            return None
        if data_levels == "auto" and "bool" in cells.sorts:
            return None  # true and false are levels of their own, and no numbers
        numbers, table = cells.numbers, rows
    grid = find_grid(numbers, data_levels, is_image)
    if grid is None:
        return None
    check_columns(numbers, [str(j) for j in range(numbers.shape[1])])
    # Of an array nothing else need be learnt, and one row names its columns.
    return with_grid(learn_columns(np.zeros_like(table) if table is not rows else rows, "continuous"), grid)


def read_events(estimator: BaseEstimator, X: Any, columns: Columns, shape: tuple[int, ...]) -> Events:
    """Rows to answer about, which must have the shape of those learnt from."""
    return open_fitted(estimator, X, shape).encoded(columns)


def open_fitted(estimator: BaseEstimator, X: Any, shape: tuple[int, ...]) -> Given:
    """Rows before encoding, of the shape of those learnt from."""
    given = open_rows(estimator, X, reset=False)
    if given.shape != shape:
        raise ValueError(
            f"X has rows of shape {given.shape}, but the model was fitted on rows of shape {shape}; reshape X to "
            f"{('n', *shape)}".replace("'", "")
        )
    return given


def known_rows(
    estimator: BaseEstimator, X: Any, columns: Columns, shape: tuple[int, ...], takes_missing: bool = True
) -> np.ndarray:
    """Which rows (n,) hold only numbers, levels that the columns were learnt with, and missing cells if allowed."""
    given = open_fitted(estimator, X, shape)
    blocks = np.split(np.arange(given.n_rows), range(BLOCK, given.n_rows, BLOCK))
    return np.concatenate([columns.are_known(given.rows(numbers), takes_missing).all(1) for numbers in blocks])


def repeated(column: Columns, n: int) -> Columns:
    """n columns like this one: pixels share their levels, also those that only some of them take."""
    return replace(
        column,
        names=tuple(range(n)),
        kinds=column.kinds * n,
        levels=column.levels * n,
        dtypes=column.dtypes * n,
        location=column.location.repeat(n),
        scale=column.scale.repeat(n),
    )


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that networks see: images have channels."""
    return (1, *shape) if len(shape) == 2 else shape


@dataclass(frozen=True)
class Given:
    """Rows before encoding; `rows` gives those with some numbers, as a frame or flat (b, d)."""

    n_rows: int
    shape: tuple[int, ...]
    kind: Kind
    rows: Callable[[np.ndarray], Any]
    is_in_memory: bool
    can_have_holes: bool = True

    def subset(self, kept: np.ndarray) -> Given:
        rows = self.rows
        return replace(self, n_rows=len(kept), rows=lambda i: rows(kept[i]))

    def encoded(self, columns: Columns) -> Events:
        def read(numbers: np.ndarray) -> Tensor:
            values = columns.encode(self.rows(numbers))
            refuse_far(values, columns, numbers)
            return values.float()

        return Events(self.n_rows, self.shape, columns, self.kind, read, self.is_in_memory, self.can_have_holes)


def refuse_far(values: Tensor, columns: Columns, numbers: np.ndarray) -> None:
    """Of encoded rows (b, d) with these numbers."""
    far = (values.abs() > FARTHEST).nonzero()
    if len(far):
        i, j = far[0].tolist()
        name, location, scale = shown(columns.names[j]), columns.location[j].item(), columns.scale[j].item()
        raise ValueError(
            f"X holds {values[i, j].item() * scale + location:g} in row {numbers[i]}, column {name}, whose mean is "
            f"{location:g} and deviation {scale:g}: the model's networks cannot compute with values more than "
            f"{FARTHEST:g} deviations away; correct the value, or make it missing"
        )


def open_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Given:
    if isinstance(X, Dataset):
        return open_dataset(estimator, X, reset)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        container = type(X).__module__.split(".")[0]
        if len(X):
            check_names(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if not len(X):
            raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        names = [int(name) if isinstance(name, (int, np.integer)) else str(name) for name in X.columns]
        kind = Kind(container, "float64", getattr(X, "index", None), names)
        take = (lambda i: X.iloc[i]) if container == "pandas" else (lambda i: X[i.tolist()])
        return Given(len(X), (X.shape[1],), kind, take, True)
    n_axes = getattr(X, "ndim", 2)
    if n_axes > 2 or isinstance(X, np.memmap):
        return open_array(estimator, X, reset)
    array, kind = read_array(estimator, X, reset=reset, largest=np.inf)
    return Given(len(array), array.shape[1:], kind, lambda i: array[i[0] : i[-1] + 1] if is_run(i) else array[i], True)


def open_array(estimator: BaseEstimator, X: Any, reset: bool) -> Given:
    """Images, and arrays that stay on disk: numbers that are not copied as a whole."""
    is_tensor = isinstance(X, Tensor)
    array = X if isinstance(X, np.memmap) else as_array(X)
    if array.dtype.kind not in "buif":
        raise ValueError(f"X holds {array.dtype}, and no numbers; encode it as numbers")
    if array.ndim in (2, 3, 4) and not len(array):
        raise ValueError(f"X has shape {array.shape}, and so no rows; give one at least")
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
    return Given(
        len(array),
        array.shape[1:],
        kind,
        lambda i: as_numbers(array[i]),
        is_in_memory=not isinstance(array, np.memmap),
        can_have_holes=array.dtype.kind == "f",
    )


def open_dataset(estimator: BaseEstimator, dataset: Any, reset: bool) -> Given:
    if not (hasattr(dataset, "__len__") and len(dataset)):
        raise ValueError("X is a Dataset without a length, or an empty one; give a map-style Dataset with rows")
    first = read_items(dataset, np.array([0]))
    shape = first.shape[1:]
    if len(shape) not in (1, 2, 3):
        raise ValueError(f"X is a Dataset with items of shape {shape}; expected (d,), (h, w) or (c, h, w)")
    remember_width(estimator, shape, reset)
    return Given(
        len(dataset),
        shape,
        Kind("numpy", "float32"),
        lambda i: as_numbers(read_items(dataset, i)),
        is_in_memory=False,
        can_have_holes=first.dtype.kind not in "bui",
    )


def remember_width(estimator: BaseEstimator, shape: tuple[int, ...], reset: bool) -> None:
    """scikit-learn's own reader knows tables only."""
    if reset:
        estimator.n_features_in_ = math.prod(shape)
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_


def remember_range(estimator: BaseEstimator, images: np.ndarray | None) -> None:
    """The least and the greatest value of pixels: what a model draws beyond them is cut off in pictures."""
    if images is not None and (seen := images[np.isfinite(images)]).size:
        estimator.pixel_range_ = (float(seen.min()), float(seen.max()))
    elif hasattr(estimator, "pixel_range_"):
        del estimator.pixel_range_


def as_numbers(rows: np.ndarray) -> np.ndarray:
    """Flat rows (b, d) in floating point."""
    flat = rows.reshape(len(rows), -1)
    return flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float32)


def is_run(numbers: np.ndarray) -> bool:
    """Whether a slice would do, which copies nothing."""
    return bool(len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers))
