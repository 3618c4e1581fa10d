"""Dense matrices: one per component, or one for all."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.formulas.gaussian import (
    LARGEST_EXPANDED_PRECISION,
    LOG_2PI,
    Observed,
    quadratic_form,
)
from jensen.formulas.quadratic import halves, n_quadratic, quadratic_features, weighted_squares
from jensen.formulas.wishart import NormalInverseWishart, log_inverse_wishart, log_mean_given_covariance
from jensen.models.mixtures.gaussians.base import Gaussians, GivenNumbers
from jensen.models.mixtures.gaussians.moments import Moments, outer
from jensen.models.mixtures.gaussians.rows import GivenRows, RowsView, has_own_patterns

# From this width on, writing φ (d²/2 entries a row) costs more than the whitened product's extra flops (measured).
WIDE = 56


@dataclass(frozen=True)
class View:
    """A batch's features φ (*blocks, F, n), and Σ through its pattern of missing values."""

    batch: Batch
    features: Tensor
    observed: Observed


class DenseGaussians(Gaussians[View | RowsView]):
    """The two classes differ in what they pool over the components."""

    def rows_view(self, batch: Batch) -> RowsView:
        return RowsView.of(self.means, self.covariances, batch, self.is_well_conditioned)

    def given(self, batch: Batch) -> GivenNumbers:
        return GivenRows(self, self.rows_view(batch)) if has_own_patterns(batch) else super().given(batch)

    @staticmethod
    @abstractmethod
    def pool(per_component: Tensor, dim: int = 0) -> Tensor: ...

    @cached_property
    def whole(self) -> Observed:
        return Observed(self.covariances, None)

    @cached_property
    def is_well_conditioned(self) -> bool:
        precision = self.whole.precision.diagonal(dim1=-2, dim2=-1)
        return bool((precision * self.n_features < LARGEST_EXPANDED_PRECISION).all())

    def through(self, batch: Batch) -> Observed:
        if batch.observed is None:
            return self.whole
        return Observed(self.covariances, batch.observed.to(self.means.dtype)[:, None, :])

    def seen_means(self, observed: Observed) -> Tensor:
        return self.means if observed.seen is None else self.means * observed.seen

    def constant(self, observed: Observed) -> Tensor:
        """-½ (d ln 2π + ln|Σ|) over the observed features (*blocks, K or 1)."""
        return -0.5 * (observed.n_observed * LOG_2PI + observed.log_det)

    def completed(self, raw: Moments, observed: Observed) -> Moments:
        """Expected moments of whole rows, x̂ = G x + (I - G) μ plus the residual, summed over the blocks."""
        if observed.seen is None:
            return raw
        gain, mass = observed.gain, raw.mass[..., None]
        offset = self.means - (gain @ self.means[..., None]).squeeze(-1)
        moved = (gain @ raw.first[..., None]).squeeze(-1)
        cross = outer(moved, offset)
        added = cross + cross.mT + mass[..., None] * (outer(offset, offset) + observed.residual)
        second = gain @ raw.second @ gain.mT + self.pool(added, dim=-3)
        return Moments(raw.mass.sum(0), (moved + mass * offset).sum(0), second.sum(0))

    def expected_moments(self, weights: Tensor) -> Moments:
        second = weights[:, None, None] * (self.full() + outer(self.means, self.means))
        return Moments(weights, weights[:, None] * self.means, self.pool(second))

    @classmethod
    def scatter(cls, moments: Moments, means: Tensor) -> Tensor:
        """Σ_i r_ik (x_i-μ_k)(x_i-μ_k)ᵀ about any means, pooled."""
        cross = outer(moments.first, means)
        return moments.second + cls.pool(moments.mass[:, None, None] * outer(means, means) - cross - cross.mT)

    def collapsed(self, floor: float = 0.0) -> Tensor:
        eye = torch.eye(self.n_features, dtype=self.covariances.dtype, device=self.covariances.device)
        info: Tensor = torch.linalg.cholesky_ex(self.covariances - floor * eye).info
        return info > 0

    def expected_log_density(self, moments: Moments) -> Tensor:
        constant = (self.pool(moments.mass) * self.constant(self.whole)).sum()
        return constant - 0.5 * (self.whole.precision * self.scatter(moments, self.means)).sum()

    def log_prior(self, prior: NormalInverseWishart) -> Tensor:
        chol = self.whole.chol
        square = quadratic_form(chol.expand(self.n_components, -1, -1), self.means - prior.mean)
        means = log_mean_given_covariance(square, self.whole.log_det, prior.mean_precision, self.n_features)
        return means.sum() + log_inverse_wishart(chol, prior.degrees_of_freedom, prior.scale).sum()

    def roughness(self) -> Tensor:
        own = self.whole.precision.diagonal(dim1=-2, dim2=-1).sum(-1) + self.whole.log_det
        # Eigenvalues that all components share count once.
        return own[0] if self.form.letters[:2] == "EE" else own.sum()

    def resolution(self) -> float:
        # Entries of Σ near 1 are held to ε, an eigenvalue λ with them, and ln λ to ε/λ, through d sums. A flat group
        # whose volume is that of others has larger entries.
        if not self.n_features:
            return 0.0
        size = self.covariances.diagonal(dim1=-2, dim2=-1).amax(-1).clamp(min=1)
        largest = (size * self.whole.precision.diagonal(dim1=-2, dim2=-1).amax(-1)).max()
        return float(torch.finfo(largest.dtype).eps * self.n_features * largest)

    def pack(self) -> Tensor:
        return self.form.pack(self.covariances)

    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        return replace(self, means=origin + scale * self.means, covariances=self.covariances * outer(scale, scale))

    def full(self) -> Tensor:
        return self.covariances.expand(self.n_components, -1, -1)

    def select(self, columns: Tensor) -> Self:
        kept = self.covariances[:, columns][:, :, columns]
        return type(self)(self.means[:, columns], kept, self.form.of_some_columns)

    def precision_factors(self) -> Tensor:
        return self.whole.whitening.mT


class FullGaussians(DenseGaussians):
    """φ(x) = [1, x, upper(x xᵀ)], or x itself for the whitened form ‖A_k x - A_k μ_k‖²."""

    @property
    def entries_per_row(self) -> int:
        k, d = self.means.shape
        return n_quadratic(d) + k if d < WIDE else k * d

    @staticmethod
    def pool(per_component: Tensor, dim: int = 0) -> Tensor:
        return per_component

    @cached_property
    def is_expanded(self) -> bool:
        return self.n_features < WIDE and self.is_well_conditioned

    def view(self, batch: Batch) -> View | RowsView:
        if has_own_patterns(batch):
            return self.rows_view(batch)
        return View(batch, quadratic_features(batch.x) if self.is_expanded else batch.x, self.through(batch))

    def log_density(self, view: View | RowsView) -> Tensor:
        if isinstance(view, RowsView):
            return view.log_density()
        if not self.is_expanded:
            return self._whitened_log_density(view.features, view.observed)
        whole = view.observed is self.whole
        return (self._coefficients_of_whole if whole else self._coefficients(view.observed)) @ view.features

    @cached_property
    def _coefficients_of_whole(self) -> Tensor:
        return self._coefficients(self.whole)

    def _coefficients(self, observed: Observed) -> Tensor:
        """W (*blocks, K, F)."""
        precision, means = observed.precision, self.seen_means(observed)
        linear = (precision @ means[..., None]).squeeze(-1)
        constant = self.constant(observed) - 0.5 * (linear * means).sum(-1)
        rows, cols = torch.triu_indices(self.n_features, self.n_features)
        # Off-diagonal products stand once in φ and twice in the quadratic form.
        upper = -precision[..., rows, cols] * torch.where(rows == cols, 0.5, 1.0)
        return torch.cat([constant[..., None], linear, upper], -1)

    def _whitened_log_density(self, x: Tensor, observed: Observed) -> Tensor:
        k, d = self.means.shape
        whitening = observed.whitening
        centre = (whitening @ self.seen_means(observed)[..., None]).squeeze(-1)
        square = x.new_zeros(())
        # The factor is triangular: the first half of the whitened features needs only the first half of x.
        for start, stop in halves(d):
            y = whitening[..., start:stop, :stop].flatten(-3, -2) @ x[..., :stop, :]
            y -= centre[..., start:stop].flatten(-2)[..., None]
            square = square + y.square_().unflatten(-2, (k, stop - start)).sum(-2)
        return self.constant(observed)[..., None] - 0.5 * square

    def moments(self, responsibilities: Tensor, view: View | RowsView) -> Moments:
        if isinstance(view, RowsView):
            raw = view.moments(responsibilities)
            return replace(raw, second=self.pool(raw.second))
        d = self.n_features
        if self.is_expanded:
            sums = responsibilities @ view.features.mT
            rows, cols = torch.triu_indices(d, d)
            second = sums.new_empty(*sums.shape[:-1], d, d)
            second[..., rows, cols] = second[..., cols, rows] = sums[..., 1 + d :]
            raw = Moments(sums[..., 0], sums[..., 1 : 1 + d], second)
        else:
            x = view.features
            raw = Moments(responsibilities.sum(-1), responsibilities @ x.mT, weighted_squares(responsibilities, x))
        return self.completed(raw, view.observed)


class TiedGaussians(DenseGaussians):
    """φ(x) = y = A x, whitened by the one Σ: every component is then a unit sphere around A μ_k."""

    @property
    def entries_per_row(self) -> int:
        return 2 * self.n_features + self.n_components

    @staticmethod
    def pool(per_component: Tensor, dim: int = 0) -> Tensor:
        return per_component.sum(dim, keepdim=True)

    def view(self, batch: Batch) -> View | RowsView:
        if has_own_patterns(batch):
            return self.rows_view(batch)
        observed = self.through(batch)
        return View(batch, observed.whitening.squeeze(-3) @ batch.x, observed)

    def log_density(self, view: View | RowsView) -> Tensor:
        if isinstance(view, RowsView):
            return view.log_density()
        y = view.features
        centre = (view.observed.whitening @ self.seen_means(view.observed)[..., None]).squeeze(-1)
        if self.is_well_conditioned:
            square = y.square().sum(-2, keepdim=True) - 2 * centre @ y + centre.square().sum(-1)[..., None]
        else:
            square = (y[..., None, :, :] - centre[..., None]).square().sum(-2)
        return self.constant(view.observed)[..., None] - 0.5 * square

    def moments(self, responsibilities: Tensor, view: View | RowsView) -> Moments:
        if isinstance(view, RowsView):
            raw = view.moments(responsibilities)
            return replace(raw, second=self.pool(raw.second))
        x = view.batch.x
        second = (x * responsibilities.sum(-2, keepdim=True)) @ x.mT
        raw = Moments(responsibilities.sum(-1), responsibilities @ x.mT, second[..., None, :, :])
        return self.completed(raw, view.observed)
