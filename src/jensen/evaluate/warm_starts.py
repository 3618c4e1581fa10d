"""Starts of a mixture from fits with fewer or more components.

A fit with K components tells where K + 1 may lie: each of its components in turn is cut across its longest axis, and
its halves start at μ ± √(2/π) σ, where those of a Gaussian have their means. And where K - 1 may lie: without the
component k for which
    Σ_i w_i ln(1 - q_ik)
is largest, what ln p loses before the others take its place. The most plausible of these after a short run goes on to
the end, and is kept if it beats the model's own start. To split and to leave out: Ueda, Nakano, Ghahramani & Hinton
(2000).

A fit with K components is also a point of every larger model, with a component written down twice, and EM only rises
from there: so ln p never falls with K.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from jensen.evaluate.criterion import Settings, is_number
from jensen.evaluate.trial import FAILURES, Task
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.em import MixtureTheta
from jensen.runtime.messages import own_filters

__all__ = ["chains", "nested", "refined"]

# EM steps of a short run, and the rows that it looks at.
SHORT, SHORT_ROWS = 5, 5_000
# How many components are tried: the heaviest to be split, and the least needed to be left out.
MOST_SPLIT, MOST_LEFT_OUT = 8, 3
# Fits to one maximum differ by this share of the objective, and the first of them is kept.
ROUNDING = 1e-9

Theta = MixtureTheta[Any]


def chains(entries: Sequence[Any], settings: Settings) -> list[list[int]]:
    """Numbers of entries that differ in n_components alone, from few to many; of mixtures whose parameters are free."""
    groups: dict[str, dict[int, int]] = {}
    for i, (entry, setting) in enumerate(zip(entries, settings, strict=True)):
        k: Any = setting.get("n_components")
        if isinstance(entry, MixtureModel) and is_number(k) and not getattr(entry, "freeze", ()):
            others = repr({name: value for name, value in setting.items() if name != "n_components"})
            groups.setdefault(others, {}).setdefault(int(k), i)
    return [[group[k] for k in sorted(group)] for group in groups.values() if len(group) > 1]


def refined(entry: Any, fit: Any, neighbours: Sequence[Any], task: Task) -> Any:
    """A better fit than the one there is, started near fits with other numbers of components; None if there is none."""
    rows = task.counted
    # A part of the rows could lack a class.
    if task.y is None:
        rows = rows[:: -(-len(rows) // SHORT_ROWS)]
    n_components, n_steps = len(fit.theta_.weights), min(SHORT, entry.max_iter)
    places = (theta for other in neighbours for theta in starts(other, n_components, task, rows))
    tried = [found for theta in places if (found := run(entry, theta, task, rows, n_steps)) is not None]
    found = run(entry, max(tried, key=plausibility).theta_, task) if tried else None
    # Less than tol is where EM happened to stop, not another maximum; and a spurious one, with a component shrunk on a
    # few rows, has a large likelihood and no meaning.
    if found is None or found.at_floor_.any() > fit.at_floor_.any():
        return None
    is_better = is_higher(found, fit, entry.tol) and plausibility(found) > plausibility(fit)
    return found if is_better else None


def nested(entry: Any, fit: Any, smaller: Any, task: Task) -> Any:
    """A fit at least as high as one with fewer components, where the fit there is falls behind that; else None."""
    if not is_higher(smaller, fit):
        return None
    theta, n_components = smaller.theta_, len(fit.theta_.weights)
    copies = split(theta, parts_of(theta, n_components), torch.zeros_like(theta.components.means))
    found = run(entry, copies, task)
    return found if found is not None and is_higher(found, fit) else None


def starts(fit: Any, n_components: int, task: Task, rows: np.ndarray) -> Iterator[Theta]:
    """Places near a fit, with so many components."""
    theta, k = fit.theta_, len(fit.theta_.weights)
    q = np.asarray(fit.predict_proba(task.rows(rows)))
    weight = np.ones(len(rows)) if task.weight is None else task.weight[rows]
    if n_components < k:
        # Component k < n_classes is class k, and stays.
        n_out, n_classes = k - n_components, len(getattr(fit, "classes_", ()))
        for first in range(min(MOST_LEFT_OUT, k - n_classes) if n_out == 1 else 1):
            yield without(theta, least_needed(q, weight, n_classes, n_out, first))
        return
    axes = longest_axes(theta, np.asarray(task.values[rows], dtype=np.float64), q * weight[:, None])
    if n_components == k + 1:
        heaviest = theta.weights.argsort(descending=True, stable=True)[:MOST_SPLIT]
        yield from (split(theta, 1 + np.eye(k, dtype=int)[j], axes) for j in heaviest.tolist())
    else:
        yield split(theta, parts_of(theta, n_components), axes)


def parts_of(theta: Theta, n_components: int) -> np.ndarray:
    """How many pieces every component becomes, so that the heaviest piece is as light as can be."""
    weights, parts = theta.weights.numpy(), np.ones(len(theta.weights), dtype=int)
    for _ in range(n_components - len(parts)):
        parts[(weights / parts).argmax()] += 1
    return parts


def split(theta: Theta, parts: np.ndarray, axes: torch.Tensor) -> Theta:
    """Component k in parts[k] pieces of one weight along its axis (K, d), a deviation long; along 0 they are copies.

    The first piece keeps the component's number, which may be a class's.
    """
    k = len(parts)
    numbers = np.concatenate([np.arange(k), np.repeat(np.arange(k), parts - 1)])
    piece = np.concatenate([np.zeros(k, dtype=int), *(np.arange(1, m) for m in parts)])
    steps = torch.tensor([slice_means(int(parts[j]))[i] for j, i in zip(numbers, piece, strict=True)])
    index = torch.from_numpy(numbers)
    components = theta.components.pick(index)
    moved = replace(components, means=components.means + steps[:, None] * axes[index])
    return MixtureTheta(theta.weights[index] / torch.from_numpy(parts)[index], moved)


@cache
def slice_means(m: int) -> np.ndarray:
    """The means of m equally probable slices of a standard normal (m,)."""
    edges = norm.pdf(norm.ppf(np.arange(m + 1) / m))
    return m * (edges[:-1] - edges[1:])


def longest_axes(theta: Theta, x: np.ndarray, mass: np.ndarray) -> torch.Tensor:
    """The direction (K, d) in which the rows x (n, d) of every component, by their mass (n, K), vary most, a standard
    deviation long; what is missing counts as the mean.
    """
    scale, axes = theta.frame().scale.numpy(), []
    for mean, r in zip(theta.components.means.numpy(), mass.T, strict=True):
        away = np.nan_to_num((x - mean) / scale)
        axis = away[(r * (away**2).sum(1)).argmax()]
        for _ in range(10):
            axis = away.T @ (r * (away @ axis))
            axis /= max(np.linalg.norm(axis), 1e-300)
        deviation = np.sqrt(r @ (away @ axis) ** 2 / max(r.sum(), 1e-300))
        axes.append(deviation * axis * scale)
    return torch.from_numpy(np.stack(axes))


def least_needed(q: np.ndarray, weight: np.ndarray, n_classes: int, n_out: int, first: int) -> list[int]:
    """Components without which ln p loses least, one after the other; the number `first` of these at the first time."""
    left, out = list(range(q.shape[1])), []
    for i in range(n_out):
        # 1 - q as the sum of the others, whose smallest numbers tell how far they are.
        before, after = np.cumsum(q, 1), np.cumsum(q[:, ::-1], 1)[:, ::-1]
        others = np.pad(before[:, :-1], ((0, 0), (1, 0))) + np.pad(after[:, 1:], ((0, 0), (0, 1)))
        lost = weight @ np.log(np.maximum(others, 1e-300))
        lost[:n_classes] = -np.inf
        j = int(np.argsort(-lost, kind="stable")[first if i == 0 else 0])
        out.append(left.pop(j))
        q = np.delete(q, j, 1)
        q = q / np.maximum(q.sum(1, keepdims=True), 1e-300)
    return out


def without(theta: Theta, out: Sequence[int]) -> Theta:
    kept = torch.tensor([k for k in range(len(theta.weights)) if k not in out])
    return MixtureTheta(theta.weights[kept] / theta.weights[kept].sum(), theta.components.pick(kept))


def run(entry: Any, theta: Theta, task: Task, rows: np.ndarray | None = None, max_iter: int | None = None) -> Any:
    """A copy of the entry, fitted from theta to all rows, or some steps of that to some rows; None if it collapses."""
    model = clone(entry).set_params(warm_start=True, n_init=1)
    model.theta_ = theta
    with own_filters():
        if max_iter is not None:
            model.set_params(max_iter=max_iter)
            warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            task.teach(model, rows)
        except FAILURES:
            return None
    return model.set_params(warm_start=entry.warm_start, n_init=entry.n_init)


def plausibility(fit: Any) -> float:
    """The objective less Chen & Tan's (2009) penalty on singular components, as mixtures compare their own starts."""
    theta, weight = fit.theta_, fit.total_weight_
    return float(fit.lower_bound_ * weight - theta.within(theta.frame()).components.roughness() / weight)


def is_higher(fit: Any, other: Any, by: float = 0.0) -> bool:
    return bool(fit.lower_bound_ > other.lower_bound_ + max(by, ROUNDING * abs(other.lower_bound_)))
