"""Lloyd's k-means steps over complete rows in memory: scikit-learn's compiled loop, from given centres.

    y_i = argmin_j ‖x_i - μ_j‖²,   μ_j = Σ_{y_i=j} w_i x_i / Σ_{y_i=j} w_i
A cluster that empties is moved to the row farthest from its centre. Large work runs in single precision until it
settles, then goes on in the data's own: a step costs half as much, and the last ones decide the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from jensen.runtime.progress import Bar

# Products in a step from which single precision repays the copy.
LARGE = 2 * 10**8
ROWS_AT_ONCE = 2**14


@dataclass(frozen=True)
class Partition:
    """Centres (K, d), the cluster of every row (n,), Σ_i w_i ‖x_i - μ_{y_i}‖² and the number of steps."""

    centres: np.ndarray
    labels: np.ndarray
    inertia: float
    n_iter: int


def lloyd(
    x: Any,
    weight: np.ndarray | None,
    centres: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    algorithm: str = "lloyd",
    may_overwrite: bool = False,
) -> Partition:
    """At most `max_iter` steps from centres (K, d), fewer when they move by less than `tol` × the mean variance.

    Args:
        x: complete rows (n, d), an array or a CSR matrix, float32 or float64.
        weight: of the rows (n,), or None.
        algorithm: "lloyd" or "elkan", scikit-learn's two ways to the same outcome.
        may_overwrite: let x be centred in place and put back, which saves a copy and may change its last digits.
    """
    n_before = 0
    if not issparse(x) and x.dtype == np.float64 and x.size * len(centres) >= LARGE:
        origin, scale = x.mean(0), max(float(np.abs(x[:: max(1, len(x) // 1000)] - x[0]).max()), np.finfo(float).tiny)
        coarse = compiled(
            in_single_precision(x, origin, scale),
            weight,
            ((centres - origin) / scale).astype(np.float32),
            # Below this the shifts of centres are rounding.
            max_iter,
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
    x: Any,
    weight: np.ndarray | None,
    starts: Sequence[np.ndarray],
    *,
    max_iter: int,
    tol: float,
    algorithm: str,
    may_overwrite: bool,
    progress: str | None,
) -> Partition:
    """The partition with the least inertia that `lloyd` reaches from one of the starts; `progress` names the bar."""
    best: Partition | None = None
    # A bar can only move between stretches of compiled steps.
    stretch = 20 if progress else max_iter
    for attempt, centres in enumerate(starts, 1):
        n_iter, settled = 0, False
        name = f"{progress} {attempt}/{len(starts)}" if progress else None
        with Bar(name, max_iter, unit="step") as bar:
            while not settled and n_iter < max_iter:
                n_steps = min(stretch, max_iter - n_iter)
                found = lloyd(
                    x, weight, centres, max_iter=n_steps, tol=tol, algorithm=algorithm, may_overwrite=may_overwrite
                )
                centres, n_iter, settled = found.centres, n_iter + found.n_iter, found.n_iter < n_steps
                bar.update(found.n_iter)
        # Runs to one optimum differ by rounding, and the first of them is kept, whatever the order of the rows.
        if best is None or found.inertia < best.inertia * (1 - 1e-9):
            best = replace(found, n_iter=n_iter)
    assert best is not None
    return best


def compiled(
    x: Any,
    weight: np.ndarray | None,
    centres: np.ndarray,
    max_iter: int,
    tol: float,
    algorithm: str,
    may_overwrite: bool,
) -> Partition:
    from sklearn.cluster import k_means  # slow to import, and only a fit needs it

    # Values too large to square are the caller's to refuse.
    with np.errstate(over="ignore", invalid="ignore"):
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


def in_single_precision(x: np.ndarray, origin: np.ndarray, scale: float) -> np.ndarray:
    out = np.empty(x.shape, dtype=np.float32)
    for start in range(0, len(x), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        out[part] = (x[part] - origin) / scale
    return out
