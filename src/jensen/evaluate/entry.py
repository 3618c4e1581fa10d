"""The result of one model in a comparison, or the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jensen.evaluate.estimators import Scorer
from jensen.evaluate.footing import Measure


@dataclass(frozen=True, eq=False)
class Entry:
    """The result of one model.

    Args:
        name: in the table.
        model: the fit of the first fold; None if it failed.
        nats: of every held-out row, in the order of the folds (n,); NaN where the model has no score.
        value: "exact" or "bound", and what it is estimated from.
        measures: for every fold, whether the score of each column is a density or a probability.
        models: the fits of all folds.
        n_parameters: None where not known.
        fit_seconds, score_seconds: of all folds.
        failure: the reason why there are no scores; empty if there are.
        completed: in a table of words, ln p of every second word of each held-out document given the other words (n,).
        words: the number of these words (n,).
    """

    name: str
    model: Scorer | None
    nats: np.ndarray
    value: str
    n_parameters: int | None
    fit_seconds: float
    score_seconds: float
    measures: tuple[Measure, ...] = ()
    models: tuple[Any, ...] = ()
    failure: str = ""
    completed: np.ndarray | None = None
    words: np.ndarray | None = None

    def some(self, kept: np.ndarray) -> Entry:
        """The same with some of the held-out rows."""
        if self.failure:
            return self
        completed, words = (None if part is None else part[kept] for part in (self.completed, self.words))
        return replace(self, nats=self.nats[kept], completed=completed, words=words)


def failed(name: str, reason: str) -> Entry:
    return Entry(name, None, np.empty(0), "", None, 0.0, 0.0, failure=reason)


def reason_of(error: Exception, rows: np.ndarray) -> str:
    """The message of an error, with the numbers that its rows have among all."""
    return with_numbers(" ".join(str(error.__cause__ or error).split()) or type(error).__name__, rows)


def with_numbers(reason: str, rows: np.ndarray) -> str:
    """A message about row i of a part, with the number of that row among all."""
    return re.sub(
        r"\brow (\d+)", lambda found: f"row {rows[int(found[1])]}" if int(found[1]) < len(rows) else found[0], reason
    )
