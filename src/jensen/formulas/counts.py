"""Counts: the negative binomial distribution and its size.

    p(x) = Γ(s+x) / (Γ(s) x!) · (s/(s+μ))^s · (μ/(s+μ))^x,   variance μ + μ²/s;   s = ∞ is the Poisson distribution
The maximum-likelihood mean is the sample mean, and the size solves, with D_x(s) = ψ(s+x) - ψ(s) = Σ_{v<x} 1/(s+v),
    Σ_i w_i D_{x_i}(s) - N ln(1 + μ/s) = 0
It has a finite root, and only one, if the variance is above the mean (Levin & Reeds 1977).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jensen.formulas.gamma import digamma_rise, log_rise

# Beyond the largest size a negative binomial differs from a Poisson distribution by less than rounding of a likelihood.
SMALLEST_SIZE, LARGEST_SIZE = 1e-8, 1e8
# Below the first, a size by moments shows that there is a finite one; a step of Newton's method below the second, as a
# share of 1/s, is the last.
PLAIN, SHORT = 1e4, 1e-8


def log_poisson(count: Tensor, rate: Tensor) -> Tensor:
    """ln p(x) with rate λ ≥ 0; 0⁰ is 1."""
    log_power: Tensor = torch.special.xlogy(count, rate)
    return log_power - rate - torch.lgamma(count + 1)


def log_negative_binomial(count: Tensor, mean: Tensor, size: Tensor) -> Tensor:
    """ln p(x) with mean μ ≥ 0 and size s in (0, ∞]."""
    s = size.clamp(max=LARGEST_SIZE)
    finite = log_rise(s, count) + torch.special.xlogy(count, mean) - (s + count) * torch.log1p(mean / s)
    return torch.where(size.isinf(), log_poisson(count, mean), finite - torch.lgamma(count + 1))


def mass_for_size(rise: Tensor, total: Tensor, size: Tensor) -> Tensor:
    """The weight N with N ln(1 + T/(N s)) = R: with R = Σ t_u D_u(s) and T = Σ t_u u, the one whose size is s.

    R is at most T/s. In y = T/(N s) the equation is ln(1+y)/y = R s/T, whose left side falls from 1 to 0.
    """
    ratio = rise * size / total
    low, high = torch.full_like(ratio, -40.0), torch.full_like(ratio, 700.0)
    for _ in range(64):
        middle = (low + high) / 2
        y = middle.exp()
        is_low = torch.log1p(y) > ratio * y
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return total / (size * ((low + high) / 2).exp())


def negative_binomial_size(
    tally: Tensor, count: Tensor, column: Tensor, mass: Tensor, start: Tensor, n_steps: int = 100
) -> Tensor:
    """The sizes s (K, d) with Σ_u t_u D_u(s) = N ln(1 + μ/s), μ = Σ_u t_u u / N; infinite where there is no finite one.

    Newton's method on 1/s, within a bracket that is halved where a step leaves it.

    Args:
        tally: weight t (K, U) of every count.
        count: the counts u (U,).
        column: the column (U,) that a count belongs to.
        mass: N (K, d). Sizes whose N is not positive stay as they are.
        start: a first guess (K, d).
        n_steps: at most.
    """

    def in_columns(values: Tensor) -> Tensor:
        return torch.zeros_like(mass).index_add_(1, column, values)

    mean = torch.where(mass > 0, in_columns(tally * count) / mass, 0.0)

    def equation(s: Tensor) -> Tensor:
        return in_columns(tally * digamma_rise(s[:, column], count)) - mass * torch.log1p(mean / s)

    def slope(s: Tensor) -> Tensor:
        of_rise = torch.polygamma(1, s[:, column] + count) - torch.polygamma(1, s)[:, column]
        return in_columns(tally * of_rise) + mass * mean / (s * (s + mean))

    # N (variance - mean): what the equation tends to for large sizes, times -2s².
    excess = in_columns(tally * count * (count - 1)) - mass * mean.square()
    low, high = (torch.full_like(mass, math.log(bound)) for bound in (SMALLEST_SIZE, LARGEST_SIZE))
    by_moments = mass * mean.square() / excess
    is_poisson, stays = excess <= 0, mass <= 0
    if bool((is_poisson | (by_moments < PLAIN) | stays).logical_not().any()):
        is_poisson = is_poisson | (equation(high.exp()) >= 0)
    done = is_poisson | stays
    guess = torch.where(start.isfinite(), start, by_moments)
    t = guess.nan_to_num(nan=1.0).clamp(SMALLEST_SIZE, LARGEST_SIZE).log()
    for _ in range(n_steps):
        if bool(done.all()):
            break
        s = t.exp()
        value = equation(s)
        low, high = torch.where(value > 0, t, low), torch.where(value < 0, t, high)
        # s² times the equation is nearly linear in 1/s, which a step multiplies by 1 + step.
        step = (value / (2 * value + s * slope(s))).where(value != 0, 0.0)
        new = t - torch.log1p(step)
        is_newton = (new > low) & (new < high) | (value == 0)
        t, old = torch.where(is_newton, new, (low + high) / 2), t
        # Newton's error is squared by a step: after a short one it is below rounding.
        done = done | (is_newton & (step.abs() < SHORT)) | ((t - old).abs() < 1e-13 * (1 + t.abs()))
    return torch.where(stays, start, t.exp().masked_fill(is_poisson, math.inf))
