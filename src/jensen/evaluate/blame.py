"""Blame: which cells of a row are unlikely given the rest of it, and what they should have been.

    nats = ln p(x_j | x_-j),   tail = P{p(X_j | x_-j) ≤ p(x_j | x_-j)}
Exact where the model finds them in closed form (`given_rest`). For other models that impute, draws of the cell with the
rest of the row observed: numbers by the density of a Gaussian kernel over the draws (Silverman's width), levels by
their frequency. A tail from m draws is at least 1/(m+1).

A wrong cell makes the correct cells of its row unlikely, too. `one_by_one` takes the least likely cell of a row away,
compares the others again without it, and goes on while a cell is unlikely. What was taken away is then compared with
what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from jensen.contract.given_rest import GivenRest, NoClosedFormError, check_coverage
from jensen.data.container import to_take_apart

N_DRAWS = 200
# Cells of a row that are taken away at most, besides those that are known to be wrong.
MOST_BLAMED = 3
FIELDS = ("nats", "tail", "expected", "low", "high")


def given_rest(model: Any, X: Any, coverage: float = 0.9, random_state: int = 0) -> GivenRest:
    """Every cell of X given the rest of its row, exactly or by draws of a fitted model."""
    if hasattr(model, "given_rest"):
        try:
            exact: GivenRest = model.given_rest(X, coverage)
            return exact
        except NoClosedFormError:
            pass
    if not hasattr(model, "impute_draws"):
        raise TypeError(
            f"{type(model).__name__} has neither given_rest nor impute_draws, and cells need one; give a mixture, a "
            "factor model, or a model that imputes"
        )
    return by_draws(model, X, check_coverage(coverage), random_state)


def one_by_one(model: Any, X: Any, most: float, coverage: float = 0.9, is_wrong: np.ndarray | None = None) -> GivenRest:
    """Every cell given those cells of its row that are not to blame.

    Args:
        model: fitted.
        X: rows, a pandas frame or an array.
        most: a cell with a larger tail is not to blame.
        coverage: of the intervals.
        is_wrong: (n, d), cells that are known to be wrong.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture
        >>> from jensen.evaluate.blame import given_rest, one_by_one
        >>> X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=500)
        >>> model = GaussianMixture().fit(X)
        >>> row = np.array([[0.1, 8.0]])
        >>> [(found.tail < 0.001).tolist() for found in (given_rest(model, row), one_by_one(model, row, 0.05))]
        [[[True, True]], [[False, True]]]
    """
    frame = as_pandas(X)
    away = np.zeros(frame.shape, dtype=bool) if is_wrong is None else is_wrong.copy()
    found = {name: np.full(frame.shape, np.nan, dtype=float if name in FIELDS[:2] else object) for name in FIELDS}

    def compare(rows: np.ndarray, hidden: np.ndarray, is_asked: np.ndarray) -> None:
        again = given_rest(model, without(X, rows, hidden), coverage)
        for name, values in found.items():
            part = getattr(again, name)
            new = part if name in FIELDS[:2] else as_pandas(part).to_numpy(dtype=object)
            values[rows] = np.where(is_asked, new, values[rows])

    rows = np.arange(len(frame))
    compare(rows, away, ~away)
    for _ in range(MOST_BLAMED):
        tail = np.where(away[rows], np.inf, np.nan_to_num(found["tail"][rows], nan=np.inf))
        rows, tail = rows[tail.min(1) <= most], tail[tail.min(1) <= most]
        if not len(rows):
            break
        # Of tails that are equal, most often 0, the least density per width of the interval.
        is_least = tail == tail.min(1, keepdims=True)
        density = found["nats"][rows] + np.log(widths(found["low"][rows], found["high"][rows]))
        away[rows, np.where(is_least, density, np.inf).argmin(1)] = True
        compare(rows, away[rows], ~away[rows])
    for place in range(int(away.sum(1).max(initial=0))):
        rows = np.flatnonzero(away.sum(1) > place)
        own = away[rows] & (away[rows].cumsum(1) == place + 1)
        compare(rows, away[rows] & ~own, own)
    return GivenRest(
        found["nats"], found["tail"], *(pd.DataFrame(found[name], columns=frame.columns) for name in FIELDS[2:])
    )


def without(X: Any, rows: np.ndarray, hidden: np.ndarray) -> Any:
    """Some rows of X, in which the hidden cells are missing."""
    if not hidden.any():
        return X.iloc[rows] if isinstance(X, pd.DataFrame) else np.asarray(X)[rows]
    if not isinstance(X, pd.DataFrame):
        values = np.asarray(X)[rows]
        return np.where(hidden, np.nan, values.astype(np.float64 if values.dtype.kind in "biuf" else object))
    frame = X.iloc[rows]
    columns = [
        frame.iloc[:, j].mask(hidden[:, j]) if hidden[:, j].any() else frame.iloc[:, j] for j in range(X.shape[1])
    ]
    return pd.concat(columns, axis=1)


def widths(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Of intervals of numbers; 1 of others."""
    found = np.ones(low.shape)
    for j in range(low.shape[1]):
        ends = [pd.to_numeric(pd.Series(part[:, j]), errors="coerce").to_numpy(dtype=float) for part in (low, high)]
        found[:, j] = ends[1] - ends[0]
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)


def by_draws(model: Any, X: Any, coverage: float, random_state: int) -> GivenRest:
    """The same from draws of one column after the other."""
    frame = as_pandas(X)
    nats, tail = np.full((2, *frame.shape), np.nan)
    tables = [frame.astype(object).copy() for _ in range(3)]
    for j, name in enumerate(frame.columns):
        hidden = frame.copy()
        hidden[name] = hidden[name].astype(object if frame[name].dtype.kind in "OUSb" else "float64")
        hidden[name] = np.nan if frame[name].dtype.kind in "iuf" else None
        rows = hidden if hasattr(X, "iloc") else hidden.to_numpy(dtype=np.float64)
        drawn = [as_pandas(one).iloc[:, j] for one in model.impute_draws(rows, N_DRAWS, random_state)]
        values = np.stack([np.asarray(one) for one in drawn], 1)
        seen = frame[name].notna().to_numpy()
        numeric = frame[name].dtype.kind in "iuf"
        answer = numbers_by_draws if numeric else levels_by_draws
        found = answer(frame[name].to_numpy(), values, coverage)
        for target, own in zip((nats, tail), found[:2], strict=True):
            target[seen, j] = own[seen]
        for table, own in zip(tables, found[2:], strict=True):
            table[name] = own
    return GivenRest(nats, tail, *tables)


def numbers_by_draws(x: np.ndarray, draws: np.ndarray, coverage: float) -> tuple[np.ndarray, ...]:
    """nats, tail, expected, low and high of numbers x (n,), from draws (n, m)."""
    values, m = draws.astype(np.float64), draws.shape[1]
    own = x.astype(np.float64)
    spread = np.minimum(values.std(1), np.subtract(*np.quantile(values, [0.75, 0.25], axis=1)) / 1.349)
    width = np.maximum(0.9 * spread * m**-0.2, 1e-9 * (1 + np.abs(values).max(1)))[:, None]

    def log_kernel(at: np.ndarray) -> np.ndarray:
        z = (at[:, :, None] - values[:, None, :]) / width[:, :, None]
        return np.asarray(np.logaddexp.reduce(-0.5 * z**2, axis=2) - np.log(m * width * np.sqrt(2 * np.pi)))

    nats = log_kernel(own[:, None])[:, 0]
    tail = (1 + (log_kernel(values) <= nats[:, None]).sum(1)) / (m + 1)
    edge = (1 - coverage) / 2
    return nats, tail, values.mean(1), np.quantile(values, edge, axis=1), np.quantile(values, 1 - edge, axis=1)


def levels_by_draws(x: np.ndarray, draws: np.ndarray, coverage: float) -> tuple[np.ndarray, ...]:
    """The same of levels: frequencies, with half a draw more for every level."""
    levels, codes = np.unique(draws.astype(str), return_inverse=True)
    counts = np.stack([(codes.reshape(draws.shape) == level).sum(1) for level in range(len(levels))], 1) + 0.5
    share = counts / (counts.sum(1, keepdims=True) + 0.5)
    place = {level: i for i, level in enumerate(levels)}
    at = np.array([place.get(str(value), -1) for value in x])
    rest = 0.5 / (counts.sum(1) + 0.5)
    own = np.where(at >= 0, share[np.arange(len(x)), np.maximum(at, 0)], rest)
    tail = np.minimum((share * (share <= own[:, None] * (1 + 1e-9))).sum(1) + rest, 1.0)
    first = {str(value): value for value in draws.ravel()}
    mode = np.array([first[levels[i]] for i in share.argmax(1)], dtype=object)
    return np.log(own), tail, mode, mode, mode


def as_pandas(X: Any) -> pd.DataFrame:
    table = to_take_apart(X)
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    return table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
