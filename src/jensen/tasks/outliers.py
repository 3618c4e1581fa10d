"""Find the odd rows of a table, and the cells that make them odd.

1. Three models are fitted so that odd rows do not bend them (`jensen.evaluate.robust`): independent columns, one
   Gaussian with its covariances, and a mixture of three. Levels and counts have their own families.
2. Every row is scored by models that were not trained on it: folds.
3. Scores become p-values by their ranks, with an exponential tail (`jensen.evaluate.outliers.tail_p_values`), and
   Benjamini & Hochberg's rule flags rows so that about a share `level` of the flagged ones are usual rows.
4. The model with the highest held-out ln p over the best 90 % of the rows, which odd rows cannot sway, is fitted to the
   usual rows alone, and every cell is compared with its p(x_j | rest of the row) (`jensen.evaluate.blame`).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jensen.data.columns import Columns
from jensen.data.container import is_frame, n_rows, names_in, take
from jensen.evaluate.blame import as_pandas
from jensen.evaluate.outliers import discoveries, tail_p_values
from jensen.evaluate.robust import (
    CrossFit,
    Pool,
    folds_of,
    held_out_nats,
    quiet_scores,
    rows_to_fit,
    scale_of,
    trimmed_fit,
    usual_fits,
)
from jensen.models.factors.mixtures import MixtureOfFactorAnalysers
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.models.mixtures.mixture import Mixture
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.messages import levels_inside, own_filters
from jensen.runtime.progress import Bar
from jensen.tasks.odd_rows import ADDED, LEAST_USUAL, Outliers, modelled
from jensen.tasks.opening import learn_table, opened

# Share of the rows that may be odd without bending a fit.
TRIM = 0.1
# With more columns no covariance matrix of all of them is fitted.
WIDEST = 300
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Effort:
    """How many folds, and how many rows a fit is trained on at most."""

    n_folds: int
    most_rows: int


EFFORTS = {"quick": Effort(2, 2_000), "normal": Effort(5, 10_000), "thorough": Effort(10, 100_000)}


def outliers(
    table: Any,
    *,
    level: float = 0.05,
    model: Any = None,
    effort: str = "normal",
    random_state: int = 0,
    verbose: int = 0,
) -> Outliers:
    """Find odd rows and odd cells of a table.

    Args:
        table: a data frame (pandas, polars, pyarrow), an array, or the path of a file; missing values are allowed.
        level: false discoveries that are accepted, as a share of the rows that are flagged.
        model: an estimator with `score_samples` to use in place of the three models; it is not changed.
        effort: "quick" (2 folds, fits to at most 2000 rows), "normal" (5, 10 000) or "thorough" (10, 100 000).
        random_state: seed of folds and fits.
        verbose: 1 shows a progress bar on a terminal.

    Example:
        >>> import numpy as np, pandas as pd
        >>> import jensen
        >>> rng = np.random.default_rng(0)
        >>> height = rng.normal(170, 8, size=200)
        >>> people = pd.DataFrame({"height": height, "weight": height - 100 + rng.normal(0, 4, size=200)})
        >>> people.loc[7, "weight"] = 20.0
        >>> found = jensen.outliers(people, effort="quick")
        >>> found.rows.index.tolist(), found.rows["why"].tolist()
        ([7], ['weight'])
    """
    check_arguments(level, effort)
    X = opened(table)
    X = np.asarray(X) if isinstance(X, list | tuple) else X
    taken = [name for name in ADDED if is_frame(X) and name in names_in(X)]
    if taken:
        raise ValueError(f"the table has a column {taken[0]!r}, a name that outliers adds; rename it or leave it out")
    if n_rows(X) < FEWEST_ROWS:
        raise ValueError(f"the table has {n_rows(X)} rows, and outliers needs {FEWEST_ROWS} or more; add rows")
    columns = columns_of(X)
    rows = modelled(X, columns)
    candidates = usual_models(columns, random_state) if model is None else {type(model).__name__: model}
    fit, tried = cross_fitted(candidates, rows, EFFORTS[effort], random_state, verbose)
    best = str(tried["model"].iloc[0])
    scores = fit.scores
    p_values = tail_p_values(scores, scores)
    fitted, of_parts = usual_fits(fit, best, candidates[best], rows, p_values >= LEAST_USUAL)
    return Outliers(
        data=X,
        source=Path(table).name if isinstance(table, str | os.PathLike) else "",
        scores=scores,
        p_values=p_values,
        is_outlier=discoveries(p_values, level),
        level=float(level),
        model=fitted,
        tried=tried,
        pool=fit.pool,
        parts=tuple((own, part) for (own, _), part in zip(fit.parts, of_parts, strict=True)),
        columns=columns,
    )


def check_arguments(level: float, effort: str) -> None:
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.05")
    if effort not in EFFORTS:
        raise ValueError(f"effort={effort!r} is not known; choose {', '.join(map(repr, EFFORTS))}")


def columns_of(X: Any) -> Columns:
    """What the columns are, but that whole numbers are no levels: among levels a far number is as odd as a near one.

    In a table of numbers alone two values are numbers as well, and have covariances with the others.
    """
    with own_filters():
        warnings.simplefilter("ignore")
        found = learn_table(X)
        numeric = [holds_numbers(X, name) for name in found.names]
        coded = ("level", "yes/no") if all(numeric) else ("level",)
        own = zip(found.names, found.kinds, numeric, strict=True)
        asked = {name: "number" for name, kind, is_number in own if is_number and kind in coded}
        return learn_table(X, asked) if asked else found


def holds_numbers(X: Any, name: Any) -> bool:
    return not is_frame(X) or as_pandas(X)[name].dtype.kind in "iuf"


def usual_models(columns: Columns, random_state: int) -> dict[str, Any]:
    """Independent columns, one Gaussian and three, in the class that the kinds of the columns ask for."""
    shared: dict[str, Any] = {"prior": ConjugatePrior(), "random_state": random_state}
    is_numeric = set(columns.kinds) <= {"number", "count", "constant"}
    if not is_numeric:
        # No atoms: they make almost every row a pattern of its own. A level that a component never had stays possible.
        kinds = {name: kind for name, kind in zip(columns.names, columns.kinds, strict=True) if kind != "constant"}
        made: dict[str, Any] = {"families": {}, "columns": kinds, "alpha": 1.0, **shared}
        sizes = {"independent columns": (1, "diag"), "one component": (1, "full"), "three components": (3, "full")}
        dense = len(columns.names) <= WIDEST
        return {
            name: Mixture(k, covariance_type=form if dense else "diag", **made)
            for name, (k, form) in sizes.items()
            if dense or name != "one component"
        }
    if len(columns.names) > WIDEST:
        wide: dict[str, Any] = {"n_latent": 10, "random_state": random_state}
        return {
            "independent columns": GaussianMixture(1, covariance_type="diag", **shared),
            "one factor analyser": MixtureOfFactorAnalysers(1, **wide),
            "three factor analysers": MixtureOfFactorAnalysers(3, **wide),
        }
    return {
        "independent columns": GaussianMixture(1, covariance_type="diag", **shared),
        "one Gaussian": GaussianMixture(1, **shared),
        "three Gaussians": GaussianMixture(3, **shared),
    }


def cross_fitted(
    candidates: Mapping[str, Any], X: Any, effort: Effort, random_state: int, verbose: int
) -> tuple[CrossFit, pd.DataFrame]:
    """Fits of every candidate to all rows and to all but each fold, and what was tried, the best first.

    A model that cannot be fitted is listed with its error; an error if none can. Ctrl-C keeps the models that are done.
    """
    rng = np.random.default_rng(random_state)
    folds = folds_of(X, effort.n_folds, rng)
    every = np.arange(n_rows(X))
    training = [rows_to_fit(np.setdiff1d(every, rows), effort.most_rows, rng) for rows in folds]
    whole = rows_to_fit(every, effort.most_rows, rng)
    models: dict[str, Any] = {}
    costs: dict[str, np.ndarray] = {}
    parts: list[tuple[np.ndarray, dict[str, Any]]] = [(rows, {}) for rows in folds]
    tried: list[dict[str, Any]] = []
    with Bar("outliers" if verbose else None, len(candidates) * (len(folds) + 1), unit="fit") as bar:
        for name, model in candidates.items():
            began, cost = time.perf_counter(), np.empty(len(every))
            bar.note(name)
            try:
                for (rows, own), fitted_to in zip(parts, training, strict=True):
                    own[name] = trimmed_fit(model, take(X, fitted_to), TRIM)
                    cost[rows] = -quiet_scores(own[name], take(X, rows))
                    bar.update()
                models[name], costs[name] = trimmed_fit(model, take(X, whole), TRIM), cost
                bar.update()
            except KeyboardInterrupt:
                if not models:
                    raise
                for _, own in parts:
                    own.pop(name, None)
                warn_of_interrupt([*models], [*candidates])
                break
            except (ValueError, RuntimeError) as error:
                if len(candidates) == 1:
                    raise
                for _, own in parts:
                    own.pop(name, None)
                tried.append(
                    {"model": name, "nats": np.nan, "seconds": time.perf_counter() - began, "note": str(error)}
                )
                continue
            nats = held_out_nats(cost, TRIM)
            tried.append({"model": name, "nats": nats, "seconds": time.perf_counter() - began, "note": ""})
    if not models:
        raise ValueError(f"no model can be fitted to the table: {tried[0]['note']}")
    table = pd.DataFrame(tried).sort_values("nats", ascending=False, ignore_index=True)
    scales = {name: scale_of(cost) for name, cost in costs.items()}
    return CrossFit(Pool(models, scales), tuple(parts), tuple(training), costs), table


def warn_of_interrupt(done: list[str], wanted: list[str]) -> None:
    warnings.warn(
        f"outliers was interrupted after {len(done)} of {len(wanted)} models; scores are those of {', '.join(done)}",
        InterruptedFitWarning,
        stacklevel=levels_inside(),
    )
