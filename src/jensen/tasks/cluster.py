"""`jensen.cluster`: from a table to its clusters.

A mixture is a density, and its components are not yet clusters. The search finds the mixture: its structure and its
number of components by BIC, with and without noise. Components that overlap are then merged.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from jensen.data.container import as_array
from jensen.data.labels import encode_labels
from jensen.runtime.progress import Bar
from jensen.tasks.clustering.classes import choose_classes
from jensen.tasks.clustering.merging import chosen_merger
from jensen.tasks.clustering.result import Clusters
from jensen.tasks.clustering.rows import Scaled, find_rows, in_units, read_table
from jensen.tasks.clustering.search import EFFORTS, search
from jensen.tasks.clustering.stability import Stability, assigned, find_stability

# Two clusters are one if more than this share of the rows of one would go to the other.
MERGE_ABOVE = 0.05
LEAST_ROWS = 10


def cluster(
    table: Any,
    y: Any = None,
    *,
    n_clusters: int | None = None,
    effort: str = "normal",
    noise: bool = True,
    merge: bool = True,
    random_state: Any = 0,
    verbose: int = 0,
) -> Clusters:
    """Find the clusters of a table, and describe them.

    Args:
        table: a data frame with columns of any kind, numbers (n, d), or the path of a file; NaN is missing. Columns
            that identify rows, or have one value or none, are left out. The units of columns do not matter.
        y: labels of some rows: a class per row, -1, None or NaN where it is unknown. Then clusters are these classes,
            and rows without a label help to find them.
        n_clusters: the number of clusters; None finds it.
        effort: "quick" takes seconds, "normal" up to a minute or two, "thorough" longer.
        noise: whether to try one more component for rows that fit nowhere; their label is -1.
        merge: whether components that overlap make one cluster; without, every component is a cluster.
        random_state: seed; the same seed gives the same clusters.
        verbose: 1 shows a progress bar on a terminal.

    Ctrl-C ends the search, and the best mixture so far is kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> import jensen
        >>> found = jensen.cluster(load_iris(as_frame=True).data, effort="quick")
        >>> found.clusters["size"].tolist()
        [54, 50, 46]
        >>> print(found.clusters["sets_apart"][1].split(";")[0])
        petal length (cm) 1.46 instead of 4.91
    """
    if effort not in EFFORTS:
        raise ValueError(f"effort={effort!r} is not known; choose {', '.join(map(repr, EFFORTS))}")
    if n_clusters is not None and not (isinstance(n_clusters, Integral) and n_clusters > 0):
        raise ValueError(f"n_clusters={n_clusters!r} is no number of clusters; give 1 or more, or None to find it")
    is_seed = isinstance(random_state, Integral)
    seed = int(random_state if is_seed else check_random_state(random_state).randint(2**31 - 1))
    given = read_table(table)
    rows = find_rows(given)
    if rows.n_rows < max(LEAST_ROWS, 2 * (n_clusters or 1)):
        raise ValueError(
            f"table has {rows.n_rows} rows; {n_clusters or 'clusters'} cannot be told apart in fewer than "
            f"{max(LEAST_ROWS, 2 * (n_clusters or 1))}"
        )
    labels, classes = encode_labels(y, rows.n_rows)
    work = EFFORTS[effort]
    with Bar("cluster" if verbose else None, unit="step") as bar:
        if labels is not None:
            if n_clusters is not None:
                raise ValueError(f"n_clusters={n_clusters} and y: the clusters are the classes of y; leave one out")
            chosen = choose_classes(rows, labels.numpy(), classes, effort, seed, bar)
            p = as_array(chosen.model.predict_proba(rows.X))
            # Labels that are known stay.
            numbers = np.where(labels.numpy() >= 0, labels.numpy(), p.argmax(1))
            return Clusters(
                numbers,
                tuple(classes.tolist()),
                chosen.model,
                np.arange(len(classes)),
                chosen.candidate.structure,
                chosen.tried,
                Stability(np.nan, np.full(len(classes), np.nan), 0),
                chosen.accuracy,
                given,
                rows,
            )
        scaled = Scaled.of(rows)
        found = search(rows, scaled, work, n_clusters or 1, noise, seed, bar)
        q = as_array(found.fit.model.predict_proba(scaled.X))
        k = found.fit.model.theta_.n_components
        wanted = n_clusters if merge or n_clusters else k
        cluster_of = chosen_merger(q[:, :k], MERGE_ABOVE, wanted).cluster_of
        cluster_of = by_size(cluster_of, assigned(q, cluster_of))
        numbers = assigned(q, cluster_of)
        bar.note("stability")
        stability = find_stability(found.fit.model, scaled.X, numbers, work.n_resamples, MERGE_ABOVE, seed, bar)
        model = in_units(found.fit.model, rows, scaled)
    names = tuple(range(int(cluster_of.max()) + 1))
    return Clusters(numbers, names, model, cluster_of, found.fit.structure, found.tried, stability, np.nan, given, rows)


def by_size(cluster_of: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The clusters of components (K,), numbered from the one with most rows."""
    sizes = np.bincount(numbers[numbers >= 0], minlength=int(cluster_of.max()) + 1)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    found: np.ndarray = rank[cluster_of]
    return found
