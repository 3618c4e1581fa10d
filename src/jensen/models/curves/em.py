"""E-step, M-step and inference of generative topographic mapping.

    E:  q_ig ∝ N(x_i; f(z_g), σ²I) over the observed features; every grid point z_g has the prior 1/G
    M:  W from a weighted ridge regression on the grid's features, σ² from the residuals (mapping.py)
The objective is Σ_i w_i ln (1/G) Σ_g N(x_i; f(z_g), σ²I) - (α/2) ‖W‖² over the basis functions: the log-posterior of W,
up to a constant, so the M-step is a MAP update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch, Footprint, Summary
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import over_rows
from jensen.formulas.gaussian import LARGEST_EXPANDED_PRECISION
from jensen.formulas.responsibilities import posterior_in_place
from jensen.models.clusters.centres import CentreMoments, moments_of, partial_distances, squared_differences
from jensen.models.curves.given import GivenCurve
from jensen.models.curves.mapping import LatentSpace, coefficients_of, magnification_of, noise_variance_of

# Below this share of the data's variance, the expanded square is only rounding.
RESOLUTION = 1e-10


@dataclass(frozen=True)
class CurveTheta:
    """Coefficients W (B, d) of f in the basis of a latent space, or points of a given f, and the noise variance σ²."""

    coefficients: Tensor
    variance: float
    space: LatentSpace | GivenCurve

    @cached_property
    def points(self) -> Tensor:
        """f at the grid points (G, d)."""
        return self.at(self.space.grid)

    def at(self, z: Tensor) -> Tensor:
        """f(z), (n, d)."""
        return self.space.values(z, self.coefficients)

    def jacobian(self, z: Tensor) -> Tensor:
        """∂f/∂z (n, d, L)."""
        return self.space.jacobian(z, self.coefficients)

    def magnification(self, z: Tensor) -> Tensor:
        """Length or area in x per unit of z (n,)."""
        return magnification_of(self.jacobian(z))

    @property
    def footprint(self) -> Footprint:
        """Memory of an E-step."""
        return self.space.footprint(self.coefficients.shape[1])

    def frame(self) -> Frame:
        """Coordinates about the mean of the curve, with one unit for all features: distances lose no digits there."""
        origin = self.points.mean(0)
        spread = self.variance + float((self.points - origin).square().mean())
        return Frame(origin, torch.full_like(origin, spread**0.5))

    def within(self, frame: Frame) -> CurveTheta:
        """From the user's units to the frame's, which has one unit for all features."""
        unit = float(frame.scale[:1].prod())
        coefficients = self.coefficients - self.space.constant[:, None] * frame.origin
        return CurveTheta(coefficients / unit, self.variance / unit**2, self.space)

    def outside(self, frame: Frame) -> CurveTheta:
        """From the frame's units to the user's."""
        unit = float(frame.scale[:1].prod())
        coefficients = self.coefficients * unit + self.space.constant[:, None] * frame.origin
        return CurveTheta(coefficients, self.variance * unit**2, self.space)

    def expected_moments(self) -> CentreMoments:
        """Expected statistics of one row drawn from the model."""
        n_points, d = self.points.shape
        share = torch.full((n_points,), 1 / n_points, dtype=torch.float64)
        second = self.points.square().sum(1) + d * self.variance
        mass = share[:, None].expand_as(self.points)
        return CentreMoments(share, mass, mass * self.points, share * second)


@dataclass(frozen=True)
class CurveVerbs:
    """E-step and M-step.

    Args:
        space: the grid and the basis.
        penalty: α of the prior N(0, 1/α) on the coefficients of the basis functions, in the frame's units.
        floor: lower limit of σ²; with 0 there is none, and a collapse is an error.
        variance: σ² where it is given; None fits it.
    """

    space: LatentSpace | GivenCurve
    penalty: float
    floor: float
    variance: float | None = None

    def e_step(self, theta: CurveTheta, batch: Batch) -> Summary[CentreMoments]:
        log_evidence, q = posterior(theta, batch)
        if batch.weight is None:
            weight, bound = log_evidence.new_tensor(len(log_evidence)), log_evidence.sum()
        else:
            q *= batch.weight
            weight, bound = batch.weight.sum(), batch.weight @ log_evidence
        return Summary(moments_of(q, batch), bound, weight)

    def m_step(self, theta: CurveTheta, stats: CentreMoments) -> CurveTheta:
        coefficients = theta.coefficients
        if isinstance(self.space, LatentSpace):
            coefficients = coefficients_of(stats, self.space, self.penalty * theta.variance)
        variance = noise_variance_of(stats, self.space.values(self.space.grid, coefficients))
        return self.project(CurveTheta(coefficients, float(variance), self.space))

    def project(self, theta: CurveTheta) -> CurveTheta:
        if self.variance is not None:
            return CurveTheta(theta.coefficients, self.variance, self.space)
        if self.floor == 0 and not theta.variance > RESOLUTION:
            raise em.CollapseError(
                "the noise variance fell to 0: f passes through every row, and reg_covar=0 sets no floor; raise "
                "reg_covar or penalty, lower n_basis, or give noise_variance"
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
        coefficients = vector[1:].reshape(len(self.space.constant), -1)
        return CurveTheta(coefficients, float(vector[0].exp()), self.space)


def log_densities(theta: CurveTheta, batch: Batch) -> Tensor:
    """ln N(x; f(z_g), σ²I) (G, n) over the observed features, in the user's units."""
    n_observed = float(len(batch.x)) if batch.observed is None else batch.observed.sum(0, dtype=batch.x.dtype)
    expanded = len(batch.x) < theta.variance * LARGEST_EXPANDED_PRECISION
    distance = (partial_distances if expanded else squared_differences)(batch.x, batch.observed, theta.points)
    constant = batch.log_jacobian - 0.5 * math.log(2 * math.pi * theta.variance) * n_observed
    log_density = distance.mul_(-0.5 / theta.variance).add_(constant)
    # A row so far away that its square overflows has density 0.
    return log_density.nan_to_num_(nan=-torch.inf, neginf=-torch.inf)


def log_joint(theta: CurveTheta, batch: Batch) -> Tensor:
    """ln p(x, z_g) (G, n)."""
    return log_densities(theta, batch).sub_(math.log(len(theta.points)))


def posterior(theta: CurveTheta, batch: Batch) -> tuple[Tensor, Tensor]:
    """ln p(x) (n,) and q(z_g | x) (G, n)."""
    return posterior_in_place(log_joint(theta, batch))


def log_evidence(theta: CurveTheta, x: Tensor) -> Tensor:
    """ln p(x), over the observed features (n,)."""
    return over_rows(theta, x, lambda local, batch: posterior(local, batch)[0][None], theta.footprint)[:, 0]


def responsibilities(theta: CurveTheta, x: Tensor) -> Tensor:
    """q(z_g | x), (n, G)."""
    return over_rows(theta, x, lambda local, batch: posterior(local, batch)[1], theta.footprint)


def latent_means(theta: CurveTheta, x: Tensor) -> Tensor:
    """E[z | x], (n, L)."""
    return over_rows(theta, x, lambda local, batch: local.space.grid.T @ posterior(local, batch)[1], theta.footprint)


def latent_modes(theta: CurveTheta, x: Tensor) -> Tensor:
    """The most probable grid point (n, L)."""

    def modes(local: CurveTheta, batch: Batch) -> Tensor:
        return local.space.grid[log_joint(local, batch).argmax(0)].T

    return over_rows(theta, x, modes, theta.footprint)


def bound_terms(theta: CurveTheta, x: Tensor, q: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Σ_g q_g ln N(x; f(z_g), σ²I) and KL(q ‖ 1/G) per row, for any q (n, G) or the posterior."""

    def terms(local: CurveTheta, batch: Batch) -> Tensor:
        log_density = log_densities(local, batch)
        r = posterior_in_place(log_density.clone())[1] if q is None else q[batch.rows].T
        reconstruction = torch.where(r > 0, r * log_density, 0.0).sum(0)
        kl = (torch.special.xlogy(r, r) + torch.special.xlogy(r, len(r))).sum(0)
        return torch.stack([reconstruction, kl])

    both = over_rows(theta, x, terms, theta.footprint)
    return both[:, 0], both[:, 1]


def fill(theta: CurveTheta, x: Tensor) -> Tensor:
    """E[x | x_o]: missing values take the posterior mean of f."""
    means = over_rows(theta, x, lambda local, batch: theta.points.T @ posterior(local, batch)[1], theta.footprint)
    return torch.where(x.isnan(), means, x)


def fill_draws(theta: CurveTheta, x: Tensor, n_draws: int, generator: torch.Generator) -> list[Tensor]:
    """Draws of the missing values given the observed ones: first the grid point, then the noise."""
    d = x.shape[1]

    def draws(local: CurveTheta, batch: Batch) -> Tensor:
        _, q = posterior(local, batch)
        chosen = torch.multinomial(q.T, n_draws, replacement=True, generator=generator)
        noise = torch.randn(n_draws, d, len(chosen), generator=generator, dtype=torch.float64)
        values: Tensor = theta.points[chosen.T].mT + theta.variance**0.5 * noise
        return values.flatten(0, 1)

    versions = over_rows(theta, x, draws, theta.footprint).reshape(len(x), n_draws, d)
    return [torch.where(x.isnan(), values, x) for values in versions.unbind(1)]


def draw(theta: CurveTheta, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """n rows, and the grid point (n, L) of each."""
    chosen = torch.randint(len(theta.points), (n,), generator=generator)
    noise = torch.randn(n, theta.points.shape[1], generator=generator, dtype=torch.float64)
    return theta.points[chosen] + theta.variance**0.5 * noise, theta.space.grid[chosen]
