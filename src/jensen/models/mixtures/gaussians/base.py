"""What every covariance structure offers, and the part of the M-step they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch, Footprint
from jensen.formulas.gaussian import Observed, cholesky
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.components import Components, Family, draw_components

__all__ = ["Gaussians", "Moments", "mode_of_means", "outer", "without_empty"]

# A smaller share of the mass is lost among the denormal numbers: such a component takes the mean and spread of all.
EMPTY = 1e-200


@dataclass(frozen=True)
class Moments(Additive):
    """Σ r, Σ r x and Σ r x xᵀ per component, about the origin; each structure keeps of the last what it needs."""

    mass: Tensor  # (K,)
    first: Tensor  # (K, d)
    second: Tensor  # full (K, d, d); tied (1, d, d); diag and spherical (K, d)


@dataclass(frozen=True)
class Gaussians(Components):
    """Means (K, d) and covariances: full (K, d, d); tied (1, d, d); diag (K, d); spherical (K, 1)."""

    covariances: Tensor

    name: ClassVar[str]
    is_dense: ClassVar[bool]

    @staticmethod
    @abstractmethod
    def covariance_shape(k: int, d: int) -> tuple[int, ...]: ...

    @classmethod
    def user_shape(cls, covariances: Tensor) -> Tensor:
        """In scikit-learn's shape: full (K, d, d); tied (d, d); diag (K, d); spherical (K,)."""
        return covariances

    @staticmethod
    @abstractmethod
    def n_parameters(k: int, d: int) -> int:
        """Free parameters of means and covariances."""

    @classmethod
    @abstractmethod
    def entries_per_row(cls, k: int, d: int) -> int:
        """Numbers an E-step holds per row."""

    @classmethod
    def footprint(cls, k: int, d: int) -> Footprint:
        return Footprint(cls.entries_per_row(k, d), k * (d * d if cls.is_dense else d))

    @staticmethod
    def units(variance: Tensor) -> Tensor:
        return variance.sqrt()

    @abstractmethod
    def moments(self, responsibilities: Tensor, view: Any) -> Moments: ...

    @staticmethod
    @abstractmethod
    def scale_shape(d: int) -> tuple[int, ...]: ...

    @staticmethod
    @abstractmethod
    def log_volume(k: int, scale: Tensor) -> float:
        """-Σ ln of the units: one s_j for every mean, s_i s_j for every entry of a covariance."""

    @classmethod
    def least_freedom(cls, d: int) -> int:
        return d - 1 if cls.is_dense else 0

    @classmethod
    @abstractmethod
    def from_moments(cls, moments: Moments, prior: NormalInverseWishart | None, means: Tensor | None = None) -> Self:
        """The mode of means and covariances, or of covariances at given means."""

    def m_step(self, moments: Moments, prior: NormalInverseWishart | None, means: Tensor | None = None) -> Self:
        return self.from_moments(moments, prior, means)

    @abstractmethod
    def expected_log_density(self, moments: Moments) -> Tensor:
        """Σ_ik r_ik ln N(x_i; μ_k, Σ_k), a differentiable function of the parameters."""

    @classmethod
    @abstractmethod
    def unpack(cls, means: Tensor, vector: Tensor) -> Self:
        """Undo `pack`: log-Cholesky or log-variances."""

    @abstractmethod
    def full(self) -> Tensor:
        """Covariances as (K, d, d)."""

    @classmethod
    @abstractmethod
    def from_full(cls, means: Tensor, full: Tensor) -> Self:
        """Undo `full`, for covariances that have the structure."""

    def family(self) -> Family:
        return type(self)

    def feature_variances(self) -> Tensor:
        return self.full().diagonal(dim1=-2, dim2=-1)

    def conditional(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """E[x | x_o, k] (P, K, d, n) and Cov[x | x_o, k] (P, K, d, d) of a batch with holes."""
        assert batch.observed is not None
        seen = batch.observed.to(self.means.dtype)[:, None, :]
        observed = Observed(self.full(), seen)
        centre = self.means[..., None]
        return centre + observed.gain @ (batch.x[:, None] - centre * seen[..., None]), observed.residual

    def expected_rows(self, responsibilities: Tensor, batch: Batch) -> Tensor:
        return (responsibilities[:, :, None, :] * self.conditional(batch)[0]).sum(1)

    def draw_given(self, responsibilities: Tensor, batch: Batch, n: int, generator: torch.Generator) -> Tensor:
        assert batch.observed is not None
        mean, cov = self.conditional(batch)
        n_blocks, _, d, n_rows = mean.shape
        # The residual is 0 on the observed block; a 1 there makes it factorise, and its draw is not used.
        chol = torch.linalg.cholesky_ex(cov + torch.diag_embed(batch.observed[:, None].to(cov.dtype))).L
        parts = []
        for _ in range(n):
            component = draw_components(responsibilities, generator)[:, None, None, :]
            noise = torch.randn(n_blocks, d, n_rows, generator=generator, dtype=mean.dtype).to(mean.device)
            value = mean + chol @ noise[:, None]
            parts.append(value.gather(1, component.expand(-1, 1, d, -1)).squeeze(1))
        return torch.cat(parts, 1)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(len(component), self.n_features, generator=generator, dtype=torch.float64)
        chol = cholesky(self.full())
        x = torch.empty_like(noise)
        for k in range(len(chol)):
            chosen = component == k
            x[chosen] = self.means[k] + noise[chosen] @ chol[k].mT
        return x

    @abstractmethod
    def select(self, columns: Tensor) -> Self:
        """The marginal over some features."""

    @abstractmethod
    def precision_factors(self) -> Tensor:
        """Upper-triangular C with C Cᵀ = Σ⁻¹; for diagonal structures 1/σ."""

    @staticmethod
    @abstractmethod
    def inverse(matrices: Tensor) -> Tensor:
        """Precisions to covariances and back, in the structure's shape."""


def without_empty(moments: Moments) -> Moments:
    """The same moments with a trace of all the data in every empty component."""
    total = moments.mass.sum()
    empty = moments.mass <= EMPTY * total
    if not empty.any():
        return moments
    mass = torch.where(empty, EMPTY * total, moments.mass)
    first = torch.where(empty[:, None], EMPTY * moments.first.sum(0), moments.first)
    if len(moments.second) == 1:  # one matrix for all components cannot be empty
        return Moments(mass, first, moments.second)
    chosen = empty.reshape(-1, *[1] * (moments.second.ndim - 1))
    return Moments(mass, first, torch.where(chosen, EMPTY * moments.second.sum(0), moments.second))


def mode_of_means(moments: Moments, prior: NormalInverseWishart | None) -> Tensor:
    """μ_k = (Σ r x + κ μ_p) / (N_k + κ)."""
    if prior is None:
        return moments.first / moments.mass[:, None]
    kappa = prior.mean_precision
    return (moments.first + kappa * prior.mean) / (moments.mass[:, None] + kappa)


def outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]
