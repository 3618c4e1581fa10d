"""The rows that many models are measured on, and fits of copies to all or some of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, check_cv
from torch import Tensor

from jensen.interop.tables import read_array

__all__ = ["Task", "as_array", "fit_copy", "n_rows"]


@dataclass(frozen=True)
class Task:
    """What every model is measured on.

    Args:
        X, y: as given.
        weight: of the rows (n,), or None.
        cv: number of folds, or a scikit-learn splitter.
        n_references: reference tables of the gap.
        seed: of folds, references and drawn rows.
    """

    X: Any
    y: Any
    weight: np.ndarray | None
    cv: Any
    n_references: int
    seed: int

    @cached_property
    def n_rows(self) -> int:
        return n_rows(self.X)

    @cached_property
    def values(self) -> Any:
        """X as numbers: an array or a CSR matrix, not for writing."""
        return read_array(BaseEstimator(), self.X, reset=True, sparse=True)[0]

    @cached_property
    def has_missing(self) -> bool:
        values = self.values.data if hasattr(self.values, "toarray") else self.values
        return bool(np.isnan(values).any())

    @cached_property
    def counted(self) -> np.ndarray:
        """Numbers of the rows whose weight is not 0."""
        return np.arange(self.n_rows) if self.weight is None else np.flatnonzero(self.weight)

    @cached_property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to learn from and rows to score: drawn once, so that all models meet the same."""
        folds = self.cv
        if isinstance(folds, Integral):
            n_folds = int(folds)
            if not 2 <= n_folds <= self.n_rows:
                raise ValueError(f"cv={folds} is no number of folds for {self.n_rows} rows; give 2 to {self.n_rows}")
            folds = KFold(n_folds, shuffle=True, random_state=self.seed)
        return list(check_cv(folds).split(np.empty((self.n_rows, 1)), self.y))

    def fit(self, estimator: Any) -> Any:
        """A copy of the estimator, fitted to all rows."""
        return fit_copy(estimator, self.X, self.y, self.weight)

    def fit_rows(self, estimator: Any, rows: np.ndarray) -> Any:
        """A copy of the estimator, fitted to some rows."""
        y, weight = None if self.y is None else take(self.y, rows), None if self.weight is None else self.weight[rows]
        return fit_copy(estimator, self.rows(rows), y, weight)

    def rows(self, rows: np.ndarray) -> Any:
        return take(self.X, rows)


def fit_copy(estimator: Any, X: Any, y: Any = None, weight: np.ndarray | None = None) -> Any:
    # Not every estimator knows weights.
    weights = {} if weight is None else {"sample_weight": weight}
    return clone(estimator).fit(X, y, **weights)


def take(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, or entries of a vector, of any kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_array(values: Any) -> np.ndarray:
    return np.asarray(values.cpu() if isinstance(values, Tensor) else values)
