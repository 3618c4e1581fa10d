"""Criteria by which models of the same rows are compared; each is a small value.

    bic         -2 Σ_i ln p(x_i) + (number of parameters) ln n;  Schwarz (1978)
    icl         bic + 2 Σ_i H(q_i), which also penalises components that overlap;  Biernacki, Celeux & Govaert (2000)
    silhouette  mean of (b_i - a_i) / max(a_i, b_i),  a_i the mean distance to the other rows of its cluster, b_i to
                those of the nearest other cluster;  Rousseeuw (1987)
    cv          mean of ln p(x_i) over folds, every row scored by a model that was not trained on it
    held_out    the same with one split: for a deep model its bound, nats per row
    completion  mean over the held-out documents of the same split of ln p(every second word | the other words)
    reconstruction  mean of the model's reconstruction_error over the same split, where there is no likelihood
    gap         Gap(K) = mean_b ln W*_b(K) - ln W(K),  W the inertia_, W* that of uniform reference rows; the smallest
                K with Gap(K) ≥ Gap(K+1) - s_{K+1};  Tibshirani, Walther & Hastie (2001)
Held-out rows each have a score of their own, so that models are compared row by row. A weight is a count: n is the sum
of weights, and every mean over rows is weighted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.metrics import pairwise_distances_chunked

from jensen.data.container import as_array
from jensen.evaluate.criterion import Criterion, Score, Settings, is_number, mean_and_error, n_parameters, varied_names
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.trial import Task, fit_copy
from jensen.formulas.completion import per_word, perplexity
from jensen.runtime.messages import levels_inside

# The work grows with the square of the rows, and the mean over this many has a standard error below 0.01.
SILHOUETTE_ROWS = 10_000
# What "auto" tries, in this order: a criterion of one fit to all rows, or else one of held-out rows.
AUTO = ("bic", "completion", "held_out", "reconstruction")

# Arguments that decide which words of texts are counted.
OF_VOCABULARY = ("stop_words", "min_df", "max_df", "max_features")

Splits = Sequence[tuple[np.ndarray, np.ndarray]]


def measure_bic(estimator: Any, task: Task) -> Score:
    fitted = task.fit(estimator)
    if task.weight is None:
        value = fitted.bic(task.X)
    else:
        # The method bic of a model counts rows and takes no weights.
        scores = as_array(fitted.score_samples(task.X))[task.counted]
        value = -2 * scores @ task.weight[task.counted] + fitted.n_parameters_ * math.log(task.weight.sum())
    return Score(float(value), n_parameters=n_parameters(fitted), model=fitted)


def measure_icl(estimator: Any, task: Task) -> Score:
    score = measure_bic(estimator, task)
    q = as_array(score.model.predict_proba(task.X))[task.counted]
    entropy = -xlogy(q, q).sum(1)
    return replace(
        score,
        value=score.value + 2 * float(entropy.sum() if task.weight is None else entropy @ task.weight[task.counted]),
    )


def measure_cv(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, task.splits, "score_samples")


def measure_held_out(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, [task.split], "score_samples")


def measure_reconstruction(estimator: Any, task: Task) -> Score:
    return measure(estimator, task, [task.split], "reconstruction_error")


def measure(estimator: Estimator, task: Task, splits: Splits, verb: str) -> Score:
    """The mean over held-out rows of what the method returns, under models that were not trained on them."""
    total, times = np.zeros(task.n_rows), np.zeros(task.n_rows)
    for trained, held_out in splits:
        fitted = task.fit_rows(estimator, trained)
        scored = rows_with_a_score(estimator, task, held_out)
        total[scored] += as_array(getattr(fitted, verb)(task.rows(scored)))
        times[scored] += 1
    # Rows are independent, but not several scores of one row, which a splitter may hold out more than once.
    rows = task.counted[times[task.counted] > 0]
    scores = np.full(task.n_rows, np.nan)
    scores[rows] = total[rows] / times[rows]
    mean, error = mean_and_error(scores[rows], None if task.weight is None else task.weight[rows])
    return Score(mean, error, n_parameters(fitted), rows=scores)


def measure_completion(estimator: Any, task: Task) -> Score:
    trained, held_out = task.split
    fitted = task.fit_rows(estimator, trained)
    found = fitted.document_completion(task.rows(held_out))
    check_finite_words(fitted, found.nats)
    scores = np.full(task.n_rows, np.nan)
    scores[held_out] = found.nats
    weight = None if task.weight is None else task.weight[held_out]
    mean, error = mean_and_error(found.nats, weight)
    nats = per_word(found.nats, found.words, weight)[0]
    more = {"nats_per_word": nats, "perplexity": perplexity(nats)}
    return Score(mean, error, n_parameters(fitted), rows=scores, more=more)


def check_finite_words(fitted: Any, nats: np.ndarray) -> None:
    """An error for documents (n,) that hold words of probability 0."""
    n_lost = int((~np.isfinite(nats)).sum())
    if n_lost:
        instead = "; give it alpha=1, so that no word has the probability 0" if hasattr(fitted, "alpha") else ""
        raise ValueError(f"{n_lost} of {len(nats)} held-out documents hold words of probability 0{instead}")


def rows_with_a_score(estimator: Estimator, task: Task, rows: np.ndarray) -> np.ndarray:
    """All rows, or the complete ones where a model is trained on rows with missing values but does not score them."""
    can = getattr(estimator, "capabilities", None)
    if can is None or not can.scores_complete_rows_only:
        return rows
    X = task.rows(rows)
    if not hasattr(X, "shape"):
        return rows
    complete = rows[~pd.isna(as_array(X)).reshape(len(rows), -1).any(1)]
    if not len(complete):
        raise ValueError(
            f"all {len(rows)} held-out rows have NaN, and {type(estimator).__name__} scores complete rows only; impute "
            "X first"
        )
    return complete


def difference(score: Score, best: Score, weight: np.ndarray | None) -> tuple[float, float]:
    """The difference of a value to the best one, and its standard error, over the rows that both scored."""
    if score.rows is None or best.rows is None:
        return score.value - best.value, np.nan
    apart = score.rows - best.rows
    both = np.flatnonzero(~np.isnan(apart))
    return mean_and_error(apart[both], None if weight is None else weight[both])


def measure_silhouette(estimator: Any, task: Task) -> Score:
    fitted = task.fit(estimator)
    rows = task.counted
    if len(rows) > SILHOUETTE_ROWS:
        rows = np.sort(np.random.default_rng(task.seed).choice(rows, SILHOUETTE_ROWS, replace=False))
    # Predictions may be classes of any type, and None for a component that is no class.
    labels = pd.factorize(as_array(fitted.predict(task.X))[rows], use_na_sentinel=False)[0]
    weight = None if task.weight is None else task.weight[rows]
    metric, params = getattr(fitted, "metric", "euclidean"), getattr(fitted, "metric_params_", None)
    can = getattr(fitted, "capabilities", None)
    if can is not None and can.text and hasattr(fitted, "pairwise"):
        x, metric, params = as_array(fitted.pairwise(task.rows(rows))), "precomputed", None
    else:
        x = task.values[rows][:, rows] if is_precomputed(fitted) else task.values[rows]
    return Score(silhouette(x, labels, weight, metric, params), n_parameters=n_parameters(fitted), model=fitted)


def silhouette(
    x: Any,
    labels: np.ndarray,
    weight: np.ndarray | None = None,
    metric: Any = "euclidean",
    params: Mapping[str, Any] | None = None,
) -> float:
    """The mean silhouette of rows x in clusters 0..K-1; a row that is alone in its cluster has 0."""
    weight = np.ones(len(labels)) if weight is None else weight
    membership = np.zeros((len(labels), labels.max() + 1))
    membership[np.arange(len(labels)), labels] = weight
    size = membership.sum(0)
    if len(size) < 2:
        raise ValueError("the silhouette compares clusters, and all rows are in one")

    def of_block(distance: np.ndarray, start: int) -> np.ndarray:
        own = (np.arange(len(distance)), labels[start : start + len(distance)])
        total = distance @ membership  # (b, K)
        to_others = total / size
        to_others[own] = np.inf
        # The distance of a row to itself does not count, but that to its copies does.
        a = total[own] / np.where(size > 1, size - 1, 1)[own[1]]
        b = to_others.min(1)
        larger = np.maximum(a, b)
        return np.where((size[own[1]] > 1) & (larger > 0), (b - a) / np.where(larger > 0, larger, 1), 0.0)

    blocks = pairwise_distances_chunked(x, metric=metric, reduce_func=of_block, **(params or {}))
    return float(np.average(np.concatenate(list(blocks)), weights=weight))


def measure_gap(estimator: Any, task: Task) -> Score:
    fitted = task.fit(estimator)
    weight = None if task.weight is None else task.weight[task.counted]
    draw = reference_rows(task.values[task.counted], weight)
    # All entries use the same references; they are drawn again to save memory.
    references = [
        log_inertia(fit_copy(estimator, draw(np.random.default_rng([task.seed, b])), weight=weight))
        for b in range(task.n_references)
    ]
    error = float(np.std(references)) * math.sqrt(1 + 1 / task.n_references)
    return Score(float(np.mean(references)) - log_inertia(fitted), error, n_parameters(fitted), fitted)


def reference_rows(x: Any, weight: np.ndarray | None = None) -> Callable[[np.random.Generator], np.ndarray]:
    """A function that draws tables of the shape of x (n, d), uniform in the box along its principal axes."""
    x = x.toarray() if hasattr(x, "toarray") else x
    origin = np.average(x, axis=0, weights=weight)
    centred = x - origin
    axes = np.linalg.svd(centred if weight is None else centred * np.sqrt(weight)[:, None], full_matrices=False)[2]
    along = centred @ axes.T
    low, high = along.min(0), along.max(0)

    def draw(rng: np.random.Generator) -> np.ndarray:
        rows: np.ndarray = rng.uniform(low, high, along.shape) @ axes + origin
        return rows.astype(x.dtype)

    return draw


def log_inertia(fitted: Any) -> float:
    inertia = getattr(fitted, "inertia_", None)
    if inertia is None:
        raise ValueError(f"the gap compares inertia_, which a fit of {type(fitted).__name__} does not have")
    if not inertia > 0:
        raise ValueError(f"the gap takes the logarithm of inertia_, which is {inertia}: every row is at a centre")
    return math.log(inertia)


def check_gap(entries: Sequence[Estimator], settings: Settings, task: Task) -> None:
    varied = varied_names(settings)
    if len(varied) > 1 or not all(is_number(setting[name]) for setting in settings for name in varied):
        raise ValueError(
            f"criterion='gap' compares neighbours along one numeric parameter, but the grid varies "
            f"{' and '.join(varied)}; give one numeric parameter several values, and others one each"
        )
    if any(is_precomputed(entry) for entry in entries):
        raise ValueError("criterion='gap' draws reference rows, which metric='precomputed' lacks; use 'silhouette'")
    if not (isinstance(task.n_references, Integral) and task.n_references >= 1):
        raise ValueError(f"n_references={task.n_references!r} must be a whole number, 1 or more; 20 is usual")


def first_within_error(settings: Settings, gaps: np.ndarray, errors: np.ndarray) -> int:
    """The smallest K with Gap(K) ≥ Gap(K+1) - s_{K+1}, where K+1 is the next entry that did not fail; or the last."""
    order = [i for i in range(len(gaps)) if not np.isnan(gaps[i])]
    for name in varied_names(settings):
        order = sorted(order, key=lambda i: settings[i][name])
    for here, following in pairwise(order):
        if gaps[here] >= gaps[following] - errors[following]:
            return here
    if len(order) > 1:
        message = f"the gap still rises at the end of the grid, {dict(settings[order[-1]])}; give larger values as well"
        warnings.warn(message, UserWarning, stacklevel=levels_inside())
    return order[-1]


def is_precomputed(estimator: Estimator) -> bool:
    return isinstance(metric := getattr(estimator, "metric", None), str) and metric == "precomputed"


def skips_missing(estimator: Estimator) -> bool:
    return isinstance(metric := getattr(estimator, "metric", None), str) and metric in ("nan_euclidean", "gower")


def check_splits(entries: Sequence[Estimator], settings: Settings, task: Task) -> None:
    _ = task.splits


def check_split(entries: Sequence[Estimator], settings: Settings, task: Task) -> None:
    _ = task.split


def check_words(entries: Sequence[Estimator], settings: Settings, task: Task) -> None:
    check_split(entries, settings, task)
    varied = [name for name in varied_names(settings) if name in OF_VOCABULARY]
    if varied and not hasattr(task.X, "shape"):
        raise ValueError(
            f"criterion='completion' compares scores of the same words, and the grid varies {' and '.join(varied)}, "
            "which changes the vocabulary; leave it out, or count words first"
        )


CRITERIA = {
    criterion.name: criterion
    for criterion in (
        Criterion("bic", "smaller", ("bic",), measure_bic),
        Criterion("icl", "smaller", ("icl",), measure_icl),
        Criterion("completion", "larger", ("document_completion",), measure_completion, check=check_words),
        Criterion("held_out", "larger", ("score_samples",), measure_held_out, check=check_split),
        Criterion("cv", "larger", ("score_samples",), measure_cv, check=check_splits),
        Criterion("silhouette", "larger", ("predict",), measure_silhouette, skips_missing),
        Criterion("gap", "larger", ("inertia_",), measure_gap, lambda _: False, check_gap, first_within_error),
        Criterion("reconstruction", "smaller", ("reconstruction_error",), measure_reconstruction, check=check_split),
    )
}
