"""The rows that many models are evaluated on, and fits of copies to all or some of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, ShuffleSplit, check_cv

from jensen.data.cells import read_cells
from jensen.data.container import is_frame, n_rows, take
from jensen.data.reader import read_array
from jensen.evaluate.estimators import E

# Errors of a fit that is not possible; anything else is a bug and keeps its traceback.
FAILURES = (ValueError, ArithmeticError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Task:
    """What every model is evaluated on.

    Args:
        X, y: as given.
        weight: of the rows (n,), or None.
        cv: number of folds, or a scikit-learn splitter.
        n_references: reference tables of the gap.
        seed: of folds, held-out rows, references and drawn rows.
        held_out: the share of rows that one split keeps for scores.
        fitted: a fit to all rows, if the model has been fitted already.
    """

    X: Any
    y: Any
    weight: np.ndarray | None
    cv: Any
    n_references: int
    seed: int
    held_out: float = 0.2
    fitted: Any = None

    @cached_property
    def n_rows(self) -> int:
        return n_rows(self.X)

    @cached_property
    def values(self) -> Any:
        """X as numbers: an array or a CSR matrix, not for writing."""
        return read_array(BaseEstimator(), self.X, reset=True, sparse=True)[0]

    @cached_property
    def has_missing(self) -> bool:
        if is_frame(self.X):
            return bool(np.isnan(read_cells(self.X, dates=True).numbers).any())
        values = self.values.data if hasattr(self.values, "toarray") else self.values
        return bool(np.isnan(values).any())

    @cached_property
    def n_observed(self) -> float:
        """Observed entries; a row of weight 2 counts twice."""
        # Text and dates are observed, too, but no numbers.
        values = read_cells(self.X, dates=True).numbers if is_frame(self.X) else self.values
        n, d = values.shape
        seen = np.full(n, d) if hasattr(values, "toarray") else (~np.isnan(values)).sum(1)
        return float(seen.sum() if self.weight is None else seen @ self.weight)

    @cached_property
    def counted(self) -> np.ndarray:
        """Numbers of the rows whose weight is not 0."""
        return np.arange(self.n_rows) if self.weight is None else np.flatnonzero(self.weight)

    @cached_property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to train on and rows to score; drawn once, so that they are the same for all models."""
        folds = self.cv
        if isinstance(folds, Integral):
            n_folds = int(folds)
            if not 2 <= n_folds <= self.n_rows:
                raise ValueError(f"cv={folds} is no number of folds for {self.n_rows} rows; give 2 to {self.n_rows}")
            folds = KFold(n_folds, shuffle=True, random_state=self.seed)
        return list(check_cv(folds).split(np.empty((self.n_rows, 1)), self.y))

    @cached_property
    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on and rows to score, in one split."""
        share, n = self.held_out, len(self.counted)
        if not 0 < share < 1:
            raise ValueError(f"held_out={share} is no share of the rows to score; give a number between 0 and 1")
        if not 1 <= round(share * n) < n:
            raise ValueError(f"held_out={share} of {n} rows leaves none to train on, or none to score; change it")
        ((trained, scored),) = ShuffleSplit(1, test_size=round(share * n), random_state=self.seed).split(
            np.empty((n, 1))
        )
        return self.counted[np.sort(trained)], self.counted[np.sort(scored)]

    def fit(self, estimator: E) -> E:
        """A copy of the estimator, fitted to all rows."""
        fitted: E = self.train(clone(estimator)) if self.fitted is None else self.fitted
        return fitted

    def fit_rows(self, estimator: E, rows: np.ndarray) -> E:
        """A copy of the estimator, fitted to some rows."""
        copy: E = clone(estimator)
        return self.train(copy, rows)

    def train(self, model: E, rows: np.ndarray | None = None) -> E:
        """The model itself, fitted to all rows or some."""
        if rows is None:
            return fit_to(model, self.X, self.y, self.weight)
        y, weight = None if self.y is None else take(self.y, rows), None if self.weight is None else self.weight[rows]
        return fit_to(model, self.rows(rows), y, weight)

    def rows(self, rows: np.ndarray) -> Any:
        return take(self.X, rows)


def fit_copy(estimator: E, X: Any, y: Any = None, weight: np.ndarray | None = None) -> E:
    copy: E = clone(estimator)
    return fit_to(copy, X, y, weight)


def fit_to(model: E, X: Any, y: Any, weight: np.ndarray | None) -> E:
    # Not every estimator takes weights.
    fitted: E = model.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    return fitted
