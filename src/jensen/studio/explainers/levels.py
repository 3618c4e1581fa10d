"""The bound of a diffusion, level by level, where everything is known exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from jensen.formulas.noising import Noising, kl_entries, prior_kl
from jensen.formulas.schedule import Schedule
from jensen.studio.explainer import Choice, Explainer, Slider

# Levels are shown in this many groups.
GROUPS = 20
SCHEDULES = {"linear": Schedule.linear, "cosine": Schedule.cosine}


def values(schedule: str, levels: str, spread: float, variance: str, factor: float) -> dict[str, Any]:
    """The terms of the bound for rows from N(0, v), with `factor` times the best denoiser."""
    made, v = SCHEDULES[schedule](int(levels)), spread**2
    table = Noising.table(made)
    at = Noising.at(table, torch.arange(1, made.n_levels + 1))
    signal, noise = at.signal[:, 0], at.noise[:, 0] ** 2
    denoiser = factor * signal * v / (signal**2 * v + noise)
    error = (1 - denoiser * signal) ** 2 * v + denoiser**2 * noise
    log_variance = at.log_variance(variance)
    terms = kl_entries(error[:, None], log_variance, at)[1:, 0].numpy()
    first = 0.5 * float(error[0] / log_variance[0, 0].exp() + log_variance[0, 0] + math.log(2 * math.pi))
    # A row with x² = v has the mean of the rows: the term is linear in x².
    last = float(prior_kl(torch.tensor([[spread]], dtype=torch.float64), made)[0])
    groups = [float(part.sum()) for part in np.array_split(np.concatenate([[0.0], terms]), GROUPS)]
    entropy = 0.5 * math.log(2 * math.pi * math.e * v)
    total = last + float(terms.sum()) + first
    step = max(1, made.n_levels // 100)
    return {
        "groups": groups,
        "share": np.arange(1, made.n_levels + 1)[::step] / made.n_levels,
        "signal": signal.numpy()[::step] ** 2,
        "log_snr": (2 * at.signal[:, 0].log() - noise.log()).numpy()[::step],
        "first": first,
        "last": last,
        "middle": float(terms.sum()),
        "total": total,
        "entropy": entropy,
        "gap": total - entropy,
        "n_levels": made.n_levels,
    }


EXPLAINER = Explainer(
    name="levels",
    title="The bound, level by level",
    group="Diffusion",
    lead="A diffusion is a chain of small denoising steps, and its bound is a sum over noise levels. For rows from "
    "N(0, v) the best denoiser is known, so each term is exact here: you see what too few levels, a wrong variance or "
    "a poor denoiser cost.",
    formula="−ln p(x) ≤ L_T + Σₜ L₍ₜ₋₁₎ + L₀,  t = 2..T\n"
    "L_T    = KL(q(x_T|x₀) ‖ N(0, I))\n"
    "L₍ₜ₋₁₎ = E KL(q(x₍ₜ₋₁₎|xₜ,x₀) ‖ p(x₍ₜ₋₁₎|xₜ))\n"
    "L₀     = −E ln p(x₀|x₁)\n"
    "best denoiser:  x̂₀ = √ᾱ v / (ᾱ v + 1−ᾱ) · xₜ",
    tries=(
        "With standard deviation 1, variance β and the best denoiser, the gap is 0 for every schedule and every T.",
        "Choose variance β̃: more levels reduce the gap, but it stays above half a nat even with 1000.",
        "Make the denoiser 1.3 times too strong: see which levels pay for it.",
    ),
    controls=(
        Choice("schedule", "Schedule", {"linear": "linear", "cosine": "cosine"}, "linear"),
        Choice("levels", "T, levels", {n: n for n in ("40", "100", "200", "1000")}, "200"),
        Choice("variance", "Variance of the reverse steps", {"beta": "β", "posterior": "β̃"}, "beta"),
        Slider("spread", "√v, standard deviation of the rows", 0.25, 2, 0.25, 1.0, still=(0.5, 1, 2)),
        Slider("factor", "denoiser, times the best one", 0.5, 1.5, 0.05, 1.0, still=(0.7, 1, 1.3)),
    ),
    values=values,
    guide="diffusion.html",
    exercise="exercises/diffusion.html#the-bound-level-by-level",
)
