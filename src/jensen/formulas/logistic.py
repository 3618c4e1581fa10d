"""The discretised logistic: a distribution of n levels on an equally spaced grid from -1 to 1.

    v ~ Logistic(μ, s), and x is the level nearest to v
    P(x) = σ(a) - σ(b),  a = (x + h - μ)/s,  b = (x - h - μ)/s,  h = 1/(n-1);  σ(b) = 0 at x = -1 and σ(a) = 1 at x = 1
    ln P(x) = ln σ(a) + ln σ(-b) + ln(1 - e^{b-a})
The last line is the same without a difference of nearly equal numbers. Salimans et al. (2017), with one component.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


def half_step(n_levels: int) -> float:
    """h: half the distance between two levels."""
    return 1 / (n_levels - 1)


def log_mass(x: Tensor, location: Tensor, scale: Tensor, n_levels: int) -> Tensor:
    """ln P(x) of levels x in [-1, 1]."""
    h = half_step(n_levels)
    log_below = torch.where(x > 1 - h, 0.0, logsigmoid((x + h - location) / scale))
    log_above = torch.where(x < h - 1, 0.0, logsigmoid((location - x + h) / scale))
    both = torch.log(-torch.expm1(-2 * h / scale))
    return log_below + log_above + torch.where(x.abs() > 1 - h, 0.0, both)


def mean(location: Tensor, scale: Tensor) -> Tensor:
    """E[v] of the logistic with its tails moved to -1 and 1; E[x] differs by less than half a step."""
    return scale * (softplus((location + 1) / scale) - softplus((location - 1) / scale)) - 1


def draw(location: Tensor, scale: Tensor, n_levels: int, uniform: Tensor) -> Tensor:
    """The numbers 0, ..., n-1 of drawn levels, from uniform numbers in [0, 1)."""
    v = location + scale * uniform.clamp(1e-7, 1 - 1e-7).logit()
    return ((v + 1) / (2 * half_step(n_levels))).round().clamp(0, n_levels - 1)


def fit(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Location and scale (d,) that approximate how often the levels of d columns occur, counts (n, d).

    P(x ≤ level) = σ((edge - μ)/s), so logits of cumulative frequencies lie on a line of slope 1/s in the edge. This is
    the least-squares line, with the inverse variances p(1-p) of the logits as weights, and at least slope 1: a column
    with one level has no slope of its own.
    """
    counts = counts.double()
    n_levels = len(counts)
    edge = torch.linspace(half_step(n_levels) - 1, 1 - half_step(n_levels), n_levels - 1, dtype=counts.dtype)[:, None]
    share = (counts.cumsum(0)[:-1] + 0.5) / (counts.sum(0) + 1)
    weight = share * (1 - share)
    weight = weight / weight.sum(0)
    logit = share.logit()
    center, height = (weight * edge).sum(0), (weight * logit).sum(0)
    spread = (weight * (edge - center).square()).sum(0)
    slope = ((weight * (edge - center) * logit).sum(0) / spread.clamp_min(1e-12)).clamp_min(1.0)
    return center - height / slope, 1 / slope
