"""Mixtures of normals on the line, one for every cell of a batch.

    f(x) = Σ_k w_k N(x; m_k, s_k²),   F(x) = Σ_k w_k Φ((x-m_k)/s_k)
    tail(x) = P{f(X) ≤ f(x)}, the probability of a value that is at most as likely as x
The set {f ≤ f(x)} is a union of intervals. Beyond max_k |x-m_k| from all means f is below f(x); in between, its ends
are looked for among knots and found by bisection. Masses of intervals are differences of Φ, taken in the tail where
they are small, so that a probability of 1e-100 keeps its digits. With one component, tail(x) = 2 Φ(-|x-m|/s).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jensen.formulas.gaussian import LOG_2PI

# Knots of every component, from -REACH to REACH deviations; f has no more than one crossing between neighbours.
REACH, N_KNOTS = 9.0, 37
# Halvings of an interval: the last is below the resolution of float64.
N_HALVINGS = 60
# Numbers that a batch of cells holds at once.
MOST_NUMBERS = 2**22


def phi(z: Tensor) -> Tensor:
    """Φ(z); torch's ndtr is 0 below -9."""
    return 0.5 * torch.erfc(-z / math.sqrt(2))


def log_density(x: Tensor, log_weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """ln f of x (n,), for mixtures (n, K)."""
    z = (x[:, None] - means) / deviations
    return torch.logsumexp(log_weights - 0.5 * (z.square() + LOG_2PI) - deviations.log(), 1)


def distribution(x: Tensor, weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """F of x (n,)."""
    below = phi((x[:, None] - means) / deviations)
    return (weights * below).sum(1)


def quantile(p: float, weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """The x (n,) with F(x) = p."""
    low = (means - 2 * REACH * deviations).amin(1)
    high = (means + 2 * REACH * deviations).amax(1)
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        is_below = distribution(middle, weights, means, deviations) < p
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return (low + high) / 2


def tail(x: Tensor, log_weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """P{f(X) ≤ f(x)} of x (n,), for mixtures (n, K)."""
    if means.shape[1] == 1:
        z = ((x[:, None] - means) / deviations)[:, 0].abs()
        return 2 * phi(-z)
    size = max(1, MOST_NUMBERS // (N_KNOTS * means.shape[1] ** 2))
    parts = zip(*(value.split(size) for value in (x, log_weights, means, deviations)), strict=True)
    return torch.cat([tail_of_some(*part) for part in parts])


def tail_of_some(x: Tensor, log_weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    weights, level = log_weights.exp(), log_density(x, log_weights, means, deviations)
    reach = (x[:, None] - means).abs().amax(1)
    first, last = means.amin(1) - reach, means.amax(1) + reach
    steps = torch.linspace(-REACH, REACH, N_KNOTS, dtype=x.dtype)
    inner = (means[..., None] + deviations[..., None] * steps).flatten(1)
    knots = torch.cat([first[:, None], inner.clamp(first[:, None], last[:, None]), x[:, None], last[:, None]], 1)
    knots = knots.sort(1).values
    flat = [value.repeat_interleave(knots.shape[1], 0) for value in (log_weights, means, deviations)]
    is_above = log_density(knots.flatten(), *flat).reshape(knots.shape) > level[:, None]
    # x itself is not above its own level, whatever rounding makes of it.
    is_above &= knots != x[:, None]
    row, place = (is_above[:, 1:] != is_above[:, :-1]).nonzero().unbind(1)
    ends = knots[row, place], knots[row, place + 1]
    low, high = crossing(*ends, is_above[row, place], level[row], log_weights[row], means[row], deviations[row])
    # The crossing takes the place of the knot that is above, so that the intervals below keep their whole length.
    start, end = knots[:, :-1].clone(), knots[:, 1:].clone()
    middle, was_above = (low + high) / 2, is_above[row, place]
    start[row[was_above], place[was_above]] = middle[was_above]
    end[row[~was_above], place[~was_above]] = middle[~was_above]
    is_below = ~(is_above[:, 1:] & is_above[:, :-1])
    inside = mass_between(start, end, weights, means, deviations) * is_below
    outer = phi((first[:, None] - means) / deviations)
    outer = outer + phi((means - last[:, None]) / deviations)
    return (inside.sum(1) + (weights * outer).sum(1)).clamp(max=1.0)


def crossing(
    low: Tensor, high: Tensor, is_above: Tensor, level: Tensor, log_weights: Tensor, means: Tensor, deviations: Tensor
) -> tuple[Tensor, Tensor]:
    """Intervals (m,) around places where ln f passes through `level`; `is_above` marks those where it falls."""
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        is_left = (log_density(middle, log_weights, means, deviations) > level) == is_above
        low, high = torch.where(is_left, middle, low), torch.where(is_left, high, middle)
    return low, high


def mass_between(start: Tensor, end: Tensor, weights: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """F(end) - F(start) of intervals (n, m)."""
    a, b = ((edge[..., None] - means[:, None]) / deviations[:, None] for edge in (start, end))
    # Above the mean both are close to 1, and their complements keep the digits.
    flip = a > 0
    upper = phi(torch.where(flip, -a, b))
    lower = phi(torch.where(flip, -b, a))
    return ((upper - lower) * weights[:, None]).sum(-1)
