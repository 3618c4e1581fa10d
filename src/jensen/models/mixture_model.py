"""What every mixture answers, whatever its components.

    p(x) = Σ_k π_k p_k(x),   q(k|x) = π_k p_k(x) / p(x)
A final class says what its components are by `_problem`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import EMEstimator, Problem, Rows, Stream, whole_number
from jensen.engines import em
from jensen.engines.sources import Frame
from jensen.engines.threads import threads_for
from jensen.interop.labels import decode_labels
from jensen.models.mixture import MixtureTheta
from jensen.models.mixture_answers import draw, fill, fill_draws, log_evidence, responsibilities

__all__ = ["MixtureModel"]


class MixtureModel(EMEstimator):
    """A mixture fitted by EM, with labels for some rows."""

    theta_: MixtureTheta[Any]
    classes_: np.ndarray
    n_init: int
    warm_start: bool
    verbose_interval: int
    _stream: Stream | None

    @abstractmethod
    def _problem(self, rows: Rows, start: Any, frame: Frame | None) -> tuple[Problem, Frame]:
        """What EM has to solve, in units of the frame, or of the rows' own when that is None."""

    def _presented(self, theta: Any) -> Any:
        """The theta to keep, among all that are the same mixture."""
        return theta

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit by EM from the most promising start.

        Args:
            X: rows (n, d), NaN where missing.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        rows = self._read_rows(X, y, sample_weight, reset=True)
        start = self.theta_ if self.warm_start and hasattr(self, "theta_") else None
        problem, frame = self._problem(rows, start, None)
        fitted = self._run(problem, self._generator(), self.n_init, self.verbose_interval)
        self.theta_ = self._presented(fitted.theta.outside(frame))
        self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter
        self.lower_bound_, self.lower_bounds_ = fitted.objective, fitted.history[1:]
        self.total_weight_ = fitted.weight
        self._remember(rows)
        running = em.Running(fitted.stats * (1 / fitted.weight), fitted.weight)
        self._stream = Stream(frame, problem.verbs, running, fitted.theta)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, then `predict` the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, for the units and the classes.

        After `fit` or `jensen.load` it goes on from there; what a batch changes falls with the weight seen before it.
        """
        if not hasattr(self, "theta_"):
            return self.fit(X, y, sample_weight)
        self._validate_params()
        rows = self._read_rows(X, y, sample_weight, reset=False)
        stream = getattr(self, "_stream", None)
        frame = stream.frame if stream else self.theta_.frame()
        problem, _ = self._problem(rows, self.theta_, frame)
        if stream is None:
            # A loaded model has no statistics, but they are those of its own rows.
            theta = self.theta_.within(frame)
            running = em.Running(theta.components.expected_moments(theta.weights), self.total_weight_)
            stream = Stream(frame, problem.verbs, running, theta)
        with threads_for(problem.source.n_numbers):
            theta, running = em.stepwise(stream.verbs, stream.theta, problem.source, stream.running)
        self.theta_, self.total_weight_ = self._presented(theta.outside(frame)), running.weight
        self._stream = Stream(frame, stream.verbs, running, theta)
        return self

    def score_samples(self, X: Any) -> Any:
        """ln p(x) per row, over the features that are observed; a row with none has ln p = 0."""
        x, kind = self._read(X)
        return kind.values(log_evidence(self.theta_, x))

    def predict_proba(self, X: Any) -> Any:
        """q(k|x), (n, K)."""
        x, kind = self._read(X)
        return kind.values(responsibilities(self.theta_, x))

    def predict(self, X: Any) -> Any:
        """The most probable component, or after a fit with labels its class."""
        x, kind = self._read(X)
        component = responsibilities(self.theta_, x).argmax(1)
        if not hasattr(self, "classes_"):
            return kind.values(component)
        labels = decode_labels(component.cpu().numpy(), self.classes_)
        return torch.as_tensor(labels) if kind.container == "torch" and labels.dtype.kind in "iufb" else labels

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the component each came from; y asks for a class (or component), one for all rows or one each."""
        check_is_fitted(self)
        n = whole_number("n_samples", n_samples)
        component = None if y is None else self._components_of(y, n)
        x, component = draw(self.theta_, n, self._generator(random_state), component)
        return self._kind.table(x), self._kind.values(component)

    def impute(self, X: Any) -> Any:
        """X with missing entries at their posterior mean; observed ones bit for bit."""
        x, kind = self._read(X)
        return kind.table(fill(self.theta_, x))

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read(X)
        draws = fill_draws(self.theta_, x, whole_number("n_draws", n_draws), self._generator(random_state))
        return [kind.table(values) for values in draws]

    def icl(self, X: Any) -> float:
        """bic + 2 Σ H(q): also asks that components be apart (Biernacki, Celeux & Govaert 2000)."""
        x, _ = self._read(X)
        q = responsibilities(self.theta_, x)
        return self.bic(X) - 2 * float(torch.special.xlogy(q, q).sum())

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, and those of the components."""
        check_is_fitted(self)
        k, d = self.theta_.components.means.shape
        n_parameters: int = k - 1 + self.theta_.components.family().n_parameters(k, d)
        return n_parameters

    def _remember(self, rows: Rows) -> None:
        self._kind = rows.kind.of_other_rows()
        if hasattr(self, "classes_"):
            del self.classes_
        if rows.label is not None:
            self.classes_ = rows.classes

    def _components_of(self, y: Any, n: int) -> Tensor:
        values = np.asarray(y)
        if values.shape not in ((), (n,)):
            raise ValueError(f"y has shape {values.shape}; give one class, or one for each of n_samples={n} rows")
        values = np.broadcast_to(values, (n,))
        known = getattr(self, "classes_", np.arange(len(self.theta_.weights)))
        if not np.isin(values, known).all():
            raise ValueError(f"y={y!r} is not among {known.tolist()}; sample from one of these")
        return torch.from_numpy(np.searchsorted(known, values))
