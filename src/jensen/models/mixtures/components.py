"""What a mixture asks of its components, whatever they are.

K distributions of rows as one frozen value. A mixture never looks inside: densities for the E-step, expected moments,
an M-step from them, and answers about rows with holes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Footprint
from jensen.formulas.wishart import NormalInverseWishart

__all__ = [
    "Components",
    "Family",
    "draw_components",
]


@dataclass(frozen=True)
class Components(ABC):
    """K components with means (K, d)."""

    means: Tensor

    # Whether rows with holes should come in blocks that share a pattern, or as they stand with a mask.
    by_pattern: ClassVar[bool] = True

    @property
    def n_components(self) -> int:
        return self.means.shape[0]

    @property
    def n_features(self) -> int:
        return self.means.shape[1]

    def pick(self, numbers: Tensor) -> Self:
        """The components with these numbers, in this order; one may come twice."""
        return replace(self, **{field.name: getattr(self, field.name)[numbers] for field in fields(self)})

    @abstractmethod
    def view(self, batch: Batch) -> Any:
        """What densities and moments both read of a batch: its features φ, and parameters seen through its holes."""

    @abstractmethod
    def log_density(self, view: Any) -> Tensor:
        """ln p_k(x) over the observed features, (*blocks, K, n), in the engine's units."""

    def latent_divergence(self, view: Any) -> Tensor | None:
        """KL(q(z|x, k) ‖ p(z)) of a latent vector within the components (*blocks, K, n), where they have one."""
        return None

    @abstractmethod
    def moments(self, responsibilities: Tensor, view: Any) -> Any:
        """Expected moments given the observed entries; responsibilities (*blocks, K, n) carry the weights."""

    @abstractmethod
    def expected_moments(self, weights: Tensor) -> Any:
        """The moments of one row drawn from the mixture with these weights: `m_step` of them is this value."""

    @abstractmethod
    def m_step(self, moments: Any, prior: NormalInverseWishart | None, means: Tensor | None = None) -> Self:
        """The M-step, from moments taken at this value; at given means if there are any."""

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

    def resolution(self) -> float:
        """Nats per row by which rounding of the parameters moves densities; 0 where that is ε alone."""
        return 0.0

    @abstractmethod
    def pack(self) -> Tensor:
        """All but the means, in unconstrained coordinates."""

    @abstractmethod
    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        """The components of origin + scale · x."""

    @abstractmethod
    def feature_variances(self) -> Tensor:
        """Var[x_j | k], (K, d)."""

    @abstractmethod
    def family(self) -> Family: ...

    @abstractmethod
    def expected_rows(self, responsibilities: Tensor, batch: Batch) -> Tensor:
        """E[x | x_o] (*blocks, d, n) of a batch with holes, averaged over the components."""

    @abstractmethod
    def draw_given(self, responsibilities: Tensor, batch: Batch, n: int, generator: torch.Generator) -> Tensor:
        """n draws of x given x_o, one below the other (*blocks, n d, rows)."""

    @abstractmethod
    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        """A row from each of the components named (n,), (n, d)."""


class Family(Protocol):
    """What is known of components before there are any."""

    def units(self, variance: Tensor) -> Tensor:
        """The deviation per feature that the engine divides by; the components' structure is blind to it."""

    def footprint(self, k: int, d: int) -> Footprint: ...

    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters, without the mixture's weights."""

    def unpack(self, means: Tensor, vector: Tensor) -> Any: ...

    def scale_shape(self, d: int) -> tuple[int, ...]:
        """Of the scale Λ of a prior on covariances."""

    def log_volume(self, k: int, scale: Tensor) -> float:
        """ln |∂θ̃/∂θ| of k means and their covariances θ̃ in units of `scale` (d,), by which their prior density is that
        of θ.
        """

    def least_freedom(self, d: int) -> int:
        """What the degrees of freedom of such a prior must exceed."""


def draw_components(responsibilities: Tensor, generator: torch.Generator) -> Tensor:
    """One component (*blocks, n) for every row, from q (*blocks, K, n)."""
    q = responsibilities.movedim(-2, -1)
    drawn = torch.multinomial(q.reshape(-1, q.shape[-1]).cpu(), 1, generator=generator)
    return drawn.reshape(q.shape[:-1]).to(q.device)
