"""One model in a comparison: fitted to every fold, and scored on the rest."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_outlier_detector
from sklearn.utils.validation import has_fit_parameter

from jensen.bound import averaging
from jensen.data.cells import read_cells
from jensen.data.codes import without_unseen_warning
from jensen.data.container import take
from jensen.evaluate.agreement import listed
from jensen.evaluate.candidates import Chosen
from jensen.evaluate.checkpoint import Trials
from jensen.evaluate.criterion import n_parameters
from jensen.evaluate.entry import Entry, failed, reason_of
from jensen.evaluate.estimators import Estimator, Scorer
from jensen.evaluate.footing import Footing, is_observed, not_numbers
from jensen.evaluate.scoring import completed, dequantised, describe_score, given, measure_of, score
from jensen.evaluate.trial import Task
from jensen.evaluate.words import WORDS, completes
from jensen.runtime.interrupt import propagating_interrupts
from jensen.runtime.messages import own_filters
from jensen.runtime.progress import Bar


def attempt(name: str, model: Estimator, task: Task, footing: Footing, bar: Bar, trials: Trials, number: int) -> Entry:
    """The result of a model, or the reason why there is none; the bar counts its folds, the number is for `trials`."""
    parts: list[dict[str, Any]] = []
    # What a fold has so far, and the rows of which it speaks.
    part: dict[str, Any] = {}
    rows = np.arange(task.n_rows)
    try:
        for fold, (trained, held_out) in enumerate(task.splits):
            known = trials.find(f"model-{number}-fold-{fold}")
            if known is None:
                part, rows = {}, trained
                began = time.perf_counter()
                fitted = fit(model, task, footing, trained, task.seed + fold)
                part["fit_seconds"] = time.perf_counter() - began
                began, rows = time.perf_counter(), held_out
                with averaging(), without_unseen_warning():
                    part["nats"] = score(fitted, footing, task.rows(held_out), task.seed + fold)
                if footing.unit == WORDS:
                    part["completed"], part["words"] = completed(fitted, task.rows(held_out))
                part["measure"] = measure_of(fitted, footing, task.X)
                part["score_seconds"] = time.perf_counter() - began
                trials.keep(f"model-{number}-fold-{fold}", part, fitted)
                known = {**part, "model": fitted}
            parts.append(known)
            part = {}
            bar.update()
        first = parts[0]["model"]
        nats = np.concatenate([one["nats"] for one in parts])
        if np.isnan(nats).all():
            raise ValueError(
                f"all {len(nats)} held-out rows have values that it was not trained on; treat numbers as continuous "
                "(discrete=False, --discrete no)"
            )
        value = describe_score(first, bool(dequantised(first, footing, task.X).any()))
        measures, models = (tuple(one[of] for one in parts) for of in ("measure", "model"))
        done = Entry(name, first, nats, value, n_parameters(first), *seconds(parts), measures, models)
        if footing.unit != WORDS:
            return done
        nats_of_words, words = (np.concatenate([one[of] for one in parts]) for of in ("completed", "words"))
        return replace(done, completed=nats_of_words, words=words)
    except Exception as error:
        # Any error of any model: one that breaks must not stop the others.
        fitting, scoring = seconds([*parts, part])
        return replace(failed(name, reason_of(error, rows)), fit_seconds=fitting, score_seconds=scoring)


def seconds(parts: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The time that fits and scores of these folds took."""
    fitting, scoring = (sum(one.get(of, 0.0) for one in parts) for of in ("fit_seconds", "score_seconds"))
    return fitting, scoring


def check_scores(model: Estimator, task: Task, footing: Footing) -> None:
    """Refuse before any fit a model that does not score rows, or not these."""
    estimator: Any = model.model if isinstance(model, Chosen) else model
    estimator.score_samples  # noqa: B018 (where there is none, the cause says why)
    if is_outlier_detector(estimator):
        raise ValueError("its score measures how unusual rows are and is no likelihood")
    check_words(estimator, footing)
    can = getattr(estimator, "capabilities", None)
    takes_weights = has_fit_parameter(estimator, "sample_weight") if can is None else can.weights
    if task.weight is not None and not takes_weights:
        raise ValueError(f"{type(estimator).__name__} takes no sample_weight; leave it out, or compare without weights")
    if can is not None and not can.text and footing.unit == "mixed":
        cells = read_cells(task.X, dates=True)
        names = listed([repr(cells.names[j]) for j in not_numbers(cells)])
        raise ValueError(
            f"{type(estimator).__name__} takes numbers only, and X has text, categories or dates in {names}"
        )
    if can is not None and can.scores_complete_rows_only:
        is_partial = ~is_observed(task.X).all(1)
        if is_partial.any():
            raise ValueError(
                f"X holds NaN, first in row {int(is_partial.argmax())}, and {type(estimator).__name__} scores complete "
                "rows only; impute X first"
            )


def check_words(estimator: Any, footing: Footing) -> None:
    """Refuse models of words beside others: the score of words in one order is no probability of their counts."""
    if footing.unit == WORDS and not completes(estimator):
        raise ValueError(
            f"{type(estimator).__name__} is no model of words: it has no document completion; give dense rows to "
            "compare models of numbers"
        )
    if footing.unit != WORDS and completes(estimator):
        raise ValueError(
            "its score is of the words of a row in one order, which has another unit than those of other models; "
            "compare it with models of words alone"
        )


def fit(model: Estimator, task: Task, footing: Footing, rows: np.ndarray, seed: int) -> Scorer:
    """A copy of the model, fitted to these rows in the form that it takes."""
    X, y = task.rows(rows), None if task.y is None else take(task.y, rows)
    weights = {} if task.weight is None else {"sample_weight": task.weight[rows]}
    with own_filters(), propagating_interrupts():
        warnings.simplefilter("ignore")
        rows_given, copy = given(model, footing, X, np.random.default_rng(seed)), clone(model)
        fitted: Scorer = copy.fit(rows_given, y, **weights)
        return fitted
