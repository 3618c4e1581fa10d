"""The contract: what every model answers, and the two ways of fitting one.

Persistent -> LatentVariableModel -> EMEstimator | GradientEstimator -> final classes, some of which share an abstract
class of their kind: mixtures, one Gaussian around a subspace, models that are fitted by EM alone.
"""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.engines import em
from jensen.engines.sources import ArraySource, Frame
from jensen.engines.threads import threads_for
from jensen.interop.files import write_record
from jensen.interop.labels import encode_labels
from jensen.interop.tables import Kind, check_columns, column_names, read_table, read_weights

__all__ = [
    "Answers",
    "EMEstimator",
    "GradientEstimator",
    "LatentVariableModel",
    "Persistent",
    "Problem",
    "Rows",
    "Stream",
    "not_offered",
    "whole_number",
]


@dataclass(frozen=True)
class Rows:
    """Training rows: values (n, d), weights and class numbers, and the kind of table they came in."""

    x: Tensor
    weight: Tensor | None
    label: Tensor | None
    classes: np.ndarray
    kind: Kind


class Persistent(BaseEstimator, ABC):
    """An estimator that one file can hold."""

    theta_: Any
    _kind: Kind

    @abstractmethod
    def _theta_record(self) -> dict[str, Tensor]:
        """theta_ as named tensors, for a file."""

    @abstractmethod
    def _theta_from(self, record: dict[str, Tensor]) -> Any:
        """Undo `_theta_record`, refusing values that no fit could have left."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; `jensen.load` reads it back."""
        check_is_fitted(self)
        attributes = {name: value for name, value in vars(self).items() if is_attribute(name) and name != "theta_"}
        kind = {"container": self._kind.container, "dtype": self._kind.dtype, "columns": self._kind.columns}
        fitted = {"theta": self._theta_record(), "kind": kind, "attributes": attributes}
        write_record(path, {"class": type(self).__name__, "params": self.get_params(deep=False), "fitted": fitted})

    def _restore(self, fitted: dict[str, Any]) -> None:
        """Take over what `save` wrote of a fit."""
        self._validate_params()
        for name, value in fitted["attributes"].items():
            if not is_attribute(name):
                raise ValueError(f"the file sets {name!r}, which is not a fitted attribute")
            setattr(self, name, value)
        self._kind = Kind(**fitted["kind"])
        self.theta_ = self._theta_from(fitted["theta"])


class LatentVariableModel(Persistent):
    """A model of rows x with something hidden z: p(x) = ∫ p(x|z) p(z) dz.

    NaN in X is missing and never needs filling in before. Scores are nats per row in the units of X. A method that a
    model cannot honour does not exist on it.
    """

    random_state: Any

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn p(x); -1, None or NaN in y means unlabelled."""

    @abstractmethod
    def score_samples(self, X: Any) -> Any:
        """ln p(x) of every row, or the tightest lower bound the model is configured for."""

    @abstractmethod
    def bound(self, X: Any) -> Bound:
        """The evidence lower bound of every row, term by term."""

    @abstractmethod
    def posterior(self, X: Any) -> torch.distributions.Distribution:
        """q(z|x), one distribution per row."""

    @abstractmethod
    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """New rows, and what they came from."""

    @abstractmethod
    def impute(self, X: Any) -> Any:
        """X with every missing entry replaced by its posterior mean; observed entries come back bit for bit."""

    @abstractmethod
    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """`n_draws` copies of X with missing entries drawn from their posterior."""

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples` over the rows; y is ignored."""
        return float(self.score_samples(X).mean())

    def _read(self, X: Any) -> tuple[Tensor, Kind]:
        """Rows to answer about."""
        check_is_fitted(self)
        return read_table(self, X, reset=False)

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """Rows to learn from; those of weight 0 are left out."""
        x, kind = read_table(self, X, reset=reset)
        weight = read_weights(sample_weight, len(x))
        known = None if reset else getattr(self, "classes_", np.array([]))
        label, classes = encode_labels(y, len(x), known, None if weight is None else (weight > 0).numpy())
        if weight is not None:
            kept = weight > 0
            x, weight, label = x[kept], weight[kept], None if label is None else label[kept]
        if reset:
            check_columns(x.numpy(), column_names(self))
        return Rows(x, weight, label, classes, kind)

    def _column(self, column: int | str) -> int:
        """The number of a feature given by number or name."""
        check_is_fitted(self)
        names = list(getattr(self, "feature_names_in_", []))
        if column in names:
            return names.index(column)
        if isinstance(column, Integral) and -self.n_features_in_ <= column < self.n_features_in_:
            return int(column) % int(self.n_features_in_)
        raise ValueError(f"column {column!r} is not among {names or f'0..{self.n_features_in_ - 1}'}")

    def _generator(self, random_state: Any = None) -> torch.Generator:
        """One generator per call, seeded from the argument or the model's own random_state."""
        state = check_random_state(self.random_state if random_state is None else random_state)
        return torch.Generator().manual_seed(int(state.randint(np.iinfo(np.int32).max)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        tags.input_tags.allow_nan = True
        return tags


def whole_number(name: str, value: Any) -> int:
    """A number of rows or draws."""
    if not (isinstance(value, Integral) and int(value) >= 1):
        raise ValueError(f"{name}={value!r} must be a whole number, 1 or more")
    return int(value)


def levels_inside() -> int:
    """How far up the caller's caller outside this package stands, for a warning to point there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("jensen."):
        frame, level = frame.f_back, level + 1
    return level


def not_offered(name: str, reason: str) -> Any:
    """A method of the contract that a model cannot honour: it does not exist there, and the error's cause says why."""

    def refuse(model: LatentVariableModel) -> bool:
        raise AttributeError(reason)

    def method(self: LatentVariableModel, *arguments: Any, **keywords: Any) -> Any: ...

    method.__name__ = name
    method.__doc__ = f"Not offered: {reason}."
    return available_if(refuse)(method)


@dataclass(frozen=True)
class Problem:
    """What EM needs to fit a model to rows.

    Args:
        verbs: the model's E- and M-step in the source's frame.
        source: the rows.
        start: draws a first theta.
        plausibility: of (theta, objective, weight), both for all rows: by it the best of several fits is chosen.
        stop: when the fit has converged.
        algorithm: how it steps.
        is_monotone: whether a step can only raise the objective; if not, the best theta seen is kept.
    """

    verbs: em.Verbs
    source: ArraySource
    start: Callable[[torch.Generator], Any]
    plausibility: Callable[[Any, float, float], float]
    stop: em.Stop
    algorithm: em.Algorithm = em.plain
    is_monotone: bool = True


@dataclass(frozen=True)
class Stream:
    """What stepwise EM keeps between batches: units, verbs, mean statistics and, where the model's own theta is another
    form of it, the theta they belong to.
    """

    frame: Frame
    verbs: em.Verbs
    running: em.Running
    theta: Any = None


def is_attribute(name: str) -> bool:
    """scikit-learn's mark of what a fit leaves: a public name that ends in an underscore."""
    return name.endswith("_") and not name.startswith("_")


@dataclass(frozen=True)
class Answers:
    """What a fitted theta says about rows (n, d) in the user's units, as pure functions.

    Args:
        log_evidence: ln p(x) of every row (n,), over what is observed.
        fill: rows with missing entries at their posterior mean.
        fill_draws: n copies of the rows, missing entries drawn from their posterior.
    """

    log_evidence: Callable[[Any, Tensor], Tensor]
    fill: Callable[[Any, Tensor], Tensor]
    fill_draws: Callable[[Any, Tensor, int, torch.Generator], list[Tensor]]


class EMEstimator(LatentVariableModel):
    """A model that gives verbs to the EM engine, and answers from its theta."""

    _answers: ClassVar[Answers]
    max_iter: int
    tol: float
    verbose: int

    def _run(self, problem: Problem, generator: torch.Generator, n_init: int, progress_every: int = 1) -> em.Fit:
        """The most plausible of `n_init` fits."""
        best, best_value, collapse = None, -np.inf, None
        for attempt in range(n_init):
            try:
                with threads_for(problem.source.n_numbers):
                    fitted = em.fit(
                        problem.verbs,
                        problem.start(generator),
                        problem.source,
                        max_iter=self.max_iter,
                        stop=problem.stop,
                        algorithm=problem.algorithm,
                        is_monotone=problem.is_monotone,
                        progress=f"{type(self).__name__} {attempt + 1}/{n_init}" if self.verbose else None,
                        progress_every=progress_every,
                    )
            except em.CollapseError as error:
                collapse = error
                continue
            value = problem.plausibility(fitted.theta, fitted.objective * fitted.weight, fitted.weight)
            # Fits to one maximum differ by rounding, and the first of them is kept, whatever the order of the rows.
            if best is None or value > best_value + 1e-9 * abs(best_value):
                best, best_value = fitted, value
            if fitted.interrupted:
                break
        if best is None:
            assert collapse is not None
            raise collapse
        if not best.converged and not best.interrupted and self.max_iter > 0:
            self._warn_of_no_convergence()
        return best

    def _warn_of_no_convergence(self) -> None:
        is_plain = getattr(self, "acceleration", "none of its arguments") is None
        faster = ", or try acceleration='squarem'" if is_plain else ""
        warnings.warn(
            f"{type(self).__name__} did not converge to tol={self.tol} in max_iter={self.max_iter} steps; "
            f"raise max_iter or tol{faster}",
            ConvergenceWarning,
            stacklevel=levels_inside(),
        )

    def score_samples(self, X: Any) -> Any:
        """ln p(x) per row, over the features that are observed; a row with none has ln p = 0."""
        x, kind = self._read(X)
        return kind.values(self._answers.log_evidence(self.theta_, x))

    def impute(self, X: Any) -> Any:
        """X with missing entries at their posterior mean; observed ones bit for bit."""
        x, kind = self._read(X)
        return kind.table(self._answers.fill(self.theta_, x))

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read(X)
        n = whole_number("n_draws", n_draws)
        return [kind.table(v) for v in self._answers.fill_draws(self.theta_, x, n, self._generator(random_state))]

    @property
    @abstractmethod
    def n_parameters_(self) -> int:
        """Free parameters."""

    def bic(self, X: Any) -> float:
        """-2 Σ ln p(x) + (number of parameters) ln n, ln p or its bound; smaller is better (Schwarz 1978)."""
        scores = self.score_samples(X)
        return float(-2 * scores.sum() + self.n_parameters_ * np.log(len(scores)))

    def aic(self, X: Any) -> float:
        """-2 Σ ln p(x) + 2 (number of parameters), ln p or its bound; smaller is better (Akaike 1974)."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.n_parameters_)


class GradientEstimator(LatentVariableModel):
    """A model whose bound is the forward pass of a network, trained by stochastic gradients."""
