"""What Gaussians around subspaces say about rows beyond what every mixture does."""

from __future__ import annotations

import torch
from torch import Tensor

from jensen.models.linear_fit import SubspaceTheta
from jensen.models.mixture_answers import fill, responsibilities

__all__ = ["nearest_points"]


def nearest_points(theta: SubspaceTheta, x: Tensor) -> Tensor:
    """Σ_k q_k P_k x (n, d), P_k x the point of subspace k nearest in the metric of the noise; holes at their mean."""
    q, filled, components = responsibilities(theta, x), fill(theta, x), theta.components
    out = torch.zeros_like(filled)
    for k in range(components.n_components):
        root = components.noise[k].sqrt().expand(x.shape[1])
        axes = torch.linalg.svd(components.loadings[k] / root[:, None], full_matrices=False).U
        nearest = components.means[k] + (filled - components.means[k]) / root @ axes @ axes.mT * root
        out += q[:, k, None] * nearest
    return out
