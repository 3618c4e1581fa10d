"""Components that are a product of families over groups of columns.

    p_k(x) = Π_g p_kg(x_g)
Given the component the groups are independent; within a group a family may have any dependence, as numbers with a full
covariance have. Statistics, M-steps and priors are those of the groups, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from jensen.data.sparse import some_features
from jensen.engines.em.batch import Batch, Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.sampling import RowSample
from jensen.engines.em.sources import Patterns, Source
from jensen.formulas.moments import Extent
from jensen.models.mixtures.components import AnyComponents, Components, Conditional, SmoothFamily

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProductMoments:
    """The statistics of every group; the mass is that of the components."""

    mass: Tensor
    groups: tuple[Any, ...]

    def __add__(self, other: ProductMoments) -> ProductMoments:
        parts = zip(self.groups, other.groups, strict=True)
        return ProductMoments(self.mass + other.mass, tuple(one + two for one, two in parts))

    def __mul__(self, factor: float) -> ProductMoments:
        return ProductMoments(self.mass * factor, tuple(part * factor for part in self.groups))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Product(Components[tuple[Any, ...], ProductMoments]):
    """Components of groups of columns.

    Args:
        parts: the components of each group, as many in all of them.
        columns: the numbers of the columns of each group, which together are all columns.
    """

    parts: tuple[AnyComponents, ...]
    columns: Groups

    @property
    def expectation(self) -> Tensor:
        return assembled([part.expectation for part in self.parts], self.columns, dim=1)

    @property
    def n_components(self) -> int:
        return self.parts[0].n_components

    @property
    def n_features(self) -> int:
        return sum(map(len, self.columns))

    @property
    def n_parameters(self) -> int:
        return sum(part.n_parameters for part in self.parts)

    @property
    def by_pattern(self) -> Patterns:
        found = [columns for part, columns in zip(self.parts, self.columns, strict=True) if part.by_pattern]
        if len(found) > 1:
            raise ValueError("only one group of columns can have a pattern of missing values")
        return found[0] if found else False

    @property
    def footprint(self) -> Footprint:
        parts = [part.footprint for part in self.parts]
        # Groups are computed one after the other, but their views stay until the M-step.
        return Footprint(
            sum(part.per_row for part in parts),
            max(part.per_block for part in parts),
            max(part.fewest_in_block for part in parts),
        )

    def view(self, batch: Batch) -> tuple[Any, ...]:
        return tuple(part.view(own) for part, own in self.split(batch))

    def hold(self, batch: Batch) -> tuple[Any, ...]:
        return tuple(part.hold(own) for part, own in self.split(batch))

    def view_held(self, held: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.view_held(own) for part, own in zip(self.parts, held, strict=True))

    def split(self, batch: Batch) -> Iterator[tuple[AnyComponents, Batch]]:
        """Every group's components with their own columns of a batch."""
        for part, columns in zip(self.parts, self.columns, strict=True):
            yield part, restricted(batch, columns, bool(part.by_pattern))

    def log_density(self, view: tuple[Any, ...]) -> Tensor:
        densities = (part.log_density(own) for part, own in zip(self.parts, view, strict=True))
        total = next(densities)
        for density in densities:
            total = total.add_(density)
        return total

    def moments(self, responsibilities: Tensor, view: tuple[Any, ...]) -> ProductMoments:
        groups = tuple(part.moments(responsibilities, own) for part, own in zip(self.parts, view, strict=True))
        return ProductMoments(groups[0].mass, groups)

    def expected_moments(self, weights: Tensor) -> ProductMoments:
        return ProductMoments(weights, tuple(part.expected_moments(weights) for part in self.parts))

    def m_step(self, moments: ProductMoments) -> Self:
        parts = zip(self.parts, moments.groups, strict=True)
        return replace(self, parts=tuple(part.m_step(own) for part, own in parts))

    def of_classes(self, source: Source) -> Self:
        parts = [
            part.of_classes(SomeColumns(source, number, own))
            for number, (part, own) in enumerate(zip(self.parts, self.columns, strict=True))
        ]
        return replace(self, parts=tuple(parts))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return assembled([part.draw(component, generator) for part in self.parts], self.columns, dim=1)

    def given(self, batch: Batch) -> Conditional:
        return GivenGroups(tuple(given_part(part, own) for part, own in self.split(batch)), self.columns)

    def frame(self, weights: Tensor) -> Frame:
        frames = [part.frame(weights) for part in self.parts]
        return joined_frame(frames, self.columns)

    def affine(self, origin: Tensor, scale: Tensor) -> Self:
        parts = zip(self.parts, map(list, self.columns), strict=True)
        return replace(self, parts=tuple(part.affine(origin[own], scale[own]) for part, own in parts))

    def moved(self, offset: Tensor) -> Self:
        parts = zip(self.parts, map(list, self.columns), strict=True)
        return replace(self, parts=tuple(part.moved(offset[:, own]) for part, own in parts))

    def pick(self, numbers: Tensor) -> Self:
        return replace(self, parts=tuple(part.pick(numbers) for part in self.parts))

    def collapsed(self, floor: float = 0.0) -> Tensor:
        found = [part.collapsed(floor).expand(self.n_components) for part in self.parts]
        return torch.stack(found).any(0)

    def roughness(self) -> Tensor:
        return torch.stack([part.roughness() for part in self.parts]).sum()

    def resolution(self) -> float:
        return max(part.resolution() for part in self.parts)


@dataclass(frozen=True)
class ProductFamily(SmoothFamily[Product]):
    """The families of groups of columns."""

    families: tuple[SmoothFamily[Any], ...]
    columns: Groups

    def standard(self, k: int, d: int) -> Product:
        parts = zip(self.families, self.columns, strict=True)
        return Product(tuple(family.standard(k, len(own)) for family, own in parts), self.columns)

    def frame(self, extent: Extent) -> Frame:
        parts = zip(self.families, self.columns, strict=True)
        return joined_frame([family.frame(extent.some(own)) for family, own in parts], self.columns)

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        parts = zip(self.families, map(list, self.columns), strict=True)
        found = [family.points(some_features(x, own), scale[own]) for family, own in parts]
        return torch.cat([points for points, _ in found]), torch.cat([factors for _, factors in found])

    @property
    def share_of_levels(self) -> float:
        groups = zip(self.families, self.columns, strict=True)
        return sum(family.share_of_levels * len(own) for family, own in groups) / sum(map(len, self.columns))

    def prepared(self, k: int, frame: Frame, source: Source) -> Self:
        parts = []
        for number, (family, own) in enumerate(zip(self.families, self.columns, strict=True)):
            local = SomeColumns(source, number, own)
            parts.append(family.prepared(k, Frame(frame.origin[list(own)], frame.scale[list(own)]), local))
        return replace(self, families=tuple(parts))

    def informed(self, k: int, frame: Frame, moments: ProductMoments) -> Self:
        parts = []
        for family, own, group in zip(self.families, map(list, self.columns), moments.groups, strict=True):
            parts.append(family.informed(k, Frame(frame.origin[own], frame.scale[own]), group))
        return replace(self, families=tuple(parts))

    def adopted(self, components: Product) -> Product:
        parts = zip(self.families, components.parts, strict=True)
        return replace(components, parts=tuple(family.adopted(part) for family, part in parts))

    def gentle(self) -> Self:
        return replace(self, families=tuple(family.gentle() for family in self.families))

    def m_step(self, components: Product, moments: ProductMoments) -> Product:
        parts = zip(self.families, components.parts, moments.groups, strict=True)
        return replace(components, parts=tuple(family.m_step(part, own) for family, part, own in parts))

    def first(self, components: Product, moments: ProductMoments, pseudo: float) -> Product:
        parts = zip(self.families, components.parts, moments.groups, strict=True)
        return replace(components, parts=tuple(family.first(part, own, pseudo) for family, part, own in parts))

    def project(self, components: Product) -> Product:
        parts = zip(self.families, components.parts, strict=True)
        return replace(components, parts=tuple(family.project(part) for family, part in parts))

    def log_prior(self, components: Product) -> Tensor:
        parts = zip(self.families, components.parts, strict=True)
        return torch.stack([family.log_prior(part) for family, part in parts]).sum()

    def pack(self, components: Product) -> Tensor:
        parts = zip(self.families, components.parts, strict=True)
        return torch.cat([family.pack(part) for family, part in parts])

    def unpack(self, vector: Tensor, k: int, d: int) -> Product:
        parts, start = [], 0
        for family, own in zip(self.families, self.columns, strict=True):
            size = len(family.pack(family.standard(k, len(own))))
            parts.append(family.unpack(vector[start : start + size], k, len(own)))
            start += size
        return Product(tuple(parts), self.columns)

    def expected_log_density(self, components: Product, moments: ProductMoments) -> Tensor:
        parts = zip(self.families, components.parts, moments.groups, strict=True)
        return torch.stack([family.expected_log_density(part, own) for family, part, own in parts]).sum()


@dataclass(frozen=True)
class GivenGroups:
    """Rows given what is observed of them, group by group; a row has one component in all of them."""

    parts: tuple[Conditional, ...]
    columns: Groups

    def expected(self, responsibilities: Tensor) -> Tensor:
        return assembled([part.expected(responsibilities) for part in self.parts], self.columns, dim=-2)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return assembled([part.draw(component, generator) for part in self.parts], self.columns, dim=-2)


@dataclass(frozen=True)
class Known:
    """Rows whose entries are all observed."""

    x: Tensor

    def expected(self, responsibilities: Tensor) -> Tensor:
        return self.x

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return self.x


@dataclass(frozen=True)
class SomeColumns:
    """A source, of batches that a product holds, as one of its groups sees it."""

    source: Source
    number: int
    columns: tuple[int, ...]

    @property
    def n_rows(self) -> int | None:
        return self.source.n_rows

    @property
    def n_numbers(self) -> int:
        return self.source.n_numbers

    def __iter__(self) -> Iterator[Batch]:
        # Sparse rows, all columns of one group, are read as they are.
        return (batch if batch.held is None else batch.held[self.number] for batch in self.source)

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def sample(self, n: int, limit: int) -> RowSample:
        sample = self.source.sample(n, limit)
        return replace(sample, x=some_features(sample.x, self.columns))


def restricted(batch: Batch, columns: Sequence[int], by_pattern: bool) -> Batch:
    """Some columns of a batch; with `by_pattern` its blocks share a pattern of missing values in them."""
    if not by_pattern and tuple(columns) == tuple(range(batch.x.shape[-2])):
        return batch  # all columns, so there is nothing to copy
    own = list(columns)
    observed = batch.observed
    if observed is not None:
        # Entries are (*blocks, d, n), patterns of blocks (P, d).
        is_entrywise = observed.ndim == batch.x.ndim
        if is_entrywise and by_pattern and observed.ndim == 3:
            observed, is_entrywise = observed[..., 0], False
        observed = observed[..., own, :] if is_entrywise else observed[..., own]
    return replace(batch, x=batch.x[..., own, :], observed=observed)


def given_part(part: AnyComponents, batch: Batch) -> Conditional:
    return Known(batch.x) if batch.observed is None else part.given(batch)


def assembled(parts: Sequence[Tensor], columns: Groups, dim: int) -> Tensor:
    """The values of all groups in the order of their columns."""
    order = torch.tensor([column for own in columns for column in own])
    return torch.cat(list(parts), dim).index_select(dim, order.argsort().to(parts[0].device))


def joined_frame(frames: Sequence[Frame], columns: Groups) -> Frame:
    origin = assembled([frame.origin for frame in frames], columns, dim=0)
    return Frame(origin, assembled([frame.scale for frame in frames], columns, dim=0))
