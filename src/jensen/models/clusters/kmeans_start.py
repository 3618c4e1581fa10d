"""Where k-means starts.

Greedy k-means++ on the distinct rows, then swaps, which put a centre on a row far from all: where clusters are apart
this finds every one of them. Where rows are many, on some of them: the best of several such starts after a few k-means
steps there goes on, which costs little beside the steps over all rows, and saves many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from jensen.engines.em.seeding import (
    LIMIT,
    check_distinct,
    distinct_rows,
    draw_different,
    kmeans_plus_plus,
    swap_in,
    written_out,
)
from jensen.models.clusters.centres import Pull
from jensen.models.clusters.kmeans_em import dense_rows
from jensen.models.clusters.lloyd import lloyd
from jensen.runtime.threads import threads_for

__all__ = ["Start", "centre_starts", "checked_centres", "drawn_to"]

# Distinct rows to seed on, per cluster, when there are more than LIMIT.
ROWS_PER_CLUSTER = 40
# Swaps that are tried, at least; k-means steps on some of the rows; and starts, where these cost next to nothing since
# there are so many times more rows.
SWAPS, STEPS, SEEDINGS, MANY = 25, 30, 3, 20

Start = Callable[[torch.Generator], np.ndarray]


def centre_starts(x: Any, weight: np.ndarray | None, n_clusters: int, init: Any) -> Start:
    """Draws of starting centres (K, d) in the units of x (n, d), an array with or without NaN or a CSR matrix."""
    d = x.shape[1]
    n_wanted = max(LIMIT, ROWS_PER_CLUSTER * n_clusters)
    numbers, mass, is_everything = distinct_rows(x, weight, n_wanted, n_wanted)
    check_distinct("n_clusters", n_clusters, len(numbers))
    if callable(init):
        return lambda generator: checked_centres(
            init(x, n_clusters, random_state=numpy_state(generator)), d, n_clusters
        )
    if not isinstance(init, str):
        given = checked_centres(init, d, n_clusters)
        return lambda generator: given
    rows = written_out(x[numbers])
    is_sparse = bool(issparse(rows))
    complete = rows if is_sparse else np.where(np.isnan(rows), column_means(rows, mass), rows)
    if init == "random":
        return lambda generator: dense_rows(complete[draw_different(mass, n_clusters, generator)])
    if is_sparse:
        from sklearn.cluster import kmeans_plusplus  # slow to import

        # scikit-learn seeds sparse rows; in an order of their content, and by weight, ours alone decides.
        return lambda generator: dense_rows(
            kmeans_plusplus(complete, n_clusters, sample_weight=mass, random_state=numpy_state(generator))[0]
        )
    n_starts = 0 if is_everything else SEEDINGS if x.shape[0] >= MANY * len(rows) else 1
    return lambda generator: seeded(complete, mass, n_clusters, generator, n_starts)


def seeded(
    rows: np.ndarray, mass: np.ndarray, n_clusters: int, generator: torch.Generator, n_starts: int
) -> np.ndarray:
    """Centres (K, d) that k-means++ and swaps find; on a part of the rows the best of n_starts after a short run."""
    origin = np.average(rows, axis=0, weights=mass)
    # Where the outcome is the start of a search over more rows, single precision is plenty.
    centred = (rows - origin).astype(np.float32 if n_starts else np.float64)
    x, weight = torch.from_numpy(centred.T.copy()), torch.from_numpy(mass.astype(centred.dtype))

    def seeds() -> np.ndarray:
        # Every operation is over the rows and a few draws.
        with threads_for(10 * len(rows)):
            centres = x[:, kmeans_plus_plus(x, weight, n_clusters, generator)]
            found: np.ndarray = swap_in(x, weight, centres, max(SWAPS, n_clusters // 2), generator).T.numpy()
        return found

    if n_starts:
        runs = [lloyd(centred, weight.numpy(), seeds(), max_iter=STEPS, tol=1e-4) for _ in range(n_starts)]
        centres = min(runs, key=lambda run: run.inertia).centres
    else:
        centres = seeds()
    return np.asarray(centres + origin, dtype=np.float64)


def column_means(rows: np.ndarray, mass: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(rows)
    total = mass @ seen
    means: np.ndarray = mass @ np.nan_to_num(rows) / np.where(total > 0, total, 1.0)
    return means


def numpy_state(generator: torch.Generator) -> np.random.RandomState:
    return np.random.RandomState(int(torch.randint(2**31 - 1, (), generator=generator)))


def checked_centres(centres: Any, n_features: int, n_clusters: int) -> np.ndarray:
    given = np.array(centres.detach().cpu().numpy() if isinstance(centres, Tensor) else centres, dtype=np.float64)
    if given.ndim != 2 or len(given) != n_clusters:
        raise ValueError(
            f"The shape of the initial centers {given.shape} does not match the number of clusters {n_clusters}"
        )
    if given.shape[1] != n_features:
        raise ValueError(
            f"The shape of the initial centers {given.shape} does not match the number of features of the data "
            f"{n_features}"
        )
    if not np.isfinite(given).all():
        raise ValueError("init holds NaN or infinity; give finite centres")
    return given


def drawn_to(pull: Pull, start: Start) -> Start:
    """Where stores stand whose customers are those of plain centres: a rule that heeds the depot is plain k-means."""

    def drawn(generator: torch.Generator) -> np.ndarray:
        return (start(generator) + pull.weight * pull.location.numpy()) / (1 + pull.weight)

    return drawn
