"""Criteria of rows that a model did not learn from; each has its own score, so that models are compared row by row.

cv              mean of ln p(x_i) over folds, every row scored by a model that did not see it
held_out        the same of one split: the bound of a deep model, nats per row
reconstruction  mean of a model's own reconstruction_error, of the same split, where it has no likelihood
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jensen.data.container import as_array
from jensen.evaluate.criterion import Score, mean_and_error, n_parameters
from jensen.evaluate.trial import Task
from jensen.models.diffusion.base import DenoisingModel

__all__ = ["difference", "measure_cv", "measure_held_out", "measure_reconstruction"]

Splits = Sequence[tuple[np.ndarray, np.ndarray]]


def measure_cv(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, task.splits, "score_samples")


def measure_held_out(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, [task.split], "score_samples")


def measure_reconstruction(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, [task.split], "reconstruction_error")


def measure(estimator: Any, task: Task, splits: Splits, verb: str) -> Score:
    """The mean over scored rows of what the verb says of them, under models that did not learn from them."""
    total, times = np.zeros(task.n_rows), np.zeros(task.n_rows)
    for learnt, held_out in splits:
        fitted = task.fit_rows(estimator, learnt)
        scored = rows_with_a_score(estimator, task, held_out)
        total[scored] += as_array(getattr(fitted, verb)(task.rows(scored)))
        times[scored] += 1
    # Rows are independent; scores of one row, where a splitter holds it out several times, are not.
    rows = task.counted[times[task.counted] > 0]
    scores = np.full(task.n_rows, np.nan)
    scores[rows] = total[rows] / times[rows]
    mean, error = mean_and_error(scores[rows], None if task.weight is None else task.weight[rows])
    return Score(mean, error, n_parameters(fitted), rows=scores)


def rows_with_a_score(estimator: Any, task: Task, rows: np.ndarray) -> np.ndarray:
    """A diffusion learns from rows with holes, but has a score of complete ones only."""
    if not isinstance(estimator, DenoisingModel):
        return rows
    X = task.rows(rows)
    if not hasattr(X, "shape"):
        return rows
    complete = rows[~pd.isna(as_array(X)).reshape(len(rows), -1).any(1)]
    if not len(complete):
        raise ValueError(
            f"all {len(rows)} held-out rows have NaN, and {type(estimator).__name__} scores complete rows only; impute "
            "X first"
        )
    return complete


def difference(score: Score, best: Score, weight: np.ndarray | None) -> tuple[float, float]:
    """How far a value lies from the best one, and the standard error of that, from the rows that both scored."""
    if score.rows is None or best.rows is None:
        return score.value - best.value, np.nan
    apart = score.rows - best.rows
    both = np.flatnonzero(~np.isnan(apart))
    return mean_and_error(apart[both], None if weight is None else weight[both])
