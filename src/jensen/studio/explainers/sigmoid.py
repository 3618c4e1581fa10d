"""Two Gaussians with one standard deviation: the posterior of the component is a sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.studio.explainer import Explainer, Slider

AXIS = np.linspace(-6, 6, 121)


def values(mean_1: float, mean_2: float, std: float, share: float, x: float) -> dict[str, Any]:
    """Densities, the posterior and its coefficients; the posterior at x, by Bayes' rule."""
    model = GaussianMixture.from_parameters([share, 1 - share], [[mean_1], [mean_2]], [std**2] * 2, "spherical")
    each = [GaussianMixture.from_parameters([1.0], [[mean]], [std**2], "spherical") for mean in (mean_1, mean_2)]
    rows, here = AXIS[:, None], [[x]]
    log_each = [float(one.score_samples(here)[0]) for one in each]
    return {
        "axis": AXIS,
        "parts": [w * np.exp(one.score_samples(rows)) for w, one in zip((share, 1 - share), each, strict=True)],
        "density": np.exp(model.score_samples(rows)),
        "posterior": model.predict_proba(rows)[:, 0],
        "a": (mean_2 - mean_1) / std**2,
        "b": (mean_1**2 - mean_2**2) / (2 * std**2) + np.log((1 - share) / share),
        "x": x,
        "joint": [w * np.exp(log_p) for w, log_p in zip((share, 1 - share), log_each, strict=True)],
        "log_p": model.score_samples(here)[0],
        "posterior_here": model.predict_proba(here)[0, 0],
    }


EXPLAINER = Explainer(
    name="sigmoid",
    title="Two Gaussians and the sigmoid",
    group="Mixtures and EM",
    lead="A number x comes from one of two Gaussians with the same standard deviation σ. Bayes' rule gives the "
    "probability that it comes from the first one. As a function of x this probability is a sigmoid.",
    formula="p(x) = π N(x; μ₁, σ²) + (1−π) N(x; μ₂, σ²)\n"
    "P(z=1 | x) = π N(x; μ₁, σ²) / p(x)\n"
    "           = 1 / (1 + exp(a x + b))\n"
    "a = (μ₂ − μ₁) / σ²\n"
    "b = (μ₁² − μ₂²) / (2σ²) + ln((1−π)/π)",
    tries=(
        "Reduce σ: the sigmoid becomes a step between the two means.",
        "Change π: the sigmoid moves, but its slope stays the same.",
        "Set μ₁ = μ₂: x says nothing about z, and the posterior is the prior π everywhere.",
    ),
    controls=(
        Slider("mean_1", "μ₁, mean of the first", -4, 4, 0.5, 0.0, still=(-1, 0, 1)),
        Slider("mean_2", "μ₂, mean of the second", -4, 4, 0.5, 1.0, still=(1, 2)),
        Slider("std", "σ, standard deviation", 0.25, 3, 0.25, 1.0, still=(0.5, 1, 2)),
        Slider("share", "π, prior probability of the first", 0.05, 0.95, 0.05, 0.8, still=(0.2, 0.5, 0.8)),
        Slider("x", "x, the number observed", -6, 6, 0.5, 3.0, still=(-1, 0, 1, 2, 3)),
    ),
    values=values,
    guide="gaussian-mixture.html",
    exercise="exercises/mixtures-and-labels.html#two-gaussians-and-the-sigmoid",
)
