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

# The rounding error of the expanded square is about ε ‖x‖² λ_max(Σ⁻¹), and ‖x‖² is about d in standardised units. With
# this limit on d λ_max the error stays near 1e-8 nats.
LARGEST_EXPANDED_PRECISION = 1e8
LOG_2PI = math.log(2 * math.pi)


def gaussian_kl(mean0: Any, cov0: Any, mean1: Any, cov1: Any) -> Tensor:
    """KL(N(mean0, cov0) ‖ N(mean1, cov1)) in nats, for arrays or tensors with any leading axes.

    Args:
        mean0, mean1: means (..., d).
        cov0, cov1: covariances (..., d, d).

    Example:
        >>> from jensen import gaussian_kl
        >>> float(gaussian_kl([0.0], [[1.0]], [1.0], [[1.0]]))
        0.5
    """
    (m0, chol0), (m1, chol1) = checked(mean0, cov0, "0"), checked(mean1, cov1, "1")
    if m0.shape[-1] != m1.shape[-1]:
        raise ValueError(f"mean0 has {m0.shape[-1]} features and mean1 {m1.shape[-1]}; give both the same")
    ratio = solve_lower(chol1, chol0)
    trace = ratio.square().sum((-2, -1))
    log_ratio = log_det_from_cholesky(chol1) - log_det_from_cholesky(chol0)
    apart = trace - m0.shape[-1] + log_ratio
    # For nearly equal covariances this is only rounding; Σ (λ - 1 - ln λ) over the eigenvalues of Σ₁⁻¹Σ₀ is not.
    change = torch.linalg.svdvals(ratio).square() - 1
    near = (change - change.clamp(min=-0.5).log1p()).sum(-1)
    covariances = torch.where((change.abs() < 0.1).all(-1), near, apart).clamp(min=0)
    return 0.5 * (covariances + quadratic_form(chol1, m1 - m0))


def checked(mean: Any, cov: Any, number: str) -> tuple[Tensor, Tensor]:
    """A mean (..., d), and the Cholesky factor (..., d, d) of a covariance; an error if it is not a covariance."""
    try:
        m, s = (torch.as_tensor(value, dtype=torch.float64) for value in (mean, cov))
    except (TypeError, ValueError) as error:
        raise ValueError(f"mean{number} and cov{number} must hold numbers: {error}") from None
    if not m.ndim or s.shape[-2:] != (m.shape[-1],) * 2:
        raise ValueError(
            f"mean{number} has shape {tuple(m.shape)} and cov{number} {tuple(s.shape)}; give (..., d) and (..., d, d)"
        )
    if not (m.isfinite().all() and s.isfinite().all()):
        raise ValueError(f"mean{number} and cov{number} must be finite")
    asymmetry = largest(s - s.mT)
    # One part in 10⁶ leaves room for covariances that were stored as float32.
    if asymmetry > 1e-6 * largest(s):
        raise ValueError(f"cov{number} is not symmetric: it differs by {asymmetry} from its transpose")
    chol, info = torch.linalg.cholesky_ex((s + s.mT) / 2)
    # If only rounding keeps a pivot above 0, the matrix is singular.
    left = chol.diagonal(dim1=-2, dim2=-1).square() / s.diagonal(dim1=-2, dim2=-1)
    if info.any() or not (left > 4 * m.shape[-1] * torch.finfo(s.dtype).eps).all():
        least = float(torch.linalg.eigvalsh((s + s.mT) / 2).min())
        raise ValueError(
            f"cov{number} is singular or not positive definite, with an eigenvalue of {least:.3g}; "
            "leave out the features that depend on others, or add to its diagonal"
        )
    return m, chol


def largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


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
    """The most likely covariance with no eigenvalue below `floor`: the M-step under this constraint.

    A matrix that satisfies the constraint is returned unchanged, bit for bit.
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
    """Gaussians N(mean, cov) restricted to the observed features, with any leading axes.

    The row and column of Σ of a missing feature are replaced by those of the identity. Then ln|Σ| and quadratic forms
    of rows that are 0 there are those of the observed block, and one batched factorisation serves all patterns.

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
        if self.seen is None:
            return torch.cholesky_inverse(self.chol)
        # A product of triangular inverses is batched, while LAPACK handles many small matrices one by one.
        inverse = self.whitening.mT @ self.whitening
        return inverse * self.seen[..., :, None] * self.seen[..., None, :]

    @cached_property
    def whitening(self) -> Tensor:
        """A with AᵀA = Σ_oo⁻¹ on the observed block."""
        eye = torch.eye(self.cov.shape[-1], dtype=self.cov.dtype, device=self.cov.device)
        return solve_lower(self.chol, eye.expand_as(self.chol))

    @cached_property
    def whitened(self) -> Tensor:
        """B = L⁻¹ Σ_o·, 0 in the rows of the missing block: BᵀB is the part of Σ that the observed features explain.

        Σ Σ_oo⁻¹ = Bᵀ L⁻¹ keeps digits that are lost with the inverse, which contains 1/λ_min.
        """
        assert self.seen is not None
        return self.whitening @ (self.cov * self.seen[..., :, None])

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
