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

from jensen.formulas.moments import Spread

# Rows of a chunk: its temporaries stay in the cache.
CHUNK = 2**14

Units = Callable[[Tensor], Tensor]


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
        # Contiguous, so that sums do not depend on the layout of the user's table.
        parts = (Spread.of(x[:, c].contiguous(), None if weight is None else weight[c]) for c in chunks)
        spread = reduce(add, parts)
        if not spread.variance.isfinite().all():
            raise too_large(x)
        return cls.of_moments(spread.mean, spread.variance, units)

    @classmethod
    def of_moments(cls, origin: Tensor, variance: Tensor, units: Units) -> Frame:
        """From means and variances (d,); `units` turns variances into scales."""
        # A constant column has no spread of its own: it gets the average one, and the floor on variances binds there.
        constant = variance <= (16 * torch.finfo(variance.dtype).eps * origin).square()
        usual = variance[~constant].mean() if not constant.all() else variance.new_ones(())
        return cls(origin, units(torch.where(constant, usual, variance)))

    def standardise(self, x: Tensor) -> Tensor:
        """Feature-major rows (d, n), in place."""
        return x.sub_(self.origin[:, None]).div_(self.scale[:, None])


def one_unit(variance: Tensor) -> Tensor:
    """One deviation for all features (d,): what is round, or measured by distances, must stay so."""
    return variance.mean().sqrt().expand_as(variance).clone()


def too_large(x: Tensor) -> ValueError:
    return ValueError(f"X reaches {float(x.nan_to_num(nan=0.0).abs().max())}, too large to square; rescale it")
