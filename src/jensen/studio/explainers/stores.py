"""K-means as a plan of stores, with a depot that supplies them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.models.clusters.depot import Depot
from jensen.models.clusters.kmeans import KMeans
from jensen.studio.explainer import Choice, Explainer, Points, Slider

STEPS = 8


@lru_cache(maxsize=1)
def customers() -> np.ndarray:
    """Places (45, 2) of customers, in four towns and between them."""
    rng = np.random.default_rng(7)
    towns = np.array([[-3.0, 1.6], [-1.2, -1.8], [2.2, 1.8], [3.2, -1.2]])
    near = towns[np.arange(36) % 4] + rng.normal(scale=0.6, size=(36, 2))
    return np.concatenate([near, rng.uniform([-4, -3], [4, 3], size=(9, 2))]).round(2)


def starting_stores(X: np.ndarray, k: int, start: str) -> np.ndarray:
    """Stores (k, 2): customers far from each other, or the k customers farthest to the left."""
    if start == "left":
        return X[X[:, 0].argsort()[:k]]
    chosen = [X[((X - X.mean(0)) ** 2).sum(1).argmax()]]
    while len(chosen) < k:
        chosen.append(X[np.min([((X - store) ** 2).sum(1) for store in chosen], axis=0).argmax()])
    return np.array(chosen)


def values(k: int, start: str, step: int, weight: float, depot_x: float, rule: str, points: Any) -> dict[str, Any]:
    """Stores, who buys where, and the cost after every step up to this one."""
    X = customers() if points is None else np.array(points)
    if k > len(X):
        raise ValueError(f"k={k} stores need at least {k} customers, got {len(X)}")
    place = [depot_x, -3.5]
    depot = Depot(place, weight, rule) if weight > 0 else None
    begin = starting_stores(X, k, start)
    plans = [KMeans(k, init=begin, n_init=1, max_iter=n, tol=0.0, depot=depot).fit(X) for n in range(step + 1)]
    plan = plans[-1]
    return {
        "points": X,
        "begin": begin,
        "depot": place,
        "has_depot": depot is not None,
        "stores": plan.cluster_centers_,
        "labels": plan.labels_,
        "customers": plan.inertia_,
        "supply": plan.supply_cost_,
        "costs": [each.cost_ for each in plans],
        "sizes": plan.cluster_weights_,
        "bound": plan.score_samples(X).mean(),
    }


EXPLAINER = Explainer(
    name="stores",
    title="k-means, stores and a depot",
    group="Mixtures and EM",
    lead="Each customer (a dot) buys at the nearest store (a cross), and each store moves to the mean of its "
    "customers. Repeat, and the cost, the sum of squared distances, never rises. A depot adds the squared distance "
    "from it to the store, λ times for each customer, and pulls the stores towards it.",
    formula="cost = Σᵢ ‖xᵢ − μ_yᵢ‖² + λ Σᵢ ‖μ_yᵢ − x_D‖²\n"
    "nearest:   yᵢ = argminⱼ ‖xᵢ − μⱼ‖²\n"
    "cheapest:  yᵢ = argminⱼ ‖xᵢ − μⱼ‖² + λ‖μⱼ − x_D‖²\n"
    "move:      μⱼ = (x̄ⱼ + λ x_D) / (1 + λ)\n"
    "k-means is EM with a one-hot q:\n"
    "ln p(x) ≥ ln N(x; μ_y, σ²I) − ln K",
    tries=(
        "Start on the left and step: stores leave for the towns. With 6 stores they end at a worse plan than "
        "from far apart.",
        "Increase λ: stores move towards the depot. A step of the nearest-store rule may then raise the sum, and the "
        "best plan is kept; with the cheapest-store rule some stores lose all customers.",
        "Drag a customer far away: its store follows, because the cost grows with the square of the distance.",
    ),
    controls=(
        Slider("k", "K, stores", 1, 7, 1, 4, still=(2, 4, 6)),
        Choice("start", "Start", {"left": "all on the left", "apart": "far apart"}, "left"),
        Slider("step", "steps", 0, STEPS, 1, 0, plays=True),
        Slider("weight", "λ, cost of the way from the depot", 0, 2, 0.1, 0.0, still=(0, 0.5, 2)),
        Slider("depot_x", "place of the depot, from left to right", -4, 4, 0.5, 0.0, still=(0,)),
        Choice(
            "rule",
            "With a depot, a customer goes to",
            {"nearest": "the nearest store", "assigned": "the cheapest store"},
            "nearest",
        ),
        Points("points", "the customers"),
    ),
    values=values,
    guide="kmeans.html",
    exercise="exercises/k-means-and-stores.html#stores-with-a-depot",
)
