"""The forward process, its reversal, and the terms of the bound, for a batch with one level per row.

    x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε
    q(x_{t-1}|x_t,x_0) = N(w_t x_t + u_t x_0, β̃_t I),   w_t = √α_t (1-ᾱ_{t-1}) / (1-ᾱ_t),   u_t = √ᾱ_{t-1} β_t / (1-ᾱ_t)
    p(x_{t-1}|x_t) = N(w_t x_t + u_t x̂_0, σ_t² I)
    L_{t-1} = KL(q ‖ p) = ½ Σ [u_t² (x_0 - x̂_0)² / σ_t² + β̃_t / σ_t² - 1 + ln(σ_t² / β̃_t)]
    L_T = KL(q(x_T|x_0) ‖ N(0, I)) = ½ Σ [ᾱ_T x_0² - ᾱ_T - ln(1-ᾱ_T)]
Every prediction of a network is first converted to x̂_0, so there is one bound. u_t and w_t are the x_0- and x_t-weights
of the posterior mean. Ho et al. (2020); velocity Salimans & Ho (2022); learned variance Nichol & Dhariwal (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import log_ndtr

from jensen.formulas.schedule import Schedule

# What a network may predict for every number: each determines x̂_0, given x_t.
PREDICTIONS = ("noise", "data", "mean", "velocity")
# With these, x̂_0 is divided by √ᾱ_t or u_t, which are nearly 0 at the last levels, so its errors are large there.
QUOTIENTS = ("noise", "mean")


@dataclass(frozen=True)
class Noising:
    """The coefficients of one level per row, with a trailing axis for the row's numbers, (b, 1).

    Args:
        signal, noise: √ᾱ_t and √(1-ᾱ_t).
        of_noised, of_data: w_t and u_t of the posterior mean.
        log_posterior: ln β̃_t; at t = 1 that of β̃_2.
        log_beta: ln β_t.
    """

    signal: Tensor
    noise: Tensor
    of_noised: Tensor
    of_data: Tensor
    log_posterior: Tensor
    log_beta: Tensor

    @staticmethod
    def table(schedule: Schedule) -> Tensor:
        """The coefficients of all levels (T, 6), float64."""
        parts = (
            schedule.alpha_bar**0.5,
            schedule.noise_variance**0.5,
            *schedule.posterior_weights,
            *(schedule.variances(kind) for kind in ("posterior", "beta")),
        )
        table = torch.stack([torch.tensor(part) for part in parts], 1)
        table[:, 4:] = table[:, 4:].log()
        return table

    @classmethod
    def at(cls, table: Tensor, level: Tensor) -> Noising:
        """At levels (b,), counted from 1."""
        return cls(*table[level - 1][:, None].unbind(-1))

    def noised(self, x0: Tensor, noise: Tensor) -> Tensor:
        """x_t."""
        return self.signal * x0 + self.noise * noise

    def log_variance(self, kind: str) -> Tensor:
        """ln σ_t²."""
        return self.log_beta if kind == "beta" else self.log_posterior

    def mean(self, x0: Tensor, xt: Tensor) -> Tensor:
        """The mean of q(x_{t-1}|x_t,x_0)."""
        return self.of_noised * xt + self.of_data * x0

    def noise_of(self, x0: Tensor, xt: Tensor) -> Tensor:
        """ε."""
        return (xt - self.signal * x0) / self.noise


def data_of(prediction: str, output: Tensor, xt: Tensor, at: Noising) -> Tensor:
    """x̂_0 from the output of a network."""
    if prediction == "noise":
        return (xt - at.noise * output) / at.signal
    if prediction == "velocity":
        return at.signal * xt - at.noise * output
    if prediction == "mean":
        return (output - at.of_noised * xt) / at.of_data
    return output


def simple_weight(prediction: str, at: Noising) -> Tensor:
    """The factor from (x_0 - x̂_0)² to the squared error of the network's own prediction; for noise, the ε-weight.

    For a predicted mean it is the factor of the noise, which has the same scale at every level.
    """
    if prediction == "data":
        return torch.ones_like(at.noise)
    return (1 if prediction == "velocity" else at.signal.square()) / at.noise.square()


def kl_entries(squared_error: Tensor, log_variance: Tensor, at: Noising) -> Tensor:
    """L_{t-1} for every number, from (x_0 - x̂_0)² and ln σ_t²; for t ≥ 2."""
    log_ratio = at.log_posterior - log_variance
    return 0.5 * (at.of_data.square() * squared_error * (-log_variance).exp() + log_ratio.exp() - 1 - log_ratio)


def prior_kl(x0: Tensor, schedule: Schedule, observed: Tensor | None = None) -> Tensor:
    """L_T per row (n,), over the observed numbers if `observed` (n, D) is given."""
    bar = float(schedule.alpha_bar[-1])
    constant = bar + math.log1p(-bar)
    return 0.5 * observed_sum(bar * x0.square() - constant, observed)


def observed_sum(entries: Tensor, observed: Tensor | None) -> Tensor:
    """The sum over the observed entries of every row; None means all entries."""
    return (entries if observed is None else torch.where(observed, entries, 0.0)).sum(-1)


def discretised_gaussian(x: Tensor, mean: Tensor, std: Tensor, n_levels: int) -> Tensor:
    """The discretised decoder: ln of the probability of N(mean, std²) in the cell of x, with equal levels on [-1, 1].

    The outer cells extend to infinity, so the probabilities sum to one.
    """
    half = 1.0 / (n_levels - 1)
    # log_ndtr is exact in the left tail, so a cell to the right of the mean is reflected.
    sign = torch.where(x > mean, -1.0, 1.0)
    is_lowest, is_highest = x < half - 1, x > 1 - half
    to_left, to_right = sign > 0, sign < 0
    centre = sign * (x - mean)
    upper, lower = (centre + half) / std, (centre - half) / std
    is_open_below = (is_lowest & to_left) | (is_highest & to_right)
    is_open_above = (is_highest & to_left) | (is_lowest & to_right)
    top = torch.where(is_open_above, 0.0, log_ndtr(upper))
    gap = top - log_ndtr(lower)
    # ln(1 - e^-gap), unless nothing is subtracted; the clamp keeps the gradient of the unused branch finite.
    inside = torch.log(-torch.expm1(-gap.clamp_min(1e-12)))
    return top + torch.where(is_open_below, 0.0, inside)
