"""Clusters from components: several Gaussians can describe one cluster that is not Gaussian.

    overlap of two clusters   o_ab = max(P(b | a), P(a | b))
    P(b | a) = Σ_i q_ia [i goes to b] / Σ_i q_ia, over the rows that go to a or b
The two clusters with the greatest overlap are merged, again and again, until the greatest is below a limit: what is
left are groups of rows that can be told apart. Hennig (2010), DEMP. The entropy of Baudry, Raftery, Celeux, Lo &
Gottardo (2010) falls with every merger, and is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy


@dataclass(frozen=True, eq=False)
class Merger:
    """Clusters made of components.

    Args:
        cluster_of: the cluster of every component (K,).
        overlap: the greatest overlap of two of these clusters, 0 for one.
        entropy: Σ_i H(q_i) over these clusters, in nats.
    """

    cluster_of: np.ndarray
    overlap: float
    entropy: float

    @property
    def n_clusters(self) -> int:
        return int(self.cluster_of.max()) + 1


def mergers(q: np.ndarray) -> list[Merger]:
    """From every component a cluster of its own to one cluster for all, by probabilities of components q (n, K)."""
    cluster_of = np.arange(q.shape[1])
    found = []
    while True:
        summed = merged(q, cluster_of)
        overlaps = overlap_of_pairs(summed)
        found.append(Merger(cluster_of, float(overlaps.max()), float(-xlogy(summed, summed).sum())))
        if summed.shape[1] == 1:
            return found
        # Where no clusters overlap, all are 0, as the diagonal is, and a cluster is not merged with itself.
        pairs = np.where(np.eye(len(overlaps), dtype=bool), -1.0, overlaps)
        a, b = sorted(np.unravel_index(int(pairs.argmax()), pairs.shape))
        cluster_of = np.where(cluster_of == b, a, cluster_of)
        cluster_of = np.unique(cluster_of, return_inverse=True)[1]


def merged(q: np.ndarray, cluster_of: np.ndarray) -> np.ndarray:
    """Probabilities of clusters (n, C) from those of components (n, K)."""
    summed = np.zeros((len(q), int(cluster_of.max()) + 1))
    np.add.at(summed.T, cluster_of, q.T)
    return summed


def overlap_of_pairs(q: np.ndarray) -> np.ndarray:
    """o_ab of every pair of clusters (C, C), 0 on the diagonal: the share of rows of one that go to the other."""
    n_clusters = q.shape[1]
    sent = np.zeros((n_clusters, n_clusters))
    label = q.argmax(1)
    for b in range(n_clusters):
        sent[:, b] = q[label == b].sum(0)
    kept = np.diag(sent)
    # Of the rows of a that go to a or b, the share that goes to b.
    both = kept[:, None] + sent
    share = np.divide(sent, both, out=np.zeros_like(sent), where=both > 0)
    np.fill_diagonal(share, 0.0)
    return np.maximum(share, share.T)


def chosen_merger(q: np.ndarray, limit: float, n_clusters: int | None = None) -> Merger:
    """The first merger with no overlap above the limit, or the one with so many clusters."""
    path = mergers(q)
    if n_clusters is not None:
        return next(one for one in path if one.n_clusters <= n_clusters)
    return next(one for one in path if one.overlap <= limit)
