"""Starts of a mixture from fits with fewer or more components.

A mixture proposes starts near a fit of the same mixture with another number of components (`starts_near`). The most
plausible of these after a short run is fitted to the end, and kept if it beats the model's own start. A fit with K
components is also a point of every larger model, and EM only rises from there: so ln p never falls with K.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from jensen.evaluate.criterion import Settings, is_number
from jensen.evaluate.estimators import Nested
from jensen.evaluate.trial import FAILURES, Task
from jensen.runtime.messages import own_filters

# EM steps of a short run, and the number of rows that it uses.
SHORT, SHORT_ROWS = 5, 5_000
# Fits to one maximum differ by this share of the objective, and the first of them is kept.
ROUNDING = 1e-9


def chains(entries: Sequence[Any], settings: Settings) -> list[list[int]]:
    """Numbers of entries that differ in n_components alone, from few to many; of mixtures whose parameters are free.

    A mixture without an argument warm_start, such as one of the user's own, cannot be started from another fit.
    """
    groups: dict[str, dict[int, int]] = {}
    for i, (entry, setting) in enumerate(zip(entries, settings, strict=True)):
        k: Any = setting.get("n_components")
        can_start_near = hasattr(entry, "starts_near") and hasattr(entry, "warm_start")
        if can_start_near and is_number(k) and not getattr(entry, "freeze", ()):
            others = repr({name: value for name, value in setting.items() if name != "n_components"})
            groups.setdefault(others, {}).setdefault(int(k), i)
    return [[group[k] for k in sorted(group)] for group in groups.values() if len(group) > 1]


def refined(entry: Nested, fit: Nested, neighbours: Sequence[Nested], task: Task) -> Nested | None:
    """A better fit than the given one, started near fits with other numbers of components; None if there is none."""
    rows = task.counted
    # A part of the rows could lack a class.
    if task.y is None:
        rows = rows[:: -(-len(rows) // SHORT_ROWS)]
    n_components, n_steps = fit.theta_.n_components, min(SHORT, entry.max_iter)
    places = (theta for other in neighbours for theta in starts(other, n_components, task, rows))
    tried = [found for theta in places if (found := run(entry, theta, task, rows, n_steps)) is not None]
    found = run(entry, max(tried, key=plausibility).theta_, task) if tried else None
    # A gain below tol is where EM happened to stop, not another maximum; and a spurious maximum, with a component
    # shrunk on a few rows, has a large likelihood and no meaning.
    if found is None or found.at_floor_.any() > fit.at_floor_.any():
        return None
    is_better = is_higher(found, fit, entry.tol) and plausibility(found) > plausibility(fit)
    return found if is_better else None


def nested(entry: Nested, fit: Nested, smaller: Nested, task: Task) -> Nested | None:
    """A fit at least as high as one with fewer components, where the given fit is below that; else None."""
    if not is_higher(smaller, fit):
        return None
    found = run(entry, smaller.with_copies(fit.theta_.n_components), task)
    return found if found is not None and is_higher(found, fit) else None


def starts(fit: Nested, n_components: int, task: Task, rows: np.ndarray) -> Iterable[Any]:
    """Places near a fit, with so many components.

    EM never separates equal components, so there is no start with two of them: the halves of a component without a
    place that can move, such as one of levels alone.
    """
    found = fit.starts_near(n_components, task.rows(rows), None if task.weight is None else task.weight[rows])
    return (theta for theta in found if not has_equal(theta))


def has_equal(theta: Any) -> bool:
    """Whether two components are equal."""
    expectation = np.asarray(theta.components.expectation)
    return len(np.unique(expectation, axis=0)) < len(expectation)


def run(
    entry: Nested, theta: Any, task: Task, rows: np.ndarray | None = None, max_iter: int | None = None
) -> Nested | None:
    """A copy of the entry, fitted from theta to all rows, or for some steps to some rows; None if it collapses."""
    model: Nested = clone(entry).set_params(warm_start=True, n_init=1)
    model.theta_ = theta
    with own_filters():
        if max_iter is not None:
            model.set_params(max_iter=max_iter)
            warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            task.train(model, rows)
        except FAILURES:
            return None
    return model.set_params(warm_start=entry.warm_start, n_init=entry.n_init)


def plausibility(fit: Nested) -> float:
    return fit.plausibility()


def is_higher(fit: Nested, other: Nested, by: float = 0.0) -> bool:
    return fit.lower_bound_ > other.lower_bound_ + max(by, ROUNDING * abs(other.lower_bound_))
