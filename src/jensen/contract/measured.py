"""Models of columns of any kind: a number has a density, a level a probability."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract.model import LatentVariableModel
from jensen.data.columns import Columns
from jensen.data.rows import Events, known_rows

__all__ = ["ColumnsModel"]


class ColumnsModel(LatentVariableModel):
    """A model that finds out what its columns are, and reports what its scores are of each."""

    _columns: Columns
    _shape: tuple[int, ...]

    @abstractmethod
    def _learn(self, X: Any, sample_weight: Any = None) -> tuple[Events, Tensor | None, np.ndarray]:
        """Rows to train on, their weights and which of all they are, as `learn_events` finds them."""

    @property
    def columns_(self) -> Columns:
        """What every column is: kind, levels and scaling."""
        check_is_fitted(self)
        return self._columns

    @property
    def row_shape_(self) -> tuple[int, ...]:
        """The shape of a row: (d,) in a table, (h, w) or (c, h, w) in images."""
        check_is_fitted(self)
        return self._shape

    @property
    def measure_(self) -> tuple[str, ...]:
        """What scores are of every column: "density" of its numbers or "probability" of its values."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018 (without scores there is none, and the cause says why)
        return self._columns.measure

    def find_measure(self, X: Any) -> tuple[str, ...]:
        """`measure_` of a fit to X, found without fitting."""
        self.score_samples  # noqa: B018
        events: Events = clone(self)._learn(X)[0]
        return events.columns.measure

    def can_score(self, X: Any) -> np.ndarray:
        """Which rows (n,) have a score; a level that was not trained on has none."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018
        return known_rows(self, X, self._columns, self._shape)
