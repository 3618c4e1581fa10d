"""Lloyd's algorithm for any distance that has a best centre: rows choose centres, then centres move, in turn.

    y_i = argmin_j d(x_i, c_j),   c_j = argmin_c Σ_{y_i=j} w_i d(x_i, c)
Both steps lower the loss Σ_i w_i d(x_i, c_{y_i}). An empty cluster moves to the row farthest from its centre.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from jensen.models.clusters.centres import Matrix
from jensen.models.clusters.lloyd import Partition

# Distances (n, K) from rows to centres; centres (K, d) from rows, weights, labels and the centres before.
Between = Callable[[Matrix, np.ndarray], np.ndarray]
Centring = Callable[[Matrix, np.ndarray | None, np.ndarray, np.ndarray], np.ndarray]

NUMBERS_AT_ONCE = 2**20


def alternate(
    x: Matrix,
    weight: np.ndarray | None,
    centres: np.ndarray,
    between: Between,
    best_centres: Centring,
    *,
    max_iter: int,
    least_move: float,
) -> Partition:
    """At most `max_iter` steps from centres (K, d); stops when their squared movement is at most `least_move`."""
    n_iter = 0
    labels, near = nearest(x, centres, between)
    while n_iter < max_iter:
        n_iter += 1
        moved = best_centres(x, weight, labels, centres)
        for empty in np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0):
            farthest = int(near.argmax())
            row = x[farthest] if isinstance(x, np.ndarray) else x[farthest].toarray()[0]
            moved[empty], near[farthest] = np.where(np.isnan(row), centres[empty], row), -1
        has_settled = np.square(moved - centres).sum() <= least_move
        centres = moved
        labels, near = nearest(x, centres, between)
        if has_settled:
            break
    return Partition(centres, labels, float(near.sum() if weight is None else near @ weight), n_iter)


def nearest(x: Matrix, centres: np.ndarray, between: Between) -> tuple[np.ndarray, np.ndarray]:
    """The nearest centre of every row and its distance, (n,) each."""
    found = [(block.argmin(1), block.min(1)) for block in (between(part, centres) for part in row_blocks(x, centres))]
    return np.concatenate([label for label, _ in found]), np.concatenate([near for _, near in found])


def row_blocks(x: Matrix, centres: np.ndarray) -> Iterator[Matrix]:
    """Blocks of rows whose values, and distances to centres, fit into the cache."""
    step = max(1, NUMBERS_AT_ONCE // max(len(centres), x.shape[1]))
    for start in range(0, x.shape[0], step):
        yield x[start : start + step]


def medians(x: np.ndarray, weight: np.ndarray | None, labels: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The weighted medians (K, d) of the rows of each cluster, over the observed values.

    A feature that is missing in all rows of a cluster takes the overall median; an empty cluster keeps its centre.
    """
    out = before.copy()
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(len(before) + 1))
    for j, (start, end) in enumerate(itertools.pairwise(ends)):
        if start < end:
            own = order[start:end]
            out[j] = weighted_median(x[own], None if weight is None else weight[own])
    if np.isnan(out).any():
        out = np.where(np.isnan(out), weighted_median(x, weight), out)
    return out


def weighted_median(x: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The median (d,) of each feature of rows (n, d): half of the observed weight lies on either side.

    Where a whole interval does so, it is the midpoint; NaN for a feature without observed values.
    """
    missing = np.isnan(x)
    if weight is None and not missing.any():
        return np.asarray(np.median(x, axis=0))
    order = np.argsort(x, axis=0, kind="stable")
    values = np.take_along_axis(x, order, 0)
    mass = np.ones(len(x)) if weight is None else weight
    cumulative = np.where(np.isnan(values), 0.0, mass[order]).cumsum(0)
    half, every = cumulative[-1] / 2, np.arange(x.shape[1])
    # Rounding of sums of weights must not turn an interval into one of its ends.
    lower = values[(cumulative >= half * (1 - 1e-12)).argmax(0), every]
    upper = values[(cumulative > half * (1 + 1e-12)).argmax(0), every]
    return np.asarray(lower + (upper - lower) / 2)
