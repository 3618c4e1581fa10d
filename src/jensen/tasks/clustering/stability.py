"""Whether the same clusters are found again in other rows.

The mixture is fitted anew, from its own start, to random halves of the rows, and assigns all rows. Agreement with the
clusters of the whole table:

    all clusters    the adjusted Rand index: 1 is the same partition, 0 is chance;  Hubert & Arabie (1985)
    one cluster     the greatest Jaccard index |A ∩ B| / |A ∪ B| with a cluster of the half, averaged;  Hennig (2007)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from jensen.data.container import n_rows, take
from jensen.evaluate.trial import FAILURES
from jensen.runtime.messages import own_filters
from jensen.runtime.progress import Bar
from jensen.tasks.clustering.merging import chosen_merger, merged

# Hennig's words for the mean Jaccard index of a cluster, by the least value that deserves each.
WORDS = {0.85: "very stable", 0.75: "stable", 0.6: "uncertain", 0.0: "unstable"}
# More rows make fits slow, and the means no better.
MOST_ROWS = 3000


@dataclass(frozen=True, eq=False)
class Stability:
    """Agreement with the clusters that random halves of the rows give.

    Args:
        agreement: the mean adjusted Rand index; NaN where there is one cluster only, or no half could be fitted.
        of_clusters: the mean Jaccard index of every cluster (C,).
        n_resamples: the number of halves.
    """

    agreement: float
    of_clusters: np.ndarray
    n_resamples: int

    @property
    def word(self) -> str:
        """The agreement in a word."""
        return word_of(self.agreement)


def word_of(value: float) -> str:
    """A word for an agreement between 0 and 1."""
    if np.isnan(value):
        return "not measured"
    return next(word for least, word in WORDS.items() if value >= least or least == 0.0)


def find_stability(
    model: Any, X: Any, labels: np.ndarray, n_resamples: int, limit: float, seed: int, bar: Bar
) -> Stability:
    """Fit copies of the model to halves of X and compare their clusters with the labels (n,), -1 where noise."""
    n_clusters, rng = int(labels.max()) + 1, np.random.default_rng(seed)
    rows = np.arange(n_rows(X))
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    seen, known = take(X, rows), labels[rows]
    agreement, jaccard = [], []
    for number in range(n_resamples if n_clusters > 1 else 0):
        half = np.sort(rng.permutation(len(rows))[: -(-len(rows) // 2)])
        found = labels_of_half(model, seen, half, n_clusters, limit, seed + number)
        if found is not None:
            agreement.append(adjusted_rand_score(known, found))
            jaccard.append(best_jaccard(known, found, n_clusters))
        bar.update()
    if not agreement:
        return Stability(np.nan, np.full(n_clusters, np.nan), 0)
    return Stability(float(np.mean(agreement)), np.mean(jaccard, 0), len(agreement))


def labels_of_half(model: Any, X: Any, half: np.ndarray, n_clusters: int, limit: float, seed: int) -> np.ndarray | None:
    """The clusters of all rows by a fit to half of them; None if it cannot be fitted."""
    with own_filters():
        warnings.simplefilter("ignore")
        try:
            fitted = clone(model).set_params(random_state=seed, warm_start=False).fit(take(X, half))
            q = np.asarray(fitted.predict_proba(X))
        except FAILURES:
            return None
    k = fitted.theta_.n_components
    merger = chosen_merger(q[:, :k], limit, n_clusters)
    return assigned(q, merger.cluster_of)


def assigned(q: np.ndarray, cluster_of: np.ndarray) -> np.ndarray:
    """The most probable cluster of every row, from probabilities of components and, if it is last, of noise: -1."""
    k = len(cluster_of)
    summed = np.column_stack([merged(q[:, :k], cluster_of), q[:, k:]])
    label = summed.argmax(1)
    return np.where(label > int(cluster_of.max()), -1, label)


def best_jaccard(labels: np.ndarray, others: np.ndarray, n_clusters: int) -> np.ndarray:
    """The greatest Jaccard index of every cluster (C,) with a cluster of another partition; noise is no cluster."""
    out = np.zeros(n_clusters)
    both = contingency_matrix(labels, others)
    union = both.sum(1, keepdims=True) + both.sum(0, keepdims=True) - both
    index = (both / union)[:, np.unique(others) >= 0]
    present = np.unique(labels)
    for place, label in enumerate(present):
        if label >= 0:
            out[label] = index[place].max(initial=0.0)
    return out
