"""Gower's distance between rows with columns of any kind.

    d(a, b) = Σ_j w_j δ_j s_j / Σ_j w_j δ_j,   δ_j = 1 if column j is observed in both rows, else 0
    s_j = |a_j - b_j| / range_j for numbers, counts and dates;   0 or 1 for equal or different levels and yes/no
    two rows without a common column:  d = Σ_j w_j E s_j / Σ_j w_j,   E s_j over all pairs of training rows
Gower (1971), who leaves such pairs out; they are as far apart as two rows of which nothing is known. A column with one
value does not count. A level that was not in the training data differs from all others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from jensen.contract.fitted import Values, not_negative
from jensen.data.cells import Cells
from jensen.data.codes import UnseenValueWarning
from jensen.data.columns import Columns
from jensen.data.names import column_name, listed, shown

UNSEEN = "an unseen value differs from every level"
# The parameters of the distance, one number per column each: w_j, the least value, range_j (0 for levels).
BY_COLUMN = ("weights", "low", "range")


def gower_params(columns: Columns, x: np.ndarray, mass: np.ndarray, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the distance from the training rows (n, d), their weights and the arguments of the user."""
    unknown = set(params) - {"weights"}
    if unknown:
        raise ValueError(f"metric_params has {sorted(unknown)[0]!r}, but metric='gower' knows only 'weights'")
    weights = column_weights(params.get("weights"), columns)
    if not weights.any():
        raise ValueError("weights are 0 for all columns; at least one must count")
    weights[[kind == "constant" for kind in columns.kinds]] = 0
    low, high = np.fmin.reduce(x), np.fmax.reduce(x)
    with np.errstate(over="ignore"):
        span = np.where(columns.has_levels.numpy(), 0.0, high - low)
    for j in np.flatnonzero(np.isinf(span)):
        raise ValueError(
            f"X ranges from {low[j]:g} to {high[j]:g} in column {shown(columns.names[j])}, too far to subtract; "
            "rescale it"
        )
    apart = [mean_difference(x[:, j], mass, span[j]) if weights[j] else 0.0 for j in range(len(weights))]
    return {"weights": weights, "low": low, "range": span, "typical": float(weights @ apart / (weights.sum() or 1))}


def mean_difference(values: np.ndarray, mass: np.ndarray, span: float) -> float:
    """E s of two values drawn by their weights: 1 - Σ_l p_l² of levels, 2 ∫ F (1 - F) dx / range of numbers."""
    seen = ~np.isnan(values)
    found, of = np.unique(values[seen], return_inverse=True)
    share = np.bincount(of, mass[seen]) / mass[seen].sum()
    if span == 0:
        return float(1 - np.square(share).sum())
    below = share.cumsum()[:-1]
    return float(2 * (below * (1 - below)) @ np.diff(found) / span)


def check_params(params: Mapping[str, Any], d: int) -> None:
    """An error for parameters from a file that no fit could have left."""
    Values(check=not_negative).read("metric_params_['typical']", params.get("typical"))
    for name in BY_COLUMN:
        values = Values(d, allows_nan=name == "low", check=None if name == "low" else not_negative)
        values.read(f"metric_params_[{name!r}]", params.get(name))


def column_weights(given: Any, columns: Columns) -> np.ndarray:
    """w (d,) of the columns that are kept, from one number per column of the table, or from {column: number}."""
    names = columns.table_names
    values = np.ones(len(names))
    if isinstance(given, Mapping):
        for key, value in given.items():
            name = column_name(key)
            if name not in names:
                raise ValueError(f"weights names the column {shown(name)}, which is not among {listed(names)}")
            values[names.index(name)] = checked_weight(value)
    elif given is not None:
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise ValueError(f"weights={given!r} must be one number per column, or {{column: number}}")
        if len(given) != len(names):
            raise ValueError(f"weights has {len(given)} numbers, but X has {len(names)} columns; give one per column")
        values[:] = [checked_weight(value) for value in given]
    return values[list(columns.kept)]


def checked_weight(value: Any) -> float:
    if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise ValueError(f"weights holds {value!r}; the weight of a column must be a number, 0 or more")
    return float(value)


def gower_rows(columns: Columns, cells: Cells, *, in_fit: bool = False) -> np.ndarray:
    """Rows (n, d) as codes, NaN where missing and -1 for an unseen level; in a fit these are rows of weight 0."""
    with warnings.catch_warnings():
        if in_fit:
            warnings.simplefilter("ignore", UnseenValueWarning)
        codes = columns.codes(cells, meaning=UNSEEN)
    return np.where(codes.unseen.numpy(), -1.0, codes.x.numpy())


def gower_distances(
    a: np.ndarray, b: np.ndarray, weights: np.ndarray, low: np.ndarray, range: np.ndarray, typical: float
) -> np.ndarray:
    """Distances (n, m) from codes a (n, d) to codes b (m, d)."""
    counts, is_level = weights > 0, range == 0
    seen_a, seen_b = (~np.isnan(x) for x in (a, b))
    compared = (seen_a * weights) @ seen_b.T
    total = np.zeros((len(a), len(b)))
    numbers = counts & ~is_level
    if numbers.any():
        # Divided before they are multiplied: the inverse of the smallest range is infinite.
        x, y = ((rows[:, numbers] - low[numbers]) / range[numbers] * weights[numbers] for rows in (a, b))
        x, y = np.nan_to_num(x), np.nan_to_num(y)
        total += cdist(x, y, "cityblock")
        # A missing value was set to the least one; what that added is taken off again.
        if not (seen_a[:, numbers].all() and seen_b[:, numbers].all()):
            total -= x @ (~seen_b[:, numbers]).T + (~seen_a[:, numbers]) @ y.T
    levels = counts & is_level
    if levels.any():
        own = weights[levels]
        # NaN differs from everything, so pairs with a missing value are taken off again.
        both = (seen_a[:, levels] * own) @ seen_b[:, levels].T
        total += own.sum() * cdist(a[:, levels], b[:, levels], "hamming", w=own) - (own.sum() - both)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Differences of sums leave rounding errors of 1e-16.
        return np.where(compared > 0, total.clip(min=0) / compared, typical)
