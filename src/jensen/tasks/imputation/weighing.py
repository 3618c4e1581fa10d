"""Weights of models for a column, by their loss on entries that were hidden from them.

Models are added one by one to an average, each time the one that lowers its loss most, also repeatedly (Caruana et al.
2004, ensemble selection from libraries of models). An average that does not beat the column's own mean, or frequencies,
on entries that its weights do not come from is not used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jensen.tasks.imputation.nearest import FLOOR

MOST_ADDED = 10
# Weights of nearest rows that are compared, and the entries that speak for a half beforehand.
SHARES, PRIOR_ENTRIES = (0.0, 0.25, 0.5, 0.75, 1.0), 50
# Errors of numbers count as squares up to so many robust standard deviations; IQR is that of a standard normal.
MOST_DEVIATIONS, IQR = 3.0, 1.349


def losses(guess: np.ndarray, truth: np.ndarray, is_level: bool) -> np.ndarray:
    """The loss (..., n) of expected coordinates (..., n, w): Huber's of a number, -ln p of a level.

    Huber's loss (1964) is the squared error r² up to a limit c, and 2cr - c² beyond: the square of one corrupted entry
    would outweigh all others.
    """
    found: np.ndarray
    if is_level:
        found = -np.log((guess * truth).sum(-1) + FLOOR)
        return found
    error = np.abs(guess - truth)[..., 0]
    within = np.minimum(error, square_limit(truth))
    found = within * (2 * error - within)
    return found


def square_limit(truth: np.ndarray) -> float:
    """The error up to which squares count: three standard deviations, by the quartiles of the true numbers (n, 1).

    If half of these are the same, such as 0, there is no such deviation, and all errors count as squares.
    """
    first, third = np.quantile(truth, [0.25, 0.75])
    return float(MOST_DEVIATIONS * (third - first) / IQR) if third > first else np.inf


def weigh(guesses: Sequence[np.ndarray], truth: np.ndarray, is_level: bool) -> np.ndarray:
    """Weights (M,) that sum to 1, from guesses (n, w) of each model for hidden entries; NaN: it has none."""
    stacked = np.stack([np.asarray(guess) for guess in guesses])
    usable = np.isfinite(stacked).all((1, 2))
    counts, total, best = np.zeros(len(stacked)), np.zeros(truth.shape), np.inf
    stacked = np.where(usable[:, None, None], stacked, 0.0)
    for added in range(1, MOST_ADDED + 1):
        each = np.where(usable, losses((total + stacked) / added, truth, is_level).mean(-1), np.inf)
        m = int(np.argmin(each))
        if not each[m] < best:
            break
        best, total = each[m], total + stacked[m]
        counts[m] += 1
    found: np.ndarray = counts / counts.sum() if counts.any() else usable / max(usable.sum(), 1)
    return found


def share_of_nearest(first: np.ndarray, nearest: np.ndarray, truth: np.ndarray, is_level: bool) -> float:
    """The weight of nearest rows beside the average of all other models, both (n, w), drawn towards a half.

    Few hidden entries do not tell two good guesses apart, and the mean of both is better than most choices.
    """
    if not np.isfinite(nearest).all():
        return 0.0
    each = [float(losses((1 - share) * first + share * nearest, truth, is_level).mean()) for share in SHARES]
    best = SHARES[int(np.argmin(each))]
    return (len(truth) * best + PRIOR_ENTRIES * 0.5) / (len(truth) + PRIOR_ENTRIES)


def weigh_with_nearest(guesses: Sequence[np.ndarray], truth: np.ndarray, is_level: bool) -> np.ndarray:
    """Weights (M,) of models, the last of which is nearest rows."""
    weights = weigh(guesses[:-1], truth, is_level)
    used = np.flatnonzero(weights).tolist()
    first = np.sum([weights[m] * guesses[m] for m in used], axis=0)
    share = share_of_nearest(first, guesses[-1], truth, is_level)
    return np.append((1 - share) * weights, share)


def weigh_column(
    guesses: Sequence[np.ndarray], truth: np.ndarray, is_level: bool, seed: int, has_nearest: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (M,) of models, the first of which is the column's own values, and the average (n, w).

    In the average every entry has weights that were found without it. If it is no better than the column's own mean, or
    frequencies, these have all the weight.
    """
    average = cross_weighed(guesses, truth, is_level, seed, has_nearest)
    if losses(guesses[0], truth, is_level).mean() <= losses(average, truth, is_level).mean():
        return np.eye(len(guesses))[0], guesses[0]
    return (weigh_with_nearest if has_nearest else weigh)(guesses, truth, is_level), average


def cross_weighed(
    guesses: Sequence[np.ndarray], truth: np.ndarray, is_level: bool, seed: int, has_nearest: bool
) -> np.ndarray:
    """The average (n, w) in which every entry has weights that were found without it, on the other half."""
    weighed = weigh_with_nearest if has_nearest else weigh
    if len(truth) < 2:
        weights = weighed(guesses, truth, is_level)
        used = np.flatnonzero(weights).tolist()
        whole: np.ndarray = np.sum([weights[m] * guesses[m] for m in used], axis=0)
        return whole
    out = np.empty(truth.shape)
    half = np.random.default_rng(seed).permutation(len(truth)) % 2 == 0
    for part in (half, ~half):
        weights = weighed([guess[~part] for guess in guesses], truth[~part], is_level)
        used = np.flatnonzero(weights).tolist()
        out[part] = np.sum([weights[m] * guesses[m][part] for m in used], axis=0)
    return out
