"""The way down from pure noise that a user asks for."""

from __future__ import annotations

import math
from functools import partial
from numbers import Real
from typing import Any

from jensen.contract import whole_number
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion_answers import Chain
from jensen.samplers.ancestral import ancestral
from jensen.samplers.ddim import ddim
from jensen.samplers.denoise import Sampler
from jensen.samplers.dpm_solver import dpm_solver

__all__ = ["chain_of", "walked"]

SAMPLERS: dict[str, Sampler] = {"ancestral": ancestral, "ddim": ddim, "dpm": dpm_solver}


def chain_of(
    schedule: Schedule,
    steps: int | None,
    sampler: str,
    eta: float,
    guidance: float = 0.0,
    least_signal: float = 0.0,
) -> Chain:
    """Through all levels of the schedule or so many steps, by a sampler of this name.

    It begins at the last level with √ᾱ_t not below `least_signal`, but for the chain whose bound is scored.
    """
    if not isinstance(guidance, Real) or not 0 <= guidance < math.inf:
        raise ValueError(f"guidance={guidance!r} must be a number, 0 or more; 0 draws from the class itself")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler={sampler!r} is not known; choose {', '.join(map(repr, SAMPLERS))}")
    if not isinstance(eta, Real) or not 0 <= eta <= 1:
        raise ValueError(f"eta={eta!r} is the share of noise that 'ddim' keeps and must lie in [0, 1]")
    if eta and sampler != "ddim":
        raise ValueError(f"eta={eta:g} is for sampler='ddim'; {sampler!r} has none")
    n = schedule.n_levels if steps is None else whole_number("steps", steps)
    least = 0.0 if sampler == "ancestral" and n == schedule.n_levels else least_signal
    levels = walked(schedule, n, "uniform" if sampler == "ancestral" else "trailing", least)
    step: Any = partial(ddim, eta=eta) if sampler == "ddim" else SAMPLERS[sampler]
    return Chain(step, levels, sampler == "ancestral", float(guidance))


def walked(schedule: Schedule, n_steps: int, spacing: str, least_signal: float) -> Schedule:
    """The levels of a walk in so many steps; the schedule itself where it leaves out none."""
    if n_steps == schedule.n_levels and schedule.alpha_bar[-1] >= least_signal**2:
        return schedule
    return schedule.respace(n_steps, spacing, least_signal)
