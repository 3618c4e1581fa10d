"""A latent curve, and the posterior of a row of which a part may be missing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.models.curves.latent_curve import LatentCurve
from jensen.studio.explainer import Choice, Explainer, Slider

OBSERVED = {"both": "x₁ and x₂", "second": "x₂ only", "first": "x₁ only"}
START = {"geodesic": "along the rows (the default)", "pca": "a straight line"}


@lru_cache(maxsize=1)
def spiral() -> np.ndarray:
    """Rows (220, 2) along a spiral."""
    rng = np.random.default_rng(0)
    radius = np.sqrt(rng.uniform(0.06, 1, 220))
    angle = 3 * np.pi * radius
    around = np.stack([np.cos(angle), np.sin(angle)], 1)
    rows: np.ndarray = radius[:, None] * around + 0.05 * rng.normal(size=(220, 2))
    return rows


@lru_cache(maxsize=2)
def model_from(start: str) -> LatentCurve:
    return LatentCurve(init=start, max_iter=300).fit(spiral())


def values(x1: float, x2: float, observed: str, start: str) -> dict[str, Any]:
    """The curve, and where on it a row may lie."""
    model = model_from(start)
    row = np.array([[x1 if observed != "second" else np.nan, x2 if observed != "first" else np.nan]])
    posterior = model.posterior(row).probs.numpy()[0]
    bound = model.bound(row)
    grid = model.grid_[:, 0]
    return {
        "rows": spiral(),
        "latent": model.transform(spiral())[:, 0],
        "curve": model.curve(200),
        "std": float(model.noise_variance_**0.5),
        "grid": grid,
        "places": model.inverse_transform(model.grid_),
        "posterior": posterior,
        "row": row[0],
        "mean": float(posterior @ grid),
        "imputed": model.impute(row)[0],
        "log_p": float(model.score_samples(row)[0]),
        "reconstruction": float(bound.reconstruction[0]),
        "kl": float(sum(term[0] for term in bound.kl.values())),
        "score": model.score(spiral()),
    }


EXPLAINER = Explainer(
    name="curve",
    title="A latent curve",
    group="Subspaces and curves",
    lead="Rows lie near a curve, and z in [0, 1] is the place on it. The posterior of z says where on the curve a row "
    "may come from. If one of its numbers is missing, several places are possible, and the mean of z may be at none of "
    "them.",
    formula="z ~ Uniform[0,1],   x = f(z) + ε,   ε ~ N(0, σ²I)\n"
    "p(x)   = ∫₀¹ N(x; f(z), σ²I) dz\n"
    "p(z|x) = N(x; f(z), σ²I) / p(x)\n"
    "f(z) = Wᵀφ(z), fitted by EM on a grid of z",
    tries=(
        "Observe only x₂: the posterior has a peak wherever the curve has this height.",
        "Move the row away from the curve: ln p(x) falls, and the posterior stays narrow.",
        "Start from a straight line: the curve that EM finds folds back at one end, at a lower ln p.",
    ),
    controls=(
        Choice("observed", "Observed", OBSERVED, "both"),
        Slider("x1", "x₁", -1, 1, 0.05, 0.3, still=(-0.8, -0.4, 0, 0.3, 0.8)),
        Slider("x2", "x₂", -1, 1, 0.05, -0.3, still=(-0.8, -0.3, 0, 0.4, 0.8)),
        Choice("start", "Start of EM", START, "geodesic"),
    ),
    values=values,
    guide="latent-curve.html",
    exercise="exercises/mixtures-and-labels.html#a-latent-curve",
)
