"""K Gaussians around subspaces as one value, with the verbs of a mixture's components."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Footprint
from jensen.engines.em.frame import one_unit
from jensen.engines.em.sources import Source
from jensen.formulas.gaussian import LARGEST_EXPANDED_PRECISION, LOG_2PI, cholesky, log_det_from_cholesky
from jensen.formulas.wishart import NormalInverseWishart, log_mean_given_covariance
from jensen.models.factors.rotation import principal_loadings, with_largest_positive
from jensen.models.factors.subspace.latent import (
    GivenLatent,
    LatentMoments,
    LatentView,
    inverse_and_log_det,
    prior_as_rows,
    symmetric,
)
from jensen.models.factors.subspace.square_root import factor, masked_posterior
from jensen.models.mixtures.components import Conditional
from jensen.models.mixtures.gaussians.base import GaussianComponents
from jensen.models.mixtures.gaussians.moments import EMPTY
from jensen.models.mixtures.gaussians.spread import variances_of_rows


@dataclass(frozen=True)
class SubspaceStructure:
    """m latent dimensions, and one noise variance for all features or one each."""

    n_latent: int
    is_isotropic: bool

    def units(self, variance: Tensor) -> Tensor:
        return one_unit(variance) if self.is_isotropic else variance.sqrt()

    def standard(self, k: int, d: int) -> SubspaceGaussians:
        loadings = torch.zeros(k, d, self.n_latent, dtype=torch.float64)
        noise = torch.ones(k, 1 if self.is_isotropic else d, dtype=torch.float64)
        return SubspaceGaussians(torch.zeros(k, d, dtype=torch.float64), loadings, noise)

    def spread(self, source: Source, d: int) -> Tensor:
        return variances_of_rows(source, d)

    def n_parameters(self, k: int, d: int) -> int:
        # A rotation of z changes nothing.
        m = min(self.n_latent, d)
        rotations = m * (m - 1) // 2
        of_covariance = d * m - rotations + (1 if self.is_isotropic else d)
        return k * (d + min(of_covariance, d * (d + 1) // 2))

    def scale_shape(self, d: int) -> tuple[int, ...]:
        return () if self.is_isotropic else (d,)

    def log_volume(self, k: int, scale: Tensor) -> float:
        # The prior is one of μ and all of C.
        return -k * (len(scale) + 2) * float(scale.log().sum())

    def least_freedom(self, d: int) -> int:
        return d - 1

    def unpack(self, means: Tensor, vector: Tensor) -> SubspaceGaussians:
        k, d = means.shape
        n_loadings = k * d * self.n_latent
        noise = vector[n_loadings:].exp().reshape(k, -1)
        return SubspaceGaussians(means, vector[:n_loadings].reshape(k, d, self.n_latent), noise)


@dataclass(frozen=True)
class SubspaceGaussians(GaussianComponents[LatentView, LatentMoments]):
    """Means μ (K, d), loadings W (K, d, m) and noise variances (K, d), or (K, 1) for one each."""

    loadings: Tensor
    noise: Tensor

    @property
    def n_latent(self) -> int:
        return self.loadings.shape[2]

    @property
    def is_isotropic(self) -> bool:
        return self.noise.shape[1] == 1

    @property
    def structure(self) -> SubspaceStructure:
        return SubspaceStructure(self.n_latent, self.is_isotropic)

    @property
    def n_parameters(self) -> int:
        return self.structure.n_parameters(*self.means.shape)

    @property
    def footprint(self) -> Footprint:
        return Footprint(2 * self.n_features + self.n_components * (self.n_latent + 2) ** 2)

    @cached_property
    def precision(self) -> Tensor:
        """Ψ⁻¹ (K, d)."""
        return 1 / self.noise.expand_as(self.means)

    @cached_property
    def weighted(self) -> Tensor:
        """Wᵀ Ψ⁻¹ (K, m, d)."""
        return self.loadings.mT * self.precision[:, None]

    @cached_property
    def factors(self) -> tuple[Tensor, Tensor]:
        """Q₁ (K, d, m) and R (K, m, m) of Ψ^-½ W."""
        return factor(self.precision.sqrt()[..., None] * self.loadings)

    @cached_property
    def chol(self) -> Tensor:
        """L of H = L Lᵀ for complete rows (K, m, m)."""
        return self.factors[1].mT

    @cached_property
    def whitened(self) -> Tensor:
        """A = L⁻¹ Wᵀ Ψ⁻¹ (K, m, d), with C⁻¹ = Ψ⁻¹ - AᵀA."""
        return self.factors[0].mT * self.precision.sqrt()[:, None]

    @cached_property
    def cov(self) -> Tensor:
        """H⁻¹ for complete rows (K, m, m)."""
        return torch.cholesky_inverse(self.chol)

    @cached_property
    def encoder(self) -> Tensor:
        """⟨z⟩ = encoder (x - μ) for complete rows (K, m, d)."""
        return self.cov @ self.weighted

    @cached_property
    def log_det(self) -> Tensor:
        """ln|C| (K,)."""
        return log_det_from_cholesky(self.chol) - self.precision.log().sum(1)

    @cached_property
    def is_well_conditioned(self) -> bool:
        return bool((self.n_features * self.precision < LARGEST_EXPANDED_PRECISION).all())

    def view(self, batch: Batch) -> LatentView:
        return self._complete_view(batch) if batch.observed is None else self._masked_view(batch)

    def _complete_view(self, batch: Batch) -> LatentView:
        k, m, d = self.weighted.shape
        both = torch.cat([self.whitened.reshape(k * m, d), self.precision * self.means]) @ batch.x
        centre = (self.whitened @ self.means[..., None]).reshape(k, m, 1)
        y = both[: k * m].reshape(k, m, batch.x.shape[1]).sub_(centre)
        mean = torch.linalg.solve_triangular(self.chol.mT, y, upper=True)
        log_det = log_det_from_cholesky(self.chol)[:, None]
        if not self.is_well_conditioned:
            return LatentView(batch, None, mean, self.cov[..., None], log_det, self._squares(batch, None, mean))
        squares = batch.x.square()
        squares = squares.sum(0) / self.noise if self.is_isotropic else self.precision @ squares
        constant = (self.precision * self.means.square()).sum(1, keepdim=True)
        square = squares - 2 * both[k * m :] + constant - y.square().sum(1)
        return LatentView(batch, None, mean, self.cov[..., None], log_det, square)

    def _masked_view(self, batch: Batch) -> LatentView:
        assert batch.observed is not None
        if not self.is_well_conditioned:
            return self._square_root_view(batch)
        k, m, d = self.weighted.shape
        x, seen = batch.x, batch.observed.to(batch.x.dtype)
        rows, cols = torch.triu_indices(m, m)
        products = self.loadings.mT[:, rows] * self.weighted[:, cols]
        upper = (products.reshape(k * len(rows), d) @ seen).reshape(k, len(rows), x.shape[1])
        h = symmetric(upper, m, dim=1)
        h.diagonal(dim1=1, dim2=2).add_(1.0)
        cov, log_det = inverse_and_log_det(h)
        linear = self.weighted.reshape(k * m, d)
        b = (linear @ x - (self.weighted * self.means[:, None]).reshape(k * m, d) @ seen).reshape(k, m, x.shape[1])
        mean = (cov * b[:, None]).sum(2)
        return LatentView(batch, seen, mean, cov, log_det, self._squares(batch, seen, mean))

    def _square_root_view(self, batch: Batch) -> LatentView:
        assert batch.observed is not None
        seen, parts = batch.observed.to(batch.x.dtype), []
        patterns, number = torch.unique(batch.observed, dim=1, return_inverse=True)
        for k in range(self.n_components):
            deviation = (batch.x - self.means[k, :, None]) * seen
            parts.append(masked_posterior(self.loadings[k], self.precision[k], deviation, patterns, number))
        mean, cov, log_det = (torch.stack(part) for part in zip(*parts, strict=True))
        return LatentView(batch, seen, mean, cov, log_det, self._squares(batch, seen, mean))

    def _squares(self, batch: Batch, seen: Tensor | None, mean: Tensor) -> Tensor:
        """(x-μ)ᵀC⁻¹(x-μ) (K, n) as ‖⟨z⟩‖² plus squared residuals; a difference of large squares would lose digits."""
        square = mean.square().sum(1)
        for k in range(self.n_components):
            residual = batch.x - self.means[k, :, None] - self.loadings[k] @ mean[k]
            residual = residual if seen is None else residual * seen
            square[k] += self.precision[k] @ residual.square()
        return square

    def log_density(self, view: LatentView) -> Tensor:
        log_noise = -self.precision.log()
        if view.seen is None:
            constant = self.n_features * LOG_2PI + log_noise.sum(1, keepdim=True)
        else:
            constant = (LOG_2PI + log_noise) @ view.seen
        return -0.5 * (constant + view.log_det + view.square)

    def latent_divergence(self, view: LatentView) -> Tensor:
        return view.divergence

    def moments(self, responsibilities: Tensor, view: LatentView) -> LatentMoments:
        r, z, x = responsibilities, view.mean, view.batch.x
        k, m, n = z.shape
        extended = torch.cat([z, z.new_ones(k, 1, n)], 1)
        weighted = extended * r[:, None]
        cross = (weighted.reshape(-1, n) @ x.mT).reshape(k, m + 1, -1).mT
        squares = x.square()
        square = r @ (squares.sum(0, keepdim=True) if self.is_isotropic else squares).mT
        if view.seen is None:
            latent = weighted @ extended.mT
            latent[:, :m, :m] += r.sum(1)[:, None, None] * self.cov
            return LatentMoments(latent, latent[:, None], cross, square)
        rows, cols = torch.triu_indices(m + 1, m + 1)
        products = weighted[:, rows] * extended[:, cols]
        is_latent = cols < m
        products[:, is_latent] += view.cov[:, rows[is_latent], cols[is_latent]] * r[:, None]
        design = (products.reshape(-1, n) @ view.seen.mT).reshape(k, len(rows), -1)
        return LatentMoments(
            symmetric(products.sum(-1), m + 1, dim=1), symmetric(design, m + 1, dim=1).movedim(-1, 1), cross, square
        )

    def m_step(
        self, moments: LatentMoments, prior: NormalInverseWishart | None = None, means: Tensor | None = None
    ) -> Self:
        m, mass, count, extra = self.n_latent, moments.mass, moments.design[..., -1, -1], 0.0
        if prior is not None:
            extra = prior.degrees_of_freedom + self.n_features + 2
            rows = prior_as_rows(prior, extra, self.means, self.encoder, self.cov, self.is_isotropic)
            mass, moments = mass + extra, moments + rows
        # Where nothing is observed, all stays as it is.
        trace = EMPTY * (1 + mass.sum())
        old = torch.cat([self.loadings, self.means[..., None]], 2)
        eye = trace * torch.eye(m + 1, dtype=old.dtype, device=old.device)
        cross = moments.cross + trace * old
        if moments.design.shape[1] == 1:
            new = torch.linalg.solve(moments.design[:, 0] + eye, cross.mT).mT
            fitted = new @ moments.design[:, 0]
        else:
            new = torch.linalg.solve(moments.design + eye, cross[..., None]).squeeze(-1)
            fitted = (moments.design @ new[..., None]).squeeze(-1)
        # new · cross is the same at the exact solution alone; this is off by the square of what rounding left.
        explained, count = (new * (2 * moments.cross - fitted)).sum(2), (count + extra).expand_as(self.means)
        if self.is_isotropic:
            explained, count = explained.sum(1, keepdim=True), count.sum(1, keepdim=True)
        noise = (moments.square - explained + trace * self.noise) / (count + trace)
        # The expanded prior of z, N(α, Φ), taken back into the parameters.
        total = moments.mass[:, None] + trace
        alpha = moments.latent[:, :m, m] / total
        spread = moments.latent[:, :m, :m] + trace * torch.eye(m, dtype=old.dtype, device=old.device)
        phi = (spread - total[..., None] * alpha[:, :, None] * alpha[:, None, :]) / (mass[:, None, None] + trace)
        loadings, shift = new[..., :m], (new[..., :m] @ alpha[..., None]).squeeze(-1)
        return type(self)(new[..., m] + shift, loadings @ cholesky(phi), noise)

    def expected_moments(self, weights: Tensor) -> LatentMoments:
        eye = torch.eye(self.n_latent + 1, dtype=weights.dtype, device=weights.device)
        latent = weights[:, None, None] * eye
        cross = weights[:, None, None] * torch.cat([self.loadings, self.means[..., None]], 2)
        square = weights[:, None] * (self.feature_variances() + self.means.square())
        square = square.sum(1, keepdim=True) if self.is_isotropic else square
        return LatentMoments(latent, latent[:, None], cross, square)

    def log_prior(self, prior: NormalInverseWishart) -> Tensor:
        d, half = self.n_features, prior.degrees_of_freedom / 2
        scale = prior.scale.expand_as(prior.mean)
        away = self.means - prior.mean
        whitened = (self.whitened @ away[..., None]).squeeze(-1)
        square = (self.precision * away.square()).sum(1) - whitened.square().sum(1)
        means = log_mean_given_covariance(square, self.log_det, prior.mean_precision, d)
        trace = (self.precision * scale).sum(1) - (self.whitened.square() * scale).sum((1, 2))
        log_gamma = torch.mvlgamma(torch.tensor(half, dtype=torch.float64), d)
        normaliser = half * scale.log().sum() - half * d * math.log(2) - log_gamma
        return (means + normaliser - (half + (d + 1) / 2) * self.log_det - 0.5 * trace).sum()

    def expected_log_density(self, moments: LatentMoments) -> Tensor:
        both = torch.cat([self.loadings, self.means[..., None]], 2)
        explained = (both * (2 * moments.cross - (moments.design @ both[..., None]).squeeze(-1))).sum(2)
        count = moments.design[..., -1, -1].expand_as(self.means)
        if self.is_isotropic:
            explained, count = explained.sum(1, keepdim=True), count.sum(1, keepdim=True)
        return -0.5 * (count * (LOG_2PI + self.noise.log()) + (moments.square - explained) / self.noise).sum()

    def drawn_together(self, mass: Tensor, pseudo: float) -> Self:
        average = (mass[:, None] * self.noise).sum(0) / mass.sum()
        noise = (mass[:, None] * self.noise + pseudo * average) / (mass[:, None] + pseudo)
        return type(self)(self.means, self.loadings, noise)

    def clipped(self, floor: float) -> Self:
        return type(self)(self.means, self.loadings, self.noise.clamp(min=floor))

    def collapsed(self, floor: float = 0.0) -> Tensor:
        return (self.noise <= floor).any(1)

    def roughness(self) -> Tensor:
        return self.precision.sum() - self.whitened.square().sum() + self.log_det.sum()

    def pack(self) -> Tensor:
        return torch.cat([self.loadings.flatten(), self.noise.log().flatten()])

    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        noise = self.noise * (scale[:1] if self.is_isotropic else scale).square()
        return type(self)(origin + scale * self.means, scale[:, None] * self.loadings, noise)

    def feature_variances(self) -> Tensor:
        return self.loadings.square().sum(2) + self.noise

    def canonical(self) -> Self:
        """The same densities with Wᵀ Ψ⁻¹ W diagonal and falling, and the largest loading of each dimension positive."""
        return self.turned(principal_loadings(self.loadings, self.precision))

    def turned(self, loadings: Tensor) -> Self:
        """With loadings that are a rotation of these, the largest of each dimension made positive."""
        return type(self)(self.means, with_largest_positive(loadings), self.noise)

    def decode(self, responsibilities: Tensor, mean: Tensor) -> Tensor:
        """Σ_k r_k (μ_k + W_k z_k), (d, n)."""
        k, m, n = mean.shape
        flat = (responsibilities[:, None] * mean).reshape(k * m, n)
        return self.loadings.movedim(1, 0).reshape(self.n_features, k * m) @ flat + self.means.mT @ responsibilities

    def given(self, batch: Batch) -> Conditional:
        return GivenLatent(self.view(batch), self.decode, self.emit)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return self.draw_with_latent(component, generator)[0]

    def draw_with_latent(self, component: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows (n, d) and their z (n, m)."""
        z = torch.randn(len(component), self.n_latent, generator=generator, dtype=torch.float64)
        return self.emit(component, z, generator), z

    def emit(self, component: Tensor, z: Tensor, generator: torch.Generator) -> Tensor:
        """x | z, k (n, d)."""
        noise = torch.randn(len(z), self.n_features, generator=generator, dtype=torch.float64)
        deviation = self.noise.sqrt().expand_as(self.means)
        x = torch.empty_like(noise)
        for k in range(self.n_components):
            chosen = component == k
            x[chosen] = self.means[k] + z[chosen] @ self.loadings[k].mT + noise[chosen] * deviation[k]
        return x
