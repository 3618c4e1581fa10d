"""DPM-Solver++(2M): the noiseless path of DDIM, solved to second order in λ = ln(√ᾱ / √(1-ᾱ)).

    h = λ_{t-1} - λ_t,  r = h_before / h,   D = (1 + 1/(2r)) x̂_0 - 1/(2r) x̂_0 of the step before
    x_{t-1} = √((1-ᾱ_{t-1}) / (1-ᾱ_t)) x_t - √ᾱ_{t-1} (e^{-h} - 1) D
Lu et al. (2022), algorithm 2. The first step uses D = x̂_0, which is DDIM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.samplers.denoise import Denoise
from jensen.runtime.row_draws import Source


def dpm_solver(denoise: Denoise, x: Tensor, schedule: Schedule, generator: Source) -> Iterator[Tensor]:
    signal, noise = np.sqrt(schedule.alpha_bar), np.sqrt(schedule.noise_variance)
    log_ratio = np.log(signal / noise)
    before, h_before = None, math.nan
    for t in range(schedule.n_levels, 1, -1):
        i, h = t - 1, float(log_ratio[t - 2] - log_ratio[t - 1])
        x0, _ = denoise(x, t)
        slope = x0 if before is None else x0 + 0.5 * h / h_before * (x0 - before)
        x = float(noise[i - 1] / noise[i]) * x - float(signal[i - 1]) * math.expm1(-h) * slope
        before, h_before = x0, h
        yield x
