"""Models that are fitted by EM: verbs for the engine, and answers from theta."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch

from jensen.contract.answering import sum_over_rows
from jensen.contract.model import LatentVariableModel, warn_unused, whole_number
from jensen.contract.problem import Answers, Problem, Stream, check_decay, warn_of_no_convergence
from jensen.contract.rows import Rows
from jensen.contract.scanning import as_scan, survey
from jensen.contract.sites import has_settled, keep_merge, merge_into, no_rows, statistics_of, units_of
from jensen.contract.statistics import Statistics
from jensen.data.constants import check_same_constants
from jensen.data.container import completed_frame
from jensen.data.labels import check_some_labels
from jensen.data.reader import column_names, read_array
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Swept
from jensen.engines.em.checkpoint import PATH, Best, Keeper, checkpoint_at, restored
from jensen.engines.em.frame import Frame
from jensen.files.scan import Scan
from jensen.runtime.interrupt import Interrupted
from jensen.runtime.threads import threads_for


class EMEstimator(LatentVariableModel):
    """A model that is fitted by EM: `fit` runs it to convergence, `partial_fit` takes one step for a batch."""

    _answers: ClassVar[Answers]
    # Whether rows are read as they are, with no columns to be learnt.
    _takes_plain_numbers: ClassVar[bool] = True
    # Whether the engine's units, which floors and penalties are relative to, stay those of the first of several merges.
    _keeps_units: ClassVar[bool] = True
    # Whether rows are those of one of several sites, which cannot change parameters that all share.
    _is_at_site: bool = False
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        executor: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit the model by EM.

        Args:
            X: rows (n, d), NaN where missing; or a `jensen.scan` of files, or a collection of dask, of which only some
                rows are in memory at a time.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels, and so do models without classes. Those
                of a scan are a column of it.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
            executor: runs the sweeps over a scan, such as a ProcessPoolExecutor, or `client.get_executor()` of dask.
            checkpoint: a file that is written after every step; a fit that was stopped resumes from it.
        """
        with checkpoint_at(checkpoint):
            return self._fit(as_scan(X, y, sample_weight, executor), y, sample_weight)

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, is_batch: bool) -> Rows:
        """Rows to fit, of the columns that vary; of the first batch of several, all columns."""
        if isinstance(X, Scan):
            return survey(self, X, is_batch=is_batch)
        rows = self._read_rows(X, y if self.capabilities.labels else None, sample_weight, reset=True)
        return rows if is_batch else self._varying(rows, is_first=True)

    def _begin_scan(self, scan: Scan) -> None:
        """Get to know the columns of a scan."""
        read_array(self, scan.head().table, reset=True, sparse=True)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, is_batch: bool = False) -> Self:
        """Fit all rows, or the first batch of them: a column with one value may vary in the next."""
        self._validate_params()
        self.__dict__.pop("units_", None)
        rows = self._training_rows(X, y, sample_weight, is_batch)
        if self.capabilities.labels == "needed":
            check_some_labels(type(self).__name__, X.label if isinstance(X, Scan) else y, rows.label)
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
        self.total_weight_ = rows.mass
        self._remember(rows)
        self._stream = None
        return self

    def _run(
        self, problem: Problem, generator: torch.Generator, n_init: int, progress_every: int = 1
    ) -> em.Fit[Any, Any]:
        """The most plausible of `n_init` fits."""
        best, best_value, collapse, is_interrupted = None, -np.inf, None, False
        keeper = self._keeper(problem)
        found = keeper.begin()
        first = 0 if found is None else found.attempt
        for attempt in range(first, n_init):
            resumed = found if attempt == first else None
            if resumed is not None:
                generator.set_state(resumed.state)
            try:
                with threads_for(problem.source.n_numbers):
                    state = generator.get_state()
                    n_steps = len(resumed.history) - 1 if resumed and resumed.converged else self.max_iter
                    try:
                        start = ((resumed and problem.template) or problem.start)(generator)
                    except Interrupted as interrupted:
                        # The best start so far is the model.
                        start, is_interrupted, n_steps = interrupted.kept(), True, 0
                    try:
                        fitted = em.fit(
                            problem.verbs,
                            start if resumed is None else keeper.restored(start),
                            problem.source,
                            max_iter=n_steps,
                            stop=problem.stop,
                            algorithm=problem.algorithm,
                            is_monotone=problem.is_monotone,
                            progress=f"{type(self).__name__} {attempt + 1}/{n_init}" if self.verbose else None,
                            progress_every=progress_every,
                            before=() if resumed is None else resumed.history,
                            save=keeper.saver(attempt, state),
                        )
                        if resumed is not None:
                            fitted = replace(fitted, converged=fitted.converged or resumed.converged)
                        if resumed is not None and resumed.best is not None:
                            best, best_value = self._best_before(problem, start, resumed.best)
                    except Interrupted as interrupted:
                        fitted, is_interrupted = interrupted.kept(), True
            except em.CollapseError as error:
                collapse = error
                if is_interrupted:
                    break
                continue
            except KeyboardInterrupt:
                if best is None:
                    raise
                message = f"interrupted in fit {attempt + 1} of n_init={n_init}; the best before it is kept"
                best, is_interrupted = Interrupted(message, best).kept(), True
                break
            value = problem.plausibility(fitted.theta, fitted.objective * fitted.weight, fitted.weight)
            # Fits to one maximum differ by rounding, and the first of them is kept, whatever the order of the rows.
            if best is None or value > best_value + 1e-9 * abs(best_value):
                best, best_value = fitted, value
                keeper.keep(fitted.theta, fitted.history, fitted.converged)
            if is_interrupted:
                break
        if best is None:
            assert collapse is not None
            raise collapse
        if not best.converged and not is_interrupted and self.max_iter > 0:
            self._warn_of_no_convergence()
        return best

    def _keeper(self, problem: Problem) -> Keeper:
        """Writes checkpoints, if the caller asked for them."""
        path = PATH.get()
        if path is not None and not problem.is_monotone:
            raise ValueError(
                f"checkpoint={path!r}: steps of {type(self).__name__} with these arguments depend on earlier ones, so "
                "that a fit cannot resume; leave it out"
            )
        given = {**self.get_params(), **self._stored_params()}
        arguments = {name: repr(value) for name, value in given.items() if name != "verbose"}
        about = {"model": type(self).__name__, **arguments, "n_rows": problem.source.n_rows}
        return Keeper(path, about if path is None else {**about, "rows": problem.source.fingerprint()}, problem.memory)

    def _best_before(self, problem: Problem, start: Any, best: Best) -> tuple[em.Fit[Any, Any], float]:
        """The best of the starts before a fit was stopped, with its statistics."""
        fitted = em.fit(
            problem.verbs,
            restored(start, best.theta),
            problem.source,
            max_iter=0,
            stop=problem.stop,
            before=best.history,
        )
        value = problem.plausibility(fitted.theta, fitted.objective * fitted.weight, fitted.weight)
        return replace(fitted, converged=best.converged), value

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, decay: float | None = None) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, which sets units and classes.

        After `fit` or `jensen.load` it resumes from there. A column with one value in the first batch may vary in later
        ones, but not a column with one value in `fit`.

        Args:
            X, y, sample_weight: as in `fit`.
            decay: None: a batch changes less the more weight was seen before it. A number γ in (0, 1] forgets: all that
                was seen before counts γ times from this batch on, S ← γ S + S(batch), also in `total_weight_`. So
                γ < 1 remembers about 1/(1-γ) batches and follows rows that drift, and with 1 all rows count alike.
        """
        check_decay(decay)
        if not hasattr(self, "theta_"):
            return self._fit(X, y, sample_weight, is_batch=True)
        self._validate_params()
        rows = self._read_rows(X, y if self.capabilities.labels else None, sample_weight, reset=False)
        rows = self._varying(rows, is_first=False)
        if not rows.x.shape[1]:
            return self  # constants stay what they are
        stream, source = self._resume(rows)
        with threads_for(source.n_numbers):
            theta, running = em.stepwise(
                stream.verbs, stream.theta, source, stream.running, stream.exponent, decay=decay
            )
        self._take_step(replace(stream, running=running, theta=theta), rows)
        return self

    def _resume(self, rows: Rows) -> tuple[Stream, Swept]:
        """The statistics that a batch is added to, and the batch in their units."""
        stream = getattr(self, "_stream", None)
        frame = stream.frame if stream else units_of(self)
        problem, _ = self._problem(rows, self.theta_, frame)
        if stream is None:
            # A loaded model has no statistics; those expected under the model stand in for them.
            theta = self.theta_.within(frame)
            running = em.Running(theta.expected_moments(), self.total_weight_)
            stream = Stream(frame, problem.verbs, running, theta)
        return stream, problem.source

    def statistics(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Statistics:
        """What `merge` needs to know of rows: sums over them, taken with the parameters of this model.

        Rows at several sites need not leave them: every site takes the statistics of its rows with the same model, and
        their merge is an EM step on all rows.

        Args:
            X, y, sample_weight, executor: as in `fit`.
        """
        return statistics_of(self, X, y, sample_weight, executor)

    def merge(self, statistics: Iterable[Statistics | str | os.PathLike[str]]) -> Self:
        """One EM step on the rows of all sites, from the statistics or files of each; none but those of this model.

        `lower_bound_` is the objective of all rows before the step, and `converged_` whether it has risen by less than
        `tol` since the last merge. Merging again and again is EM on all rows.
        """
        merge_into(self, statistics)
        return self

    def _no_rows(self) -> Rows:
        return no_rows(self, self._n_varying)

    def _with_bound(self, verbs: Any) -> Any:
        """Verbs whose E-step returns the bound, where those of batches do not."""
        return verbs

    def _informed(self, stream: Stream, stats: Any) -> Any:
        """The verbs of a stream, with what their prior and floors need to know of rows with these statistics."""
        return stream.verbs

    def _has_settled(self, objective: float, weight: float) -> bool:
        """Whether the objective of rows is nearly what it was at the last step on rows of the same weight."""
        return has_settled(self, objective, weight, self.tol)

    def _take_merge(self, new: Stream, old: Stream, objective: float, has_settled: bool) -> tuple[float, bool]:
        """Keep the step that a merge took; returns the lower bound before it, and whether it settled."""
        keep_merge(self, new)
        return objective, has_settled

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
        warn_of_no_convergence(self)

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
        total, n = sum_over_rows(self.score_samples(X))
        return float(-2 * total + self.n_parameters_ * np.log(n))

    def aic(self, X: Any) -> float:
        """-2 Σ ln p(x) + 2 (number of parameters), ln p or its bound; smaller is better (Akaike 1974)."""
        return float(-2 * sum_over_rows(self.score_samples(X))[0] + 2 * self.n_parameters_)
