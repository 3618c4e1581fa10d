"""Diffusions whose denoiser is known exactly: Gaussians, and a mixture of two in the plane."""

import math

import numpy as np
import torch
from torch import nn

from jensen.data.infer import learn_columns
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.space import Space

__all__ = [
    "MEANS",
    "STD",
    "GaussianData",
    "MixtureData",
    "conditional",
    "known_module",
    "mixture_log_density",
    "mixture_rows",
    "unit_columns",
]

MEANS = np.array([[1.0, 0.5], [-1.0, -0.5]])
STD = 0.3


def unit_columns(d):
    """Columns of numbers that are not scaled."""
    return learn_columns(np.array([[1.0] * d, [-1.0] * d]), "number")


class MixtureData(nn.Module):
    """E[x_0|x_t] of the mixture of two round Gaussians with equal weights, turned into what is to be predicted."""

    def __init__(self, schedule, prediction):
        super().__init__()
        self.schedule, self.prediction = schedule, prediction
        self.unused = nn.Parameter(torch.zeros(1))
        parts = schedule.alpha_bar, schedule.noise_variance, *schedule.posterior_weights
        self.table = torch.stack([torch.tensor(part) for part in parts], -1)

    def forward(self, x, t, y=None):
        place = (t * self.schedule.n_levels / 1000).round().long()
        bar, noise, of_noised, of_data = self.table[place].to(x).split(1, -1)
        var = bar * STD**2 + noise
        means = torch.tensor(MEANS).to(x)
        squares = (x[:, None] - bar[..., None].sqrt() * means).square().sum(-1)
        share = (-squares / (2 * var)).softmax(-1)
        gain = bar.sqrt() * STD**2 / var
        x0 = share @ means + gain * (x - bar.sqrt() * (share @ means))
        return {
            "data": lambda: x0,
            "noise": lambda: (x - bar.sqrt() * x0) / noise.sqrt(),
            "velocity": lambda: (bar.sqrt() * x - x0) / noise.sqrt(),
            "mean": lambda: of_noised * x + of_data * x0,
        }[self.prediction]()


class GaussianData(nn.Module):
    """The velocity of N(0, Σ), whose E[x_0|x_t] = √ᾱ Σ (ᾱ Σ + (1-ᾱ) I)⁻¹ x_t; there is nothing to train."""

    def __init__(self, schedule, covariance):
        super().__init__()
        self.n_levels = schedule.n_levels
        bar, noise = (torch.tensor(part)[:, None, None] for part in (schedule.alpha_bar, schedule.noise_variance))
        sigma = torch.tensor(covariance)
        gain = bar.sqrt() * sigma @ torch.linalg.inv(bar * sigma + noise * torch.eye(len(sigma)))
        self.of_xt = ((bar.sqrt() * torch.eye(len(sigma)) - gain) / noise.sqrt()).float()

    def forward(self, x, t, y=None):
        place = (t * self.n_levels / 1000).round().long()
        return torch.einsum("bij,bj->bi", self.of_xt[place], x)


def conditional(mean, covariance, row):
    """Mean and covariance of the missing entries of a row given the others, under N(mean, covariance)."""
    hole = np.isnan(row)
    gain = covariance[np.ix_(hole, ~hole)] @ np.linalg.inv(covariance[np.ix_(~hole, ~hole)])
    return (
        mean[hole] + gain @ (row - mean)[~hole],
        covariance[np.ix_(hole, hole)] - gain @ covariance[np.ix_(~hole, hole)],
    )


def known_module(schedule, prediction="velocity", variance="beta", network=None, d=2):
    space = Space(unit_columns(d), prediction, variance)
    network = MixtureData(schedule, prediction) if network is None else network
    return DiffusionModule(lambda x: x, network, space, schedule, is_uniform=False).eval()


def mixture_log_density(x):
    squares = ((x[:, None] - MEANS) ** 2).sum(-1) / (2 * STD**2)
    return np.logaddexp(-squares[:, 0], -squares[:, 1]) + math.log(0.5) - math.log(2 * math.pi * STD**2)


def mixture_rows(n, seed):
    rng = np.random.default_rng(seed)
    return MEANS[rng.integers(2, size=n)] + STD * rng.normal(size=(n, 2))
