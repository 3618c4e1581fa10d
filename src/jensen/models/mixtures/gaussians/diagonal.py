"""Diagonal matrices: a variance per feature, or one for all features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.engines.em.sources import Source
from jensen.formulas.gaussian import LARGEST_EXPANDED_PRECISION, LOG_2PI
from jensen.formulas.wishart import NormalInverseWishart, log_inverse_gamma, log_mean_given_covariance
from jensen.models.mixtures.gaussians.base import Gaussians
from jensen.models.mixtures.gaussians.moments import Moments


@dataclass(frozen=True)
class View:
    """A batch with its squares (*blocks, d, n), and 1 where a feature is observed, 0 where missing (P, 1, d)."""

    batch: Batch
    squares: Tensor
    seen: Tensor | None

    def sums(self, responsibilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Σ r (*blocks, K, 1), Σ r x and Σ r x² (*blocks, K, d)."""
        first, second = responsibilities @ self.batch.x.mT, responsibilities @ self.squares.mT
        return responsibilities.sum(-1, keepdim=True), first, second


class DiagonalGaussians(Gaussians[View]):
    """Densities and moments are products with x and x²."""

    @property
    def entries_per_row(self) -> int:
        return 2 * self.n_features + 1 + self.n_components

    @cached_property
    def variances(self) -> Tensor:
        return self.covariances.expand(self.means.shape)

    @cached_property
    def ill_conditioned(self) -> Tensor:
        """The numbers of the components whose squares are not to be expanded."""
        # (x-μ)²/σ² expanded loses ε (μ² + (x-μ)²)/σ²; of that only ε μ²/σ² matters where the square itself is small.
        return ((self.means.square() / self.covariances).sum(-1) >= LARGEST_EXPANDED_PRECISION).nonzero().squeeze(-1)

    def view(self, batch: Batch) -> View:
        seen = None if batch.observed is None else batch.observed.to(batch.x.dtype)[:, None, :]
        return View(batch, batch.x.square(), seen)

    def log_density(self, view: View) -> Tensor:
        seen = view.seen
        precision = 1 / self.variances if seen is None else seen / self.variances
        log_det = (self.variances.log() if seen is None else self.variances.log() * seen).sum(-1)
        constant = -0.5 * ((self.n_features if seen is None else seen.sum(-1)) * LOG_2PI + log_det)
        linear = self.means * precision
        offset = constant - 0.5 * (linear * self.means).sum(-1)
        found = (linear @ view.batch.x).add_(-0.5 * precision @ view.squares).add_(offset[..., None])
        for k in self.ill_conditioned.tolist():
            square = (view.batch.x - self.means[k, :, None]).square_()
            found[..., k, :] = constant[..., k, None] - 0.5 * (precision[..., k, None, :] @ square).squeeze(-2)
        return found

    def moments(self, responsibilities: Tensor, view: View) -> Moments:
        mass, first, second = view.sums(responsibilities)
        seen = view.seen
        if seen is None:
            return Moments(mass.squeeze(-1), first, second)
        missing = mass * (1 - seen)
        first = first + missing * self.means
        second = second + missing * (self.means.square() + self.variances)
        return Moments(mass.squeeze(-1).sum(0), first.sum(0), second.sum(0))

    def of_classes(self, source: Source) -> Self:
        """The means and variances of every class over the rows that have a feature, the maximum of the likelihood.

        An M-step with expected values in place of missing ones would take many steps to it.
        """
        if all(batch.observed is None for batch in source):
            return self  # one M-step ends it from anywhere
        count, first, second = reduce(add, (self.observed_sums(batch) for batch in source))
        means = torch.where(count > 0, first / count, self.means)
        squares = second - means * first
        if self.form.is_round:
            squares, count = squares.sum(1, keepdim=True), count.sum(1, keepdim=True)
        if self.form.is_shared:
            squares, count = squares.sum(0, keepdim=True), count.sum(0, keepdim=True)
        variances = torch.where(count > 0, squares / count, self.covariances)
        if self.form.letters in ("VEI", "EVI"):  # these have no closed form, so it is only a start
            mass = count.amax(1).clamp(min=1.0)
            variances = self.form.fitted(variances * mass[:, None], mass, 0.0)
        return replace(self, means=means, covariances=variances)

    def observed_sums(self, batch: Batch) -> Tensor:
        """Σ r, Σ r x and Σ r x² over the rows of every class that have a feature (3, K, d)."""
        view = self.view(batch)
        r = batch.x.new_ones(*batch.x.shape[:-2], self.n_components, batch.x.shape[-1])
        if batch.label is not None:
            r *= batch.label[..., None, :] == torch.arange(self.n_components)[:, None]
        if batch.weight is not None:
            r *= batch.weight[..., None, :]
        mass, first, second = view.sums(r)
        count = mass.expand_as(first) if view.seen is None else mass * view.seen
        sums = torch.stack([count, first, second], -3)
        return sums if view.seen is None else sums.sum(0)

    def expected_moments(self, weights: Tensor) -> Moments:
        share = weights[:, None]
        return Moments(weights, share * self.means, share * (self.variances + self.means.square()))

    @staticmethod
    def scatter(moments: Moments, means: Tensor) -> Tensor:
        """Σ_i r_ik (x_ij-μ_kj)² about any means."""
        return moments.second - 2 * means * moments.first + moments.mass[:, None] * means.square()

    def collapsed(self, floor: float = 0.0) -> Tensor:
        return (self.covariances <= floor).any(1)

    def expected_log_density(self, moments: Moments) -> Tensor:
        log_det = moments.mass[:, None] * (LOG_2PI + self.variances.log())
        return -0.5 * (log_det + self.scatter(moments, self.means) / self.variances).sum()

    def log_prior(self, prior: NormalInverseWishart) -> Tensor:
        square = ((self.means - prior.mean).square() / self.variances).sum(-1)
        log_det = self.variances.log().sum(-1)
        means = log_mean_given_covariance(square, log_det, prior.mean_precision, self.n_features)
        return means.sum() + log_inverse_gamma(self.covariances, prior.degrees_of_freedom, prior.scale).sum()

    def roughness(self) -> Tensor:
        variances = self.covariances.expand(-1, self.n_features)
        return (1 / variances + variances.log()).sum()

    def pack(self) -> Tensor:
        return self.form.pack(self.covariances)

    def full(self) -> Tensor:
        return torch.diag_embed(self.variances)

    def feature_variances(self) -> Tensor:
        return self.variances

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(len(component), self.n_features, generator=generator, dtype=torch.float64)
        return self.means[component] + noise * self.variances.sqrt()[component]

    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        # One variance for all features comes with one unit for all; without features it has none.
        unit = scale[:1].square().prod() if self.form.is_round else scale.square()
        return replace(self, means=origin + scale * self.means, covariances=self.covariances * unit)

    def select(self, columns: Tensor) -> Self:
        kept = self.covariances if self.form.is_round else self.covariances[:, columns]
        return type(self)(self.means[:, columns], kept, self.form.of_some_columns)

    def precision_factors(self) -> Tensor:
        return self.covariances.rsqrt()
