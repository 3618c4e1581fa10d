"""A search for clusters within limits on their sizes: rows that change places.

    flows f_ji:  N_j = Σ_i f_ji,  M_j, F_j: the same over the rows that have a feature, and of their values
    cost with the best centres:  Σ w x² + Σ_j φ_j,   φ_j = λN_j‖x_D‖² - Σ_features (F_j + λN_j x_D)² / (M_j + λN_j)
Given centres the flows are the best, and given flows the centres are. Yet a row that leaves, or two that change places,
may lower the cost, because both centres follow them (Hartigan & Wong 1979, here with limits).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Rows of a cluster that are tried with as many of another: those for whom the other centre is nearest, by comparison.
CANDIDATES = 40
# Passes over all pairs of clusters, at most.
PASSES = 50


@dataclass(frozen=True)
class Clusters:
    """Rows and where they are served.

    Args:
        x: (n, d), 0 where missing.
        seen: which entries are observed (n, d), as numbers.
        flows: how much of every row each centre serves (K, n).
        limits: the least and the most that a centre serves.
        location: of a depot (d,); anything without one.
        pull: the depot's weight λ, 0 without one.
    """

    x: np.ndarray
    seen: np.ndarray
    flows: np.ndarray
    limits: tuple[float, float]
    location: np.ndarray
    pull: float

    def phi(self, size: np.ndarray, mass: np.ndarray, first: np.ndarray) -> np.ndarray:
        """φ (...) of sizes (...), masses and sums (..., d)."""
        pulled = self.pull * size[..., None]
        mass, first = mass + pulled, first + pulled * self.location
        squared = np.square(first) / np.where(mass > 0, mass, 1.0)
        return np.asarray((pulled * np.square(self.location) - squared).sum(-1))

    def centre(self, j: int) -> np.ndarray:
        """The best centre (d,) for the rows of j; where nobody has a feature, the depot's or 0."""
        pulled = self.pull * self.flows[j].sum()
        mass = self.flows[j] @ self.seen + pulled
        return np.asarray((self.flows[j] @ self.x + pulled * self.location) / np.where(mass > 0, mass, 1.0))

    def willing(self, a: int, b: int) -> np.ndarray:
        """Rows of a for whom b is least worse, by distance at the centres of now."""
        rows = np.flatnonzero(self.flows[a] > 0)
        near, far = (self.seen[rows] * np.square(self.x[rows] - self.centre(j)) for j in (a, b))
        return np.asarray(rows[(far - near).sum(1).argsort(kind="stable")[:CANDIDATES]])


def search_moves(clusters: Clusters) -> Clusters:
    """Flows within the limits that cost no more than those of now; the same value where no move pays."""
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
    """After the best move of a row between a and b, or of two in opposite directions; the same where none pays."""
    there, back = clusters.willing(a, b), clusters.willing(b, a)
    flows, x, seen = clusters.flows, clusters.x, clusters.seen
    sizes, (least, most) = flows[[a, b]].sum(1), clusters.limits
    # The last of each is nobody: the other moves alone, as far as the limits allow.
    out, into = np.append(flows[a, there], 0.0)[:, None], np.append(flows[b, back], 0.0)
    net = out - into
    shift = net.clip(max(least - sizes[1], sizes[0] - most), min(sizes[0] - least, most - sizes[1]))
    alone = (out == 0) | (into == 0)
    both = np.minimum(out, into)
    # Sums of weights are good to about 1e-12 of their size.
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
    # Below this it is rounding.
    if not gain[i, j] > 1e-10 * (np.abs(now).sum() + flows[[a, b]].sum(0) @ np.square(x).sum(1)):
        return clusters
    flows = flows.copy()
    for rows, number, amount, giver, taker in ((there, i, out, a, b), (back, j, into, b, a)):
        if number < len(rows):
            flows[taker, rows[number]] += amount[i, j]
            left = flows[giver, rows[number]] - amount[i, j]
            flows[giver, rows[number]] = left if left > 1e-12 * amount[i, j] else 0.0
    return replace(clusters, flows=flows)
