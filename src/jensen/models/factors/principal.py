"""Principal axes, and the closed form of probabilistic PCA.

    S = U Λ Uᵀ;   σ² = mean of the d-m smallest λ,   W = U_m (Λ_m - σ²I)^½
    rank-m reconstruction error  min_U E‖(x-μ) - U Uᵀ(x-μ)‖² = Σ_{i>m} λ_i
Tipping & Bishop (1999). Rank by the evidence of Minka (2000).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jensen.formulas.gaussian import LOG_2PI
from jensen.models.factors.subspace import SubspaceGaussians

ROWS_AT_ONCE = 2**14
# A squared mean of so many variances costs sums about 0 as many digits.
FAR = 1e4
OVERSAMPLING = 10


@dataclass(frozen=True)
class RowMoments:
    """Weight, mean (d,) and covariance (d, d) of rows, divided by the weight."""

    mass: float
    mean: Tensor
    cov: Tensor

    def __add__(self, other: RowMoments) -> RowMoments:
        """Of the rows of both: δ = m_b - m_a, m = m_a + δ N_b/N, S = S_a + S_b + δδᵀ N_a N_b/N."""
        mass, apart = self.mass + other.mass, other.mean - self.mean
        share = other.mass / mass
        cov = self.cov * (1 - share) + other.cov * share + apart[:, None] * apart * (share * (1 - share))
        return RowMoments(mass, self.mean + apart * share, cov)


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues of a covariance, falling (r,), their vectors (d, r), and the sum of all d eigenvalues."""

    values: Tensor
    vectors: Tensor
    total: float


def row_moments(x: Tensor, weight: Tensor | None) -> RowMoments:
    """Of rows (n, d); NaN anywhere makes them NaN."""
    n, d = x.shape
    mass = float(n) if weight is None else float(weight.sum())
    if weight is None:
        rows = x.numpy()
        mean = torch.from_numpy(np.ones(n) @ rows) / mass
        if mean.isnan().any():
            return RowMoments(mass, mean, torch.full((d, d), torch.nan, dtype=x.dtype))
        with np.errstate(over="ignore"):
            # numpy sees a matrix times itself and computes half of it; torch does not.
            cov = torch.from_numpy(rows.T @ rows) / mass - mean[:, None] * mean
        if bool((mean.square() < FAR * cov.diagonal()).all()):
            return RowMoments(mass, mean, cov)
    # About some rows' mean, sums of squares keep their digits; every so many rows stand for all, in any order.
    origin = x[:: max(1, n // 1000)].mean(0)
    first, second = x.new_zeros(d), x.new_zeros(d, d)
    for start in range(0, n, ROWS_AT_ONCE):
        part = x[start : start + ROWS_AT_ONCE] - origin
        weighted = part if weight is None else part * weight[start : start + ROWS_AT_ONCE, None]
        first += weighted.sum(0)
        second.addmm_(weighted.mT, part)
    shift = first / mass
    mean, cov = origin + shift, second / mass - shift[:, None] * shift
    # A constant column leaves rounding of its level.
    constant = cov.diagonal() <= (16 * torch.finfo(x.dtype).eps * mean).square()
    cov[constant] = cov[:, constant] = 0.0
    return RowMoments(mass, mean, cov)


def spectrum_of(cov: Tensor) -> Spectrum:
    """All eigenvalues."""
    values, vectors = torch.linalg.eigh(cov)
    values = values.flip(0).clamp(min=0)
    return Spectrum(values, vectors.flip(1), float(values.sum()))


def spectrum_of_rows(x: Tensor, weight: Tensor | None) -> tuple[Tensor, Spectrum]:
    """The mean (d,) of rows (n, d), and the spectrum of their covariance, for more features than rows."""
    w = torch.ones(len(x), dtype=x.dtype) if weight is None else weight
    mean = w @ x / w.sum()
    _, size, right = torch.linalg.svd((x - mean) * (w / w.sum()).sqrt()[:, None], full_matrices=False)
    return mean, Spectrum(size.square(), right.mT, float(size.square().sum()))


def leading_spectrum(
    times: Callable[[Tensor], Tensor],
    mass: float,
    total: float,
    m: int,
    d: int,
    generator: torch.Generator,
    n_power: int,
) -> Spectrum:
    """The m leading eigenpairs of S (d, d) from products alone, `times` being Q -> mass S Q.

    Subspace iteration (Halko, Martinsson & Tropp 2011).
    """
    q = torch.randn(d, min(d, m + OVERSAMPLING), generator=generator, dtype=torch.float64)
    for _ in range(n_power):
        q = torch.linalg.qr(times(q)).Q
    q = torch.linalg.qr(q).Q
    small = q.mT @ times(q) / mass
    values, vectors = torch.linalg.eigh((small + small.mT) / 2)
    return Spectrum(values.flip(0)[:m].clamp(min=0), (q @ vectors.flip(1))[:, :m], total)


def principal_subspace(
    mean: Tensor, spectrum: Spectrum, m: int, floor: float, least_loading: float = 0.0
) -> SubspaceGaussians:
    """The maximum-likelihood PPCA with m dimensions and noise of at least `floor`, as one component.

    With m = d there is nothing left for the noise, and the smallest eigenvalue takes its place: C = S all the same. The
    variance along an axis is at least `least_loading` times the noise's: EM never leaves a loading of 0.
    """
    d, values = len(mean), spectrum.values[:m]
    left = spectrum.total - float(values.sum())
    noise = left / (d - m) if m < d else float(values[-1])
    sigma2 = max(noise, floor)
    # An axis along which the rows have no extent at all has no direction of its own, and no loading.
    least = torch.where(values > 1e-10 * spectrum.total, least_loading * sigma2, 0.0)
    loadings = spectrum.vectors[:, :m] * torch.maximum(values - sigma2, least).sqrt()
    return SubspaceGaussians(mean[None], loadings[None], torch.full((1, 1), sigma2, dtype=mean.dtype))


def principal_log_density(spectrum: Spectrum, m: int, sigma2: float, d: int) -> float:
    """E ln p(x) of `principal_subspace` over the rows whose spectrum it came from."""
    values = spectrum.values[:m]
    kept = values.clamp(min=sigma2)
    left = max(spectrum.total - float(values.sum()), 0.0)
    log_det = float(kept.log().sum()) + (d - m) * math.log(sigma2)
    return -0.5 * (d * LOG_2PI + log_det + float((values / kept).sum()) + left / sigma2)


def mean_log_density(components: SubspaceGaussians, mean: Tensor, cov: Tensor) -> float:
    """E ln N(x; μ, C) of a single component over rows with this mean and covariance."""
    away = mean - components.means[0]
    scatter = cov + away[:, None] * away
    a = components.whitened[0]
    trace = (components.precision[0] * scatter.diagonal()).sum() - ((a @ scatter) * a).sum()
    return float(-0.5 * (len(mean) * LOG_2PI + components.log_det[0] + trace))


def minka_rank(values: Tensor, n: float) -> int:
    """The m of largest evidence, 1 ≤ m < d, from all d eigenvalues of the covariance of n rows (Minka 2000, eq. 79)."""
    d = len(values)
    floor = torch.finfo(values.dtype).eps * float(values[0])
    # An axis without extent is not one.
    rank = int((values > floor).sum())
    values = values.clamp(min=max(floor, torch.finfo(values.dtype).tiny))
    log_evidence = [log_evidence_of_rank(values, m, n) for m in range(1, max(2, min(d, rank + 1)))]
    return 1 + max(range(len(log_evidence)), key=log_evidence.__getitem__)


def bic_rank(spectrum: Spectrum, n: float, d: int, most: int) -> int:
    """The m, 1 ≤ m ≤ most < d, whose PPCA has the least BIC by the leading eigenvalues of the covariance of n rows.

    n Σ_{i≤m} ln λ_i + n (d-m) ln σ² + (d m - m(m-1)/2 + 1) ln n, σ² the mean of the others (Schwarz 1978).
    """
    least = torch.finfo(spectrum.values.dtype).eps * spectrum.total
    values = spectrum.values.clamp(min=least)

    def bic(m: int) -> float:
        left = spectrum.total - float(values[:m].sum())
        log_det = float(values[:m].log().sum()) + (d - m) * math.log(max(left / (d - m), least))
        return n * log_det + (d * m - m * (m - 1) / 2 + 1) * math.log(n)

    return min(range(1, most + 1), key=bic)


def largest_rank(n: int, d: int, n_observed: int, most: int) -> int:
    """The largest m ≤ most with which n rows of d features leave something for the noise, and 1 where none does.

    Rows of rank m about a mean are m(n+d-m) + d numbers: with no fewer than are observed the noise would be 0. For
    complete rows and d > n that is n - 2.
    """
    return max((m for m in range(1, most + 1) if m * (n + d - m) + d < n_observed), default=1)


def log_evidence_of_rank(values: Tensor, m: int, n: float) -> float:
    d = len(values)
    # ln p(U): the volume of the Stiefel manifold.
    log_volume = sum(math.lgamma((d - i) / 2) - (d - i) / 2 * math.log(math.pi) for i in range(m)) - m * math.log(2)
    tail = float(values[m:].sum()) / (d - m)
    n_free = d * m - m * (m + 1) / 2
    kept = values.clone()
    kept[m:] = tail
    # ln|A_z|, over pairs i ≤ m, i < j.
    inverse = 1 / kept
    pairs = (inverse[None, :] - inverse[:m, None]) * (values[:m, None] - values[None, :])
    chosen = torch.arange(d)[None, :] > torch.arange(m)[:, None]
    log_curvature = float(pairs[chosen].log().sum()) + math.log(n) * n_free
    return (
        log_volume
        - n / 2 * float(values[:m].log().sum())
        - n * (d - m) / 2 * math.log(tail)
        + (n_free + m) / 2 * math.log(2 * math.pi)
        - log_curvature / 2
        - m / 2 * math.log(n)
    )
