"""Noise schedules: a digit with noise, and what the best denoiser makes of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.formulas.schedule import Schedule
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.studio.explainer import Choice, Explainer, Slider

SCHEDULES = {"linear": Schedule.linear, "cosine": Schedule.cosine}
LEVELS = 200
STRIP = (1, 20, 40, 60, 80, 100, 130, 160, 200)


@lru_cache(maxsize=1)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """One image (64,) of each digit, and all others, with grey levels from -1 to 1."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = found.data / 8 - 1
    first = [int(np.flatnonzero(found.target == digit)[4]) for digit in range(10)]
    return rows[first], np.delete(rows, first, axis=0)


@lru_cache(maxsize=2)
def schedule_of(name: str) -> Schedule:
    return SCHEDULES[name](LEVELS)


def denoised(x: np.ndarray, others: np.ndarray, alpha_bar: float) -> tuple[np.ndarray, np.ndarray]:
    """E[x_0 | x_t] if x_0 is one of the other images, and the weight of each: the posterior of a mixture."""
    n = len(others)
    mixture = GaussianMixture.from_parameters(
        np.full(n, 1 / n), np.sqrt(alpha_bar) * others, np.full(n, 1 - alpha_bar), "spherical"
    )
    weights = mixture.predict_proba(x[None])[0]
    return weights @ others, weights


def values(digit: int, level: int, schedule: str, seed: int) -> dict[str, Any]:
    """The digit at one level and along the strip, and the schedule."""
    shown, others = digits()
    x0, made = shown[digit], schedule_of(schedule)
    noise = np.random.default_rng(seed).normal(size=64)

    def noised(t: int) -> np.ndarray:
        bar = made.alpha_bar[t - 1]
        x: np.ndarray = np.sqrt(bar) * x0 + np.sqrt(1 - bar) * noise
        return x

    here, bar = noised(level), float(made.alpha_bar[level - 1])
    guess, weights = denoised(here, others, bar)
    return {
        "clean": x0,
        "noised": here,
        "denoised": guess,
        "strip": np.array([noised(t) for t in STRIP]),
        "strip_levels": STRIP,
        "levels": np.arange(1, LEVELS + 1),
        "curves": {name: schedule_of(name).alpha_bar for name in SCHEDULES},
        "beta": {name: schedule_of(name).betas for name in SCHEDULES},
        "level": level,
        "schedule": schedule,
        "alpha_bar": bar,
        "snr": bar / (1 - bar),
        "error": float(np.square(guess - x0).mean()),
        "images": float(np.exp(-(weights[weights > 0] * np.log(weights[weights > 0])).sum())),
        "n_images": len(others),
    }


EXPLAINER = Explainer(
    name="noising",
    title="Noise schedules",
    group="Diffusion",
    lead="A diffusion adds noise to an image in 200 steps until nothing is left of it. A schedule says how fast. The "
    "best denoiser returns the mean of all images that could be behind the noise; here these are the other digits of "
    "scikit-learn, so it can be computed exactly, without a network.",
    formula="xₜ = √ᾱₜ x₀ + √(1−ᾱₜ) ε,   ᾱₜ = Πₛ (1−βₛ)\n"
    "signal to noise = ᾱₜ / (1−ᾱₜ)\n"
    "best guess of x₀:  E[x₀ | xₜ] = Σᵢ wᵢ xᵢ\n"
    "wᵢ ∝ N(xₜ; √ᾱₜ xᵢ, (1−ᾱₜ) I)",
    tries=(
        "Raise the level: first the strokes blur, then the guess changes its mind, and at the end it is the mean digit."
        "",
        "Compare the schedules: the linear one destroys the image earlier, the cosine one spends more levels in "
        "between.",
        "Other noise, same level: near the end the guess depends on chance.",
    ),
    controls=(
        Slider("level", "t, level", 1, LEVELS, 1, 60, still=(1, 20, 40, 60, 80, 100, 120, 150, 200), plays=True),
        Slider("digit", "digit", 0, 9, 1, 3, still=(0, 3, 5)),
        Choice("schedule", "Schedule", {"linear": "linear", "cosine": "cosine"}, "cosine"),
        Slider("seed", "seed of the noise", 0, 20, 1, 0, still=(0, 1)),
    ),
    values=values,
    guide="diffusion.html",
    exercise="exercises/diffusion.html#all-steps-at-once",
)
