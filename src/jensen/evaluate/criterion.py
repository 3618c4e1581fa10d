"""A criterion: a name, a direction, what it needs from a model, and a function that fits and scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np

from jensen.evaluate.estimators import Estimator
from jensen.evaluate.trial import Task

# The parameters of every entry of the grid.
Settings = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Score:
    """The score of an entry.

    Args:
        value: of the criterion.
        standard_error: of the value, NaN where it has none.
        n_parameters: of the model.
        model: the fit to all rows, if the criterion needs one.
        rows: the scores of the rows (n,) whose mean is the value, NaN where a row was not scored: entries that scored
            the same rows are compared row by row.
        more: the same value in other units, for the table.
    """

    value: float
    standard_error: float = math.nan
    n_parameters: int | None = None
    model: Any = None
    rows: np.ndarray | None = None
    more: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Criterion:
    """A way to compare models.

    Args:
        name: its name.
        direction: which values are better.
        needs: methods or fitted attributes that a model must have.
        measure: fits copies of an estimator and scores them; a ValueError is the reason why the entry has no value.
        takes_missing: whether X may have missing values for this estimator.
        check: raises an error before any fit if the grid or the task cannot be measured.
        choose: from settings, values (NaN where an entry failed) and standard errors, the number of the winner; None
            takes the best value.
    """

    name: str
    direction: Literal["smaller", "larger"]
    needs: tuple[str, ...]
    measure: Callable[[Any, Task], Score]
    takes_missing: Callable[[Estimator], bool] = lambda estimator: True
    check: Callable[[Sequence[Estimator], Settings, Task], None] = lambda entries, settings, task: None
    choose: Callable[[Settings, np.ndarray, np.ndarray], int] | None = None

    def winner(self, settings: Settings, values: np.ndarray, errors: np.ndarray) -> int:
        if self.choose is not None:
            return self.choose(settings, values, errors)
        best = np.nanmin(values) if self.direction == "smaller" else np.nanmax(values)
        # Equal models differ by rounding; the first of them is kept.
        return int(np.flatnonzero(np.abs(values - best) <= 1e-9 * abs(best))[0])


def mean_and_error(values: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """The mean over rows (n,) and its standard error; a weight is a count."""
    weight = np.ones(len(values)) if weight is None else weight
    n, mean = float(weight.sum()), float(np.average(values, weights=weight))
    variance = float(weight @ (values - mean) ** 2) / (n - 1) if n > 1 else math.nan
    return mean, math.sqrt(variance / n)


def n_parameters(fitted: Estimator) -> int | None:
    if hasattr(fitted, "module_"):
        return sum(int(p.numel()) for p in fitted.module_.parameters())
    found = getattr(fitted, "n_parameters_", None)
    return None if found is None else int(found)


def varied_names(settings: Settings) -> list[str]:
    """The parameters with more than one value."""
    return [name for name in settings[0] if len({repr(setting[name]) for setting in settings}) > 1]


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
