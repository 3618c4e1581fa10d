"""Hard assignment to K centres.

    r_ij = Σ_{f observed in i} (x_if - μ_jf)²
    bound:  ln(1/K) + ln N(x_i; μ_{y_i}, σ²I) over the observed features, below ln p(x_i) of the mixture Σ_j N_j / K
    depot:  cost_ij = r_ij + λ‖μ_j - x_D‖²,   given y:  μ_j = (x̄_j + λ x_D) / (1 + λ)
A missing value leaves its feature out of the distance, and its row out of the mean of this feature (Chi, Chi & Baraniuk
2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch

# Rows (n, d): an array or a sparse matrix.
Matrix = np.ndarray | csr_matrix


@dataclass(frozen=True)
class Pull:
    """The depot's pull on the centres.

    Args:
        location: x_D (d,).
        weight: λ.
        chooses: whether rows choose their centre by the whole cost, supply included, or by distance alone.
    """

    location: Tensor
    weight: float
    chooses: bool

    def within(self, origin: Tensor, scale: Tensor) -> Pull:
        """In the coordinates (x - origin) / scale, with one scale for all features."""
        return replace(self, location=(self.location - origin) / scale)

    def supply(self, centres: Tensor) -> Tensor:
        """λ‖μ_j - x_D‖² (K,)."""
        return self.weight * (centres - self.location).square().sum(1)


@dataclass(frozen=True)
class CentreMoments(Additive):
    """Sufficient statistics of the rows at K centres.

    Args:
        weight: Σ w_i over the rows of each centre (K,).
        mass: the same over the rows where a feature is observed (K, d).
        first: Σ w_i x_i (K, d).
        second: Σ w_i x_i², over all features (K,).
    """

    weight: Tensor
    mass: Tensor
    first: Tensor
    second: Tensor

    def loss(self, centres: Tensor) -> Tensor:
        """Σ_i w_i r_{i y_i} with these centres."""
        moved = self.mass * centres.square() - 2 * centres * self.first
        return (self.second.sum() + moved.sum()).clamp(min=0)


def moments_of(q: Tensor, batch: Batch) -> CentreMoments:
    """The statistics for weighted responsibilities q (K, n)."""
    weight, observed = q.sum(1), batch.observed
    mass = weight[:, None].expand(-1, len(batch.x)) if observed is None else q @ observed.T.to(q.dtype)
    return CentreMoments(weight, mass, q @ batch.x.T, q @ batch.x.square().sum(0))


def partial_distances(x: Tensor, observed: Tensor | None, centres: Tensor) -> Tensor:
    """r (K, n) from feature-major rows (d, n), 0 where missing, to centres (K, d)."""
    squared = x.square().sum(0)
    norms = centres.square().sum(1)[:, None] if observed is None else centres.square() @ observed.to(x.dtype)
    return torch.addmm(squared, centres, x, alpha=-2).add_(norms).clamp_(min=0)


def squared_differences(x: Tensor, observed: Tensor | None, centres: Tensor) -> Tensor:
    """The same r, feature by feature: slower, but exact also for very small distances."""
    distance = x.new_zeros(len(centres), x.shape[1])
    for j in range(len(x)):
        difference = x[j] - centres[:, j, None]
        distance += (difference if observed is None else difference * observed[j]).square_()
    return distance


def optimal_centres(moments: CentreMoments, pull: Pull | None) -> Tensor:
    """The centres (K, d) with the least cost for these assignments.

    An empty cluster's centre is set to the overall mean to avoid NaN.
    """
    pulled, target = torch.zeros_like(moments.mass), torch.zeros_like(moments.first)
    if pull is not None:
        pulled = pulled + pull.weight * moments.weight[:, None]
        target = pulled * pull.location
    mass = moments.mass + pulled
    anywhere = moments.first.sum(0) / moments.mass.sum(0).clamp(min=torch.finfo(mass.dtype).tiny)
    return torch.where(mass > 0, (moments.first + target) / mass.where(mass > 0, 1.0), anywhere)


def hard_log_density(distance: Tensor, n_observed: Tensor | float, variance: float) -> Tensor:
    """ln N(x; μ, σ²I) from ‖x - μ‖² over n_observed features."""
    return -0.5 * (n_observed * math.log(2 * math.pi * variance) + distance / variance)
