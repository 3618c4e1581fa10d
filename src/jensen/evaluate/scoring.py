"""Rows as a model takes them, its scores of them, and whether these are exact."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from jensen.data.container import as_array, n_rows, take
from jensen.evaluate.criteria import check_finite_words
from jensen.evaluate.estimators import E, Estimator, Scorer
from jensen.evaluate.footing import N_DRAWS, Footing, Measure, numbers_of
from jensen.evaluate.kinds import Ground, reads_columns, with_kinds
from jensen.runtime.messages import own_filters

# How the score of a model of another library is described: it is taken for a log-likelihood.
OTHERS = "as reported"


def score(fitted: Scorer, footing: Footing, X: Any, seed: int) -> np.ndarray:
    """ln p(x) of rows, ln P(x) on a grid, or a bound of it (n,); NaN where the model has no score."""
    columns = dequantised(fitted, footing, X)
    nats, known = np.full(n_rows(X), np.nan), can_score(fitted, footing, X, columns)
    if not known.any():
        return nats
    rows = X if known.all() else take(X, np.flatnonzero(known))
    check_grey(fitted, footing, rows)
    if columns.any():
        rng = np.random.default_rng([seed, 1])
        known_to_it = without_dates(fitted, footing, rows)
        draws = [as_array(fitted.score_samples(footing.with_noise(known_to_it, rng, columns))) for _ in range(N_DRAWS)]
        nats[known] = np.mean(draws, 0) + footing.log_cell(rows, columns)
    else:
        nats[known] = as_array(fitted.score_samples(as_it_takes(fitted, footing, rows)))
    if not np.isfinite(nats[known]).all():
        n_wrong = int((~np.isfinite(nats[known])).sum())
        instead = "; give it alpha=1, so that no value has the probability 0" if hasattr(fitted, "alpha") else ""
        raise ValueError(f"{n_wrong} of {int(known.sum())} held-out rows have no finite score{instead}")
    return nats


def completed(fitted: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """ln p of every second word of documents (n,) given the other words, and the number of these words (n,)."""
    found = fitted.document_completion(X)
    check_finite_words(fitted, found.nats)
    return found.nats, found.words


def can_score(fitted: Scorer, footing: Footing, X: Any, columns: np.ndarray) -> np.ndarray:
    """Which rows (n,) the model can score, some columns (d,) with noise; models of other libraries score all."""
    if not hasattr(fitted, "can_score"):
        return np.ones(n_rows(X), dtype=bool)
    if columns.any():
        rows = footing.with_noise(without_dates(fitted, footing, X), np.random.default_rng(0), columns)
        return np.asarray(fitted.can_score(rows))
    return np.asarray(fitted.can_score(as_it_takes(fitted, footing, X)))


def measure_of(model: Estimator, footing: Footing, X: Any) -> Measure:
    """Whether scores are of a density or a probability, per column (d,): of the fit, or else of a fit to X.

    Models of other libraries have densities.
    """
    found = ("density",) * footing.n_entries
    # Before a fit the attribute does not exist.
    if hasattr(model, "measure_"):
        found = tuple(model.measure_)
    elif hasattr(model, "find_measure"):
        with own_filters():
            warnings.simplefilter("ignore")  # the fit gives them again
            found = tuple(model.find_measure(as_it_takes(model, footing, X)))
    if len(found) != footing.n_entries:
        raise ValueError(
            f"it scores {len(found)} of {footing.n_entries} columns, and models are compared by scores of the same "
            "columns; drop the columns that it leaves out from X"
        )
    return found


def dequantised(model: Estimator, footing: Footing, X: Any) -> np.ndarray:
    """Which columns (d,) get noise on their cells: those on a grid for which the model has a density."""
    if footing.steps is None:
        return np.zeros(footing.n_entries, dtype=bool)
    return footing.is_dequantised(measure_of(model, footing, X))


def given(model: Estimator, footing: Footing, X: Any, rng: np.random.Generator) -> Any:
    """Rows as the model takes them, with noise on the cells of a grid where it has a density."""
    columns = dequantised(model, footing, X)
    if columns.any():
        return footing.with_noise(without_dates(model, footing, X), rng, columns)
    return as_it_takes(model, footing, X)


def without_dates(model: Estimator, footing: Footing, X: Any) -> Any:
    """Rows with dates as numbers, unless the model reads dates."""
    return X if reads_columns(model) else footing.without_dates(X)


def as_it_takes(model: Estimator, footing: Footing, X: Any) -> Any:
    """Rows as images, as a table, or as numbers alone."""
    X = without_dates(model, footing, X)
    # Models of other libraries may have no tags.
    if not (hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.three_d_array):
        return footing.as_table(X)
    return X


def on_footing(model: E, ground: Ground) -> E:
    """A copy of the model that has densities where all others do, unless its arguments ask for something else."""
    copy: E = clone(model)
    with_kinds(copy, ground)
    footing = ground.footing
    if footing.unit == "density" and copy.get_params(deep=False).get("data_levels") == "auto":
        copy.set_params(data_levels=None)
    return copy


def check_grey(fitted: Scorer, footing: Footing, X: Any) -> None:
    """An error for values between 0 and 1: x ln p + (1-x) ln(1-p) is the log-probability of 0 and 1 only."""
    kinds = getattr(getattr(fitted, "columns_", None), "kinds", ())
    numbers = numbers_of(X)[:, [j for j, kind in enumerate(kinds) if kind == "yes/no"]] if "yes/no" in kinds else None
    if footing.unit == "probability" and numbers is not None and ((numbers > 0) & (numbers < 1)).any():
        raise ValueError(
            "it reads values between 0 and 1 as probabilities of a 1, and gives them no probability of their own; "
            'choose likelihood="categorical" or "gaussian"'
        )


def describe_score(fitted: Scorer, is_dequantised: bool) -> str:
    """Whether scores are ln p(x) itself or a bound, and what they are estimated from."""
    value = fitted.describe_score() if hasattr(fitted, "describe_score") else OTHERS
    if is_dequantised:
        return "bound, dequantised" if value == "exact" else f"{value}, dequantised"
    return str(value)
