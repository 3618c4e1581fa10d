"""RePaint: a reverse chain in which the known part of x_0 replaces the drawn one, noised, at every level.

    x_{t-1} = √ᾱ_{t-1} x_0 + √(1-ᾱ_{t-1}) z   where x_0 is known,   a draw from p(x_{t-1}|x_t) elsewhere
The unknown part was drawn without the known part of the same level, so each step is taken several times: in between,
x_t = √α_t x_{t-1} + √β_t z noises both together. For a Gaussian the error is inversely proportional to the number of
repetitions, whatever the number of levels; for separated clusters it falls more slowly. Lugmayr et al. (2022),
algorithm 1; on known posteriors their jumps over several levels gain nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.samplers.denoise import Denoise, noise_like
from jensen.runtime.row_draws import Source


def repaint(
    denoise: Denoise,
    x: Tensor,
    schedule: Schedule,
    generator: Source,
    *,
    known: Tensor,
    is_known: Tensor,
    resamplings: int = 10,
) -> Iterator[Tensor]:
    """Start from x_T with its known part in place; x_0 is `known` where `is_known`, both (n, D)."""
    of_noised, of_data = schedule.posterior_weights
    for t in range(schedule.n_levels, 1, -1):
        beta = float(schedule.beta[t - 1])
        for time in range(resamplings):
            if time:
                x = math.sqrt(1 - beta) * x + math.sqrt(beta) * noise_like(x, generator)
            x0, std = denoise(x, t)
            x = float(of_noised[t - 1]) * x + float(of_data[t - 1]) * x0 + std * noise_like(x, generator)
            x = put_known(x, schedule, t - 1, generator, known, is_known)
        yield x


def put_known(x: Tensor, schedule: Schedule, t: int, generator: Source, known: Tensor, is_known: Tensor) -> Tensor:
    """x with a draw from q(x_t|x_0) where x_0 is known."""
    signal, noise = math.sqrt(schedule.alpha_bar[t - 1]), math.sqrt(schedule.noise_variance[t - 1])
    return torch.where(is_known, signal * known + noise * noise_like(x, generator), x)
