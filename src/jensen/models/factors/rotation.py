"""Orthogonal rotations of loadings towards simple structure.

    maximise  Σ_j Σ_k w_jk⁴ - (γ/d) Σ_k (Σ_j w_jk²)²;   γ = 1 varimax (Kaiser 1958), γ = 0 quartimax
by repeated polar factors of the gradient, which never lowers it (Jennrich 2001).
"""

from __future__ import annotations

import torch
from torch import Tensor

ROTATIONS = {"varimax": 1.0, "quartimax": 0.0}


def rotated(loadings: Tensor, method: str, tol: float = 1e-6, max_iter: int = 500) -> Tensor:
    """Loadings (d, m), turned."""
    gamma, d = ROTATIONS[method], len(loadings)
    rotation = torch.eye(loadings.shape[1], dtype=loadings.dtype)
    size = 0.0
    for _ in range(max_iter):
        turned = loadings @ rotation
        slope = loadings.mT @ (turned**3 - gamma / d * turned * turned.square().sum(0))
        left, singular, right = torch.linalg.svd(slope)
        rotation, before, size = left @ right, size, float(singular.sum())
        if size < before * (1 + tol):
            break
    return loadings @ rotation


def principal_loadings(loadings: Tensor, precision: Tensor) -> Tensor:
    """The rotation of W (K, d, m) for which Wᵀ Ψ⁻¹ W is diagonal and falling; precision is Ψ⁻¹ (K, d)."""
    root, m = precision.sqrt()[..., None], loadings.shape[2]
    left, size, _ = torch.linalg.svd(root * loadings, full_matrices=False)
    turned = left * size[:, None] / root
    # With more dimensions than features some have no loading.
    return torch.nn.functional.pad(turned, (0, m - turned.shape[2]))


def with_largest_positive(loadings: Tensor) -> Tensor:
    """Loadings (K, d, m) with signs for which the largest of every dimension is positive."""
    largest = loadings.gather(1, loadings.abs().argmax(1, keepdim=True))
    return loadings * torch.where(largest < 0, -1.0, 1.0)
