"""A model that is fitted by EM alone, from all rows or batch by batch.

A final class says by `_problem` what there is to solve; mixtures of any components and latent curves do.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from jensen.contract import EMEstimator, Problem, Rows, Stream, warn_unused
from jensen.engines import em
from jensen.engines.sources import Frame
from jensen.engines.threads import threads_for

__all__ = ["IteratedModel"]


class IteratedModel(EMEstimator):
    """`fit` runs EM to its end, `partial_fit` one step of stepwise EM for a batch."""

    _reads_labels: ClassVar[bool]
    _stream: Stream | None

    @abstractmethod
    def _problem(self, rows: Rows, start: Any, frame: Frame | None) -> tuple[Problem, Frame]:
        """What EM has to solve from `start`, or from a start of its own where that is None, in units of the frame, or
        of the rows' own.
        """

    def _presented(self, theta: Any) -> Any:
        """The theta to keep, among all that are the same model."""
        return theta

    def _remember(self, rows: Rows) -> None:
        """What later calls need to know of the rows of the fit."""
        self._kind = rows.kind.of_other_rows()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit by EM from the most promising start.

        Args:
            X: rows (n, d), NaN where missing.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels, and so do models without classes.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        rows = self._read_rows(X, y if self._reads_labels else None, sample_weight, reset=True)
        warn_unused(self, self._unused(rows))
        start = self.theta_ if getattr(self, "warm_start", False) and hasattr(self, "theta_") else None
        problem, frame = self._problem(rows, start, None)
        n_init, every = getattr(self, "n_init", 1), getattr(self, "verbose_interval", 1)
        fitted = self._run(problem, self._generator(), n_init, every)
        self.theta_ = self._presented(fitted.theta.outside(frame))
        self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter
        self.lower_bound_, self.lower_bounds_ = fitted.objective, fitted.history[1:]
        self.total_weight_ = fitted.weight
        self._remember(rows)
        running = em.Running(fitted.stats * (1 / fitted.weight), fitted.weight)
        self._stream = Stream(frame, problem.verbs, running, fitted.theta)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, for the units and the classes.

        After `fit` or `jensen.load` it goes on from there; what a batch changes falls with the weight seen before it.
        """
        if not hasattr(self, "theta_"):
            return self.fit(X, y, sample_weight)
        self._validate_params()
        rows = self._read_rows(X, y if self._reads_labels else None, sample_weight, reset=False)
        stream = getattr(self, "_stream", None)
        frame = stream.frame if stream else self.theta_.frame()
        problem, _ = self._problem(rows, self.theta_, frame)
        if stream is None:
            # A loaded model has no statistics, but they are those of its own rows.
            theta = self.theta_.within(frame)
            running = em.Running(theta.expected_moments(), self.total_weight_)
            stream = Stream(frame, problem.verbs, running, theta)
        with threads_for(problem.source.n_numbers):
            theta, running = em.stepwise(stream.verbs, stream.theta, problem.source, stream.running)
        self.theta_, self.total_weight_ = self._presented(theta.outside(frame)), running.weight
        self._stream = Stream(frame, stream.verbs, running, theta)
        return self
