"""The noising of rows, its way back, and the terms of the bound, for a batch of rows at a level each.

    x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε
    q(x_{t-1}|x_t,x_0) = N(w_t x_t + u_t x_0, β̃_t I),   w_t = √α_t (1-ᾱ_{t-1}) / (1-ᾱ_t),   u_t = √ᾱ_{t-1} β_t / (1-ᾱ_t)
    p(x_{t-1}|x_t) = N(w_t x_t + u_t x̂_0, σ_t² I)
    L_{t-1} = KL(q ‖ p) = ½ Σ [u_t² (x_0 - x̂_0)² / σ_t² + β̃_t / σ_t² - 1 + ln(σ_t² / β̃_t)]
    L_T = KL(q(x_T|x_0) ‖ N(0, I)) = ½ Σ [ᾱ_T x_0² - ᾱ_T - ln(1-ᾱ_T)]
Whatever a network predicts is turned into x̂_0 first, so there is one bound. Ho et al. (2020); velocity Salimans & Ho
(2022); learned variance Nichol & Dhariwal (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import log_ndtr

from jensen.formulas.schedule import Schedule

# What a network may say of every number: each determines x̂_0, given x_t.
PREDICTIONS = ("noise", "data", "mean", "velocity")
# Of these x̂_0 is a quotient by √ᾱ_t or u_t, which are nearly 0 at the last levels: so large are its errors there.
QUOTIENTS = ("noise", "mean")


@dataclass(frozen=True)
class Noising:
    """The coefficients of levels, one entry per row with a trailing axis for its numbers, (b, 1).

    Args:
        signal, noise: √ᾱ_t and √(1-ᾱ_t).
        of_noised, of_data: w_t and u_t of the posterior mean.
        log_posterior: ln β̃_t, of β̃_2 at t = 1.
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
        """Of levels (b,), counted from 1."""
        return cls(*table[level - 1][:, None].unbind(-1))

    def noised(self, x0: Tensor, noise: Tensor) -> Tensor:
        """x_t."""
        return self.signal * x0 + self.noise * noise

    def log_variance(self, kind: str) -> Tensor:
        """ln σ_t²."""
        return self.log_beta if kind == "beta" else self.log_posterior

    def mean(self, x0: Tensor, xt: Tensor) -> Tensor:
        """Of q(x_{t-1}|x_t,x_0)."""
        return self.of_noised * xt + self.of_data * x0

    def noise_of(self, x0: Tensor, xt: Tensor) -> Tensor:
        """ε."""
        return (xt - self.signal * x0) / self.noise


def data_of(prediction: str, output: Tensor, xt: Tensor, at: Noising) -> Tensor:
    """x̂_0 of what a network says."""
    if prediction == "noise":
        return (xt - at.noise * output) / at.signal
    if prediction == "velocity":
        return at.signal * xt - at.noise * output
    if prediction == "mean":
        return (output - at.of_noised * xt) / at.of_data
    return output


def simple_weight(prediction: str, at: Noising) -> Tensor:
    """What (x_0 - x̂_0)² is multiplied by for the squared error of what the network says itself.

    Of a mean that of the noise is meant, which has the same scale at every level.
    """
    if prediction == "data":
        return torch.ones_like(at.noise)
    return (1 if prediction == "velocity" else at.signal.square()) / at.noise.square()


def kl_entries(squared_error: Tensor, log_variance: Tensor, at: Noising) -> Tensor:
    """L_{t-1} number by number, of (x_0 - x̂_0)² and ln σ_t²; 0 ≤ t-1, so t from 2 on."""
    log_ratio = at.log_posterior - log_variance
    return 0.5 * (at.of_data.square() * squared_error * (-log_variance).exp() + log_ratio.exp() - 1 - log_ratio)


def prior_kl(x0: Tensor, schedule: Schedule, observed: Tensor | None = None) -> Tensor:
    """L_T of every row (n,), or of its observed numbers (n, D)."""
    bar = float(schedule.alpha_bar[-1])
    constant = bar + math.log1p(-bar)
    return 0.5 * observed_sum(bar * x0.square() - constant, observed)


def observed_sum(entries: Tensor, observed: Tensor | None) -> Tensor:
    """Σ over the observed entries of every row; None is all of them."""
    return (entries if observed is None else torch.where(observed, entries, 0.0)).sum(-1)


def discretised_gaussian(x: Tensor, mean: Tensor, std: Tensor, n_levels: int) -> Tensor:
    """ln of the mass that N(mean, std²) has on the cell of x, one of so many equal levels on [-1, 1].

    The outer cells reach to infinity, so the masses sum to one.
    """
    half = 1.0 / (n_levels - 1)
    # The mass between two points of the left tail, where log_ndtr is exact; a cell on the right is reflected.
    sign = torch.where(x > mean, -1.0, 1.0)
    is_lowest, is_highest = x < half - 1, x > 1 - half
    to_left, to_right = sign > 0, sign < 0
    centre = sign * (x - mean)
    upper, lower = (centre + half) / std, (centre - half) / std
    is_open_below = (is_lowest & to_left) | (is_highest & to_right)
    is_open_above = (is_highest & to_left) | (is_lowest & to_right)
    top = torch.where(is_open_above, 0.0, log_ndtr(upper))
    gap = top - log_ndtr(lower)
    # ln(1 - e^-gap), apart where nothing is subtracted; the clamp keeps the gradient of the branch not taken finite.
    inside = torch.log(-torch.expm1(-gap.clamp_min(1e-12)))
    return top + torch.where(is_open_below, 0.0, inside)
