"""The posterior of z where the noise is small: by a square root of H, which has the square root of its condition.

    [Ψ^-½ W; I] = [Q₁; Q₂] R,   H = I + Wᵀ Ψ⁻¹ W = Rᵀ R,   ⟨z⟩ = R⁻¹ Q₁ᵀ Ψ^-½ (x-μ),   ln|H| = 2 Σ ln R_ii
With noise variances near 1e-10, forming H loses ten digits of its small eigenvalues: the precision of z in directions
that a row's observed features do not determine. The rows of Ψ^-½ W stand above those of I, the order in which
Householder's reflections keep the digits of both (Higham 2002, 19.4).
"""

from __future__ import annotations

import torch
from torch import Tensor

# Numbers in the matrices of one block of rows.
NUMBERS_AT_ONCE = 2**20


def factor(scaled: Tensor) -> tuple[Tensor, Tensor]:
    """Q₁ (*, d, m) and R (*, m, m), its diagonal positive, of Ψ^-½ W (*, d, m)."""
    d, m = scaled.shape[-2:]
    eye = torch.eye(m, dtype=scaled.dtype, device=scaled.device).expand(*scaled.shape[:-2], m, m)
    q, r = torch.linalg.qr(torch.cat([scaled, eye], -2))
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    return q[..., :d, :] * sign[..., None, :], r * sign[..., None]


def masked_posterior(
    loadings: Tensor, precision: Tensor, deviation: Tensor, patterns: Tensor, number: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """⟨z⟩ (m, n), H⁻¹ (m, m, n) and ln|H| (n,) of one component, from what each row observes.

    Args:
        loadings: W (d, m).
        precision: Ψ⁻¹ (d,).
        deviation: x - μ (d, n), 0 where missing.
        patterns: which features are observed together (d, p); rows with the same pattern share their factors.
        number: the pattern of each row (n,).
    """
    root = precision.sqrt()[:, None]
    at_once = max(1, NUMBERS_AT_ONCE // max(1, loadings.numel()))
    parts = [encoder(root * loadings * seen[..., None]) for seen in patterns.mT.to(root.dtype).split(at_once)]
    encoders, inverse = (torch.cat(part) for part in zip(*parts, strict=True))
    cov = inverse @ inverse.mT
    log_det = -2 * inverse.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    whitened = (root * deviation).mT[..., None]
    pairs = zip(number.split(at_once), whitened.split(at_once), strict=True)
    mean = torch.cat([encoders[chosen] @ rows for chosen, rows in pairs]).squeeze(-1)
    return mean.mT, cov[number].movedim(0, -1), log_det[number]


def encoder(scaled: Tensor) -> tuple[Tensor, Tensor]:
    """R⁻¹ Q₁ᵀ (*, m, d) and R⁻¹ (*, m, m)."""
    q, r = factor(scaled)
    eye = torch.eye(r.shape[-1], dtype=r.dtype, device=r.device).expand_as(r)
    inverse: Tensor = torch.linalg.solve_triangular(r, eye, upper=True)
    return inverse @ q.mT, inverse
