"""What a mixture asks of its components, whatever they are.

`Components` are K distributions of rows as one frozen value: densities for the E-step, expected statistics, an M-step
from them, and draws. A `Family` is what is known before there are any: how they start, their coordinates, their prior.
A mixture never looks inside either of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from jensen.engines.em.batch import Addable, Batch, Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Patterns, Source
from jensen.formulas.moments import Extent, Spread


class Moments(Addable, Protocol):
    """Sums over rows, weighted by responsibilities; the mass (K,) is that of the components."""

    @property
    def mass(self) -> Tensor: ...


class Conditional(Protocol):
    """Whole rows given what is observed of them."""

    def expected(self, responsibilities: Tensor) -> Tensor:
        """E[x | x_o] (*blocks, d, n), averaged over the components by responsibilities (*blocks, K, n); where x is a
        level without an order, the most probable one.
        """

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        """One draw of x given x_o (*blocks, d, n) from the component of every row (*blocks, n)."""


V = TypeVar("V")
M = TypeVar("M", bound=Moments)


@dataclass(frozen=True)
class Components(ABC, Generic[V, M]):
    """K distributions of rows; V is what they make of a batch, M their statistics.

    Subclass it as a frozen dataclass of tensors, each with the components on its first axis.
    """

    @property
    @abstractmethod
    def expectation(self) -> Tensor:
        """E[x | k], (K, d)."""

    @property
    def n_components(self) -> int:
        return self.expectation.shape[0]

    @property
    def n_features(self) -> int:
        return self.expectation.shape[1]

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Free parameters, without the mixture's weights."""

    @property
    def by_pattern(self) -> Patterns:
        """Whether rows with missing values should come in blocks that share a pattern, or the columns in which."""
        return False

    @property
    def footprint(self) -> Footprint:
        """What an E-step holds; for batches that stay in the cache."""
        return Footprint(2 * self.n_features + self.n_components)

    @abstractmethod
    def view(self, batch: Batch) -> V:
        """What densities and moments both read of a batch, worked out once."""

    def hold(self, batch: Batch) -> Any:
        """What a fit holds of a batch between sweeps, free of parameters: the batch itself, or what `view` makes of it
        where that has none.
        """
        return batch

    def view_held(self, held: Any) -> V:
        """The view of a batch from what `hold` made of it."""
        return self.view(held)

    @abstractmethod
    def log_density(self, view: V) -> Tensor:
        """ln p_k(x) over the observed features, (*blocks, K, n), in the engine's units."""

    def latent_divergence(self, view: V) -> Tensor | None:
        """KL(q(z|x, k) ‖ p(z)) of a latent vector within the components (*blocks, K, n), where they have one."""
        return None

    @abstractmethod
    def moments(self, responsibilities: Tensor, view: V) -> M:
        """Expected statistics given the observed entries; responsibilities (*blocks, K, n) carry the weights."""

    @abstractmethod
    def expected_moments(self, weights: Tensor) -> M:
        """The statistics of one row drawn from the mixture with these weights: `m_step` of them is this value."""

    @abstractmethod
    def m_step(self, moments: M) -> Self:
        """The maximum of the expected complete log-likelihood, from statistics taken at this value."""

    def of_classes(self, source: Source) -> Self:
        """Where EM starts if the labels of all rows name their component, or there is one: one step should end it."""
        return self

    @abstractmethod
    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        """A row from each of the components named (n,), (n, d)."""

    def given(self, batch: Batch) -> Conditional:
        """Rows given what is observed of them; as it stands for columns that are independent given the component."""
        return Independent(self)

    def frame(self, weights: Tensor) -> Frame:
        """Coordinates in which the densities of the mixture lose no digits."""
        return Frame.identity(self.n_features)

    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        """The components of origin + scale · x; only components that have a frame are asked for it."""
        return self

    def pick(self, numbers: Tensor) -> Self:
        """The components with these numbers, in this order; one may come twice."""
        return replace(self, **{field.name: getattr(self, field.name)[numbers] for field in fields(self)})

    def moved(self, offset: Tensor) -> Self:
        """The components moved by (K, d), where they have a place that can move."""
        return self

    def collapsed(self, floor: float = 0.0) -> Tensor:
        """Which components (K,) have a spread that is not above `floor`, so that their likelihood means nothing."""
        return torch.zeros(self.n_components, dtype=torch.bool)

    def roughness(self) -> Tensor:
        """A penalty on nearly degenerate components, in nats, by which starts are compared."""
        return torch.zeros((), dtype=torch.float64)

    def resolution(self) -> float:
        """Nats per row by which rounding of the parameters moves densities; 0 where that is ε alone."""
        return 0.0


AnyComponents = Components[Any, Any]


@dataclass(frozen=True)
class Independent:
    """Columns that are independent given the component: observed entries inform about the component only."""

    components: AnyComponents

    def expected(self, responsibilities: Tensor) -> Tensor:
        return self.components.expectation.mT @ responsibilities

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        drawn = self.components.draw(component.flatten().cpu(), generator)
        return drawn.to(component.device).reshape(*component.shape, -1).movedim(-1, -2)


C = TypeVar("C", bound=AnyComponents)


@dataclass(frozen=True)
class Family(ABC, Generic[C]):
    """What is known of components before there are any. Only `standard` has no default."""

    @abstractmethod
    def standard(self, k: int, d: int) -> C:
        """K components in the engine's units, alike, whose statistics of any rows can be taken."""

    def frame(self, extent: Extent) -> Frame:
        """The engine's coordinates for columns that lie there."""
        return Frame.identity(extent.n_features)

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates (D, n) in which k-means looks for clusters among rows (d, n) of the engine, NaN if missing, and
        factors (D,) that take them to the user's units.
        """
        spread = Spread.of(x)
        unit = spread.variance.sqrt()
        unit = unit.where(unit > 0, 1.0)
        return ((x - spread.mean[:, None]) / unit[:, None]).nan_to_num(nan=0.0), unit * scale

    @property
    def share_of_levels(self) -> float:
        """Of all columns. Distances mean little among levels, so starts then also draw partitions at random."""
        return 0.0

    def prepared(self, k: int, frame: Frame, source: Source) -> Self:
        """The family in these coordinates, with what its prior needs to know of the rows."""
        return self

    def informed(self, k: int, frame: Frame, moments: Any) -> Self:
        """A prepared family, with what it would know of rows that have these statistics in these coordinates."""
        return self

    def adopted(self, components: C) -> C:
        """The nearest components of this family to those of a fit with other arguments."""
        return components

    def gentle(self) -> Self:
        """The same with constraints under which no candidate of a start ends the search by collapsing."""
        return self

    def m_step(self, components: C, moments: Any) -> C:
        """The M-step under the family's prior and constraints, from statistics taken at these components."""
        return self.project(components.m_step(moments))

    def first(self, components: C, moments: Any, pseudo: float) -> C:
        """The M-step of a start: every component also counts `pseudo` rows of the average one, so that a cluster of few
        rows does not start degenerate.
        """
        return self.m_step(components, with_average_rows(moments, pseudo))

    def project(self, components: C) -> C:
        """The nearest components that keep to the constraints."""
        return components

    def log_prior(self, components: C) -> Tensor:
        """The log-density of the parameters in the user's units."""
        return torch.zeros((), dtype=torch.float64)


class SmoothFamily(Family[C]):
    """A family whose components have unconstrained coordinates, for SQUAREM and gradient EM."""

    @abstractmethod
    def pack(self, components: C) -> Tensor: ...

    @abstractmethod
    def unpack(self, vector: Tensor, k: int, d: int) -> C: ...

    @abstractmethod
    def expected_log_density(self, components: C, moments: Any) -> Tensor:
        """Σ_ik r_ik ln p_k(x_i), a differentiable function of the parameters."""


def view_of(components: Components[V, Any], batch: Batch) -> V:
    """The view of a batch of a source that may hold something else than rows."""
    return components.view(batch) if batch.held is None else components.view_held(batch.held)


def with_average_rows(moments: M, n: float) -> M:
    """Statistics with n rows of the average of all components added to each; every field has the components first."""
    total = moments.mass.sum()
    parts = {f.name: getattr(moments, f.name) for f in fields(moments)}  # type: ignore[arg-type]
    return replace(moments, **{name: part + n * part.sum(0) / total for name, part in parts.items()})  # type: ignore[type-var]


def draw_components(responsibilities: Tensor, generator: torch.Generator) -> Tensor:
    """One component (*blocks, n) for every row, from q (*blocks, K, n)."""
    q = responsibilities.movedim(-2, -1)
    drawn = torch.multinomial(q.reshape(-1, q.shape[-1]).cpu(), 1, generator=generator)
    return drawn.reshape(q.shape[:-1]).to(q.device)
