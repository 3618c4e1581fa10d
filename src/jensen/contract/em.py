"""Models that are fitted by EM: verbs for the engine, and answers from theta."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from jensen.contract.model import LatentVariableModel, Rows, warn_unused, whole_number
from jensen.data.constants import Constants
from jensen.data.container import completed_frame
from jensen.data.labels import check_some_labels
from jensen.data.reader import column_names
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.runtime.interrupt import Interrupted
from jensen.runtime.messages import levels_inside
from jensen.runtime.threads import threads_for


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

    verbs: em.Verbs[Any, Any]
    source: Source
    start: Callable[[torch.Generator], Any]
    plausibility: Callable[[Any, float, float], float]
    stop: em.Stop
    algorithm: em.Algorithm[Any, Any] = em.plain
    is_monotone: bool = True


@dataclass(frozen=True)
class Stream:
    """What stepwise EM keeps between batches.

    Args:
        frame: the units of the statistics and of theta.
        verbs: E- and M-step.
        running: mean statistics of all rows so far, and their weight.
        theta: the parameters of the last step.
        exponent: of the step size (seen weight)^-exponent; with 1 all rows count alike.
    """

    frame: Frame
    verbs: em.Verbs[Any, Any]
    running: em.Running[Any]
    theta: Any
    exponent: float = 0.7


@dataclass(frozen=True)
class Answers:
    """Inference with a fitted theta for rows (n, d) in the user's units, as pure functions.

    Args:
        log_evidence: ln p(x) of every row (n,), over what is observed.
        fill: rows with missing entries replaced by their posterior mean.
        fill_draws: n copies of the rows, missing entries drawn from their posterior.
    """

    log_evidence: Callable[[Any, Tensor], Tensor]
    fill: Callable[[Any, Tensor], Tensor]
    fill_draws: Callable[[Any, Tensor, int, torch.Generator], list[Tensor]]


class EMEstimator(LatentVariableModel):
    """A model that is fitted by EM: `fit` runs it to convergence, `partial_fit` takes one step for a batch."""

    _answers: ClassVar[Answers]
    _stream: Stream | None
    max_iter: int
    tol: float
    verbose: int

    def _problem(self, rows: Rows, start: Any, frame: Frame | None) -> tuple[Problem, Frame]:
        """What EM solves, from `start` or from a start of its own, in units of the frame or of the rows.

        A model that is not fitted by EM alone has its own `fit` and `_resume` instead.
        """
        raise NotImplementedError

    def _remember(self, rows: Rows) -> None:
        """What later calls need to know of the rows of the fit."""
        self._kind = rows.kind.of_other_rows()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model by EM.

        Args:
            X: rows (n, d), NaN where missing.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels, and so do models without classes.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, is_batch: bool = False) -> Self:
        """Fit all rows, or the first batch of them: a column with one value may vary in the next."""
        self._validate_params()
        rows = self._read_rows(X, y if self.capabilities.labels else None, sample_weight, reset=True)
        if self.capabilities.labels == "needed":
            check_some_labels(type(self).__name__, y, rows.label)
        rows = rows if is_batch else self._varying(rows, is_first=True)
        warn_unused(self, self._unused(rows))
        start = None
        if getattr(self, "warm_start", False) and hasattr(self, "theta_"):
            start = self.theta_
            if hasattr(self, "_kind"):  # not if theta_ is all that was set
                check_same_constants(self._kind.constants, rows.kind.constants, column_names(self))
        problem, frame = self._problem(rows, start, None)
        if not rows.x.shape[1]:
            return self._fit_constants(problem, rows)
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

    def _fit_constants(self, problem: Problem, rows: Rows) -> Self:
        """Keep the start, because no column varies and so no step changes anything."""
        self.theta_ = problem.start(self._generator())
        self.converged_, self.n_iter_ = True, 0
        self.lower_bound_, self.lower_bounds_ = 0.0, []
        self.total_weight_ = float(len(rows.x) if rows.weight is None else rows.weight.sum())
        self._remember(rows)
        self._stream = None
        return self

    def _run(
        self, problem: Problem, generator: torch.Generator, n_init: int, progress_every: int = 1
    ) -> em.Fit[Any, Any]:
        """The most plausible of `n_init` fits."""
        best, best_value, collapse, is_interrupted = None, -np.inf, None, False
        for attempt in range(n_init):
            try:
                with threads_for(problem.source.n_numbers):
                    # A start has nothing to keep when Ctrl-C ends it.
                    start = problem.start(generator)
                    try:
                        fitted = em.fit(
                            problem.verbs,
                            start,
                            problem.source,
                            max_iter=self.max_iter,
                            stop=problem.stop,
                            algorithm=problem.algorithm,
                            is_monotone=problem.is_monotone,
                            progress=f"{type(self).__name__} {attempt + 1}/{n_init}" if self.verbose else None,
                            progress_every=progress_every,
                        )
                    except Interrupted as interrupted:
                        fitted, is_interrupted = interrupted.kept(), True
            except em.CollapseError as error:
                collapse = error
                continue
            value = problem.plausibility(fitted.theta, fitted.objective * fitted.weight, fitted.weight)
            # Fits to one maximum differ by rounding, and the first of them is kept, whatever the order of the rows.
            if best is None or value > best_value + 1e-9 * abs(best_value):
                best, best_value = fitted, value
            if is_interrupted:
                break
        if best is None:
            assert collapse is not None
            raise collapse
        if not best.converged and not is_interrupted and self.max_iter > 0:
            self._warn_of_no_convergence()
        return best

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, which sets units and classes.

        After `fit` or `jensen.load` it resumes from there. A batch changes less the more weight was seen before it. A
        column with one value in the first batch may vary in later ones, but not a column with one value in `fit`.
        """
        if not hasattr(self, "theta_"):
            return self._fit(X, y, sample_weight, is_batch=True)
        self._validate_params()
        rows = self._read_rows(X, y if self.capabilities.labels else None, sample_weight, reset=False)
        rows = self._varying(rows, is_first=False)
        if not rows.x.shape[1]:
            return self  # constants stay what they are
        stream, source = self._resume(rows)
        with threads_for(source.n_numbers):
            theta, running = em.stepwise(stream.verbs, stream.theta, source, stream.running, stream.exponent)
        self._take_step(replace(stream, running=running, theta=theta), rows)
        return self

    def _resume(self, rows: Rows) -> tuple[Stream, Source]:
        """The statistics that a batch is added to, and the batch in their units."""
        stream = getattr(self, "_stream", None)
        frame = stream.frame if stream else self.theta_.frame()
        problem, _ = self._problem(rows, self.theta_, frame)
        if stream is None:
            # A loaded model has no statistics; those expected under the model stand in for them.
            theta = self.theta_.within(frame)
            running = em.Running(theta.expected_moments(), self.total_weight_)
            stream = Stream(frame, problem.verbs, running, theta)
        return stream, problem.source

    def _take_step(self, stream: Stream, rows: Rows) -> None:
        """Keep what a step of `partial_fit` found."""
        self.theta_, self.total_weight_ = self._presented(stream.theta.outside(stream.frame)), stream.running.weight
        self._stream = stream

    def _presented(self, theta: Any) -> Any:
        """The theta to keep, among all that are the same model."""
        return theta

    def _unused(self, rows: Rows) -> dict[str, str]:
        """Constructor arguments that a fit to these rows does not use, and why."""
        return {}

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
        return kind.scores(self._answers.log_evidence(self.theta_, x))

    def impute(self, X: Any) -> Any:
        """X with missing entries replaced by their posterior mean; observed entries are returned bit for bit."""
        x, kind = self._read(X)
        return completed_frame(X, kind.completed(self._answers.fill(self.theta_, x)))

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read(X)
        n = whole_number("n_draws", n_draws)
        drawn = self._answers.fill_draws(self.theta_, x, n, self._generator(random_state))
        return [completed_frame(X, kind.completed(values)) for values in drawn]

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


def check_same_constants(before: Constants | None, now: Constants | None, names: Sequence[str]) -> None:
    """An error for a warm start where other columns vary than in the last fit."""
    last, own = (set() if one is None else set(one.columns.tolist()) for one in (before, now))
    if last != own:
        j = min(last ^ own)
        what = (
            "had one value in the last fit and varies now"
            if j in last
            else "varied in the last fit, and has one value now"
        )
        raise ValueError(f"warm_start: column {names[j]} {what}; fit with warm_start=False")
