"""EM step by step, with gradient EM beside it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.studio.explainer import Choice, Explainer, Points, Slider

STEPS = 20
# The least variance of a component, in units of the picture: points may be dragged upon each other.
FLOOR = 0.02
CLOUDS = {
    "two": [([-1.4, -0.3], [[1.0, 0.6], [0.6, 0.8]], 35), ([1.7, 0.5], [[0.4, -0.25], [-0.25, 0.7]], 25)],
    "three": [
        ([-3.4, -0.2], [[0.3, 0.0], [0.0, 0.4]], 20),
        ([-1.0, 0.4], [[0.3, 0.0], [0.0, 0.4]], 20),
        ([3.4, 0.0], [[0.3, 0.0], [0.0, 0.4]], 20),
    ],
}

Array = np.ndarray


def points_of(data: str) -> Array:
    """Rows (60, 2) of a data set."""
    rng = np.random.default_rng(4)
    return np.concatenate([rng.multivariate_normal(*cloud) for cloud in CLOUDS[data]]).round(2)


def starting_means(X: Array, k: int, start: str) -> Array:
    """Means (k, 2): rows far from each other, or a bad start: one above the other, or all but one at the right end."""
    if start == "apart":
        chosen = [X[X[:, 0].argmin()]]
        while len(chosen) < k:
            chosen.append(X[np.min([((X - mean) ** 2).sum(1) for mean in chosen], axis=0).argmax()])
        return np.array(chosen)
    if k == 2:
        return np.array([X.mean(0) + np.array([0.0, offset]) for offset in (1.2, -1.2)])
    by_x = X[X[:, 0].argsort()]
    left, right = by_x[: -len(X) // 3].mean(0), by_x[-len(X) // 3 :].mean(0)
    return np.array([left, *(right + [[0.0, offset] for offset in np.linspace(0.4, -0.4, k - 1)])])


def fitted(X: Array, means: Array, n_steps: int, **how: Any) -> GaussianMixture:
    """The mixture after some steps from the same start."""
    k = len(means)
    given: dict[str, Any] = {
        "weights_init": np.full(k, 1 / k),
        "means_init": means,
        "precisions_init": np.array([np.eye(2)] * k),
    }
    return GaussianMixture(k, tol=0.0, max_iter=n_steps, reg_covar=FLOOR, **given, **how).fit(X)


@lru_cache(maxsize=64)
def history(rows: bytes, means: bytes, rate: float) -> tuple[float, ...]:
    """Mean ln p before the first step and after every one; a rate of 0 is EM, another gradient EM."""
    X, start = np.frombuffer(rows).reshape(-1, 2), np.frombuffer(means).reshape(-1, 2)
    last = fitted(X, start, STEPS, **by_gradient(rate))
    found = [fitted(X, start, 0).score(X), *last.lower_bounds_]
    # A fit may end early, where no step gains anything.
    return (*found, *[found[-1]] * (STEPS + 1 - len(found)))


def by_gradient(rate: float) -> dict[str, Any]:
    return {"algorithm": "gradient", "learning_rate": rate} if rate else {}


def shape_of(model: GaussianMixture) -> dict[str, Any]:
    return {"weights": model.weights_, "means": model.means_, "covariances": model.covariances_}


def values(data: str, start: str, half: int, rate: float, points: Any) -> dict[str, Any]:
    """The mixture after half steps: an even number ends with an E-step, an odd one with an M-step."""
    X = points_of(data) if points is None else np.array(points)
    means = starting_means(X, len(CLOUDS[data]), start)
    after, before = (half + 1) // 2, half // 2
    model = fitted(X, means, after)
    # Of the posterior before the M-step, if that was the last half.
    q = (model if before == after else fitted(X, means, before)).predict_proba(X)
    bound, log_p = model.bound(X, q=q).total.mean(), model.score(X)
    beside = fitted(X, means, after, **by_gradient(rate))
    rows, begin = X.tobytes(), means.tobytes()
    return {
        "points": X,
        "start": means,
        "shares": q,
        "model": shape_of(model),
        "gradient": shape_of(beside),
        "log_p": log_p,
        "bound": bound,
        # Rounding may leave it a little below 0.
        "gap": max(0.0, log_p - bound),
        "log_p_gradient": beside.score(X),
        "history": history(rows, begin, 0.0),
        "history_gradient": history(rows, begin, rate),
        "step": after,
        "is_m_step": half % 2 == 1,
    }


EXPLAINER = Explainer(
    name="em",
    title="EM, step by step",
    group="Mixtures and EM",
    lead="The E-step gives each point its posterior shares in the components (its colour); the bound then equals ln p. "
    "The M-step moves the components to fit these shares; the bound rises, ln p rises more, and a gap opens between "
    "them. Gradient EM takes small steps up the same bound.",
    formula="ln p(x) = ELBO(q, θ) + KL(q ‖ p(z|x, θ))\n"
    "E-step:  q(k) = πₖ N(x; μₖ, Σₖ) / p(x)\n"
    "M-step:  πₖ = Nₖ/N,  Nₖ = Σᵢ qᵢ(k)\n"
    "         μₖ = Σᵢ qᵢ(k) xᵢ / Nₖ\n"
    "         Σₖ = Σᵢ qᵢ(k) (xᵢ−μₖ)(xᵢ−μₖ)ᵀ / Nₖ\n"
    "gradient EM:  θ ← θ + η ∇ ELBO(q, θ)",
    tries=(
        "Go through the steps one by one, or press play: ln p never falls.",
        "Choose three clouds and the bad start: EM ends in a local maximum, where two components share one cloud.",
        "Drag a point far away: a component may follow it.",
    ),
    controls=(
        Choice("data", "Points", {"two": "two clouds", "three": "three clouds"}, "two"),
        Choice("start", "Start", {"apart": "means far apart", "bad": "a bad start"}, "bad"),
        Slider(
            "half", "half steps, E and M in turn", 0, 2 * STEPS, 1, 0, still=(*range(13), 14, 20, 30, 40), plays=True
        ),
        Slider("rate", "η, step size of gradient EM", 0.1, 2, 0.1, 0.5, still=(0.5,)),
        Points("points", "the points"),
    ),
    values=values,
    guide="gaussian-mixture.html",
    exercise="exercises/jensens-inequality-and-em.html#em-never-lowers-the-log-likelihood",
)
