"""The family of Gaussian components: their coordinates, a floor on variances, a conjugate prior, known parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.formulas.moments import Extent
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.components import SmoothFamily
from jensen.models.mixtures.gaussians.base import GaussianComponents, Structure

# Moments about the mean of standardised data are sums near 1 with an error near 1e-16 per row: a variance below this
# share of the data's is rounding.
RESOLUTION = 1e-10
# M-steps keep variances above that; one that ends there, up to rounding, is singular.
SINGULAR = 1.01 * RESOLUTION
# A floor under which no candidate of a start collapses.
GENTLE = 1e-6


class PriorRecipe(Protocol):
    """A prior that the data complete."""

    def resolve(
        self, structure: Structure, n_components: int, frame: Frame, spread: Tensor, centre: Tensor | None = None
    ) -> NormalInverseWishart: ...


G = TypeVar("G", bound=GaussianComponents[Any, Any])


@dataclass(frozen=True)
class GaussianFamily(SmoothFamily[G], Generic[G]):
    """
    Args:
        structure: of the covariances.
        floor: eigenvalues (variances) are kept above it; 0 means no floor, and a collapse is an error.
        recipe: a prior on means and covariances, or None.
        means: known means (K, d), which are kept, or None.
        covariances: components whose covariances are known and kept, or None.
        prior: the recipe in the engine's units, once there are rows.
    """

    structure: Structure
    floor: float
    recipe: PriorRecipe | None = None
    means: Tensor | None = None
    covariances: G | None = None
    prior: NormalInverseWishart | None = None

    def standard(self, k: int, d: int) -> G:
        standard: G = self.structure.standard(k, d)
        return standard

    def frame(self, extent: Extent) -> Frame:
        return Frame.of_sharp(extent, self.structure.units)

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        # The frame is that of the rows, so 0 is the mean.
        return x.nan_to_num(nan=0.0), scale

    def prepared(self, k: int, frame: Frame, source: Source) -> Self:
        means, covariances, prior = self.means, self.covariances, None
        if means is not None:
            means = (means - frame.origin) / frame.scale
        if covariances is not None:
            covariances = covariances.affine(torch.zeros_like(frame.origin), 1 / frame.scale)
        # Without rows, as in a merge, `informed` resolves the recipe.
        if self.recipe is not None and len(frame.origin) and source.n_rows != 0:
            spread = self.structure.spread(source, len(frame.origin))
            prior = self.recipe.resolve(self.structure, k, frame, spread)
        return replace(self, means=means, covariances=covariances, prior=prior)

    def informed(self, k: int, frame: Frame, moments: Any) -> Self:
        if self.recipe is None or not len(frame.origin):
            return self
        centre, spread = moments.spread()
        return replace(self, prior=self.recipe.resolve(self.structure, k, frame, spread, centre))

    def adopted(self, components: G) -> G:
        adopted: G = components.adopted_by(self.structure)
        return adopted

    def gentle(self) -> Self:
        return replace(self, floor=max(self.floor, GENTLE))

    def m_step(self, components: G, moments: Any) -> G:
        found = components.m_step_above(max(self.floor, RESOLUTION), moments, self.prior, self.means)
        return self.known_or_not_collapsed(found)

    def first(self, components: G, moments: Any, pseudo: float) -> G:
        found = self.m_step(components, moments)
        return found if self.covariances is not None else self.project(found.drawn_together(moments.mass, pseudo))

    def project(self, components: G) -> G:
        found = self.known_or_not_collapsed(components)
        return found if self.covariances is not None else found.clipped(max(self.floor, RESOLUTION))

    def known_or_not_collapsed(self, components: G) -> G:
        if self.covariances is not None:
            return components.with_covariances_of(self.covariances)
        if self.floor == 0 and (broken := components.collapsed(SINGULAR)).any():
            number = int(broken.nonzero()[0])
            raise em.CollapseError(
                f"component {number} collapsed: its covariance is singular and reg_covar=0 sets no floor; "
                "raise reg_covar, give a prior or lower n_components"
            )
        return components

    def log_prior(self, components: G) -> Tensor:
        if self.prior is None:
            return torch.zeros((), dtype=torch.float64)
        return components.log_prior(self.prior) + self.prior.log_volume

    def pack(self, components: G) -> Tensor:
        return torch.cat([components.means.flatten(), components.pack()])

    def unpack(self, vector: Tensor, k: int, d: int) -> G:
        unpacked: G = self.structure.unpack(vector[: k * d].reshape(k, d), vector[k * d :])
        return unpacked

    def expected_log_density(self, components: G, moments: Any) -> Tensor:
        return components.expected_log_density(moments)
