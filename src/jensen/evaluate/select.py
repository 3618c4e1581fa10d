"""Select the parameters of a model, such as the number of clusters: one fit per entry of a grid, one table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state

from jensen.data.container import n_rows
from jensen.data.reader import read_weights
from jensen.evaluate.checkpoint import described, in_words, rows_in_words, trials_at
from jensen.evaluate.criteria import CRITERIA, difference
from jensen.evaluate.criterion import Criterion, Score, Settings
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.flaws import edge_of_grid, without_flawed
from jensen.evaluate.offers import find_criterion, lack_of, offered, quoted
from jensen.evaluate.parallel import check_n_jobs
from jensen.evaluate.search import Search
from jensen.evaluate.selection import Selection
from jensen.evaluate.trial import Task
from jensen.runtime.interrupt import Interrupted
from jensen.runtime.messages import levels_inside


def select(
    model: Any,
    X: Any,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    criterion: str | Criterion = "auto",
    *,
    y: Any = None,
    sample_weight: Any = None,
    cv: Any = 5,
    held_out: float = 0.2,
    n_references: int = 20,
    warm_start: bool = True,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Selection:
    """Select the parameters of a model, such as the number of clusters.

    Args:
        model: an estimator; copies of it are fitted, with its own random_state if it has one.
        X: rows (n, d), or any other input of the model: images, data frames of mixed columns; NaN is missing.
        grid: values for some parameters, {"n_components": range(1, 10)}, or a list of such mappings.
        criterion: "bic", "icl", "completion", "held_out", "cv", "silhouette", "gap", "reconstruction", or a `Criterion`
            of your own; "auto" is "bic" for models with a `bic` method, "completion" for topics, "held_out" for models
            trained by gradients, which have a bound instead, and "reconstruction" for models without a likelihood.
        y: labels for the fits.
        sample_weight: a count per row.
        cv: for "cv", the number of folds, or a scikit-learn splitter.
        held_out: for "completion", "held_out" and "reconstruction", the share of rows that is held out and scored.
        n_references: for "gap", the number of reference tables.
        warm_start: whether mixtures are also started from the fits with the next smaller and larger n_components, if
            the criterion uses a fit to all rows. The best fit is kept, so no entry gets worse.
        n_jobs: number of processes; -1 is one per core. The result is the same.
        random_state: seed for folds, references, drawn rows, and models without a seed of their own.
        verbose: 1 shows a progress bar on a terminal.
        checkpoint: a folder where every entry is kept as soon as it is done. The same call, after Ctrl-C or a crash,
            does not repeat these and returns the same table. One of other rows or arguments is refused.

    Ctrl-C ends the search: the table has the entries that are done, and the winner is the best of them, or None if the
    criterion keeps no fit to all rows. If the fit of an entry fails, the table has the reason; only if all fail is
    there an error. A degenerate fit, with components at the floor of `reg_covar` or more parameters than observed
    entries, is marked in the table and chosen only if all fits are degenerate. A choice at the edge of the grid, or of
    a degenerate fit, gives a warning.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture, select
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(9, 1, (100, 2))])
        >>> chosen = select(GaussianMixture(), X, {"n_components": range(1, 4), "covariance_type": ["full", "diag"]})
        >>> chosen.best_params
        {'covariance_type': 'diag', 'n_components': 2}
        >>> chosen.pivot().shape, chosen.runners_up(2)["n_components"].tolist()
        ((3, 2), [2, 3])

        The same call resumes after a crash:

        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/run"
        >>> once, again = (select(GaussianMixture(), X, {"n_components": [1, 2]}, checkpoint=folder) for _ in range(2))
        >>> once.table.equals(again.table)
        True
    """
    if isinstance(model, type):
        raise TypeError(f"model={model.__name__} is a class; give an estimator, {model.__name__}()")
    if is_regressor(model):
        raise TypeError(
            f"select compares models of rows, and {type(model).__name__} is a regression; fit it with alpha='evidence' "
            "or use scikit-learn's GridSearchCV"
        )
    check_n_jobs(n_jobs)
    points = read_grid(model, grid)
    is_seed = isinstance(random_state, Integral)
    seed = int(random_state if is_seed else check_random_state(random_state).randint(2**31 - 1))
    entries = [configured(model, point, seed) for point in points]
    rule = find_criterion(criterion, entries)
    names = list(dict.fromkeys(name for point in points for name in point))
    settings = [{name: entry.get_params().get(name) for name in names} for entry in entries]
    weight = read_weights(sample_weight, n_rows(X))
    if y is not None and n_rows(y) != n_rows(X):
        raise ValueError(
            f"y has {n_rows(y)} labels, but X has {n_rows(X)} rows; give one per row, -1 for an unknown one"
        )
    task = Task(X, y, None if weight is None else weight.numpy(), cv, n_references, seed, held_out)
    check_task(rule, entries, settings, task)

    def about() -> dict[str, Any]:
        return {
            "call": "select",
            **{name: rows_in_words(value) for name, value in (("X", X), ("y", y), ("sample_weight", sample_weight))},
            "criterion": rule.name,
            "cv": rows_in_words(task.splits) if rule.name == "cv" else in_words(cv),
            **{"held_out": held_out, "n_references": n_references, "seed": seed},
            **{f"entry {i}": described(entry) for i, entry in enumerate(entries)},
        }

    trials = trials_at(checkpoint, about, entries, random_state)
    search = Search(rule, task, entries, settings, n_jobs, bool(verbose), trials)
    is_interrupted = False
    try:
        attempts = search.measured()
        if warm_start:
            attempts = search.warmed(attempts)
    except Interrupted as interrupted:
        if all(one.failure for one in interrupted.best):
            raise
        attempts, is_interrupted = interrupted.kept(), True
    scores = [one.score for one in attempts]
    if all(one.failure for one in attempts):
        raise ValueError(f"every entry of the grid failed, the first with {settings[0]}: {attempts[0].failure}")
    values = np.array([score.value for score in scores])
    errors = np.array([score.standard_error for score in scores])
    flaws = [one.flaw for one in attempts]
    best = rule.winner(settings, without_flawed(values, flaws), errors)
    if not is_interrupted:
        warn_about(rule, settings, best, flaws[best])
    table = as_table(rule, settings, scores, best, task.weight)
    table = table.assign(
        seconds=[one.seconds for one in attempts], degenerate=flaws, failure=[one.failure for one in attempts]
    )
    winner = scores[best].model
    if winner is None and not is_interrupted:
        try:
            winner = search.fitted(best)
        except Interrupted:
            message = f"interrupted before the winner was fitted to all rows; the table is complete{trials.hint}"
            winner = Interrupted(message, None).kept()
    return Selection(table, winner, points[best], best, rule.name, rule.direction)


def warn_about(rule: Criterion, settings: Settings, best: int, flaw: str) -> None:
    """Warn if the chosen fit is degenerate or at the edge of the grid."""
    # A criterion with a rule of its own warns about the end of the grid itself.
    edge = edge_of_grid(settings, best) if rule.choose is None else ""
    if flaw:
        message = f"the chosen fit is degenerate, as all others are: {flaw}; give a prior, or try smaller models"
    elif edge:
        message = f"the chosen entry is at the edge of the grid: {edge}; give values beyond it as well"
    else:
        return
    warnings.warn(message, UserWarning, stacklevel=levels_inside())


def as_table(
    rule: Criterion, settings: Settings, scores: Sequence[Score], best: int, weight: np.ndarray | None
) -> pd.DataFrame:
    columns: dict[str, Any] = {name: column([setting[name] for setting in settings]) for name in settings[0]}
    columns[rule.name] = [score.value for score in scores]
    columns["standard_error"] = [score.standard_error for score in scores]
    columns["behind"], columns["behind_error"] = zip(
        *(difference(score, scores[best], weight) for score in scores), strict=True
    )
    for name in ("standard_error", "behind_error"):
        if np.isnan(columns[name]).all():
            del columns[name]
    for name in dict.fromkeys(name for score in scores for name in score.more):
        columns[name] = [score.more.get(name, np.nan) for score in scores]
    if any(score.n_parameters is not None for score in scores):
        columns["n_parameters"] = pd.array([score.n_parameters for score in scores], dtype="Int64")
    return pd.DataFrame(columns)


def column(values: list[Any]) -> pd.Series[Any]:
    """Values unchanged: pandas would convert whole numbers beside None to floats."""
    found = pd.Series(values, dtype=object)
    return found if any(value is None for value in values) else found.infer_objects()


def read_grid(model: Any, grid: Any) -> list[dict[str, Any]]:
    """The entries of a grid, with plain numbers instead of numpy's."""
    try:
        points = [
            {name: value.item() if isinstance(value, np.generic) else value for name, value in point.items()}
            for point in ParameterGrid(grid)
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"grid={grid!r} must map parameters to lists, such as {{'n': [1, 2]}}: {error}") from None
    if not points or not any(points):
        raise ValueError(f"grid={grid!r} is empty; give at least one parameter and a value for it")
    known = model.get_params()
    for point in points:
        for name in point:
            # A parameter of a parameter may be given with it.
            if name not in known and name.rpartition("__")[0] not in point:
                raise ValueError(
                    f"grid names {name!r}, which {type(model).__name__} does not have; there are {', '.join(known)}"
                )
    return points


def configured(model: Any, point: Mapping[str, Any], seed: int) -> Any:
    """A copy of the model with the parameters of an entry, and with a seed where it has none."""
    entry = clone(model)
    params = entry.get_params()
    seeds = {name: seed for name in params if name.split("__")[-1] == "random_state" and params[name] is None}
    return entry.set_params(**seeds).set_params(**{name: clone(value, safe=False) for name, value in point.items()})


def check_task(rule: Criterion, entries: Sequence[Estimator], settings: Settings, task: Task) -> None:
    """Raise an error before any fit if no entry can be measured."""
    for entry in entries:
        for name, value in entry.get_params().items():
            if name.split("__")[-1] == "checkpoint" and value is not None:
                raise ValueError(f"{name}={value!r} is one file, and select fits many models; leave it out")
    lacks = [lack_of(rule, entry) for entry in entries]
    if all(lacks):
        raise ValueError(lacks[0])
    if not any(rule.takes_missing(entry) for entry in entries) and task.has_missing:
        others = [other for other in offered(entries[0]) if CRITERIA[other].takes_missing(entries[0])]
        raise ValueError(
            f"X contains NaN, and criterion={rule.name!r} needs complete rows; "
            f"{f'use {quoted(others)}, or ' if others else ''}impute X first"
        )
    rule.check(entries, settings, task)
