"""PCA: the direction with the smallest reconstruction error, and its probabilistic form."""

from __future__ import annotations

from typing import Any

import numpy as np

from jensen.models.factors.probabilistic_pca import ProbabilisticPCA
from jensen.studio.explainer import Explainer, Points, Slider

ANGLES = np.arange(0, 181, 3)


def cloud() -> np.ndarray:
    """Rows (40, 2)."""
    rng = np.random.default_rng(2)
    return rng.multivariate_normal([0.3, 0.1], [[2.2, 1.2], [1.2, 1.0]], size=40).round(2)


def direction(angle: Any) -> np.ndarray:
    """Unit vectors (..., 2)."""
    return np.stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))], -1)


def values(angle: float, points: Any) -> dict[str, Any]:
    """The error of one direction, of all directions, and of the first principal component."""
    X = cloud() if points is None else np.array(points)
    model = ProbabilisticPCA(1).fit(X)
    away = X - model.mean_
    u, every = direction(angle), direction(ANGLES)
    shadows = away @ u
    own = model.loadings_[:, 0] / np.linalg.norm(model.loadings_)
    best = float(np.degrees(np.arctan2(own[1], own[0])) % 180)
    covariance = model.loadings_ @ model.loadings_.T + model.noise_variance_ * np.eye(2)
    posterior = model.posterior(X)
    scatter = float(np.square(away).sum())
    return {
        "points": X,
        "mean": model.mean_,
        "u": u,
        "shadows": model.mean_ + shadows[:, None] * u,
        "angles": ANGLES,
        "errors": scatter - np.square(away @ every.T).sum(0),
        "angle": angle,
        "error": scatter - np.square(shadows).sum(),
        "spread": np.square(shadows).sum(),
        "best": best,
        "best_error": scatter - np.square(away @ own).sum(),
        "left": len(X) * model.noise_variance_,
        "covariance": covariance,
        "noise_variance": model.noise_variance_,
        "log_p": model.score(X),
        "latent": posterior.mean.numpy()[:, 0],
        "latent_std": float(posterior.covariance_matrix.numpy()[0, 0, 0] ** 0.5),
    }


EXPLAINER = Explainer(
    name="pca",
    title="Principal components",
    group="Subspaces and curves",
    lead="Choose a direction. Each row is replaced by its shadow on the line; the squared lengths of the dashed "
    "segments are the reconstruction error. PCA finds the direction with the least error, which is also the one with "
    "the largest spread of shadows.",
    formula="encode z = uᵀ(x − x̄),  decode x̂ = x̄ + u z\n"
    "Σᵢ ‖xᵢ − x̂ᵢ‖² + Σᵢ zᵢ² = Σᵢ ‖xᵢ − x̄‖²\n"
    "best u: first eigenvector of the covariance; the\n"
    "error is n times the eigenvalues left out\n"
    "probabilistic PCA:  x = Wz + μ + ε\n"
    "x ~ N(μ, WWᵀ + σ²I),  σ²: mean of those left out",
    tries=(
        "Turn the line until the error is smallest: you have found the first principal component.",
        "Error and spread always add up to the same number.",
        "Drag one point far from the others: the best direction turns towards it.",
    ),
    controls=(
        Slider("angle", "direction, in degrees", 0, 180, 3, 105, plays=True),
        Points("points", "the points"),
    ),
    values=values,
    guide="probabilistic-pca.html",
    exercise="exercises/linear-subspaces.html#the-error-of-pca",
)
