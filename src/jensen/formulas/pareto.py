"""How reliable the mean of importance weights is, judged by the tail of their distribution.

    w_j = p(x, z_j) / q(z_j|x),   the M = min(S/5, 3√S) largest of S above a threshold u:   w - u ~ GPD(k, σ)
    P(w - u > y) = (1 + k y/σ)^(-1/k),   E[w - u] = σ / (1 - k);   w has a variance for k < ½, and a mean for k < 1
k and σ have a posterior on a grid of b = -k/σ (Zhang & Stephens 2009), which is narrow even for small M. Above k̂ = 0.7
the mean of a practical number of draws is often wrong by much (Vehtari, Simpson, Gelman, Yao & Gabry 2024).
For q = N(·, v_q) and a posterior of variance v_p > v_q: k = 1 - v_q/v_p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas.latent_gaussian import log_mean_exp, weighted_error

# Limit and prior of k by Vehtari et al. (2024): the prior counts like 10 more weights with k = ½.
UNRELIABLE, PRIOR_SHAPE, PRIOR_WEIGHT = 0.7, 0.5, 10
# Fewer weights do not determine the shape of a tail.
LEAST_TAIL = 5
# The mean of the weights is p(x), so k is below 1; with this k the mean of a tail is twenty times its scale.
LARGEST_SHAPE = 0.95


@dataclass(frozen=True)
class Tail:
    """A posterior of generalised Pareto distributions on a grid of g points.

    Args:
        shapes, scales: k and σ (g, ...).
        probability: of every grid point (g, ...).
        shape: k at the posterior mean of b (...).
    """

    shapes: Tensor
    scales: Tensor
    probability: Tensor
    shape: Tensor


def fit_tail(excess: Tensor) -> Tail:
    """The posterior given the excess of weights over their threshold (M, ...), ascending along the first axis."""
    n = len(excess)
    n_grid = 30 + math.isqrt(n)
    j = torch.arange(1, n_grid + 1, dtype=excess.dtype, device=excess.device)
    place = (1 - (n_grid / (j - 0.5)).sqrt()).view(-1, *[1] * (excess.ndim - 1))
    b = 1 / excess[-1] + place / (3 * excess[int(n / 4 + 0.5) - 1])
    shapes = torch.stack([torch.log1p(-at * excess).mean(0) for at in b])
    log_profile = n * ((-b / shapes).log() - shapes - 1)
    probability = log_profile.nan_to_num(-math.inf).softmax(0)
    shape = torch.log1p(-(probability * b).sum(0) * excess).mean(0)
    return Tail(shapes, -shapes / b, probability, shape)


def largest(log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """The excess of the largest weights over the next (M, ...), and the mean of the rest; the mean weight is 1."""
    s = len(log_weight)
    m = math.ceil(min(0.2 * s, 3 * math.sqrt(s)))
    top = log_weight.topk(m + 1, 0).values.flip(0)
    top = (top - log_mean_exp(log_weight)).exp()
    excess = top[1:] - top[0]
    return excess, 1 - excess.sum(0) / s


def pareto_k(log_weight: Tensor) -> Tensor:
    """k̂ of weights (S, ...); NaN for fewer than 21 draws or if all weights are equal."""
    if 0.2 * len(log_weight) <= LEAST_TAIL - 1:
        return torch.full_like(log_weight[0], math.nan)
    excess, _ = largest(log_weight)
    m = len(excess)
    k = (m * fit_tail(excess).shape + PRIOR_WEIGHT * PRIOR_SHAPE) / (m + PRIOR_WEIGHT)
    # One weight is so large that all others vanish.
    return torch.where((excess[-1] > 0) & k.isnan(), math.inf, k)


def effective_samples(log_weight: Tensor) -> Tensor:
    """The effective sample size (Σ w)² / Σ w²."""
    return (2 * log_weight.logsumexp(0) - (2 * log_weight).logsumexp(0)).exp()


def log_mean_error(log_weight: Tensor) -> Tensor:
    """The error of ln (1/S) Σ w as an estimate of ln E w, from weights (S, ...).

    The delta method only uses the weights that were drawn. To allow for larger ones, its variance is increased by the
    mean square, over the posterior of the tail, of the change of the logarithm when the mean of the tail replaces the
    largest weights.
    """
    error = weighted_error(log_weight)
    if 0.2 * len(log_weight) <= LEAST_TAIL - 1:
        return error
    excess, rest = largest(log_weight)
    tail = fit_tail(excess)
    mean = tail.scales / (1 - tail.shapes.clamp_max(LARGEST_SHAPE))
    change = (rest + len(excess) / len(log_weight) * mean).log()
    unseen = (tail.probability * change.square()).nansum(0)
    return (error.square() + unseen.nan_to_num(0.0)).sqrt()


def checked_error(log_weight: Tensor, by_both: Tensor) -> Tensor:
    """The same, checked with draws that may reach regions which all draws from q miss.

    Draws from q carry no information about a part of the posterior where q has almost no mass. `by_both` (2, S, ...)
    are the weights p(x, z) / (½ q(z) + ½ p(z)) of S draws from q and S from the prior p, at most 2 p(x|z) (Hesterberg
    1995; Owen & Zhou 2000). The difference of the two estimates, beyond the error of the second, is added.
    """
    s = by_both.shape[1]
    if s == 1:
        return log_mean_error(log_weight)  # NaN: one draw has no variance
    log_mean = by_both.logsumexp((0, 1)) - math.log(2 * s)
    variance = ((by_both - log_mean).exp().var(1) / s).sum(0) / 4
    gap = (log_mean - log_mean_exp(log_weight)).square() - variance
    return (log_mean_error(log_weight).square() + gap.clamp_min(0)).sqrt()
