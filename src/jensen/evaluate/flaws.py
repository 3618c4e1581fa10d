"""What makes a choice doubtful although its criterion is the best: a fit that has collapsed, a grid that is too narrow.

The likelihood of a mixture grows without limit where a component shrinks on a few rows, as far as the floor of
`reg_covar` allows, and BIC improves with it. The same happens with more parameters than observed entries. Such a fit is
chosen only if all others are degenerate, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jensen.evaluate.criterion import Settings, is_number
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.trial import Task


def flaw_of(fitted: Estimator, task: Task) -> str:
    """Why a model fitted to all rows is degenerate; empty if it is not."""
    at_floor = np.asarray(getattr(fitted, "at_floor_", ()), dtype=bool)
    if at_floor.any():
        return f"{at_floor.sum()} of {len(at_floor)} components at the floor of reg_covar"
    # Networks are compared by held-out rows, and have no such attribute.
    n_parameters = getattr(fitted, "n_parameters_", None)
    if n_parameters is not None and n_parameters > task.n_observed:
        return f"{n_parameters} parameters for {task.n_observed:g} observed entries"
    return ""


def without_flawed(values: np.ndarray, flaws: Sequence[str]) -> np.ndarray:
    """The values to choose from; those of degenerate fits are NaN, unless all fits are degenerate."""
    is_flawed = np.array([bool(flaw) for flaw in flaws])
    left = np.where(is_flawed, np.nan, values)
    return values if np.isnan(left).all() else left


def edge_of_grid(settings: Settings, best: int) -> str:
    """Which parameters of the winner are at the edge of the grid, as text; empty if none is.

    A value of 1 is not an edge: there cannot be fewer.
    """
    found = []
    for name, value in settings[best].items():
        numbers = {setting[name] for setting in settings if is_number(setting[name])}
        if not is_number(value) or len(numbers) < 2:
            continue
        if value == max(numbers):
            found.append(f"{name}={value} is the largest that was tried")
        elif value == min(numbers) and value != 1:
            found.append(f"{name}={value} is the smallest that was tried")
    return " and ".join(found)
