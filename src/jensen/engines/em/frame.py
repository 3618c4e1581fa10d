"""The engine's coordinates, found in one additive sweep.

Raw moments lose digits far from the origin, so rows are held as x̃ = (x - origin) / scale, feature by feature. Origin
and scale come from sums over chunks of rows, merged pairwise (Chan, Golub & LeVeque 1983): no step asks for
all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

# Rows of a chunk: its temporaries stay in the cache.
CHUNK = 2**14

Units = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Spread:
    """Weight, mean and sum of squared deviations (d,) of the observed entries of some rows; spreads add."""

    mass: Tensor
    mean: Tensor
    squares: Tensor

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None) -> Spread:
        """Of feature-major rows (d, n), NaN where missing."""
        seen = x.isnan().logical_not_().to(x.dtype)
        w = seen if weight is None else seen.mul_(weight)
        mass = w.sum(1)
        some = mass.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        known = x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        mean = (known * w).sum(1, keepdim=True) / some
        deviation = known - mean
        weighted = deviation * w
        # What rounding left in the mean comes out.
        left = weighted.sum(1, keepdim=True) / some
        squares = (weighted * deviation).sum(1) - mass * left.squeeze(1).square()
        return cls(mass, (mean + left).squeeze(1), squares)

    def __add__(self, other: Spread) -> Spread:
        mass = self.mass + other.mass
        share = torch.where(mass > 0, other.mass / mass, 0.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart.square() * self.mass * share
        return Spread(mass, self.mean + apart * share, squares)

    @property
    def variance(self) -> Tensor:
        return self.squares / self.mass


@dataclass(frozen=True)
class Frame:
    """Coordinates x̃ = (x - origin) / scale."""

    origin: Tensor  # (d,)
    scale: Tensor  # (d,)

    @classmethod
    def identity(cls, d: int) -> Frame:
        """The user's own units."""
        return cls(torch.zeros(d, dtype=torch.float64), torch.ones(d, dtype=torch.float64))

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None, units: Units) -> Frame:
        """From the mean and the deviation of the observed entries of feature-major rows (d, n)."""
        chunks = [slice(start, start + CHUNK) for start in range(0, x.shape[1], CHUNK)]
        spread = reduce(add, (Spread.of(x[:, c], None if weight is None else weight[c]) for c in chunks))
        if not spread.variance.isfinite().all():
            raise too_large(x)
        return cls.of_moments(spread.mean, spread.variance, units)

    @classmethod
    def of_moments(cls, origin: Tensor, variance: Tensor, units: Units) -> Frame:
        """From means and variances (d,); `units` turns variances into scales."""
        # A constant column has no spread of its own: it gets the average one, and the floor on variances binds there.
        constant = variance <= (16 * torch.finfo(variance.dtype).eps * origin).square()
        usual = variance[~constant].mean() if not constant.all() else torch.ones_like(variance[0])
        return cls(origin, units(torch.where(constant, usual, variance)))

    def standardise(self, x: Tensor) -> Tensor:
        """Feature-major rows (d, n), in place."""
        return x.sub_(self.origin[:, None]).div_(self.scale[:, None])


def one_unit(variance: Tensor) -> Tensor:
    """One deviation for all features (d,): what is round, or measured by distances, must stay so."""
    return variance.mean().sqrt().expand_as(variance).clone()


def too_large(x: Tensor) -> ValueError:
    return ValueError(f"X reaches {float(x.nan_to_num(nan=0.0).abs().max())}, too large to square; rescale it")
