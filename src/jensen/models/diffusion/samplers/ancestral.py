"""Ancestral sampling: the reverse chain itself, a draw from p(x_{t-1}|x_t) at every level.

    x_{t-1} = w_t x_t + u_t x̂_0 + σ_t z
Ho et al. (2020), algorithm 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.samplers.denoise import Denoise, noise_like
from jensen.runtime.row_draws import Source


def ancestral(denoise: Denoise, x: Tensor, schedule: Schedule, generator: Source) -> Iterator[Tensor]:
    of_noised, of_data = schedule.posterior_weights
    for t in range(schedule.n_levels, 1, -1):
        x0, std = denoise(x, t)
        x = float(of_noised[t - 1]) * x + float(of_data[t - 1]) * x0 + std * noise_like(x, generator)
        yield x
