"""What every covariance structure offers, and the part of the M-step they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from jensen.batch import Batch, Footprint
from jensen.formulas.gaussian import Observed
from jensen.formulas.normal_inverse_wishart import NormalInverseWishart
from jensen.statistics import Additive

__all__ = ["LARGEST_EXPANDED_PRECISION", "Gaussians", "Moments", "mode_of_means", "outer", "without_empty"]

# Rounding in the expanded square is about ε ‖x‖² λ_max(Σ⁻¹), and ‖x‖² is about d in standardised units: with this
# limit on d λ_max it stays near 1e-8 nats.
LARGEST_EXPANDED_PRECISION = 1e8
# A smaller share of the mass is lost among the denormal numbers: such a component takes the mean and spread of all.
EMPTY = 1e-200


@dataclass(frozen=True)
class Moments(Additive):
    """Σ r, Σ r x and Σ r x xᵀ per component, about the origin; each structure keeps of the last what it needs."""

    mass: Tensor  # (K,)
    first: Tensor  # (K, d)
    second: Tensor  # full (K, d, d); tied (1, d, d); diag and spherical (K, d)


@dataclass(frozen=True)
class Gaussians(ABC):
    """Means (K, d) and covariances: full (K, d, d); tied (1, d, d); diag (K, d); spherical (K, 1)."""

    means: Tensor
    covariances: Tensor

    name: ClassVar[str]
    is_dense: ClassVar[bool]

    @property
    def n_components(self) -> int:
        return self.means.shape[0]

    @property
    def n_features(self) -> int:
        return self.means.shape[1]

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
        """The deviation per feature that the engine divides by; the structure is blind to it."""
        return variance.sqrt()

    @abstractmethod
    def view(self, batch: Batch) -> Any:
        """What densities and moments both read of a batch: its features φ, and parameters seen through its holes."""

    @abstractmethod
    def log_density(self, view: Any) -> Tensor:
        """ln N(x; μ_k, Σ_k), (*blocks, K, n), in the engine's units."""

    @abstractmethod
    def moments(self, responsibilities: Tensor, view: Any) -> Moments:
        """Expected moments given the observed entries; responsibilities (*blocks, K, n) carry the weights."""

    @abstractmethod
    def expected_moments(self, weights: Tensor) -> Moments:
        """The moments of one row drawn from the mixture with these weights: `from_moments` of them is this value."""

    @classmethod
    @abstractmethod
    def from_moments(cls, moments: Moments, prior: NormalInverseWishart | None, means: Tensor | None = None) -> Self:
        """The M-step: the mode of means and covariances, or of covariances at given means."""

    @abstractmethod
    def clipped(self, floor: float) -> Self:
        """The M-step under the constraint that no eigenvalue (variance) is below `floor`."""

    @abstractmethod
    def collapsed(self, floor: float = 0.0) -> Tensor:
        """Which covariances have an eigenvalue (variance) that is not above `floor`."""

    @abstractmethod
    def expected_log_density(self, moments: Moments) -> Tensor:
        """Σ_ik r_ik ln N(x_i; μ_k, Σ_k), a differentiable function of the parameters."""

    @abstractmethod
    def log_prior(self, prior: NormalInverseWishart) -> Tensor: ...

    @abstractmethod
    def roughness(self) -> Tensor:
        """Σ_k [tr Σ_k⁻¹ + ln|Σ_k|]: in standardised units, how near to a singular fit this is (Chen & Tan 2009)."""

    @abstractmethod
    def pack(self) -> Tensor:
        """Covariances in unconstrained coordinates: log-Cholesky or log-variances."""

    @classmethod
    @abstractmethod
    def unpack(cls, means: Tensor, vector: Tensor) -> Self: ...

    @abstractmethod
    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        """The Gaussians of origin + scale · x."""

    @abstractmethod
    def full(self) -> Tensor:
        """Covariances as (K, d, d)."""

    @classmethod
    @abstractmethod
    def from_full(cls, means: Tensor, full: Tensor) -> Self:
        """Undo `full`, for covariances that have the structure."""

    def conditional(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """E[x | x_o, k] (P, K, d, n) and Cov[x | x_o, k] (P, K, d, d) of a batch with holes."""
        assert batch.observed is not None
        seen = batch.observed.to(self.means.dtype)[:, None, :]
        observed = Observed(self.full(), seen)
        centre = self.means[..., None]
        return centre + observed.gain @ (batch.x[:, None] - centre * seen[..., None]), observed.residual

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
