"""Blame: which cells of a row are unlikely given the rest of it, and what they should have been.

    nats = ln p(x_j | x_-j),   tail = P{p(X_j | x_-j) ≤ p(x_j | x_-j)}
Exact where the model finds them in closed form (`given_rest`). For other models that impute, draws of the cell with the
rest of the row observed: numbers by the density of a Gaussian kernel over the draws (Silverman's width), levels by
their frequency. A tail from m draws is at least 1/(m+1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from jensen.contract.given_rest import GivenRest, NoClosedFormError, check_coverage
from jensen.data.container import to_take_apart

N_DRAWS = 200


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
