"""Scores of synthetic rows beside real ones: pure functions of two tables of codes, NaN where a cell is missing.

    Shape    mean over columns of 1 - KS (numbers) or 1 - TV (levels)
    Trend    mean over pairs of columns: 1 - |ρ - ρ'|/2 for two numbers, else 1 - TV of the pair, numbers in ten bins
    C2ST     1 - mean over folds of 2 max(½, AUC) - 1, the AUC of a classifier that tells real rows from synthetic ones
    utility  a classifier or a regression is trained on one table and judged on the other
    nearest  the share of synthetic rows that are nearer to a training row than to any of as many held-out rows
KS and TV are the Kolmogorov-Smirnov and the total-variation distance, ρ is Pearson's correlation. The first two are the
column and pair scores of SDMetrics, over all pairs; the classifier two-sample test is of Lopez-Paz & Oquab (2017).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from jensen.runtime.progress import progress
from jensen.runtime.threads import FEW

N_BINS, N_FOLDS = 10, 3
# The most levels of a column that the trees of scikit-learn split as levels; those of others are split by their order.
MOST_LEVELS = 250
# Rows whose distances to all others are held at once.
AT_ONCE = 200


def shapes(real: np.ndarray, synthetic: np.ndarray, is_number: np.ndarray) -> np.ndarray:
    """The score (d,) of every column; a missing cell is a level, and is left out of numbers.

    Example:
        >>> import numpy as np
        >>> real, synthetic = np.array([[1.0, 0], [2, 0]]), np.array([[1.0, 1], [2, 0]])
        >>> shapes(real, synthetic, np.array([True, False]))
        array([1. , 0.5])
    """
    return np.array(
        [
            1 - (ks_distance if number else tv_distance)(real[:, j], synthetic[:, j])
            for j, number in enumerate(is_number)
        ]
    )


def trends(real: np.ndarray, synthetic: np.ndarray, is_number: np.ndarray) -> np.ndarray:
    """The score (d, d) of every pair of columns, NaN on the diagonal and where a correlation does not exist."""
    d = real.shape[1]
    found = np.full((d, d), np.nan)
    binned = [in_bins(real[:, j], synthetic[:, j]) if is_number[j] else (real[:, j], synthetic[:, j]) for j in range(d)]
    for i, j in combinations(range(d), 2):
        if is_number[i] and is_number[j]:
            found[i, j] = 1 - abs(correlation(real[:, [i, j]]) - correlation(synthetic[:, [i, j]])) / 2
        else:
            (a, b), (c, e) = binned[i], binned[j]
            found[i, j] = 1 - tv_distance(joined(a, c), joined(b, e))
        found[j, i] = found[i, j]
    return found


def ks_distance(a: np.ndarray, b: np.ndarray) -> float:
    """max |F_a - F_b| over the observed values."""
    a, b = np.sort(a[~np.isnan(a)]), np.sort(b[~np.isnan(b)])
    if not len(a) or not len(b):
        return float(len(a) != len(b))
    at = np.concatenate([a, b])
    gap = np.searchsorted(a, at, side="right") / len(a) - np.searchsorted(b, at, side="right") / len(b)
    return float(np.abs(gap).max())


def tv_distance(a: np.ndarray, b: np.ndarray) -> float:
    """½ Σ |p_a - p_b| over all values."""
    values, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    p, q = (np.bincount(part, minlength=len(values)) / len(part) for part in (codes[: len(a)], codes[len(a) :]))
    return float(np.abs(p - q).sum() / 2)


def correlation(pair: np.ndarray) -> float:
    """Pearson's, over rows (n, 2) without missing values; NaN if one of them is constant."""
    seen = pair[~np.isnan(pair).any(1)]
    if len(seen) < 2 or (seen.std(0) == 0).any():
        return np.nan
    return float(np.corrcoef(seen.T)[0, 1])


def in_bins(real: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both columns in ten equal bins over the range of the real one; values beyond it are in the outer bins."""
    edges = np.histogram_bin_edges(real[~np.isnan(real)], N_BINS)[1:-1]
    return tuple(np.where(np.isnan(x), np.nan, np.searchsorted(edges, x, side="right")) for x in (real, synthetic))  # type: ignore[return-value]


def joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One number for a pair of codes from 0 on, missing ones as -1."""
    a, b = np.nan_to_num(a, nan=-1.0) + 1, np.nan_to_num(b, nan=-1.0) + 1
    return np.asarray(a * 1e6 + b)


def c2st(real: np.ndarray, synthetic: np.ndarray, is_number: np.ndarray, seed: int = 0) -> float:
    """The classifier two-sample test by gradient boosting, in three folds: 1 if nothing tells both tables apart."""
    x = np.concatenate([real, synthetic])
    y = np.repeat([0, 1], [len(real), len(synthetic)])
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(x, y)
    found = []
    for train, test in progress(folds, "two-sample test", n_steps=N_FOLDS, unit="fold"):
        model = HistGradientBoostingClassifier(categorical_features=as_levels(x, is_number), random_state=seed)
        with threads_of_trees(x):
            area = roc_auc_score(y[test], model.fit(x[train], y[train]).predict_proba(x[test])[:, 1])
        found.append(2 * max(0.5, area) - 1)
    return 1 - float(np.mean(found))


def utility(train: np.ndarray, test: np.ndarray, is_number: np.ndarray, label: int, seed: int = 0) -> float:
    """How well a model trained on one table predicts a column of the other: AUC of levels, R² of numbers."""
    train, test = (rows[~np.isnan(rows[:, label])] for rows in (train, test))
    rest = [j for j in range(train.shape[1]) if j != label]
    x, y, new, truth = train[:, rest], train[:, label], test[:, rest], test[:, label]
    levels = as_levels(np.concatenate([x, new]), is_number[rest])
    if is_number[label]:
        regression = HistGradientBoostingRegressor(categorical_features=levels, random_state=seed)
        with threads_of_trees(x):
            return float(r2_score(truth, regression.fit(x, y).predict(new)))
    if len(np.unique(y)) < 2 or len(np.unique(truth)) < 2:
        return np.nan
    classifier = HistGradientBoostingClassifier(categorical_features=levels, random_state=seed)
    with threads_of_trees(x):
        chance = classifier.fit(x, y).predict_proba(new)
    # Each class against the rest, with 0 for one that the training rows lack.
    column = {value: chance[:, i] for i, value in enumerate(classifier.classes_)}
    values = np.unique(truth)
    if len(values) == 2:
        return float(roc_auc_score(truth == values[1], column.get(values[1], np.zeros(len(truth)))))
    return float(np.mean([roc_auc_score(truth == v, column.get(v, np.zeros(len(truth)))) for v in values]))


def threads_of_trees(x: np.ndarray) -> threadpool_limits:
    """One thread for few rows: on a busy machine several threads that wait for each other cost many times the work."""
    return threadpool_limits(1 if x.size < FEW else None)


def as_levels(x: np.ndarray, is_number: np.ndarray) -> np.ndarray:
    """Which columns (d,) the trees split as levels."""
    return np.asarray(~is_number & (np.nanmax(x, axis=0, initial=0.0) < MOST_LEVELS))


def nearer_share(synthetic: np.ndarray, train: np.ndarray, held_out: np.ndarray, is_number: np.ndarray) -> float:
    """The share of synthetic rows nearer to a training row than to any held-out one; ties count half.

    The distance is Gower's: the share of the range between two numbers, and 1 between two levels that differ, or where
    one of two cells is missing.
    """
    real = np.concatenate([train, held_out])
    low, high = (end(np.where(np.isfinite(real), real, np.nan), axis=0) for end in (np.nanmin, np.nanmax))
    width = np.where(is_number & (high > low), high - low, 1.0)
    parts = [(rows - low) / width for rows in (synthetic, train, held_out)]
    new, known, other = parts
    nearer = 0.0
    for start in range(0, len(new), AT_ONCE):
        block = new[start : start + AT_ONCE]
        a, b = (gower(block, rows, is_number).min(1) for rows in (known, other))
        nearer += float((a < b).sum() + (a == b).sum() / 2)
    return nearer / len(new)


def gower(a: np.ndarray, b: np.ndarray, is_number: np.ndarray) -> np.ndarray:
    """Σ_j of the distances of two entries: (n, m)."""
    total = np.zeros((len(a), len(b)))
    for j, number in enumerate(is_number):
        x, y = a[:, j, None], b[None, :, j]
        gap = np.abs(x - y) if number else (x != y).astype(float)
        is_one_missing = np.isnan(x) != np.isnan(y)
        total += np.where(np.isnan(x) & np.isnan(y), 0.0, np.where(is_one_missing, 1.0, gap))
    return total
