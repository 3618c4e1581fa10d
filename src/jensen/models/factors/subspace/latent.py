"""What an E-step leaves of latent vectors: their posterior, and sums of it; and small matrices side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch
from jensen.formulas.gaussian import cholesky
from jensen.formulas.wishart import NormalInverseWishart


@dataclass(frozen=True)
class LatentMoments(Additive):
    """Expected sums with z̃ = (z, 1), weighted by responsibilities.

    Args:
        latent: Σ ⟨z̃z̃ᵀ⟩ over all rows (K, m+1, m+1).
        design: the same over the rows that have feature j (K, d, m+1, m+1), or (K, 1, m+1, m+1) when all have all.
        cross: Σ x_j ⟨z̃⟩ (K, d, m+1).
        square: Σ x_j² (K, d), or its sum over the features (K, 1) for one noise variance.
    """

    latent: Tensor
    design: Tensor
    cross: Tensor
    square: Tensor

    @property
    def mass(self) -> Tensor:
        return self.latent[:, -1, -1]

    def spread(self) -> tuple[Tensor, Tensor]:
        """The mean and the variance of every feature (d,), over the rows that have it; one variance if there is one."""
        d, square = self.cross.shape[1], self.square.sum(0)
        count = self.design[..., -1, -1].sum(0).expand(d)
        mean = torch.where(count > 0, self.cross[..., -1].sum(0) / count, 0.0)
        if len(square) < d:
            total = (square.sum() - (count * mean.square()).sum()) / count.sum()
            return mean, total.clamp(min=0).expand(d).clone()
        return mean, torch.where(count > 0, square / count - mean.square(), 0.0).clamp(min=0)


@dataclass(frozen=True)
class LatentView:
    """A batch seen by every component: the posterior of z, ln|H| and the squared distance (x-μ)ᵀC⁻¹(x-μ).

    Args:
        batch: its rows.
        seen: 1 where an entry is observed (d, n), or None.
        mean: ⟨z⟩ (K, m, n).
        cov: H⁻¹ (K, m, m, n), or (K, m, m, 1) when it is the same for all rows.
        log_det: ln|H| (K, n) or (K, 1).
        square: (K, n).
    """

    batch: Batch
    seen: Tensor | None
    mean: Tensor
    cov: Tensor
    log_det: Tensor
    square: Tensor

    @property
    def divergence(self) -> Tensor:
        """KL(q(z|x, k) ‖ N(0, I)) (K, n)."""
        trace = self.cov.diagonal(dim1=1, dim2=2).sum(-1)
        return 0.5 * (self.mean.square().sum(1) + trace - self.mean.shape[1] + self.log_det)


@dataclass(frozen=True)
class GivenLatent:
    """Rows given what is observed of them, through their latent vectors.

    Args:
        view: the posterior of z.
        decode: takes responsibilities and means of z to the expected rows (d, n).
        emit: draws rows (n, d) from components, z and a generator.
    """

    view: LatentView
    decode: Callable[[Tensor, Tensor], Tensor]
    emit: Callable[[Tensor, Tensor, torch.Generator], Tensor]

    def expected(self, responsibilities: Tensor) -> Tensor:
        return self.decode(responsibilities, self.view.mean)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        m, n = self.view.mean.shape[1:]
        columns = torch.arange(n, device=component.device)
        cov = self.view.cov.expand(-1, -1, -1, n)[component, :, :, columns]
        noise = torch.randn(n, m, generator=generator, dtype=cov.dtype).to(cov.device)
        z = self.view.mean[component, :, columns] + (cholesky(cov) @ noise[..., None]).squeeze(-1)
        return self.emit(component, z, generator).mT


def prior_as_rows(
    prior: NormalInverseWishart, count: float, means: Tensor, encoder: Tensor, cov: Tensor, is_isotropic: bool
) -> LatentMoments:
    """A normal-inverse-Wishart prior of (μ, C) as the statistics of rows: κ of them at μ_p, and Λ as scatter about μ.

    Args:
        prior: of every component.
        count: the rows that it counts for.
        means: μ (K, d).
        encoder: ⟨z⟩ = encoder (x - μ) (K, m, d).
        cov: the posterior covariance of z (K, m, m).
        is_isotropic: whether the noise has one variance for all features.
    """
    scale, kappa, m = prior.scale.expand_as(prior.mean), prior.mean_precision, cov.shape[-1]
    zeta = (encoder @ (prior.mean - means)[..., None]).squeeze(-1)
    extended = torch.cat([zeta, zeta.new_ones(len(zeta), 1)], 1)
    latent = kappa * extended[:, :, None] * extended[:, None, :]
    latent[:, :m, :m] += count * cov + (encoder * scale) @ encoder.mT
    cross = kappa * prior.mean[:, None] * extended[:, None, :]
    cross[..., :m] += scale[:, None] * encoder.mT
    square = (kappa * prior.mean.square() + scale).expand_as(means)
    square = square.sum(1, keepdim=True) if is_isotropic else square
    return LatentMoments(latent, latent[:, None], cross, square)


def symmetric(upper: Tensor, m: int, dim: int) -> Tensor:
    """Matrices from their upper triangles, in the place of axis `dim`."""
    rows, cols = torch.triu_indices(m, m)
    number = torch.empty(m, m, dtype=torch.int64)
    number[rows, cols] = number[cols, rows] = torch.arange(len(rows))
    matrices: Tensor = upper.index_select(dim, number.flatten()).unflatten(dim, (m, m))
    return matrices


def inverse_and_log_det(h: Tensor) -> tuple[Tensor, Tensor]:
    """Of n small positive-definite matrices (*, m, m, n), whose memory the inverse takes over; ln|h| is (*, n).

    Gauss-Jordan steps over all of them at once: the rows of a batch lie side by side, and m is small.
    """
    log_det = h.new_zeros(*h.shape[:-3], h.shape[-1])
    for i in range(h.shape[-2]):
        pivot = h[..., i, i, :].clone()
        log_det += pivot.log()
        row, column = h[..., i, :, :] / pivot[..., None, :], h[..., :, i, :].clone()
        h.addcmul_(column[..., :, None, :], row[..., None, :, :], value=-1)
        h[..., i, :, :] = row
        h[..., :, i, :] = -column / pivot[..., None, :]
        h[..., i, i, :] = 1 / pivot
    return h, log_det
