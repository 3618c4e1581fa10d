"""Linear regression with Gaussian coefficients, through one singular value decomposition.

    y = Xβ + ε,  ε ~ N(0, σ²I),  β ~ N(0, σ²/λ I),    X = U diag(s) Vᵀ,  c = Uᵀy,  h_j = λ / (s_j² + λ)
    posterior   β | y ~ N(V diag(s_j / (s_j²+λ)) c, σ² (XᵀX + λI)⁻¹)
    penalised   min_β ‖y - Xβ‖² + λ‖β‖² = rest + Σ h_j c_j²,  rest = ‖y - UUᵀy‖²
    evidence    ln N(y; 0, σ²I + (σ²/λ) XXᵀ) = -½ [ν ln 2πσ² - Σ ln h_j + penalised / σ²],  ν entries in y
    estimator   bias = -Σ h_j (v_j·β) v_j,  variance = σ² Σ s_j² / (s_j²+λ)²
An intercept is not penalised: X and y are centred, and y then stands for its ν = n - 1 orthonormal contrasts, whose
density is that of y with a flat prior on the intercept (times √n). A weight is a count: rows are multiplied by √w, and
n = Σ w. Each formula costs O(min(n, p)) per λ. λ has the shape (*lead, t) for t targets; results start with these axes.
Hoerl & Kennard (1970); the evidence and its EM, Bishop (2006) 3.5 and 9.3.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas.gaussian import LOG_2PI

BLOCK = 4096


@dataclass(frozen=True)
class Spectrum:
    """The singular value decomposition of X (n, p), and what all formulas need of the targets y (n, t).

    Args:
        singular: s (k,), k = min(n, p); 0 if it is below rounding.
        directions: V (p, k).
        targets: Uᵀy, transposed (t, k).
        rest: squared length of y outside the columns of U (t,).
        n_contrasts: ν, the number of entries of y that the density covers.
    """

    singular: Tensor
    directions: Tensor
    targets: Tensor
    rest: Tensor
    n_contrasts: float

    @property
    def rank(self) -> int:
        return int((self.singular > 0).sum())


@dataclass(frozen=True)
class Centred:
    """The means of X (p,) and y (t,) that were subtracted, or zeros without an intercept."""

    x: Tensor
    y: Tensor


def centre(x: Tensor, y: Tensor, weight: Tensor | None) -> Centred:
    """Weighted means."""
    return Centred(mean(x, weight), mean(y, weight))


def mean(values: Tensor, weight: Tensor | None) -> Tensor:
    # Relative to the first row, so that the mean of a constant column is exact and centring leaves zeros.
    total, origin = torch.zeros_like(values[0]), values[0]
    for rows in blocks(len(values), BLOCK):
        deviation = values[rows] - origin
        total += deviation.sum(0) if weight is None else weight[rows] @ deviation
    return origin + total / (len(values) if weight is None else weight.sum())


def blocks(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n_rows, size))


def decompose(x: Tensor, y: Tensor, weight: Tensor | None, centred: Centred, has_intercept: bool) -> Spectrum:
    """The spectrum of rows: QR over blocks of rows (Demmel et al. 2012), then the SVD of the p × p factor.

    This needs neither XᵀX, which would square the condition number, nor a copy of X.
    """
    n, p = x.shape
    r, c, rest = x.new_zeros(0, p), y.new_zeros(0, y.shape[1]), y.new_zeros(y.shape[1])
    for rows in blocks(n, max(BLOCK, 4 * p)):
        xb, yb = x[rows] - centred.x, y[rows] - centred.y
        if weight is not None:
            root = weight[rows, None].sqrt()
            xb, yb = xb * root, yb * root
        r, c = torch.cat([r, xb]), torch.cat([c, yb])
        if len(r) > p:
            factored, tau = torch.geqrf(r)
            rotated = torch.ormqr(factored, tau, c, left=True, transpose=True)
            r, c = factored[:p].triu(), rotated[:p]
            rest = rest + rotated[p:].square().sum(0)
    u, s, vh = torch.linalg.svd(r, full_matrices=False)
    s = torch.where(s > s[0] * max(n, p) * torch.finfo(s.dtype).eps, s, 0)
    n_rows = float(n if weight is None else weight.sum())
    return Spectrum(s, vh.T.contiguous(), (u.T @ c).T.contiguous(), rest, n_rows - has_intercept)


def remainder(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """h = λ/(s²+λ) (*lead, t, k): the share by which a direction is shrunk, 1 where X has no variance."""
    s = spectrum.singular
    return torch.where(s > 0, lam[..., None] / (s.square() + lam[..., None]), 1.0)


def coefficients(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """β̂ = (XᵀX + λI)⁻¹Xᵀy (*lead, t, p); at λ = 0 the shortest least-squares solution."""
    return latent_mean(spectrum, lam) @ spectrum.directions.T


def latent_mean(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """Vᵀβ̂ (*lead, t, k)."""
    s = spectrum.singular
    return torch.where(s > 0, s / (s.square() + lam[..., None]), 0.0) * spectrum.targets


def penalised(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """min_β ‖y - Xβ‖² + λ‖β‖² (*lead, t)."""
    return spectrum.rest + (remainder(spectrum, lam) * spectrum.targets.square()).sum(-1)


def noise_variance(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """The σ² with the largest evidence given λ > 0; at λ = 0 the unbiased ‖y - Xβ̂‖²/(ν - rank), NaN if ν ≤ rank."""
    freedom = spectrum.n_contrasts - spectrum.rank * (lam == 0)
    return torch.where(freedom > 0, penalised(spectrum, lam) / freedom, torch.nan)


def log_evidence(spectrum: Spectrum, lam: Tensor, noise: Tensor) -> Tensor:
    """ln N(y; 0, σ²I + (σ²/λ) XXᵀ) (*lead, t), for λ > 0; infinite if σ² and y are 0."""
    nu, misfit = spectrum.n_contrasts, penalised(spectrum, lam)
    log_det = nu * noise.log() - remainder(spectrum, lam).log().sum(-1)
    return -0.5 * (nu * LOG_2PI + log_det + torch.where(misfit > 0, misfit / noise, 0.0))


def effective_dof(spectrum: Spectrum, lam: Tensor) -> Tensor:
    """γ = Σ s²/(s²+λ) (*lead, t), the trace of the matrix that maps y to its fit."""
    return (1 - remainder(spectrum, lam)).sum(-1)


def em_update(spectrum: Spectrum, lam: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """One EM step for λ and σ², which never lowers the evidence.

        τ² = (‖m‖² + tr S) / rank,  σ² = (‖y - Xm‖² + tr XSXᵀ) / ν,  λ = σ²/τ²
    m and S are the posterior mean and covariance on the row space of X. The complement does not affect y. Leaving it
    out does not change the evidence, and makes the steps longer.
    """
    h, s2 = remainder(spectrum, lam), spectrum.singular.square()
    residual = spectrum.rest + (h * spectrum.targets).square().sum(-1)
    spread = torch.where(s2 > 0, noise[..., None] / (s2 + lam[..., None]), 0.0).sum(-1)
    slope = (latent_mean(spectrum, lam).square().sum(-1) + spread) / spectrum.rank
    found = (residual + noise * (1 - h).sum(-1)) / spectrum.n_contrasts
    return found / slope, found


def newton_step(spectrum: Spectrum, lam: Tensor, noise: Tensor | None = None) -> Tensor:
    """Newton's step in ln λ on the evidence with σ² = `noise`, by default the best σ² for every λ; always uphill.

    With P = penalised, P' = Σ h(1-h)c², P'' = Σ h(1-h)(1-2h)c²: minus twice the evidence has the slope
    aP' - Σ(1-h) and the curvature aP'' - bP'² + Σ h(1-h), where a = ν/P and b = ν/P², or a = 1/σ² and b = 0. If the
    evidence is not concave, the absolute curvature sets the length of the step.
    """
    h, c2 = remainder(spectrum, lam), spectrum.targets.square()
    first, second = (h * (1 - h) * c2).sum(-1), (h * (1 - h) * (1 - 2 * h) * c2).sum(-1)
    if noise is None:
        a = spectrum.n_contrasts / penalised(spectrum, lam)
        b = a.square() / spectrum.n_contrasts
    else:
        a, b = 1 / noise, torch.zeros_like(noise)
    slope = a * first - (1 - h).sum(-1)
    curvature = a * second - b * first.square() + (h * (1 - h)).sum(-1)
    return -slope / curvature.abs()


def bias(spectrum: Spectrum, lam: Tensor, beta: Tensor) -> Tensor:
    """E[β̂] - β (*lead, t, p) for true coefficients β (t, p)."""
    along = beta @ spectrum.directions
    unseen = beta - along @ spectrum.directions.T
    return -((remainder(spectrum, lam) * along) @ spectrum.directions.T + unseen)


def variance(spectrum: Spectrum, lam: Tensor, noise: Tensor) -> Tensor:
    """tr Cov[β̂] (*lead, t)."""
    s = spectrum.singular
    return noise * torch.where(s > 0, s / (s.square() + lam[..., None]), 0.0).square().sum(-1)


def quadratic_forms(spectrum: Spectrum, lam: Tensor, x: Tensor) -> Tensor:
    """xᵀ (XᵀX + λI)⁻¹ x (t, n) for centred rows x (n, p); λ = 0 needs full column rank."""
    s2, along = spectrum.singular.square(), (x @ spectrum.directions).square()
    forms = (1 / (s2 + lam[:, None])) @ along.T
    if len(s2) == x.shape[1]:
        return forms
    unseen = (x.square().sum(1) - along.sum(1)).clamp(min=0)
    return forms + unseen / lam[:, None]


def covariance_cholesky(spectrum: Spectrum, lam: Tensor, noise: Tensor) -> Tensor:
    """The lower factor L, LLᵀ = σ² (XᵀX + λI)⁻¹ (t, p, p); λ = 0 needs full column rank.

    Computed by QR of a matrix root, because rounding can make the covariance itself indefinite.
    """
    v, k = spectrum.directions, len(spectrum.singular)
    basis = torch.cat([v, torch.linalg.qr(v, mode="complete").Q[:, k:]], dim=1)
    s2 = torch.cat([spectrum.singular.square(), v.new_zeros(len(v) - k)])
    root = (noise[:, None] / (s2 + lam[:, None])).sqrt()[..., None] * basis.T
    r: Tensor = torch.linalg.qr(root, mode="r").R
    return (r * r.diagonal(dim1=-2, dim2=-1).sign()[..., None]).mT.contiguous()
