"""Gaussian components: means, covariances in some structure, floors and conjugate priors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch, Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Patterns, Source
from jensen.formulas.gaussian import Observed, cholesky
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.components import Components, Conditional, M, V
from jensen.models.mixtures.gaussians.spread import covariance_of_rows

# A smaller share of the mass is lost among the denormal numbers: such a component takes the mean and spread of all.
EMPTY = 1e-200
# A factorised pattern of d features costs about as much as this many rows through their smaller sides (measured).
FEWEST_IN_BLOCK = 16


class Structure(Protocol):
    """What is known of Gaussian components before there are any."""

    def units(self, variance: Tensor) -> Tensor:
        """The deviation per feature that the engine divides by; the structure is blind to it."""

    def standard(self, k: int, d: int) -> Any:
        """K standard normals."""

    def unpack(self, means: Tensor, vector: Tensor) -> Any:
        """Undo `pack`: log-Cholesky or log-variances, and the like."""

    def scale_shape(self, d: int) -> tuple[int, ...]:
        """Of the scale Λ of a prior on covariances."""

    def log_volume(self, k: int, scale: Tensor) -> float:
        """ln |∂θ̃/∂θ| of k means and their covariances θ̃ in units of `scale` (d,), by which their prior density is that
        of θ.
        """

    def least_freedom(self, d: int) -> int:
        """What the degrees of freedom of such a prior must exceed."""

    def spread(self, source: Source, d: int) -> Tensor:
        """The covariance (d, d) or the variances (d,) of the rows, from which a prior takes its scale."""


@dataclass(frozen=True)
class GaussianComponents(Components[V, M]):
    """K Gaussians with means (K, d)."""

    means: Tensor

    @property
    def expectation(self) -> Tensor:
        return self.means

    @property
    @abstractmethod
    def structure(self) -> Structure: ...

    @abstractmethod
    def m_step(self, moments: M, prior: NormalInverseWishart | None = None, means: Tensor | None = None) -> Self:
        """The mode of means and covariances, or of covariances at given means."""

    def with_covariances_of(self, other: Self) -> Self:
        """These means, and the covariances of others."""
        return replace(other, means=self.means)

    @abstractmethod
    def drawn_together(self, mass: Tensor, pseudo: float) -> Self:
        """Covariances drawn towards their average as if every component had `pseudo` rows more."""

    @abstractmethod
    def clipped(self, floor: float) -> Self:
        """The M-step under the constraint that no eigenvalue (variance) is below `floor`."""

    @abstractmethod
    def collapsed(self, floor: float = 0.0) -> Tensor:
        """Which components (K,) have an eigenvalue (variance) that is not above `floor`."""

    @abstractmethod
    def log_prior(self, prior: NormalInverseWishart) -> Tensor: ...

    @abstractmethod
    def roughness(self) -> Tensor:
        """Σ_k [tr Σ_k⁻¹ + ln|Σ_k|]: in standardised units, how near to a singular fit this is (Chen & Tan 2009)."""

    @abstractmethod
    def pack(self) -> Tensor:
        """All but the means, in unconstrained coordinates."""

    @abstractmethod
    def affine(self, origin: Tensor, scale: Tensor) -> Self: ...

    def moved(self, offset: Tensor) -> Self:
        return replace(self, means=self.means + offset)

    @abstractmethod
    def feature_variances(self) -> Tensor:
        """Var[x_j | k], (K, d)."""

    @abstractmethod
    def expected_log_density(self, moments: M) -> Tensor:
        """Σ_ik r_ik ln N(x_i; μ_k, Σ_k), a differentiable function of the parameters."""

    def frame(self, weights: Tensor) -> Frame:
        """The mixture's own mean and spread."""
        share = weights[:, None]
        origin = (share * self.means).sum(0)
        spread = (share * (self.feature_variances() + (self.means - origin).square())).sum(0)
        return Frame(origin, self.structure.units(spread))


@dataclass(frozen=True)
class Moments(Additive):
    """Σ r, Σ r x and Σ r x xᵀ per component, about the origin; each structure keeps of the last what it needs."""

    mass: Tensor  # (K,)
    first: Tensor  # (K, d)
    second: Tensor  # full (K, d, d); tied (1, d, d); diag and spherical (K, d)


@dataclass(frozen=True)
class Gaussians(GaussianComponents[V, Moments]):
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
    def parameter_count(k: int, d: int) -> int:
        """Free parameters of means and covariances."""

    @property
    def n_parameters(self) -> int:
        return self.parameter_count(*self.means.shape)

    @classmethod
    @abstractmethod
    def entries_per_row(cls, k: int, d: int) -> int:
        """Numbers that an E-step holds per row."""

    @property
    def footprint(self) -> Footprint:
        k, d = self.means.shape
        if self.is_dense:
            return Footprint(self.entries_per_row(k, d), k * d * d, FEWEST_IN_BLOCK)
        return Footprint(self.entries_per_row(k, d), k * d)

    @property
    def by_pattern(self) -> Patterns:
        return True

    @property
    def structure(self) -> Structure:
        return type(self)

    @classmethod
    def standard(cls, k: int, d: int) -> Self:
        eye = torch.eye(d, dtype=torch.float64).expand(k, d, d)
        return cls.from_full(torch.zeros(k, d, dtype=torch.float64), eye)

    @staticmethod
    def units(variance: Tensor) -> Tensor:
        return variance.sqrt()

    @staticmethod
    def spread(source: Source, d: int) -> Tensor:
        return covariance_of_rows(source, d)

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

    def m_step(self, moments: Moments, prior: NormalInverseWishart | None = None, means: Tensor | None = None) -> Self:
        return self.from_moments(moments, prior, means)

    def drawn_together(self, mass: Tensor, pseudo: float) -> Self:
        covariances = self.covariances
        if len(covariances) == 1:
            return self
        mass = mass.reshape(-1, *[1] * (covariances.ndim - 1))
        average = (mass * covariances).sum(0) / mass.sum()
        return type(self)(self.means, (mass * covariances + pseudo * average) / (mass + pseudo))

    @classmethod
    @abstractmethod
    def unpack(cls, means: Tensor, vector: Tensor) -> Self: ...

    @abstractmethod
    def full(self) -> Tensor:
        """Covariances as (K, d, d)."""

    @classmethod
    @abstractmethod
    def from_full(cls, means: Tensor, full: Tensor) -> Self:
        """Undo `full`, for covariances that have the structure."""

    def feature_variances(self) -> Tensor:
        return self.full().diagonal(dim1=-2, dim2=-1)

    def given(self, batch: Batch) -> GivenNumbers:
        return GivenObserved.of(self.means, self.full(), batch)

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


class GivenNumbers(Conditional, Protocol):
    """Gaussian rows given what is observed of them."""

    def number(self, feature: int) -> tuple[Tensor, Tensor]:
        """The mean (*blocks, K, n) of a feature by component, and its variance (*blocks, K or 1, n or 1)."""


@dataclass(frozen=True)
class GivenObserved:
    """N(x; μ_k, Σ_k) given the observed entries of a batch in blocks.

    Args:
        mean: E[x | x_o, k] (P, K, d, n).
        cov: Cov[x | x_o, k] (P, K, d, d), 0 where an entry is observed.
        observed: which features a block has (P, d).
    """

    mean: Tensor
    cov: Tensor
    observed: Tensor

    @classmethod
    def of(cls, means: Tensor, full: Tensor, batch: Batch) -> GivenObserved:
        assert batch.observed is not None
        seen = batch.observed.to(means.dtype)[:, None, :]
        observed = Observed(full, seen)
        centre = means[..., None]
        mean = centre + observed.gain @ (batch.x[:, None] - centre * seen[..., None])
        return cls(mean, observed.residual, batch.observed)

    @cached_property
    def chol(self) -> Tensor:
        # The residual is 0 on the observed block; a 1 there makes it factorise, and its draw is not used.
        factor: Tensor = torch.linalg.cholesky_ex(self.cov + torch.diag_embed(self.observed[:, None].to(self.cov))).L
        return factor

    def number(self, feature: int) -> tuple[Tensor, Tensor]:
        return self.mean[..., feature, :], self.cov[..., feature, feature, None]

    def expected(self, responsibilities: Tensor) -> Tensor:
        return (responsibilities[:, :, None, :] * self.mean).sum(1)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        n_blocks, _, d, n_rows = self.mean.shape
        noise = torch.randn(n_blocks, d, n_rows, generator=generator, dtype=self.mean.dtype).to(self.mean.device)
        value = self.mean + self.chol @ noise[:, None]
        return value.gather(1, component[:, None, None, :].expand(-1, 1, d, -1)).squeeze(1)


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
