"""Inference with fitted centres: pure functions of theta and of rows (n, d) in the user's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from jensen.engines.em.frame import Frame
from jensen.models.clusters.centres import Matrix, Pull, partial_distances

NUMBERS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Centres:
    """Centres μ (K, d), the variance σ² of rows around them, and the weight of each cluster (K,)."""

    centres: Tensor
    variance: float
    weights: Tensor

    def frame(self) -> Frame:
        """Coordinates about the mean of the centres, with one unit for all features: distances lose no digits there."""
        share = self.weights / self.weights.sum()
        origin = share @ self.centres
        spread = self.variance + float(share @ (self.centres - origin).square().mean(1))
        return Frame(origin, torch.full_like(origin, spread**0.5))

    def within(self, frame: Frame) -> Centres:
        """From the user's units to the frame's."""
        centres = (self.centres - frame.origin) / frame.scale
        return Centres(centres, self.variance / float(frame.scale[0]) ** 2, self.weights)


@dataclass(frozen=True)
class Assignment:
    """The cluster of each row, the squared distance to its centre, and the number of observed features, each (n,)."""

    label: Tensor
    distance: Tensor
    n_observed: Tensor


def assign(theta: Centres, x: Matrix, pull: Pull | None = None) -> Assignment:
    """Assign each row of x, an array or a CSR matrix, to its nearest centre, or to the cheapest if the depot counts."""
    n, d = x.shape
    label, distance, n_observed = np.empty(n, dtype=np.int64), np.empty(n), np.full(n, float(d))
    if d == 0:
        return Assignment(torch.zeros(n, dtype=torch.int64), *torch.zeros(2, n, dtype=torch.float64))
    counts_supply = pull is not None and pull.chooses
    is_sparse = bool(issparse(x))
    if is_sparse and not counts_supply and not np.isnan(x.data).any():
        label, distance = nearest(x, theta.centres.numpy())
        return Assignment(torch.from_numpy(label), torch.from_numpy(distance), torch.from_numpy(n_observed))
    frame = theta.frame()
    centres, unit = (theta.centres - frame.origin) / frame.scale, float(frame.scale[0])
    for part, rows, observed in parts(frame, x):
        if observed is None and not counts_supply:
            label[part], distance[part] = nearest(rows, centres.numpy())
            continue
        r = partial_distances(torch.from_numpy(rows).T, None if observed is None else observed.T, centres)
        cost = r + pull.supply(theta.centres)[:, None] / unit**2 if pull is not None and counts_supply else r
        chosen = cost.argmin(0)
        label[part], distance[part] = chosen.numpy(), r.gather(0, chosen[None])[0].numpy()
        if observed is not None:
            n_observed[part] = observed.sum(1).numpy()
    return Assignment(torch.from_numpy(label), torch.from_numpy(distance * unit**2), torch.from_numpy(n_observed))


def distances(theta: Centres, x: Matrix) -> Tensor:
    """‖x_i - μ_j‖ (n, K) over the observed features."""
    if x.shape[1] == 0:
        return torch.zeros(x.shape[0], len(theta.centres), dtype=torch.float64)
    frame = theta.frame()
    centres = (theta.centres - frame.origin) / frame.scale
    out = torch.empty(x.shape[0], len(centres), dtype=torch.float64)
    for part, rows, observed in parts(frame, x):
        x_part = torch.from_numpy(rows)
        r = partial_distances(x_part.T, None if observed is None else observed.T, centres).T
        # The expanded square gives 1e-16 instead of 0, whose root is 1e-8: small distances are computed again.
        i, j = (r < 1e-6).nonzero(as_tuple=True)
        seen = 1.0 if observed is None else observed[i]
        r[i, j] = (seen * (x_part[i] - centres[j])).square().sum(1)
        out[part] = r.sqrt_()
    return out.mul_(frame.scale[0])


def nearest(x: Matrix, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest centre of each complete row and the squared distance to it, by scikit-learn's compiled search."""
    from sklearn.metrics import pairwise_distances_argmin_min  # slow to import

    label, distance = pairwise_distances_argmin_min(x, centres)
    return label.astype(np.int64), distance.astype(np.float64) ** 2


def parts(frame: Frame, x: Matrix) -> Iterator[tuple[slice, np.ndarray, Tensor | None]]:
    """Blocks of rows: their slice, their values in the frame's units with 0 if missing, and what is observed (m, d) or
    None for complete blocks.
    """
    n, d = x.shape
    origin, scale = frame.origin.numpy(), frame.scale.numpy()
    n_rows = max(1, NUMBERS_AT_ONCE // d)
    for start in range(0, n, n_rows):
        part = slice(start, start + n_rows)
        dense = x[part] if isinstance(x, np.ndarray) else x[part].toarray()
        rows = (np.asarray(dense, dtype=np.float64) - origin) / scale
        missing = np.isnan(rows)
        observed = torch.from_numpy(~missing) if missing.any() else None
        yield part, np.nan_to_num(rows, copy=False, nan=0.0), observed
