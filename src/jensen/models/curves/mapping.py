"""Generative topographic mapping: a mixture of spherical Gaussians whose centres lie on a curve or a surface.

    z ~ Uniform[0,1]^L on a grid,  x = f(z) + ε,  f(z) = Wᵀφ(z),  ε ~ N(0, σ²I)
    φ(z) = [1,  z - ½,  exp(-‖z - c_b‖² / 2h²)]
    M:  (Φᵀ G_j Φ + α σ² D) w_j = Φᵀ R x_j,   σ² = Σ r_ig (x_ij - f_j(z_g))² / Σ r_ig, over the observed entries
R contains the responsibilities, G_j their sums over the rows where feature j is observed. D is 1 for the basis
functions and 0 for the linear part: the prior w ~ N(0, 1/α) pulls f towards a line or plane. The equation of W uses the
old σ², so the M-step is two conditional maximisations, which never lower the objective (ECM, Meng & Rubin 1993).
Bishop, Svensén & Williams (1998), GTM: the generative topographic mapping; (1997), magnification factors for the GTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from jensen.engines.em.batch import Footprint
from jensen.models.clusters.centres import CentreMoments

# Eigenvalues of the normal equations below this share of the largest are rounding: basis functions that overlap much
# are nearly dependent, and a direction without data stays 0.
NEGLIGIBLE = 1e-14
# Normal equations square the condition number. With a ridge below the first share of the weight, their rounding can
# exceed the gain of a step, so the regression itself is solved, with singular values below the second share set to 0.
LEAST_RIDGE, LEAST_SINGULAR = 1e-8, 1e-13


def midpoints(n: int, n_axes: int) -> Tensor:
    """Midpoints (n^L, L) of equal cells of [0,1]^L, the last axis varying fastest: a quadrature of the prior."""
    return lattice((torch.arange(n, dtype=torch.float64) + 0.5) / n, n_axes)


def lattice(values: Tensor, n_axes: int) -> Tensor:
    """All points (n^L, L) whose coordinates are among these values."""
    return torch.stack(torch.meshgrid(*[values] * n_axes, indexing="ij"), -1).flatten(0, -2)


@dataclass(frozen=True)
class LatentSpace:
    """The grid of z and the basis of f.

    Args:
        n_latent: L.
        n_grid: grid points along each axis.
        n_basis: basis functions along each axis, the outer ones at 0 and 1; with none f is linear.
        width: h relative to the distance between neighbouring basis functions.
    """

    n_latent: int
    n_grid: int
    n_basis: int
    width: float

    @cached_property
    def grid(self) -> Tensor:
        """(G, L)."""
        return midpoints(self.n_grid, self.n_latent)

    @cached_property
    def features(self) -> Tensor:
        """φ at the grid points (G, B)."""
        return self.features_at(self.grid)

    @cached_property
    def bumps(self) -> Tensor:
        """Centres c of the basis functions (M, L)."""
        places = torch.linspace(0, 1, self.n_basis, dtype=torch.float64)
        return lattice(places + 0.5 if self.n_basis == 1 else places, self.n_latent)

    @property
    def n_features(self) -> int:
        """B = 1 + L + M."""
        return 1 + self.n_latent + len(self.bumps)

    @cached_property
    def is_penalised(self) -> Tensor:
        """D (B,): 1 for the basis functions, 0 for the linear part."""
        return (torch.arange(self.n_features) > self.n_latent).to(torch.float64)

    @cached_property
    def constant(self) -> Tensor:
        """The coefficients (B,) of f = 1."""
        return (torch.arange(self.n_features) == 0).to(torch.float64)

    def values(self, z: Tensor, coefficients: Tensor) -> Tensor:
        """f(z), (n, d)."""
        features = self.features if z is self.grid else self.features_at(z)
        # A solver returns columns in a row, and a file rows: the last digits of a product depend on it.
        return features @ coefficients.contiguous()

    def jacobian(self, z: Tensor, coefficients: Tensor) -> Tensor:
        """∂f/∂z (n, d, L)."""
        return torch.einsum("nbl,bj->njl", self.slopes_at(z), coefficients)

    @property
    def bump_width(self) -> float:
        """h in units of z."""
        return self.width / max(1, self.n_basis - 1)

    def footprint(self, n_features: int) -> Footprint:
        """Memory of an E-step: responsibilities and rows."""
        return Footprint(per_row=2 * len(self.grid) + 2 * n_features, per_block=1)

    def features_at(self, z: Tensor) -> Tensor:
        """φ(z), (n, B)."""
        bumps = torch.exp(-(z[:, None] - self.bumps).square().sum(2) / (2 * self.bump_width**2))
        return torch.cat([torch.ones_like(z[:, :1]), z - 0.5, bumps], 1)

    def slopes_at(self, z: Tensor) -> Tensor:
        """∂φ/∂z, (n, B, L)."""
        n, n_latent = z.shape
        bumps = self.features_at(z)[:, 1 + n_latent :, None]
        of_bumps = (self.bumps - z[:, None]) / self.bump_width**2 * bumps
        straight = torch.eye(n_latent, dtype=z.dtype).expand(n, -1, -1)
        return torch.cat([z.new_zeros(n, 1, n_latent), straight, of_bumps], 1)


def coefficients_of(moments: CentreMoments, space: LatentSpace, ridge: float) -> Tensor:
    """W (B, d) with the least Σ r (x - f)² + ridge Σ_b D_b ‖w_b‖²."""
    features, mass = space.features, moments.mass
    # If all features are observed in the same rows, one system serves all.
    is_one = bool((mass == mass[:, :1]).all())
    columns = mass[:, :1].T if is_one else mass.T
    if ridge < LEAST_RIDGE * float(moments.weight.sum()):
        return regression(moments, features, columns, ridge**0.5 * space.is_penalised.diag())
    target = features.T @ moments.first
    systems = torch.stack([features.T @ (column[:, None] * features) for column in columns])
    systems = systems + ridge * space.is_penalised.diag()
    return solve(systems[0], target) if is_one else solve(systems, target.T[..., None]).squeeze(-1).T


def regression(moments: CentreMoments, features: Tensor, columns: Tensor, penalty: Tensor) -> Tensor:
    """The same by least squares of [√R Φ; penalty] w = [x̄ √R; 0], for masses (1 or d, G)."""
    root = columns.sqrt()[..., None]
    design = torch.cat([root * features, penalty.expand(len(columns), -1, -1)], 1)
    target = torch.where(moments.mass > 0, moments.first / moments.mass.where(moments.mass > 0, 1.0).sqrt(), 0.0)
    target = torch.cat([target, target.new_zeros(len(penalty), target.shape[1])])
    right = target[None] if len(columns) == 1 else target.T[..., None]
    found: Tensor = torch.linalg.lstsq(design, right, rcond=LEAST_SINGULAR, driver="gelsd").solution
    return found[0] if len(columns) == 1 else found.squeeze(-1).T


def solve(matrix: Tensor, target: Tensor) -> Tensor:
    """A solution of symmetric systems (*, B, B), the shortest in units of their diagonal: they may be singular."""
    # In its own units, a ridge far above the weights would make features without a penalty look like rounding.
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    unit = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()[..., None]
    values, vectors = torch.linalg.eigh(unit * matrix * unit.mT)
    kept = values > NEGLIGIBLE * values[..., -1:]
    inverse = torch.where(kept, 1 / values.where(kept, 1.0), 0.0)
    solution: Tensor = unit * (vectors @ (inverse[..., None] * (vectors.mT @ (unit * target))))
    return solution


def noise_variance_of(moments: CentreMoments, points: Tensor) -> Tensor:
    """σ²: the mean of r (x - f)² over the observed entries, with centres f(z_g) (G, d)."""
    return moments.loss(points) / moments.mass.sum()


def magnification_of(jacobian: Tensor) -> Tensor:
    """√det JᵀJ (n,) for J = ∂f/∂z (n, d, L): the length or area in x per unit of z."""
    squared: Tensor = torch.linalg.det(jacobian.mT @ jacobian)
    return squared.clamp(min=0).sqrt()
