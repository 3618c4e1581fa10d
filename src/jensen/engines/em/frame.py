"""The engine's coordinates, found in one additive sweep.

Raw moments lose digits far from the origin, so rows are held as x̃ = (x - origin) / scale, feature by feature. Origin
and scale come from sums over chunks of rows, merged pairwise (Chan, Golub & LeVeque 1983): no step asks for
all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas.moments import Extent

# A column has so many deviations between its least and greatest value if one row in 900 differs from all others.
SHARP = 30.0
# The squared unit of such a column is so many times its squared range: a floor of 2 ε is no lower than s² + ε, the
# variance in scikit-learn, wherever s² < ε. With ε alone rare pixels of new rows cost more than there.
ROOM = 2.0
# Columns share a unit if so many, and so large a share of all, have one least value and nearly the widest range.
MANY_COLUMNS, MANY, NEARLY = 16, 0.25, 0.9

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
    def of(cls, extent: Extent, units: Units) -> Frame:
        """From the mean and the deviation of the observed entries of every column."""
        spread = extent.spread
        if not spread.variance.isfinite().all():
            raise too_large(extent)
        return cls.of_moments(spread.mean, spread.variance, units)

    @classmethod
    def of_sharp(cls, extent: Extent, units: Units) -> Frame:
        """The same, where a column whose values are nearly all alike has its range as unit, see `sharp_units`."""
        frame = cls.of(extent, torch.sqrt)
        return cls(frame.origin, units(sharp_units(frame.scale.square(), extent.low, extent.high)))

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


def sharp_units(variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Squared units (d,) of columns with these variances, least and greatest values.

    A pixel that is 0 in nearly all rows has a tiny variance, and a share of that is no floor: the next row may hold
    any value. Its unit is √2 times the range of its values. Pixels also share their unit: where many columns have one
    least value and nearly one range, that is the range of all columns with this least value.
    """
    reach, is_shared = high - low, torch.zeros_like(low, dtype=torch.bool)
    if len(reach) >= MANY_COLUMNS:
        values, counts = low.unique(return_counts=True)
        same = low == values[counts.argmax()]
        widest = reach[same].max()
        if int((same & (reach >= NEARLY * widest)).sum()) >= max(MANY_COLUMNS, MANY * len(reach)):
            reach, is_shared = torch.where(same, widest, reach), same
    return torch.where(is_shared | (reach.square() > SHARP**2 * variance), ROOM * reach.square(), variance)


def one_unit(variance: Tensor) -> Tensor:
    """One deviation for all features (d,): what is round, or measured by distances, must stay so."""
    return variance.mean().sqrt().expand_as(variance).clone()


def too_large(extent: Extent) -> ValueError:
    reach = max(float(extent.high.nan_to_num(neginf=0.0).max()), -float(extent.low.nan_to_num(posinf=0.0).min()))
    return ValueError(f"X reaches {reach}, too large to square; rescale it")
