"""What an evaluation asks of estimators, those of other libraries included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeVar

import numpy as np


class Estimator(Protocol):
    """Can be copied, configured and fitted."""

    def fit(self, X: Any, y: Any = None, **options: Any) -> Any: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def set_params(self, **params: Any) -> Self: ...


class Scorer(Estimator, Protocol):
    """Has a log-likelihood of every row, or a bound of it."""

    def score_samples(self, X: Any) -> Any: ...


class Nested(Estimator, Protocol):
    """A mixture that proposes starts for mixtures with other numbers of components."""

    theta_: Any
    lower_bound_: float
    max_iter: int
    tol: float
    n_init: int
    warm_start: bool

    @property
    def at_floor_(self) -> np.ndarray: ...

    def plausibility(self) -> float: ...

    def starts_near(self, n_components: int, X: Any, sample_weight: Any = None) -> Iterator[Any]: ...

    def with_copies(self, n_components: int) -> Any: ...


E = TypeVar("E", bound=Estimator)
