"""The verbs of generative topographic mapping.

    E:  r_ig ∝ N(x_i; f(z_g), σ²I) over the observed features, every grid point z_g having the prior 1/G
    M:  W from a weighted ridge regression on the grid's features, σ² from what is left (formulas/topographic.py)
The objective is Σ_i w_i ln (1/G) Σ_g N(x_i; f(z_g), σ²I) - (α/2) ‖W‖² over the bumps: the log-posterior of W, but for a
constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from jensen.batch import Batch
from jensen.engines import em
from jensen.engines.sources import Frame
from jensen.formulas.centres import CentreMoments, moments_of, partial_distances, squared_differences
from jensen.formulas.covariance.base import LARGEST_EXPANDED_PRECISION
from jensen.formulas.mixture import posterior_in_place
from jensen.formulas.topographic import LatentSpace, coefficients_of, magnification_of, noise_variance_of
from jensen.statistics import Summary

__all__ = ["CurveTheta", "CurveVerbs", "log_densities", "log_joint"]

# Below this share of the data's variance the expanded square is rounding.
RESOLUTION = 1e-10


@dataclass(frozen=True)
class CurveTheta:
    """Coefficients W (B, d) of f in the basis of a latent space, and the noise variance σ²."""

    coefficients: Tensor
    variance: float
    space: LatentSpace

    @cached_property
    def points(self) -> Tensor:
        """f at the grid points (G, d)."""
        return self.at(self.space.grid)

    def at(self, z: Tensor) -> Tensor:
        """f(z), (n, d)."""
        features = self.space.features if z is self.space.grid else self.space.features_at(z)
        return features @ self.coefficients

    def jacobian(self, z: Tensor) -> Tensor:
        """∂f/∂z (n, d, L)."""
        return torch.einsum("nbl,bj->njl", self.space.slopes_at(z), self.coefficients)

    def magnification(self, z: Tensor) -> Tensor:
        """How long or large the image of a small piece of latent space is, for one of it (n,)."""
        return magnification_of(self.jacobian(z))

    def frame(self) -> Frame:
        """The model's own mean, and one unit for all features: coordinates in which distances lose no digits."""
        origin = self.points.mean(0)
        spread = self.variance + float((self.points - origin).square().mean())
        return Frame(origin, torch.full_like(origin, spread**0.5))

    def within(self, frame: Frame) -> CurveTheta:
        """From the user's units to the frame's, whose unit is one for all features."""
        coefficients = self.coefficients.clone()
        coefficients[0] -= frame.origin
        unit = float(frame.scale[0])
        return CurveTheta(coefficients / unit, self.variance / unit**2, self.space)

    def outside(self, frame: Frame) -> CurveTheta:
        """From the frame's units to the user's."""
        unit = float(frame.scale[0])
        coefficients = self.coefficients * unit
        coefficients[0] += frame.origin
        return CurveTheta(coefficients, self.variance * unit**2, self.space)

    def expected_moments(self) -> CentreMoments:
        """The statistics of the model's own rows, per row."""
        n_points, d = self.points.shape
        share = torch.full((n_points,), 1 / n_points, dtype=torch.float64)
        second = self.points.square().sum(1) + d * self.variance
        mass = share[:, None].expand_as(self.points)
        return CentreMoments(share, mass, mass * self.points, share * second)


@dataclass(frozen=True)
class CurveVerbs:
    """
    Args:
        space: the grid and the basis.
        penalty: α of the prior N(0, 1/α) on the bumps' coefficients, in the frame's units.
        floor: σ² is kept above it; 0 means no floor, and a collapse is an error.
    """

    space: LatentSpace
    penalty: float
    floor: float

    def e_step(self, theta: CurveTheta, batch: Batch) -> Summary:
        log_evidence, q = posterior_in_place(log_joint(theta, batch))
        if batch.weight is None:
            weight, bound = log_evidence.new_tensor(len(log_evidence)), log_evidence.sum()
        else:
            q *= batch.weight
            weight, bound = batch.weight.sum(), batch.weight @ log_evidence
        return Summary(moments_of(q, batch), bound, weight)

    def m_step(self, theta: CurveTheta, stats: CentreMoments) -> CurveTheta:
        coefficients = coefficients_of(stats, self.space, self.penalty * theta.variance)
        variance = noise_variance_of(stats, self.space.features @ coefficients)
        return self.project(CurveTheta(coefficients, float(variance), self.space))

    def project(self, theta: CurveTheta) -> CurveTheta:
        if self.floor == 0 and not theta.variance > RESOLUTION:
            raise em.CollapseError(
                "the noise variance fell to 0: f goes through every row, and reg_covar=0 sets no floor; raise "
                "reg_covar or penalty, or lower n_basis"
            )
        return CurveTheta(theta.coefficients, max(theta.variance, self.floor, RESOLUTION), self.space)

    def log_prior(self, theta: CurveTheta) -> Tensor:
        return -0.5 * self.penalty * (self.space.is_penalised @ theta.coefficients.square()).sum()

    def resolution(self, theta: CurveTheta) -> float:
        return 0.0

    def pack(self, theta: CurveTheta) -> Tensor:
        log_variance = theta.coefficients.new_tensor([math.log(theta.variance)])
        return torch.cat([log_variance, theta.coefficients.flatten()])

    def unpack(self, vector: Tensor) -> CurveTheta:
        coefficients = vector[1:].reshape(self.space.n_features, -1)
        return CurveTheta(coefficients, float(vector[0].exp()), self.space)


def log_densities(theta: CurveTheta, batch: Batch) -> Tensor:
    """ln N(x; f(z_g), σ²I) (G, n) over the observed features, in the user's units."""
    n_observed = float(len(batch.x)) if batch.observed is None else batch.observed.sum(0, dtype=batch.x.dtype)
    expanded = len(batch.x) < theta.variance * LARGEST_EXPANDED_PRECISION
    distance = (partial_distances if expanded else squared_differences)(batch.x, batch.observed, theta.points)
    constant = batch.log_jacobian - 0.5 * math.log(2 * math.pi * theta.variance) * n_observed
    log_density = distance.mul_(-0.5 / theta.variance).add_(constant)
    # A row so far out that its square overflows has density 0.
    return log_density.nan_to_num_(nan=-torch.inf, neginf=-torch.inf)


def log_joint(theta: CurveTheta, batch: Batch) -> Tensor:
    """ln p(x, z_g) (G, n)."""
    return log_densities(theta, batch).sub_(math.log(len(theta.points)))
