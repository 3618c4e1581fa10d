"""A local search for clusters with size limits: rows move between clusters.

    flows f_ji:  N_j = Σ_i f_ji;  M_j and F_j: weight and sum of values over the rows where a feature is observed
    cost with the best centres:  Σ w x² + Σ_j φ_j,   φ_j = λN_j‖x_D‖² - Σ_features (F_j + λN_j x_D)² / (M_j + λN_j)
At a fixed point of k-means the flows are optimal for the centres and the centres for the flows. Moving a row, or
swapping two, can still lower the cost, because both centres follow (Hartigan & Wong 1979, here with limits).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Rows of each cluster of a pair that are tried: those for which the other centre costs least more.
CANDIDATES = 40
# Largest number of passes over all pairs of clusters.
PASSES = 50


@dataclass(frozen=True)
class Clusters:
    """Rows and their clusters.

    Args:
        x: (n, d), 0 where missing.
        seen: 1 for observed entries and 0 for missing ones (n, d).
        flows: the weight of each row in each cluster (K, n).
        limits: least and most weight of a cluster.
        location: of the depot (d,); any value without one.
        pull: the depot's weight λ, 0 without one.
    """

    x: np.ndarray
    seen: np.ndarray
    flows: np.ndarray
    limits: tuple[float, float]
    location: np.ndarray
    pull: float

    def phi(self, size: np.ndarray, mass: np.ndarray, first: np.ndarray) -> np.ndarray:
        """φ (...) from sizes (...), and masses and sums (..., d)."""
        pulled = self.pull * size[..., None]
        mass, first = mass + pulled, first + pulled * self.location
        squared = np.square(first) / np.where(mass > 0, mass, 1.0)
        return np.asarray((pulled * np.square(self.location) - squared).sum(-1))

    def centre(self, j: int) -> np.ndarray:
        """The best centre (d,) of cluster j; for a feature that is never observed, the depot's value or 0."""
        pulled = self.pull * self.flows[j].sum()
        mass = self.flows[j] @ self.seen + pulled
        return np.asarray((self.flows[j] @ self.x + pulled * self.location) / np.where(mass > 0, mass, 1.0))

    def willing(self, a: int, b: int) -> np.ndarray:
        """Rows of a for which b costs least more, by distance to the current centres."""
        rows = np.flatnonzero(self.flows[a] > 0)
        near, far = (self.seen[rows] * np.square(self.x[rows] - self.centre(j)) for j in (a, b))
        return np.asarray(rows[(far - near).sum(1).argsort(kind="stable")[:CANDIDATES]])


def search_moves(clusters: Clusters) -> Clusters:
    """Clusters within the limits that cost no more; the same object if no move lowers the cost."""
    k = len(clusters.flows)
    for _ in range(PASSES):
        before = clusters
        for a in range(k):
            for b in range(a + 1, k):
                clusters = exchanged(clusters, a, b)
        if clusters is before:
            break
    return clusters


def exchanged(clusters: Clusters, a: int, b: int) -> Clusters:
    """The clusters after the best move between a and b, of one row or of two in opposite directions; the same object if
    none lowers the cost.
    """
    there, back = clusters.willing(a, b), clusters.willing(b, a)
    flows, x, seen = clusters.flows, clusters.x, clusters.seen
    sizes, (least, most) = flows[[a, b]].sum(1), clusters.limits
    # The last entry of each stands for no row: the other row moves alone, as far as the limits allow.
    out, into = np.append(flows[a, there], 0.0)[:, None], np.append(flows[b, back], 0.0)
    net = out - into
    shift = net.clip(max(least - sizes[1], sizes[0] - most), min(sizes[0] - least, most - sizes[1]))
    alone = (out == 0) | (into == 0)
    both = np.minimum(out, into)
    # Sums of weights have a relative error of about 1e-12.
    fits = np.abs(net - shift) <= 1e-12 * sizes.sum()
    out, into = (
        np.where(fits, whole, np.where(alone, part, both))
        for whole, part in ((out + 0 * into, shift.clip(min=0)), (into + 0 * out, (-shift).clip(min=0)))
    )
    net = out - into

    def change(values: np.ndarray) -> np.ndarray:
        padded = [np.vstack([values[rows], np.zeros(values.shape[1])]) for rows in (there, back)]
        return np.asarray(out[..., None] * padded[0][:, None] - into[..., None] * padded[1])

    mass, first = flows[[a, b]] @ seen, flows[[a, b]] @ x
    moved = [
        clusters.phi(sizes[j] + sign * net, mass[j] + sign * change(seen), first[j] + sign * change(x))
        for j, sign in ((0, -1), (1, 1))
    ]
    now = clusters.phi(sizes, mass, first)
    gain = now.sum() - moved[0] - moved[1]
    i, j = np.unravel_index(gain.argmax(), gain.shape)
    # Smaller gains are rounding.
    if not gain[i, j] > 1e-10 * (np.abs(now).sum() + flows[[a, b]].sum(0) @ np.square(x).sum(1)):
        return clusters
    flows = flows.copy()
    for rows, number, amount, giver, taker in ((there, i, out, a, b), (back, j, into, b, a)):
        if number < len(rows):
            flows[taker, rows[number]] += amount[i, j]
            left = flows[giver, rows[number]] - amount[i, j]
            flows[giver, rows[number]] = left if left > 1e-12 * amount[i, j] else 0.0
    return replace(clusters, flows=flows)
