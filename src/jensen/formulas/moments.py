"""Weighted mean and variance of rows with missing values, as sums that add.

    N = Σ_i w_i,   m = Σ_i w_i x_i / N,   S = Σ_i w_i (x_i - m)²,   over the rows where a feature is observed
    N = N_a + N_b,   m = m_a + δ N_b / N,   S = S_a + S_b + δ² N_a N_b / N,   δ = m_b - m_a
Chan, Golub & LeVeque (1983): squares are taken about each part's own mean, so they lose no digits far from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spread:
    """Weight, mean and sum of squared deviations (d,) of the observed entries of some rows.

    A feature that no row has gets weight 0 and mean 0.
    """

    mass: Tensor
    mean: Tensor
    squares: Tensor

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None = None) -> Spread:
        """From feature-major rows (d, n), NaN where missing, and their weights (n,)."""
        seen = x.isnan().logical_not_().to(x.dtype)
        w = seen if weight is None else seen.mul_(weight)
        mass = w.sum(1)
        divisor = mass.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        values = x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        mean = (values * w).sum(1, keepdim=True) / divisor
        deviation = values - mean
        weighted = deviation * w
        # The mean is corrected by the rounding error that the deviations show.
        error = weighted.sum(1, keepdim=True) / divisor
        squares = (weighted * deviation).sum(1) - mass * error.squeeze(1).square()
        return cls(mass, (mean + error).squeeze(1), squares)

    def __add__(self, other: Spread) -> Spread:
        mass = self.mass + other.mass
        share = torch.where(mass > 0, other.mass / mass, 0.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart.square() * self.mass * share
        return Spread(mass, self.mean + apart * share, squares)

    @property
    def variance(self) -> Tensor:
        """S / N: the maximum-likelihood variance."""
        return self.squares / self.mass
