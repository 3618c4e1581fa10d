"""DDIM: the same marginals with less noise, none at η = 0, so that few steps suffice.

    x_{t-1} = √ᾱ_{t-1} x̂_0 + √(1 - ᾱ_{t-1} - σ²) ε̂ + σ z,   ε̂ = (x_t - √ᾱ_t x̂_0) / √(1-ᾱ_t),   σ² = η² β̃_t
With η = 1 and all levels it is ancestral sampling with variance β̃. Song, Meng & Ermon (2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.samplers.denoise import Denoise, noise_like
from jensen.runtime.row_draws import Source


def ddim(denoise: Denoise, x: Tensor, schedule: Schedule, generator: Source, eta: float = 0.0) -> Iterator[Tensor]:
    for t in range(schedule.n_levels, 1, -1):
        bar, before = float(schedule.alpha_bar[t - 1]), float(schedule.alpha_bar_before[t - 1])
        var = eta**2 * float(schedule.posterior_variance[t - 1])
        x0, _ = denoise(x, t)
        noise = (x - math.sqrt(bar) * x0) / math.sqrt(float(schedule.noise_variance[t - 1]))
        x = math.sqrt(before) * x0 + math.sqrt(max(1 - before - var, 0.0)) * noise
        if eta:
            x = x + math.sqrt(var) * noise_like(x, generator)
        yield x
