"""What the covariances of a mixture share.

    Σ_k = λ_k D_k A_k D_kᵀ,  |A_k| = 1
Three letters stand for volume λ, shape A and orientation D, as in mclust: E is equal in all components, V varies, and I
is the identity. Celeux & Govaert (1995).

    free parameters  K d + {E: 1, V: K} + {I: 0, E: d-1, V: K (d-1)} + {I: 0, E: 1, V: K} d (d-1) / 2
A normal-inverse-Wishart prior adds to scatter matrices and counts; within a structure it is the prior of "full" (or of
"diag") restricted to it, and one covariance that all components have is drawn once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from jensen.engines.em.frame import one_unit
from jensen.engines.em.sources import Source
from jensen.formulas.coordinates import (
    pack_covariances,
    pack_variances,
    unpack_covariances,
    unpack_variances,
)
from jensen.formulas.gaussian import cholesky
from jensen.formulas.structures import MOST_STEPS, TINY, structured_covariances, structured_variances
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.gaussians.moments import Moments, mode_of_means, outer, without_empty
from jensen.models.mixtures.gaussians.spread import covariance_of_rows, diagonal_of_rows

# Steps of an M-step without a closed form that starts from the last one. Each of them raises the bound, and EM goes on.
STEPS = 2
# Matrices that were written with six digits may be so far off their structure.
SIX_DIGITS = 1e-5


@dataclass(frozen=True)
class CovarianceStructure:
    """
    Args:
        name: the value of `covariance_type`.
        letters: volume, shape and orientation.
        components: the class of Gaussians that computes densities and moments with such covariances.
    """

    name: str
    letters: str
    components: type[Any]

    def __call__(self, means: Tensor, covariances: Tensor) -> Any:
        return self.components(means, covariances, self)

    # What the letters mean

    @property
    def is_dense(self) -> bool:
        """Whether the axes are not the coordinates'."""
        return self.letters[2] != "I"

    @property
    def is_round(self) -> bool:
        """Whether all features have the same variance."""
        return self.letters[1] == "I"

    @property
    def is_shared(self) -> bool:
        """Whether all components have the same covariance."""
        return "V" not in self.letters

    @property
    def is_free_of_units(self) -> bool:
        """Whether it stays when features change their units: equal axes or equal shapes do not, unless both are."""
        return not self.is_round and (not self.is_dense or self.letters[1] == self.letters[2])

    @property
    def of_some_columns(self) -> CovarianceStructure:
        """The structure of marginals and conditionals: volumes of some columns differ, and so do axes and shapes."""
        kept = self.is_free_of_units and self.letters[:2] != "EV"
        if kept or self.is_round:
            return self
        name, letters = ("full", "VVV") if self.is_dense else ("diag", "VVI")
        return replace(self, name=name, letters=letters)

    def parameter_count(self, k: int, d: int) -> int:
        """Free parameters of means and covariances."""
        if not d:
            return 0
        volumes, shapes, orientations = ({"I": 0, "E": 1, "V": k}[letter] for letter in self.letters)
        return k * d + volumes + shapes * (d - 1) + orientations * d * (d - 1) // 2

    # Sizes and units

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        features = (d, d) if self.is_dense else (1,) if self.is_round else (d,)
        return 1 if self.is_shared else k, *features

    def user_shape(self, covariances: Tensor) -> Tensor:
        """(K, d, d), diagonal (K, d), round (K,); without K if all components have the same."""
        if self.is_round:
            covariances = covariances.squeeze(-1)
        return covariances.squeeze(0) if self.is_shared else covariances

    def units(self, variance: Tensor) -> Tensor:
        return variance.sqrt() if self.is_free_of_units else one_unit(variance)

    def standard(self, k: int, d: int) -> Any:
        if not self.is_dense:
            return self(torch.zeros(k, d).double(), torch.ones(self.covariance_shape(k, d)).double())
        eye = torch.eye(d, dtype=torch.float64).expand(k, d, d)
        return self.from_full(torch.zeros(k, d, dtype=torch.float64), eye)

    def from_full(self, means: Tensor, full: Tensor) -> Any:
        """Undo `full` of components, for covariances that have the structure."""
        n, *features = self.covariance_shape(*means.shape)
        values = full if self.is_dense else full.diagonal(dim1=-2, dim2=-1)[:, : features[0]]
        if self.is_round and not means.shape[1]:
            values = means.new_ones(n, 1)
        return self(means, values[:n])

    def nearest(self, full: Tensor) -> Tensor:
        """The covariances of this structure nearest to matrices (K, d, d), by Σ_k KL(Σ̂_k ‖ Σ_k)."""
        unit = self.units(full.diagonal(dim1=-2, dim2=-1).mean(0))
        scaled = full / outer(unit, unit)
        scatter = scaled if self.is_dense else scaled.diagonal(dim1=-2, dim2=-1)
        found = self.fitted(scatter, scatter.new_ones(len(scatter)), 0.0)
        return found * (outer(unit, unit) if self.is_dense else unit[: found.shape[1]].square())

    def departs(self, full: Tensor) -> bool:
        """Whether matrices (K, d, d) do not have this structure, beyond six digits and rounding."""
        if self.is_shared or self.letters in ("VII", "VVI", "VVV") or not full.numel():
            return False
        means = full.new_zeros(full.shape[:2])
        unit = self.units(full.diagonal(dim1=-2, dim2=-1).mean(0))
        scaled, nearest = (values / outer(unit, unit) for values in (full, self(means, self.nearest(full)).full()))
        values = torch.linalg.eigvalsh(scaled)
        rounding = torch.finfo(values.dtype).eps * float((values[:, -1] / values[:, 0].clamp(min=TINY)).max())
        apart = (nearest - scaled).abs().max() / scaled.abs().max()
        return bool(apart > SIX_DIGITS + 100 * rounding)

    def inverse(self, matrices: Tensor) -> Tensor:
        """Precisions to covariances and back."""
        return torch.cholesky_inverse(cholesky(matrices)) if self.is_dense else 1 / matrices

    # The M-step

    def fitted(self, scatter: Tensor, mass: Tensor, floor: float, last: Tensor | None = None) -> Tensor:
        """The covariances that suit scatter matrices best, from the last ones on."""
        solve = structured_covariances if self.is_dense else structured_variances
        return solve(self.letters, scatter, mass, floor, last, MOST_STEPS if last is None else STEPS)

    def from_moments(
        self,
        moments: Moments,
        prior: NormalInverseWishart | None = None,
        means: Tensor | None = None,
        floor: float = 0.0,
        last: Tensor | None = None,
    ) -> Any:
        """The mode of means and covariances, or of covariances at given means, with no variance below `floor`.

        Args:
            moments: statistics.
            prior: None is maximum likelihood.
            means: known means.
            floor: the least eigenvalue.
            last: covariances to start from, where there is no closed form.
        """
        moments = without_empty(moments)
        means = mode_of_means(moments, prior) if means is None else means
        scatter, mass = self.components.scatter(moments, means), moments.mass
        if prior is not None:
            k, d = means.shape
            away = means - prior.mean
            squares = self.components.pool(outer(away, away)) if self.is_dense else away.square()
            # One drawn covariance counts for all the variances that it is the prior of.
            n_sharing = (k if self.is_shared else 1) * (d if self.is_round else 1)
            freedom = prior.degrees_of_freedom + (d + 1 if self.is_dense else 2)
            # Dense scatter matrices are pooled where all is shared.
            scale = prior.scale if self.is_dense else prior.scale / n_sharing
            scatter = scatter + scale + prior.mean_precision * squares
            mass = mass + 1 + freedom / n_sharing
        return self(means, self.fitted(scatter, mass, floor, last))

    # Coordinates

    def pack(self, covariances: Tensor) -> Tensor:
        """In unconstrained coordinates."""
        return pack_covariances(self.letters, covariances) if self.is_dense else pack_variances(covariances)

    def unpack(self, means: Tensor, vector: Tensor) -> Any:
        unpack = unpack_covariances if self.is_dense else unpack_variances
        return self(means, unpack(self.letters, vector, self.covariance_shape(*means.shape)))

    # The prior

    def spread(self, source: Source, d: int) -> Tensor:
        return covariance_of_rows(source, d) if self.is_dense else diagonal_of_rows(source, d)

    def scale_shape(self, d: int) -> tuple[int, ...]:
        return (d, d) if self.is_dense else () if self.is_round else (d,)

    def log_volume(self, k: int, scale: Tensor) -> float:
        """-Σ ln of the units: one s_j for every mean, s_i s_j for every entry of a covariance."""
        per_feature = len(scale) + 1 if self.is_dense else 2
        units = float(scale.log().sum())
        of_covariance = 2 * float(scale[0].log()) if self.is_round else per_feature * units
        return -(k * units + (1 if self.is_shared else k) * of_covariance)

    def least_freedom(self, d: int) -> int:
        return d - 1 if self.is_dense else 0
