"""Many models, one table: scores of held-out rows in one unit.

All models are trained on the same rows and scored on the same other rows, so differences are taken row by row.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import check_random_state
from torch import Tensor

from jensen.bound import averaging
from jensen.data.cells import read_cells
from jensen.data.codes import without_unseen_warning
from jensen.data.container import as_array, n_rows, take, to_take_apart
from jensen.evaluate.agreement import (
    agreed,
    disagreement,
    in_words,
    of_rows_left_out,
    scored_by_all,
    unit_of,
    with_one_measure,
)
from jensen.evaluate.agreement import (
    listed as listed_columns,
)
from jensen.evaluate.candidates import EFFORTS, NAMES, Chosen, entrants
from jensen.evaluate.criterion import mean_and_error, n_parameters
from jensen.evaluate.entry import Entry, failed, reason_of
from jensen.evaluate.estimators import Estimator, Scorer
from jensen.evaluate.footing import Footing, Measure, is_observed, names_of, not_numbers
from jensen.evaluate.kinds import (
    Ground,
    Kinds,
    find_ground,
    level_kinds,
    log_seen,
    other_atoms,
    own_level_kinds,
)
from jensen.evaluate.leaderboard import HeldOut, Leaderboard
from jensen.evaluate.scoring import dequantised, describe_score, given, measure_of, on_footing, score
from jensen.evaluate.select import configured
from jensen.evaluate.trial import Task
from jensen.registry import model_class
from jensen.runtime.interrupt import propagating_interrupts
from jensen.runtime.messages import own_filters
from jensen.runtime.progress import Bar

# With fewer rows than this, a fifth of them is too few to rank models, and every row is held out once.
FEW_ROWS = 500
HELD_OUT = 0.2
OF_UNSEEN = (
    "of n observed training entries, a level that is not among them has the probability 1/(n+1), and other levels "
    "n/(n+1) times that of the model"
)


def compare(
    X: Any,
    models: str | Sequence[Any] | Mapping[str, Any] = "auto",
    y: Any = None,
    *,
    discrete: str | bool = "auto",
    cv: Any = None,
    effort: str = "normal",
    random_state: Any = 0,
    verbose: int = 0,
) -> Leaderboard:
    """Fit many models to the same rows and score them on held-out rows: one table in nats per row.

    Args:
        X: a table (n, d), a data frame or images; NaN is missing.
        models: "auto" enters all models that suit the rows. Otherwise a list of names such as "vae" or of estimators,
            or a dictionary of estimators. A name stands for the model of "auto", or for one with default arguments.
        y: labels for models that use them; scores are of X alone.
        discrete: True treats values as discrete (probability), False as continuous (density). "auto" treats them as
            discrete if every column has whole numbers with at most 256 levels. Models of densities are then trained on
            rows with uniform noise on their cells.
        cv: number of folds, or a scikit-learn splitter. None is one 80/20 split, or 5 folds below 500 rows unless the
            effort is "quick".
        effort: "quick", "normal" or "thorough": training budget and model sizes tried by "auto".
        random_state: seed for folds, noise, and models without a seed of their own.
        verbose: 1 shows a progress bar on a terminal.

    A model that fails has a row with the reason. So has a model with a density for a column where the ranked models
    have a probability, or the reverse. Held-out rows that one of the models cannot score are left out for all. Beside
    a `Mixture`, and with "auto", a table with text has one description of its columns for all models: identifiers and
    constants are left out, and models with a density for counts and whole numbers are dequantised there.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import GaussianMixture, ProbabilisticPCA, compare
        >>> board = compare(load_iris().data, [GaussianMixture(3), ProbabilisticPCA(2)])
        >>> board.best
        'GaussianMixture'
    """
    if effort not in EFFORTS:
        raise ValueError(f"effort={effort!r} is not known; choose 'quick', 'normal' or 'thorough'")
    X = to_take_apart(X)
    X = X if hasattr(X, "shape") and not isinstance(X, Tensor) else as_array(X)
    if not (isinstance(models, (str, Mapping)) or hasattr(models, "get_params")):
        models = list(models)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    n = n_rows(X)
    if n < 2:
        raise ValueError(f"X has {n} rows, which is too few to train on some and hold out others; give more")
    if y is not None and n_rows(y) != n:
        raise ValueError(f"y has {n_rows(y)} labels, but X has {n} rows; give one per row, -1 for an unknown one")
    ground = find_ground(X, discrete, models)
    X, footing = ground.X, ground.footing
    task = Task(X, y, None, default_cv(n, effort, seed) if cv is None else cv, 0, seed)
    splits, names = task.splits, names_of(X)
    wanted = {
        name: on_footing(model, ground)
        for name, model in named(models, footing, len(splits[0][0]), count_classes(y), effort, seed).items()
    }
    ranked, reasons = before_any_fit(wanted, task, footing, names, is_asked=discrete != "auto")
    entries = []
    with Bar("compare" if verbose else None, len(wanted), unit="model") as bar:
        for name, model in wanted.items():
            bar.note(name)
            entries.append(failed(name, reasons[name]) if name in reasons else attempt(name, model, task, footing))
            bar.update()
    entries = with_one_measure(entries, ranked, footing, names)
    if all(entry.failure for entry in entries):
        raise ValueError(f"every model failed, {entries[0].name} with: {entries[0].failure}")
    kept = scored_by_all(entries)
    entries, has_levels = with_unseen_slots(entries, task, ground, ranked)
    tested = np.concatenate([test for _, test in splits])
    how = [f"{len(splits)} folds" if len(splits) > 1 else f"{len(tested)} of {n} rows held out"]
    if isinstance(models, str) and models == "auto" and footing.unit == "mixed":
        how.append("k-means, Gaussian mixtures, subspaces and the latent curve take numbers only and are left out")
    if ground.left_out:
        how.append(ground.left_out)
    if not kept.all():
        how.append(of_rows_left_out(entries, tested, kept))
    how.append(footing.reason if ranked == footing.measure else in_words(ranked, names))
    if has_levels:
        how.append(OF_UNSEEN)
    first = splits[0][1][kept[: len(splits[0][1])]]
    held_out = HeldOut(task.rows(first), None if y is None else take(y, first), first, footing)
    entries = [entry if entry.failure else replace(entry, nats=entry.nats[kept]) for entry in entries]
    return board_of(entries, footing, task, tested[kept], "; ".join([*how, unit_of(ranked)]), held_out)


def with_unseen_slots(
    entries: Sequence[Entry], task: Task, ground: Ground, ranked: Measure
) -> tuple[list[Entry], bool]:
    """The entries with seen levels discounted, and whether there are levels.

    The discount is the same for all, but for levels that a network alone has, where others have all numbers.
    """
    kinds = level_kinds(ground, ranked)

    def discount(kinds: Kinds) -> np.ndarray | float:
        found = [log_seen(ground, kinds, task.rows(trained), task.rows(held_out)) for trained, held_out in task.splits]
        known = [one for one in found if one is not None]
        return np.concatenate(known) if known else 0.0

    common = discount(kinds)
    is_common = bool(kinds) or ground.footing.is_image
    own = [0.0 if e.failure or is_common else discount(own_level_kinds(e.model)) for e in entries]
    has_levels = any(isinstance(one, np.ndarray) for one in (common, *own))
    paid = [
        entry if entry.failure else replace(entry, nats=entry.nats + common + cost)
        for entry, cost in zip(entries, own, strict=True)
    ]
    return paid, has_levels


def default_cv(n: int, effort: str, seed: int) -> Any:
    return 5 if n < FEW_ROWS and effort != "quick" else ShuffleSplit(1, test_size=HELD_OUT, random_state=seed)


def before_any_fit(
    wanted: Mapping[str, Estimator], task: Task, footing: Footing, names: Sequence[str], is_asked: bool
) -> tuple[Measure, dict[str, str]]:
    """Density or probability per column in ranked models, and the reasons why other models are not ranked."""
    measures, reasons = {}, {}
    for name, model in wanted.items():
        try:
            check_scores(model, task, footing)
            measures[name] = footing.counted(measure_of(model, footing, task.X))
        except Exception as error:
            reasons[name] = reason_of(error, np.arange(task.n_rows))
    ranked = agreed(measures, footing.measure, is_asked)
    apart = {name: disagreement(measure, ranked, names) for name, measure in measures.items()}
    same = {name: wanted[name] for name, measure in measures.items() if not apart[name] and "both" in measure}
    apart |= other_atoms(same, footing.as_table(task.X))
    return ranked, reasons | {name: reason for name, reason in apart.items() if reason}


def count_classes(y: Any) -> int:
    if y is None:
        return 0
    labels = pd.Series(as_array(y)).dropna()
    return int(labels[(labels.astype(str) != "-1") & (labels != -1)].nunique())


def named(models: Any, footing: Footing, n_trained: int, n_classes: int, effort: str, seed: int) -> dict[str, Any]:
    """The estimators to compare, by name."""
    auto = entrants(footing, n_trained, n_classes, EFFORTS[effort], seed)
    if isinstance(models, str) and models == "auto":
        return dict(auto)
    if isinstance(models, Mapping):
        given = [(str(name), model) for name, model in models.items()]
    else:
        given = [(model if isinstance(model, str) else type(model).__name__, model) for model in listed(models)]
    if not given:
        raise ValueError("models is empty; give at least one model, or 'auto'")
    out: dict[str, Any] = {}
    taken = {name for name, _ in given}
    for name, model in given:
        if isinstance(model, type):
            raise TypeError(f"{model.__name__} is a class; give an estimator, {model.__name__}()")
        estimator = configured(named_model(model, auto) if isinstance(model, str) else model, {}, seed)
        if is_regressor(estimator):
            raise TypeError(f"{name} is a regression, but compare needs models of rows")
        numbered = (f"{name} {k}" for k in itertools.count(2))
        own = name if name not in out else next(other for other in numbered if other not in taken)
        taken.add(own)
        out[own] = estimator
    return out


def named_model(name: str, auto: Mapping[str, Any]) -> Any:
    """The model that "auto" enters under this name of the command line, or one with its default arguments."""
    cls = model_class(name)
    return auto[NAMES[name]] if NAMES.get(name) in auto else cls()


def listed(models: Any) -> list[Any]:
    if isinstance(models, str) or hasattr(models, "get_params"):
        models = [models]
    return [model.strip() if isinstance(model, str) else model for model in models]


def attempt(name: str, model: Estimator, task: Task, footing: Footing) -> Entry:
    """The result of a model, or the reason why there is none."""
    fitting = scoring = 0.0
    parts, measures = [], []
    first: Scorer | None = None
    rows = np.arange(task.n_rows)
    try:
        for fold, (trained, held_out) in enumerate(task.splits):
            began, rows = time.perf_counter(), trained
            fitted = fit(model, task, footing, trained, task.seed + fold)
            fitting += time.perf_counter() - began
            began, rows = time.perf_counter(), held_out
            with averaging(), without_unseen_warning():
                parts.append(score(fitted, footing, task.rows(held_out), task.seed + fold))
            measures.append(measure_of(fitted, footing, task.X))
            scoring += time.perf_counter() - began
            first = fitted if first is None else first
        assert first is not None
        nats = np.concatenate(parts)
        if np.isnan(nats).all():
            raise ValueError(
                f"all {len(nats)} held-out rows have values that it was not trained on; treat numbers as continuous "
                "(discrete=False, --discrete no)"
            )
        value = describe_score(first, bool(dequantised(first, footing, task.X).any()))
        return Entry(name, first, nats, value, n_parameters(first), fitting, scoring, tuple(measures))
    except Exception as error:
        # Any error of any model: one that breaks must not stop the others.
        return replace(failed(name, reason_of(error, rows)), fit_seconds=fitting, score_seconds=scoring)


def check_scores(model: Estimator, task: Task, footing: Footing) -> None:
    """Refuse before any fit a model that does not score rows, or not these."""
    estimator: Any = model.model if isinstance(model, Chosen) else model
    estimator.score_samples  # noqa: B018 (where there is none, the cause says why)
    if is_outlier_detector(estimator):
        raise ValueError("its score measures how unusual rows are and is no likelihood")
    can = getattr(estimator, "capabilities", None)
    if can is not None and not can.text and footing.unit == "mixed":
        cells = read_cells(task.X, dates=True)
        names = listed_columns([repr(cells.names[j]) for j in not_numbers(cells)])
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


def fit(model: Estimator, task: Task, footing: Footing, rows: np.ndarray, seed: int) -> Scorer:
    """A copy of the model, fitted to these rows in the form that it takes."""
    X, y = task.rows(rows), None if task.y is None else take(task.y, rows)
    with own_filters(), propagating_interrupts():
        warnings.simplefilter("ignore")
        fitted: Scorer = clone(model).fit(given(model, footing, X, np.random.default_rng(seed)), y)
        return fitted


def board_of(
    entries: Sequence[Entry], footing: Footing, task: Task, numbers: np.ndarray, caption: str, held_out: HeldOut
) -> Leaderboard:
    """The table, best model first, with its caption, scores and models."""
    nats = pd.DataFrame({entry.name: entry.nats for entry in entries if not entry.failure}, index=numbers)
    # Rows are independent, but not several scores of one row, which a splitter may hold out more than once.
    nats = nats.groupby(level=0, sort=False).mean()
    nats = nats[nats.mean().sort_values(ascending=False, kind="stable").index]
    n_entries = footing.n_observed(task.rows(nats.index.to_numpy())).sum()
    by_name = {entry.name: entry for entry in entries}
    good, best = [by_name[str(name)] for name in nats], nats.iloc[:, 0]
    table = []
    for entry in [*good, *(entry for entry in entries if entry.failure)]:
        own = np.full(2, math.nan) if entry.failure else nats[entry.name].to_numpy()
        mean, error = mean_and_error(own, None)
        behind, off = mean_and_error(own if entry.failure else own - best.to_numpy(), None)
        table.append(
            {
                "model": entry.name,
                "nats": mean,
                "standard_error": error,
                "bits_per_dimension": -mean * len(nats) / (n_entries * math.log(2)),
                "behind": behind,
                "behind_low": behind - 1.96 * off,
                "behind_high": behind + 1.96 * off,
                "value": entry.value,
                "n_parameters": entry.n_parameters,
                "fit_seconds": entry.fit_seconds,
                "score_seconds": entry.score_seconds,
                "failure": entry.failure,
            }
        )
    frame = pd.DataFrame(table).astype({"n_parameters": "Int64"})
    return Leaderboard(frame, caption, nats, {entry.name: entry.model for entry in good}, held_out)
