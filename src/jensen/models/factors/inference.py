"""The bound of one Gaussian around a subspace for any Gaussian q(z) = N(m, S) of a row, over its observed features.

E_q[ln p(x|z)] = ln N(x; μ + W m, Ψ) - ½ tr(Wᵀ Ψ⁻¹ W S)
KL(q ‖ N(0, I)) = ½ (tr S + mᵀm - dim z - ln|S|)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from jensen.models.factors.subspace import SubspaceGaussians


def read_gaussians(q: Any, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Means (n, m) and covariances (n, m, m) of Gaussians that the user gives, one per row."""
    normals = torch.distributions
    inner = q.base_dist if isinstance(q, normals.Independent) else q
    if not isinstance(inner, (normals.MultivariateNormal, normals.Normal)):
        raise ValueError(
            f"q={type(q).__name__} is no Gaussian; give a torch MultivariateNormal with one Gaussian per row of X, as "
            "posterior(X) returns it"
        )
    if (q.batch_shape, q.event_shape) != ((n,), (m,)):
        raise ValueError(
            f"q has batch_shape {tuple(q.batch_shape)} and event_shape {tuple(q.event_shape)}; expected ({n},) and "
            f"({m},), a Gaussian over z per row of X"
        )
    cov = inner.variance.diag_embed() if isinstance(inner, normals.Normal) else inner.covariance_matrix
    return inner.mean.detach().cpu().double(), cov.detach().cpu().double()


def given_terms(components: SubspaceGaussians, x: Tensor, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
    """E_q[ln p(x|z)] and KL(q ‖ N(0, I)) of rows (n, d), NaN where missing, in the units of the components."""
    loadings, variance = components.loadings[0], components.noise[0].expand(x.shape[1])
    precision = (~x.isnan()) / variance  # (n, d), 0 where missing
    residual = (x - components.means[0] - mean @ loadings.mT).nan_to_num()
    products = loadings[:, :, None] * loadings[:, None, :]  # (d, m, m)
    spread = precision @ products.flatten(1)  # Wᵀ Ψ⁻¹ W over the observed features (n, m²)
    constant = ((precision > 0) * (2 * math.pi * variance).log()).sum(1)
    square = (precision * residual.square()).sum(1) + (spread * cov.flatten(1)).sum(1)
    trace = cov.diagonal(dim1=1, dim2=2).sum(1)
    divergence = 0.5 * (trace + mean.square().sum(1) - mean.shape[1] - torch.logdet(cov))
    return -0.5 * (constant + square), divergence
