"""Differences of ln Γ and of its derivative without cancellation, and the shape of a gamma distribution.

    ln Γ(z) = (z-½) ln z - z + ½ ln 2π + w(z),   ψ(z) = ln z + w'(z) - 1/(2z)
w is Stirling's series (Abramowitz & Stegun 6.1.41, 6.3.18). For a large z it is used because
ln Γ(z+u) - ln Γ(z) - u ln z tends to 0 while its terms grow like z ln z.
"""

from __future__ import annotations

import torch
from torch import Tensor

# From here on six terms of Stirling's series are exact to rounding.
LARGE = 10.0
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def stirling(z: Tensor) -> Tensor:
    """w(z) = ln Γ(z) - (z-½) ln z + z - ½ ln 2π, for z ≥ LARGE."""
    inverse_square = z.reciprocal().square()
    value = torch.zeros_like(z)
    for term in reversed(STIRLING):
        value = value * inverse_square + term
    return value / z


def stirling_slope(z: Tensor) -> Tensor:
    """ψ(z) - ln z, for z ≥ LARGE."""
    inverse_square = z.reciprocal().square()
    value = torch.zeros_like(z)
    for n, term in reversed([*enumerate(STIRLING)]):
        value = value * inverse_square - (2 * n + 1) * term
    return value * inverse_square - 0.5 / z


def log_rise(z: Tensor, u: Tensor) -> Tensor:
    """ln Γ(z+u) - ln Γ(z) - u ln z = Σ_{v<u} ln(1 + v/z) for z > 0 and whole numbers u."""
    small, large = z.clamp(max=LARGE), z.clamp(min=LARGE)
    direct = torch.lgamma(small + u) - torch.lgamma(small) - u * small.log()
    by_series = (large + u - 0.5) * torch.log1p(u / large) - u + stirling(large + u) - stirling(large)
    return torch.where(z < LARGE, direct, by_series)


def digamma_rise(z: Tensor, u: Tensor) -> Tensor:
    """ψ(z+u) - ψ(z) = Σ_{v<u} 1/(z+v) for z > 0 and whole numbers u."""
    small, large = z.clamp(max=LARGE), z.clamp(min=LARGE)
    direct = torch.digamma(small + u) - torch.digamma(small)
    by_series = torch.log1p(u / large) + stirling_slope(large + u) - stirling_slope(large)
    return torch.where(z < LARGE, direct, by_series)


def log_minus_digamma(z: Tensor) -> Tensor:
    """ln z - ψ(z), which falls from infinity to 0."""
    small, large = z.clamp(max=LARGE), z.clamp(min=LARGE)
    return torch.where(z < LARGE, small.log() - torch.digamma(small), -stirling_slope(large))


def gamma_shape(gap: Tensor, largest: float, n_steps: int = 20) -> Tensor:
    """The shape a of a gamma distribution with ln a - ψ(a) = c, c = ln(mean of x) - mean of ln x; at most `largest`.

    1/a ← 1/a + (ln a - ψ(a) - c) / (a - a² ψ'(a)): Newton's step, for a function that is nearly linear in 1/a
    (Minka 2002).
    """
    # Rounding can leave a gap below that of the largest shape, or below 0.
    c = gap.clamp(min=float(log_minus_digamma(torch.tensor(largest, dtype=gap.dtype))))
    shape = (3 - c + ((c - 3).square() + 24 * c).sqrt()) / (12 * c)
    for _ in range(n_steps):
        slope = shape - shape.square() * torch.polygamma(1, shape)
        step = (log_minus_digamma(shape) - c) / slope
        # The function is convex in 1/a: from the first step on 1/a falls towards the root and stays above it.
        shape = 1 / (1 / shape + step)
        if bool((step.abs() * shape < 1e-14).all()):
            break
    return shape.clamp(max=largest)
