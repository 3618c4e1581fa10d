"""The choice of a model's parameters, such as the number of clusters: one fit per entry of a grid, one table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClusterMixin, clone, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state
from tqdm.auto import tqdm

from jensen.evaluate.criteria import CRITERIA, Criterion, Score, Settings
from jensen.evaluate.selection import Selection
from jensen.evaluate.task import Task, n_rows
from jensen.interop.tables import read_weights

__all__ = ["Selection", "configured", "select"]

# What a fit says when it cannot be done; anything else is a bug and keeps its traceback.
FAILURES = (ValueError, ArithmeticError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


def select(
    model: Any,
    X: Any,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    criterion: str | Criterion = "bic",
    *,
    y: Any = None,
    sample_weight: Any = None,
    cv: Any = 5,
    n_references: int = 20,
    random_state: Any = 0,
    verbose: int = 0,
) -> Selection:
    """Choose a model's parameters, such as the number of clusters.

    Args:
        model: an estimator; copies of it are fitted, with its own random_state if it has one.
        X: rows (n, d).
        grid: values for some parameters, {"n_components": range(1, 10)}, or a list of such mappings.
        criterion: "bic", "silhouette", "gap", "cv", or a `Criterion` of your own.
        y: labels for the fits.
        sample_weight: a count per row.
        cv: for "cv", the number of folds, or a scikit-learn splitter.
        n_references: for "gap", the number of reference tables.
        random_state: of models without a seed of their own, folds, references and drawn rows.
        verbose: 1 shows a progress bar on a terminal.

    An entry whose fit fails has its reason in the table; only if all fail there is an error.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture, select
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(9, 1, (100, 2))])
        >>> select(GaussianMixture(), X, {"n_components": range(1, 5)}).best_params
        {'n_components': 2}
    """
    if isinstance(model, type):
        raise TypeError(f"model={model.__name__} is a class; give an estimator, {model.__name__}()")
    if is_regressor(model):
        raise TypeError(
            f"select compares models of rows, and {type(model).__name__} is a regression; fit it with alpha='evidence' "
            "or use scikit-learn's GridSearchCV"
        )
    rule = find_criterion(criterion)
    points = read_grid(model, grid)
    is_seed = isinstance(random_state, Integral)
    seed = int(random_state if is_seed else check_random_state(random_state).randint(2**31 - 1))
    entries = [configured(model, point, seed) for point in points]
    names = list(dict.fromkeys(name for point in points for name in point))
    settings = [{name: entry.get_params().get(name) for name in names} for entry in entries]
    weight = read_weights(sample_weight, n_rows(X))
    if y is not None and n_rows(y) != n_rows(X):
        raise ValueError(
            f"y has {n_rows(y)} labels, but X has {n_rows(X)} rows; give one per row, -1 for an unknown one"
        )
    task = Task(X, y, None if weight is None else weight.numpy(), cv, n_references, seed)
    check_task(rule, entries, settings, task)

    attempts = []
    with warnings.catch_warnings():
        # An interrupted fit keeps its best parameters and warns; here it ends the whole search.
        warnings.filterwarnings("error", "interrupted after", RuntimeWarning)
        for entry in tqdm(entries, desc="select", unit="entry", leave=False, disable=None if verbose else True):
            attempts.append(attempt(rule, entry, task))
    scores, failures, seconds = zip(*attempts, strict=True)
    if all(failures):
        raise ValueError(f"every entry of the grid failed, the first with {settings[0]}: {failures[0]}")
    values = np.array([score.value for score in scores])
    errors = np.array([score.standard_error for score in scores])
    best = rule.winner(settings, values, errors)
    table = as_table(rule, settings, scores).assign(seconds=seconds, failure=failures)
    winner = task.fit(entries[best]) if scores[best].model is None else scores[best].model
    return Selection(table, winner, points[best], best, rule.name, rule.direction)


def as_table(rule: Criterion, settings: Settings, scores: Sequence[Score]) -> pd.DataFrame:
    columns: dict[str, Any] = {name: column([setting[name] for setting in settings]) for name in settings[0]}
    columns[rule.name] = [score.value for score in scores]
    if not all(np.isnan(score.standard_error) for score in scores):
        columns["standard_error"] = [score.standard_error for score in scores]
    if any(score.n_parameters is not None for score in scores):
        columns["n_parameters"] = pd.array([score.n_parameters for score in scores], dtype="Int64")
    return pd.DataFrame(columns)


def column(values: list[Any]) -> pd.Series[Any]:
    """Values as they are: beside None, pandas would make floats of whole numbers."""
    found = pd.Series(values, dtype=object)
    return found if any(value is None for value in values) else found.infer_objects()


def attempt(rule: Criterion, entry: Any, task: Task) -> tuple[Score, str, float]:
    """The score of an entry or the reason why it has none, and the seconds it took."""
    began, failure = time.perf_counter(), ""
    try:
        failure = lack_of(rule, entry)
        score = Score(np.nan) if failure else rule.measure(entry, task)
        if np.isnan(score.value) and not failure:
            failure = f"{rule.name} is not a number"
    except RuntimeWarning as warning:
        if isinstance(warning.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    except FAILURES as error:
        score, failure = Score(np.nan), " ".join(str(error).split()) or type(error).__name__
    return score, failure, time.perf_counter() - began


def find_criterion(criterion: str | Criterion) -> Criterion:
    if isinstance(criterion, Criterion):
        return criterion
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r} is unknown; choose among {quoted(CRITERIA)}")
    return CRITERIA[criterion]


def read_grid(model: Any, grid: Any) -> list[dict[str, Any]]:
    """The entries of a grid, with plain numbers for numpy's."""
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
            # A parameter of a parameter may come with it.
            if name not in known and name.rpartition("__")[0] not in point:
                raise ValueError(
                    f"grid names {name!r}, which {type(model).__name__} does not have; there are {', '.join(known)}"
                )
    return points


def configured(model: Any, point: Mapping[str, Any], seed: int) -> Any:
    """A copy of the model with an entry's parameters, and with a seed where it has none."""
    entry = clone(model)
    params = entry.get_params()
    seeds = {name: seed for name in params if name.split("__")[-1] == "random_state" and params[name] is None}
    return entry.set_params(**seeds).set_params(**{name: clone(value, safe=False) for name, value in point.items()})


def check_task(rule: Criterion, entries: Sequence[Any], settings: Settings, task: Task) -> None:
    """Refuse before any fit what cannot be measured for any entry."""
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


def lack_of(rule: Criterion, entry: Any) -> str:
    """What an estimator lacks for a criterion, why, and the way out; empty if nothing."""
    for need in rule.needs:
        reason = why_absent(entry, need)
        if reason is not None:
            others = quoted(offered(entry))
            because, instead = f": {reason}" if reason else "", f"; use {others}" if others else ""
            return f"criterion={rule.name!r} needs {need}, which {type(entry).__name__} does not have{because}{instead}"
    return ""


def offered(entry: Any) -> list[str]:
    return [name for name, rule in CRITERIA.items() if all(why_absent(entry, need) is None for need in rule.needs)]


def why_absent(entry: Any, need: str) -> str | None:
    # What a fit leaves only the kind of model can tell before one.
    if need.endswith("_") and isinstance(entry, ClusterMixin):
        return None
    try:
        getattr(entry, need)
    except AttributeError as error:
        return str(error.__cause__ or "")
    return None


def quoted(names: Iterable[str]) -> str:
    *first, last = [repr(name) for name in names] or [""]
    return " or ".join([", ".join(first), last] if first else [last])
