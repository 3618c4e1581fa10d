"""Numbers between bounds as numbers without, by a fixed monotone g.

    x > a:      g = ln(x-a),            ln g' = -ln(x-a)
    x < b:      g = -ln(b-x),           ln g' = -ln(b-x)
    a < x < b:  g = ln((x-a)/(b-x)),    ln g' = ln(b-a) - ln(x-a) - ln(b-x)
A density f of g(x) is the density f(g(x)) g'(x) of x. A bound of ∓∞ is none; with none on either side g is x itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The square of e³⁵⁰ is still a float64.
LARGEST_EXPONENT = 350.0
# Equal steps from -8 to 8 deviations: the rest weighs 1e-15, and the error of E[logistic] is about exp(-2π²/(σ step)).
REACH, N_STEPS = 8.0, 64


def forward(x: Tensor, low: float, high: float) -> Tensor:
    """g(x); NaN where x is NaN, at a bound, or beyond it."""
    if low == -math.inf and high == math.inf:
        return x
    inside = x.where((x > low) & (x < high), torch.nan)
    if high == math.inf:
        return (inside - low).log()
    if low == -math.inf:
        return -(high - inside).log()
    # Each difference is exact near its bound, which their quotient would lose by rounding.
    return (inside - low).log() - (high - inside).log()


def inverse(y: Tensor, low: float, high: float) -> Tensor:
    """The x with g(x) = y, between the bounds and never at one of them."""
    if low == -math.inf and high == math.inf:
        return y
    y = y.clamp(max=LARGEST_EXPONENT) if high == math.inf else y
    y = y.clamp(min=-LARGEST_EXPONENT) if low == -math.inf else y
    if high == math.inf:
        x = low + y.exp()
    elif low == -math.inf:
        x = high - (-y).exp()
    else:
        x = torch.where(y < 0, low + (high - low) * y.sigmoid(), high - (high - low) * (-y).sigmoid())
    return x.clamp(math.nextafter(low, math.inf), math.nextafter(high, -math.inf))


def log_derivative(x: Tensor, low: float, high: float) -> Tensor:
    """ln g'(x); -∞ at a bound and beyond it, where there is no density, and NaN where x is NaN."""
    if low == -math.inf and high == math.inf:
        return torch.zeros_like(x)
    value = torch.zeros_like(x)
    if low > -math.inf:
        value = value - (x - low).log()
    if high < math.inf:
        value = value - (high - x).log()
    if low > -math.inf and high < math.inf:
        value = value + math.log(high - low)
    return value.masked_fill((x <= low) | (x >= high), -torch.inf)


def expectation(
    mean: Tensor, variance: Tensor, low: float, high: float, least: float = -math.inf, greatest: float = math.inf
) -> Tensor:
    """E[x] where g(x) ~ N(mean, variance): that of a log-normal, and by quadrature between two bounds.

    On a side without a bound x ends at `least` or `greatest`: beyond it stands for the end itself. A log-normal whose
    variance is hardly known has nearly all of its mean in a tail that no data support.
    """
    if low == -math.inf and high == math.inf:
        return mean
    if high == math.inf:
        return low + log_normal_mean(mean, variance, greatest - low)
    if low == -math.inf:
        return high - log_normal_mean(-mean, variance, high - least)
    deviation, total, mass = variance.sqrt(), torch.zeros_like(mean), 0.0
    for step in range(N_STEPS + 1):
        z = REACH * (2 * step / N_STEPS - 1)
        weight = math.exp(-0.5 * z * z)
        total, mass = total + weight * (mean + deviation * z).sigmoid(), mass + weight
    return low + (high - low) * (total / mass)


def log_normal_mean(location: Tensor, variance: Tensor, end: float = math.inf) -> Tensor:
    """E[min(e^u, end)] = e^(m+v/2) Φ((ln end - m - v)/√v) + end Φ((m - ln end)/√v) where u ~ N(m, v)."""
    exponent = location + variance / 2
    if end == math.inf:
        return exponent.clamp(max=LARGEST_EXPONENT).exp()
    # Without a variance both probabilities are 0 or 1.
    gap, deviation = math.log(end) - location, variance.sqrt().clamp(min=1e-150)
    below: Tensor = (exponent + torch.special.log_ndtr((gap - variance) / deviation)).exp()
    at_end: Tensor = torch.special.ndtr(-gap / deviation)
    return below + end * at_end
