"""Starting values of k-means.

Greedy k-means++ on distinct rows, followed by swaps that move a centre to a row far from all centres. This finds all
clusters that are well separated. A start must not cost more than the fit, so it uses a hundred rows per cluster, and
the swaps end when no row of a new draw lowers the loss. One start, or for very many rows the best of several, takes a
few k-means steps on these rows, and the fit continues from there. This costs little compared with steps over all rows,
and saves many of those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from jensen.data.container import Kind
from jensen.engines.em.seeding import (
    check_distinct,
    distinct_rows,
    draw_different,
    kmeans_plus_plus,
    swap_in,
    written_out,
)
from jensen.engines.em.tournament import tournament
from jensen.formulas.moments import Spread
from jensen.models.clusters.centres import Matrix, Pull
from jensen.models.clusters.kmeans_em import dense_rows
from jensen.models.clusters.metrics import Metric
from jensen.runtime.threads import threads_for

# Starts use at most this many distinct rows, or so many per cluster.
LIMIT, ROWS_PER_CLUSTER = 1000, 100
# The least number of rounds of swaps, and the k-means steps of a start on a part of the rows.
ROUNDS, STEPS = 2, 30
# The number of such starts if X has at least MANY times more rows, so that they cost almost nothing.
SEEDINGS, MANY = 3, 20

# From this many columns on, products of rows take longer than all else in a start.
WIDE = 64

Start = Callable[[torch.Generator], np.ndarray]


def centre_starts(x: Matrix, weight: np.ndarray | None, n_clusters: int, init: Any, metric: Metric) -> Start:
    """A function that draws starting centres (K, d) for x (n, d), an array with or without NaN or a CSR matrix."""
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
    complete = rows if is_sparse else filled(rows, mass)
    if init == "random":
        return lambda generator: dense_rows(complete[draw_different(mass, n_clusters, generator)])
    if is_sparse:
        from sklearn.cluster import kmeans_plusplus  # slow to import

        # scikit-learn seeds sparse rows. They are sorted by content and weighted, so only our generator matters.
        return lambda generator: dense_rows(
            kmeans_plusplus(complete, n_clusters, sample_weight=mass, random_state=numpy_state(generator))[0]
        )
    n_starts = 0 if is_everything else SEEDINGS if x.shape[0] >= MANY * len(rows) else 1
    return lambda generator: seeded(complete, mass, n_clusters, generator, n_starts, metric)


def seeded(
    rows: np.ndarray, mass: np.ndarray, n_clusters: int, generator: torch.Generator, n_starts: int, metric: Metric
) -> np.ndarray:
    """Centres (K, d) found by k-means++ and swaps; with n_starts > 0 the best of so many after a short run."""
    origin, scale, centred = np.zeros(rows.shape[1]), 1.0, rows
    if metric.of_differences:
        origin = mass @ rows / mass.sum()
        centred = rows - origin
        scale = float(max(centred.max(), -centred.min())) or 1.0
        centred /= scale
    # Single precision is enough for the start of a fit to more rows, and for wide ones, whatever their units.
    is_single = n_starts > 0 or rows.shape[1] >= WIDE
    centred = centred.astype(np.float32 if is_single else np.float64, copy=False)
    x, weight = torch.from_numpy(centred).T.contiguous(), torch.from_numpy(mass.astype(centred.dtype))

    def seeds() -> np.ndarray:
        # Each operation covers the rows and a few draws.
        with threads_for(10 * len(rows)):
            centres = x[:, kmeans_plus_plus(x, weight, n_clusters, generator, between=metric.seeding)]
            n_rounds = max(ROUNDS, n_clusters // 10)
            return np.asarray(swap_in(x, weight, centres, n_rounds, generator, metric.seeding).T.numpy())

    def run(centres: np.ndarray, n_steps: int) -> tuple[np.ndarray, float]:
        found = metric.run(centred, weight.numpy(), centres, max_iter=n_steps, tol=1e-4)
        return found.centres, found.inertia

    candidates = [seeds() for _ in range(max(1, n_starts))]
    _, centres = tournament(candidates, [(STEPS, 1)] if n_starts else [], run)
    return np.asarray(centres, dtype=np.float64) * scale + origin


def filled(rows: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Rows with missing values at the mean of their column."""
    missing = np.isnan(rows)
    if not missing.any():
        return np.asarray(rows, dtype=np.float64)
    return np.where(missing, Spread.of(torch.from_numpy(rows.T), torch.from_numpy(mass)).mean.numpy(), rows)


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


def init_of_varying(init: Any, rows: Matrix, kind: Kind, n_clusters: int, metric: Metric) -> Any:
    """`init` for the columns that vary; a function gets rows (n, d) with all of them."""
    if kind.constants is None or isinstance(init, str):
        return init

    def narrow(centres: Any) -> np.ndarray:
        return np.asarray(kind.narrow(checked_centres(centres, rows.shape[1], n_clusters), 1))

    if callable(init):
        return lambda x, k, random_state: narrow(init(metric.rows(rows), k, random_state=random_state))
    return narrow(init)


def drawn_to(pull: Pull, start: Start) -> Start:
    """Starting stores for the clusters of plain k-means, which are optimal if customers choose by the whole cost."""

    def drawn(generator: torch.Generator) -> np.ndarray:
        return (start(generator) + pull.weight * pull.location.numpy()) / (1 + pull.weight)

    return drawn
