"""The nearest and the second nearest medoid of every point, and the change of the loss by a swap of medoids.

    Δ(m→j) = Σ_i w_i min(d_ij - near_i, 0) + Σ_{i in cluster m} w_i (clamp(d_ij, near_i, second_i) - near_i)
is the change of the loss Σ_i w_i near_i when candidate j replaces medoid m. Schubert & Rousseeuw (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Up to this many medoids a product with the memberships is fastest. Beyond, most distances are above second_i, only add
# a constant, and are skipped.
FEW_MEDOIDS = 16
# A swap must lower the loss by this share: sums of 10⁶ distances in float64 have a relative error of 1e-12.
ROUNDING = 1e-11


TwoNearest = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """The row numbers of the medoids (K,), and the nearest and the second nearest medoid of every point.

    For both, their numbers 0..K-1 and their distances, (n,) each. With one medoid the second distance is infinite.
    """

    medoids: np.ndarray
    nearest: np.ndarray
    near: np.ndarray
    runner_up: np.ndarray
    second: np.ndarray
    weight: np.ndarray

    @cached_property
    def loss(self) -> float:
        return float(self.near.astype(np.float64) @ self.weight)

    @cached_property
    def membership(self) -> np.ndarray:
        """(n, K): the weight of a point in the column of its cluster, 0 elsewhere."""
        table = np.zeros((len(self.near), len(self.medoids)))
        table[np.arange(len(table)), self.nearest] = self.weight
        return table

    @cached_property
    def reserve(self) -> np.ndarray:
        """second_i - near_i: the extra distance of a point without its medoid, (n,)."""
        gap: np.ndarray = np.subtract(self.second, self.near, dtype=np.float64)
        return gap

    @cached_property
    def removal(self) -> np.ndarray:
        """The increase of the loss without a medoid, (K,)."""
        return np.bincount(self.nearest, self.weight * self.reserve, minlength=len(self.medoids))

    def changes(self, block: np.ndarray) -> np.ndarray:
        """Δ(m→j) (b, K) for candidates with distances (b, n) to all points."""
        return self._all_changes(block) if len(self.medoids) <= FEW_MEDOIDS else self._near_changes(block)

    def _all_changes(self, block: np.ndarray) -> np.ndarray:
        farther = np.subtract(block, self.near, dtype=np.float64)
        gain = np.minimum(farther, 0) @ self.weight
        np.clip(farther, 0, self.reserve, out=farther)
        change: np.ndarray = farther @ self.membership
        change += gain[:, None]
        return change

    def _near_changes(self, block: np.ndarray) -> np.ndarray:
        """Computed as if all d_ij were above second_i, then corrected where they are not."""
        b, k = len(block), len(self.medoids)
        place = np.flatnonzero(block < self.second)
        candidate, point = np.divmod(place, block.shape[1])
        d = block.ravel()[place].astype(np.float64)
        weight, farther = self.weight[point], d - self.near[point]
        gain = np.bincount(candidate, weight * np.minimum(farther, 0), minlength=b)
        back = weight * (np.maximum(farther, 0) - self.reserve[point])
        change: np.ndarray = np.bincount(candidate * k + self.nearest[point], back, minlength=b * k).reshape(b, k)
        # Not in place: if no distance is small, bincount returns integers.
        change = change + self.removal + gain[:, None]
        return change


def swapped(
    old: Neighbours,
    candidates: np.ndarray,
    block: np.ndarray,
    again: Callable[[np.ndarray, np.ndarray], TwoNearest],
) -> Neighbours | None:
    """The neighbours after the best swap with a candidate, or None if no swap lowers the loss.

    Args:
        old: the neighbours before.
        candidates: row numbers (b,).
        block: their distances (b, n) to all points.
        again: finds the two nearest of the new medoids for the points that lost one of theirs.
    """
    changes = old.changes(block)
    candidate, medoid = divmod(int(changes.argmin()), len(old.medoids))
    if not changes[candidate, medoid] < -ROUNDING * old.loss:
        return None
    medoids, d = old.medoids.copy(), block[candidate]
    medoids[medoid] = candidates[candidate]
    closer, between = d < old.near, d < old.second
    nearest = np.where(closer, medoid, old.nearest)
    near = np.where(closer, d, old.near)
    runner_up = np.where(closer, old.nearest, np.where(between, medoid, old.runner_up))
    second = np.where(closer, old.near, np.where(between, d, old.second))
    lost = np.flatnonzero((old.nearest == medoid) | (old.runner_up == medoid))
    nearest[lost], near[lost], runner_up[lost], second[lost] = again(medoids, lost)
    new = Neighbours(medoids, nearest, near, runner_up, second, old.weight)
    # With distant clusters the rounding error of a change can exceed the loss, so the new loss is compared as well.
    return new if new.loss < old.loss else None


def two_smallest(d: np.ndarray) -> TwoNearest:
    """Indices and values of the smallest and second smallest entry of every column of (K, n); ties go to the first."""
    everyone = np.arange(d.shape[1])
    nearest = d.argmin(0)
    near = d[nearest, everyone]
    d[nearest, everyone] = np.inf
    runner_up = d.argmin(0)
    return nearest, near, runner_up, d[runner_up, everyone]
