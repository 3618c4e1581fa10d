"""Lloyd's algorithm for complete rows in memory: scikit-learn's compiled loop, from given centres.

    y_i = argmin_j ‖x_i - μ_j‖²,   μ_j = Σ_{y_i=j} w_i x_i / Σ_{y_i=j} w_i
An empty cluster moves to the row farthest from its centre. Large problems run in single precision until they converge,
then continue in the precision of the data: a step in single precision costs half as much, and only the last steps
decide the digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse

from jensen.models.clusters.centres import Matrix
from jensen.runtime.progress import Bar

# From this many products per step, single precision saves more than its copy of the data costs.
LARGE = 2 * 10**8
ROWS_AT_ONCE = 2**14
# With so many rows per cluster, none of a block's clusters is likely to be empty.
FULL_CLUSTERS = 50


@dataclass(frozen=True)
class Partition:
    """Centres (K, d), the cluster of every row (n,), Σ_i w_i ‖x_i - μ_{y_i}‖² and the number of steps."""

    centres: np.ndarray
    labels: np.ndarray
    inertia: float
    n_iter: int


def lloyd(
    x: Matrix,
    weight: np.ndarray | None,
    centres: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    algorithm: str = "lloyd",
    may_overwrite: bool = False,
) -> Partition:
    """At most `max_iter` steps from centres (K, d); stops when they move by less than `tol` × the mean variance.

    Args:
        x: complete rows (n, d), an array or a CSR matrix, float32 or float64.
        weight: of the rows (n,), or None.
        algorithm: "lloyd" or "elkan", with the same result.
        may_overwrite: centre x in place and restore it, which saves a copy and can change x by rounding.
    """
    n_before = 0
    if not issparse(x) and x.dtype == np.float64 and x.size * len(centres) >= LARGE:
        origin, scale = x.mean(0), max(float(np.abs(x[:: max(1, len(x) // 1000)] - x[0]).max()), np.finfo(float).tiny)
        coarse = compiled(
            in_single_precision(x, origin, scale),
            weight,
            ((centres - origin) / scale).astype(np.float32),
            max_iter,
            # Smaller movements of centres are rounding.
            max(tol, 1e-7),
            algorithm,
            True,
        )
        n_before, centres = coarse.n_iter, coarse.centres * scale + origin
        if n_before >= max_iter:
            n_before, max_iter = max_iter - 1, 1
        else:
            max_iter -= n_before
    fine = compiled(x, weight, centres, max_iter, tol, algorithm, may_overwrite)
    return Partition(fine.centres, fine.labels, fine.inertia, n_before + fine.n_iter)


def best_partition(
    run: Callable[[np.ndarray, int], Partition],
    starts: Sequence[np.ndarray],
    *,
    max_iter: int,
    progress: str | None,
) -> Partition:
    """The result with the least inertia over several starts.

    Args:
        run: takes centres and a number of steps to the partition after these, or after fewer if it has converged.
        starts: centres (K, d) each.
        max_iter: steps from each start.
        progress: names the bar.
    """
    best: Partition | None = None
    # The bar can only be updated between calls of the compiled loop.
    stretch = 20 if progress else max_iter
    for attempt, centres in enumerate(starts, 1):
        n_iter, is_done = 0, False
        name = f"{progress} {attempt}/{len(starts)}" if progress else None
        with Bar(name, max_iter, unit="step") as bar:
            while not is_done:
                n_steps = min(stretch, max_iter - n_iter)
                found = run(centres, n_steps)
                centres, n_iter = found.centres, n_iter + found.n_iter
                is_done = found.n_iter < n_steps or n_iter >= max_iter
                bar.update(found.n_iter)
        # Runs to the same optimum differ by rounding; the first is kept, so the order of the rows does not matter.
        if best is None or found.inertia < best.inertia * (1 - 1e-9):
            best = replace(found, n_iter=n_iter)
    assert best is not None
    return best


def compiled(
    x: Matrix,
    weight: np.ndarray | None,
    centres: np.ndarray,
    max_iter: int,
    tol: float,
    algorithm: str,
    may_overwrite: bool,
) -> Partition:
    """scikit-learn's loop."""
    # The caller reports values that are too large to square.
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(x, np.ndarray) and algorithm == "lloyd":
            return compiled_dense(x, weight, centres, max_iter, tol, may_overwrite)
        from sklearn.cluster import k_means  # slow to import, and only a fit needs it

        found = k_means(
            x,
            len(centres),
            init=centres.astype(x.dtype),
            n_init=1,
            sample_weight=None if weight is None else weight.astype(x.dtype),
            max_iter=max_iter,
            tol=tol,
            algorithm=algorithm,
            copy_x=not may_overwrite,
            return_n_iter=True,
        )
    return Partition(*found)


def compiled_dense(
    x: np.ndarray,
    weight: np.ndarray | None,
    centres: np.ndarray,
    max_iter: int,
    tol: float,
    may_overwrite: bool,
) -> Partition:
    """The same for an array, without the checks of `k_means`: on a thousand rows they take longer than the steps."""
    from sklearn.cluster._kmeans import _kmeans_single_lloyd  # slow to import
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    least_move = float(np.var(x, axis=0).mean()) * tol
    mean = x.mean(0)
    in_place = may_overwrite and x.flags.c_contiguous and x.flags.writeable
    centred = np.subtract(x, mean, out=x) if in_place else np.subtract(x, mean, order="C")
    labels, inertia, moved, n_iter = _kmeans_single_lloyd(
        centred,
        np.ones(len(x), dtype=x.dtype) if weight is None else weight.astype(x.dtype),
        np.subtract(centres.astype(x.dtype), mean, order="C"),
        max_iter=max_iter,
        tol=least_move,
        n_threads=_openmp_effective_n_threads(),
    )
    if in_place:
        x += mean
    return Partition(moved + mean, labels, float(inertia), n_iter)


def in_single_precision(x: np.ndarray, origin: np.ndarray, scale: float) -> np.ndarray:
    out = np.empty(x.shape, dtype=np.float32)
    for start in range(0, len(x), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        out[part] = (x[part] - origin) / scale
    return out


def nearest_sums(x: np.ndarray, weight: np.ndarray | None, centres: np.ndarray) -> tuple[np.ndarray, ...]:
    """Weight (K,), Σ w x (K, d) and Σ w ‖x‖² (K,) of the complete rows nearest to each centre, by the compiled step.

    x (n, d) is in rows of memory, float64.
    """
    from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense  # slow to import

    k = len(centres)
    mass = np.ones(len(x)) if weight is None else weight
    means, weights = np.zeros(centres.shape), np.zeros(k)
    labels = np.full(len(x), -1, dtype=np.int32)
    # The step that also averages moves far rows to empty clusters, which is not for a block to do.
    averages = len(x) > FULL_CLUSTERS * k
    lloyd_iter_chunked_dense(
        x, mass, np.ascontiguousarray(centres), means, weights, labels, np.zeros(k), 1, update_centers=averages
    )
    own = np.bincount(labels, mass, minlength=k)
    squares = np.bincount(labels, mass * np.einsum("ij,ij->i", x, x), minlength=k)
    if averages and (own > 0).all():
        return own, means * own[:, None], squares
    return own, np.stack([np.bincount(labels, mass * column, minlength=k) for column in x.T], 1), squares
