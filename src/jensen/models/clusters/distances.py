"""Matrices of dissimilarities: computed from rows in blocks, or given and checked.

    d(i, j) = d(j, i) ≥ 0 and finite,  d(i, i) = 0
Metrics are those of scikit-learn's `pairwise_distances`, which include scipy's and functions of two rows, and Gower's.
Computing a
matrix needs a few blocks of rows as additional memory; a given matrix is neither copied nor changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import _VALID_METRICS, PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.utils.validation import validate_data
from torch import Tensor

from jensen.data.container import Kind
from jensen.models.clusters.gower import gower_distances
from jensen.runtime.memory import need_memory

Metric = str | Callable[[np.ndarray, np.ndarray], float]
# scikit-learn still lists a metric that scipy has removed.
METRICS = frozenset(_VALID_METRICS) - {"wminkowski"}
TAKES_MISSING = ("nan_euclidean", "gower")
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean", "nan_euclidean")
# Up to this many features, differences are as fast as an expanded square, and they are exact.
NARROW = 32
NUMBERS_AT_ONCE = 2**18


def all_distances(x: np.ndarray, metric: Metric, params: dict[str, Any], dtype: str, names: np.ndarray) -> np.ndarray:
    """Distances (n, n) between rows x (n, d); error messages use their names."""
    n = len(x)
    need_memory(
        n**2 * np.dtype(dtype).itemsize,
        f"X with distances between all pairs of its {n} distinct rows",
        "fit a sample of the rows and `predict` the rest, or use KMeans",
    )
    matrix = np.empty((n, n), dtype=dtype)
    # A block is 1/64 of the matrix: this needs little memory and few calls.
    step = max(64, n // 64)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = cross_distances(x[start:stop], x[start:], metric, params).astype(dtype, copy=False)
        # Some metrics give rounding errors on the diagonal, and "russellrao" larger values.
        np.fill_diagonal(block, 0)
        check_block(block, metric, "rows {} and {} of X", names[start:], names[start:])
        matrix[start:stop, start:] = block
        matrix[stop:, start:stop] = block[:, stop - start :].T
    return matrix


def check_metric(metric: str) -> None:
    known = sorted({*METRICS, "gower", "precomputed"})
    if metric not in known:
        near = get_close_matches(metric, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"metric={metric!r} is unknown; {hint}there are {', '.join(known)}, or a function of two rows")


def blocks_to(x: np.ndarray, medoids: np.ndarray, metric: Metric, params: dict[str, Any]) -> Iterator[np.ndarray]:
    """Distances from rows x (n, d) to medoids (K, d) in blocks (b, K); the distance of a row to itself is 0."""
    to_itself = np.array([cross_distances(row[None], row[None], metric, params)[0, 0] for row in medoids])
    for rows in row_blocks(len(x), len(medoids)):
        block = cross_distances(x[rows], medoids, metric, params)
        # Boolean metrics and metrics of angles may give another value.
        for j in np.flatnonzero(to_itself != 0):
            same = (x[rows] == medoids[j]) | (np.isnan(x[rows]) & np.isnan(medoids[j]))
            block[same.all(1), j] = 0
        check_block(
            block, metric, "row {} of X and medoid {}", np.arange(rows.start, rows.stop), np.arange(len(medoids))
        )
        yield block


def given_blocks(matrix: np.ndarray, medoids: np.ndarray, name: str) -> Iterator[np.ndarray]:
    """The columns of the medoids (K,) in a given matrix, in blocks (b, K)."""
    for rows in row_blocks(len(matrix), len(medoids)):
        block = matrix[rows, medoids]
        check_entries(block, name, np.arange(rows.start, rows.stop), medoids)
        yield block


def row_blocks(n: int, width: int) -> Iterator[slice]:
    step = max(1, NUMBERS_AT_ONCE // width)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def cross_distances(a: np.ndarray, b: np.ndarray, metric: Metric, params: dict[str, Any]) -> np.ndarray:
    """Distances (n, m) from rows a (n, d) to rows b (m, d), unchecked."""
    if metric == "gower":
        return gower_distances(a, b, **params)
    if metric in ("euclidean", "l2") and a.shape[1] <= NARROW and not params:
        return cdist(a, b)
    if metric in EUCLIDEAN:
        # An expanded square loses the digits that all rows share, so the rows are centred.
        is_seen = ~np.isnan(b)
        middle = np.where(is_seen, b, 0).sum(0) / np.maximum(is_seen.sum(0), 1)
        a, b = a - middle, b - middle
    elif metric in PAIRWISE_BOOLEAN_FUNCTIONS:
        a, b = a != 0, b != 0
    found: np.ndarray = pairwise_distances(a, b, metric=metric, **params)
    return found


def spread_params(metric: Metric, x: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Parameters that "seuclidean" and "mahalanobis" take from the data: variances V, or the inverse covariance VI.

    The divisor is the total weight minus 1, as if each row occurred as often as its weight.
    """
    if metric not in ("seuclidean", "mahalanobis"):
        return {}
    away = x - np.average(x, axis=0, weights=weight)
    freedom = max(weight.sum() - 1, np.finfo(np.float64).tiny)
    if metric == "seuclidean":
        # A column with one value has no variance to divide by; between rows that share it the distance is 0 anyway.
        return {"V": np.where(np.ptp(x, axis=0) > 0, weight @ away**2 / freedom, 1.0)}
    return {"VI": np.linalg.pinv((weight * away.T) @ away / freedom)}


def read_distances(estimator: BaseEstimator, X: Any, *, reset: bool) -> tuple[np.ndarray, Kind]:
    """A given matrix in its own type, float32 or float64, and its kind."""
    is_tensor = isinstance(X, Tensor)
    array = X.detach().cpu().numpy() if is_tensor else X
    array = validate_data(estimator, array, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
    kind = Kind("torch", array.dtype.name, device=str(X.device)) if is_tensor else Kind("numpy", array.dtype.name)
    return array, kind


def check_distances(matrix: np.ndarray, name: str) -> None:
    """A given matrix must be square, finite, nonnegative and symmetric, with a diagonal of 0.

    The last two up to ten times the square root of machine precision, about the error of an expanded square.
    """
    n = len(matrix)
    if matrix.shape != (n, n):
        raise ValueError(
            f"{name} has shape {matrix.shape}, but metric='precomputed' needs the square matrix (n, n) of distances "
            "between all rows; give another metric if these are features"
        )
    check_entries(matrix, name, np.arange(n), np.arange(n))
    slack = 10 * math.sqrt(np.finfo(matrix.dtype).eps) * matrix.max()
    itself = matrix.diagonal()
    if itself.max() > slack:
        i = int(itself.argmax())
        raise ValueError(f"{name}[{i}, {i}] is {itself[i]}; the distance of a row to itself must be 0")
    step = 256
    for i in range(0, n, step):
        for j in range(i, n, step):
            gap = np.abs(matrix[i : i + step, j : j + step] - matrix[j : j + step, i : i + step].T)
            if gap.max() > slack:
                a, b = (int(place) for place in np.unravel_index(gap.argmax(), gap.shape))
                one, other = f"{name}[{i + a}, {j + b}]", f"{name}[{j + b}, {i + a}]"
                raise ValueError(
                    f"{one} is {matrix[i + a, j + b]}, but {other} is {matrix[j + b, i + a]}; distances must be "
                    f"symmetric: give ({name} + {name}.T) / 2 if their mean is meant"
                )


def check_entries(matrix: np.ndarray, name: str, rows: np.ndarray, columns: np.ndarray) -> None:
    """Every given distance must be finite and 0 or more; rows and columns are the numbers shown in errors."""
    # min and max return NaN if there is one, and need no temporary as large as the matrix.
    if not (matrix.min() >= 0 and matrix.max() < np.inf):
        i, j = first_bad(matrix)
        raise ValueError(f"{name}[{rows[i]}, {columns[j]}] is {matrix[i, j]}; a distance must be finite and 0 or more")


def check_block(block: np.ndarray, metric: Metric, pair: str, rows: np.ndarray, columns: np.ndarray) -> None:
    """Every distance computed by a metric must be finite and 0 or more."""
    if block.min() >= 0 and block.max() < np.inf:
        return
    i, j = first_bad(block)
    where = pair.format(rows[i], columns[j])
    if metric == "nan_euclidean" and np.isnan(block[i, j]):
        raise ValueError(
            f"{where} share no observed feature, so metric='nan_euclidean' has no distance for them; "
            "drop one or impute it"
        )
    raise ValueError(f"metric={metric!r} gives {block[i, j]} between {where}; a distance must be finite and 0 or more")


def first_bad(block: np.ndarray) -> tuple[int, int]:
    is_bad = ~((block >= 0) & (block < np.inf))
    row, column = np.argwhere(is_bad)[0].tolist()
    return row, column
