"""The multivariate normal distribution.

    ln N(x; μ, Σ) = -½ [d ln 2π + ln|Σ| + (x-μ)ᵀ Σ⁻¹ (x-μ)]
    KL(N₀‖N₁) = ½ [tr(Σ₁⁻¹Σ₀) - d + (μ₁-μ₀)ᵀ Σ₁⁻¹ (μ₁-μ₀) + ln(|Σ₁|/|Σ₀|)]
    x_m | x_o ~ N(μ_m + G (x_o - μ_o), Σ_mm - G Σ_om),   G = Σ_mo Σ_oo⁻¹
Bishop (2006), 2.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "LOG_2PI",
    "Observed",
    "cholesky",
    "clip_eigenvalues",
    "gaussian_kl",
    "log_det_from_cholesky",
    "quadratic_form",
    "solve_lower",
]

LOG_2PI = math.log(2 * math.pi)


def gaussian_kl(mean0: Any, cov0: Any, mean1: Any, cov1: Any) -> Tensor:
    """KL(N(mean0, cov0) ‖ N(mean1, cov1)) in nats, over any leading axes of arrays or tensors.

    Example:
        >>> float(gaussian_kl([0.0], [[1.0]], [1.0], [[1.0]]))
        0.5
    """
    m0, s0, m1, s1 = (torch.as_tensor(value, dtype=torch.float64) for value in (mean0, cov0, mean1, cov1))
    chol0, chol1 = cholesky(s0), cholesky(s1)
    trace = solve_lower(chol1, chol0).square().sum((-2, -1))
    log_ratio = log_det_from_cholesky(chol1) - log_det_from_cholesky(chol0)
    return 0.5 * (trace - m0.shape[-1] + quadratic_form(chol1, m1 - m0) + log_ratio)


def cholesky(cov: Tensor) -> Tensor:
    chol: Tensor = torch.linalg.cholesky(cov)
    return chol


def solve_lower(chol: Tensor, b: Tensor) -> Tensor:
    """chol⁻¹ b."""
    solved: Tensor = torch.linalg.solve_triangular(chol, b, upper=False)
    return solved


def log_det_from_cholesky(chol: Tensor) -> Tensor:
    return 2 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def quadratic_form(chol: Tensor, deviation: Tensor) -> Tensor:
    """(x-μ)ᵀ Σ⁻¹ (x-μ) with Σ = chol cholᵀ."""
    return solve_lower(chol, deviation[..., None]).square().sum((-2, -1))


def clip_eigenvalues(cov: Tensor, floor: float) -> Tensor:
    """The nearest-in-likelihood covariance with no eigenvalue below `floor`: the M-step under that constraint.

    A matrix that already keeps to the floor comes back untouched, bit for bit.
    """
    eye = torch.eye(cov.shape[-1], dtype=cov.dtype, device=cov.device)
    if not torch.linalg.cholesky_ex(cov - floor * eye).info.any():
        return cov
    values, vectors = torch.linalg.eigh(cov)
    clipped = (vectors * values.clamp(min=floor)[..., None, :]) @ vectors.mT
    broken = (values.amin(-1) < floor)[..., None, None]
    return torch.where(broken, (clipped + clipped.mT) / 2, cov)


@dataclass(frozen=True)
class Observed:
    """Gaussians N(mean, cov) seen through patterns of observed features, with any leading axes.

    A missing feature's row and column of Σ are replaced by those of the identity: then ln|Σ| and quadratic forms of
    rows that are 0 there are those of the observed block, and all patterns go through one batched factorisation.

    Args:
        cov: (*lead, d, d).
        seen: 1 where observed, 0 where missing (*lead, d), or None when nothing is missing.
    """

    cov: Tensor
    seen: Tensor | None

    @cached_property
    def chol(self) -> Tensor:
        if self.seen is None:
            return cholesky(self.cov)
        block = self.cov * self.seen[..., :, None] * self.seen[..., None, :]
        return cholesky(block + torch.diag_embed(1 - self.seen))

    @cached_property
    def log_det(self) -> Tensor:
        return log_det_from_cholesky(self.chol)

    @cached_property
    def precision(self) -> Tensor:
        """Σ_oo⁻¹, and 0 outside the observed block."""
        inverse = torch.cholesky_inverse(self.chol)
        return inverse if self.seen is None else inverse * self.seen[..., :, None] * self.seen[..., None, :]

    @cached_property
    def whitening(self) -> Tensor:
        """A with AᵀA = Σ_oo⁻¹ on the observed block."""
        eye = torch.eye(self.cov.shape[-1], dtype=self.cov.dtype, device=self.cov.device)
        return solve_lower(self.chol, eye.expand_as(self.chol))

    @cached_property
    def whitened(self) -> Tensor:
        """B = L⁻¹ Σ_o·, with 0 in the rows of the missing block: BᵀB is what the observed features explain of Σ.

        Σ Σ_oo⁻¹ = Bᵀ L⁻¹ through B keeps the digits that an inverse, which holds 1/λ_min, rounds away.
        """
        assert self.seen is not None
        return solve_lower(self.chol, self.cov * self.seen[..., :, None])

    @cached_property
    def gain(self) -> Tensor:
        """G with E[x | x_o] = μ + G (x_o - μ_o); the identity on the observed block."""
        assert self.seen is not None
        regression = self.whitened.mT @ self.whitening
        return regression * (1 - self.seen[..., :, None]) * self.seen[..., None, :] + torch.diag_embed(self.seen)

    @cached_property
    def residual(self) -> Tensor:
        """Cov[x | x_o], 0 outside the missing block."""
        assert self.seen is not None
        missing = 1 - self.seen
        full = self.cov - self.whitened.mT @ self.whitened
        return full * missing[..., :, None] * missing[..., None, :]

    @property
    def n_observed(self) -> Tensor | int:
        return self.cov.shape[-1] if self.seen is None else self.seen.sum(-1)
