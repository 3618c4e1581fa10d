"""The statistics of Gaussian components, and the means that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive
from jensen.formulas.gaussian import clip_eigenvalues
from jensen.formulas.wishart import NormalInverseWishart

# A smaller share of the mass is lost among the denormal numbers: such a component takes the mean and spread of all.
EMPTY = 1e-200
# No direction of the rows counts as narrower than this share of their variance.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Moments(Additive):
    """Σ r, Σ r x and Σ r x xᵀ per component, about the origin; each structure keeps of the last what it needs."""

    mass: Tensor  # (K,)
    first: Tensor  # (K, d)
    second: Tensor  # (K, d, d), or (1, d, d) if all have the same covariance; diagonal structures (K, d)

    def spread(self) -> tuple[Tensor, Tensor]:
        """The mean (d,), and the covariance (d, d) or the variances (d,), of all rows; missing entries as completed."""
        mass = self.mass.sum()
        mean, second = self.first.sum(0) / mass, self.second.sum(0) / mass
        if second.ndim == 1:
            return mean, (second - mean.square()).clamp(min=LEAST_SPREAD)
        cov = second - outer(mean, mean)
        return mean, clip_eigenvalues((cov + cov.mT)[None] / 2, LEAST_SPREAD)[0]


def without_empty(moments: Moments) -> Moments:
    """The same moments with a trace of all the data in every empty component."""
    total = moments.mass.sum()
    empty = moments.mass <= EMPTY * total
    if not empty.any():
        return moments
    mass = torch.where(empty, EMPTY * total, moments.mass)
    first = torch.where(empty[:, None], EMPTY * moments.first.sum(0), moments.first)
    if len(moments.second) == 1:  # one matrix for all components cannot be empty
        return Moments(mass, first, moments.second)
    chosen = empty.reshape(-1, *[1] * (moments.second.ndim - 1))
    return Moments(mass, first, torch.where(chosen, EMPTY * moments.second.sum(0), moments.second))


def mode_of_means(moments: Moments, prior: NormalInverseWishart | None) -> Tensor:
    """μ_k = (Σ r x + κ μ_p) / (N_k + κ)."""
    if prior is None:
        return moments.first / moments.mass[:, None]
    kappa = prior.mean_precision
    return (moments.first + kappa * prior.mean) / (moments.mass[:, None] + kappa)


def outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]
