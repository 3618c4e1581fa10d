"""Columns that are a function of another, such as the number of a name: found in the rows, and kept.

B is a function of A if all rows with the same value of A have the same value of B. Were B independent of A, this would
happen with probability Π_a Σ_b p_b^{n_a} over the values a with n_a rows each, where p_b is the share of b; it must be
below 1e-6 for the pair to count. So a value that occurs once proves nothing, and an identifier explains nothing. A
missing cell counts as a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Pairs of columns that would be functions by chance with a greater probability are left to the model.
CHANCE = 1e-6
# A pair is looked at in so many rows first.
FIRST_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Function:
    """Column `target` is a function of column `source`.

    Args:
        source: the number of the column that is drawn.
        target: the number of the column that follows from it.
        keys: the values of the source, ascending, NaN last.
        values: those of the target that belong to them.
    """

    source: int
    target: int
    keys: np.ndarray
    values: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The target (n,) of values (n,) of the source, all of which were observed."""
        return self.values[np.searchsorted(self.keys, x)]


def find_functions(x: np.ndarray, prefer: np.ndarray) -> tuple[Function, ...]:
    """All columns of x (n, d), NaN where missing, that are a function of another one which is none itself.

    Of two columns that are functions of each other, the one with levels, which `prefer` (d,) marks, is drawn, else the
    one that comes first.

    Example:
        >>> import numpy as np
        >>> name = np.arange(100.0) % 5
        >>> code = np.array([7.0, 1, 3, 9, 7])[name.astype(int)]
        >>> [(one.source, one.target) for one in find_functions(np.stack([code, name], 1), np.array([False, True]))]
        [(1, 0)]
    """
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in x.T], 1)
    n_values = codes.max(0) + 1
    order = np.lexsort((np.arange(len(n_values)), ~prefer, -n_values))
    found: dict[int, Function] = {}
    for place, source in enumerate(order):
        later = [int(j) for j in order[place + 1 :] if n_values[j] > 1 and int(j) not in found]
        if int(source) in found or not later or n_values[source] == len(x):
            continue
        few = slice(FIRST_ROWS)
        later = [later[i] for i in np.flatnonzero(is_pure(codes[few, source], codes[few][:, later]))]
        later = [later[i] for i in np.flatnonzero(is_pure(codes[:, source], codes[:, later]))] if later else []
        for target in later:
            if by_chance(codes[:, source], codes[:, target]) < np.log(CHANCE):
                keys, first = np.unique(x[:, source], return_index=True)
                found[target] = Function(int(source), target, keys, x[first, target])
    return tuple(found[target] for target in sorted(found))


def is_pure(source: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Which columns (n, m) of codes have one value in all rows with the same code (n,): (m,)."""
    order = np.argsort(source, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(source[order]) > 0])
    grouped = targets[order]
    pure: np.ndarray = (np.maximum.reduceat(grouped, starts) == np.minimum.reduceat(grouped, starts)).all(0)
    return pure


def by_chance(source: np.ndarray, target: np.ndarray) -> float:
    """ln of the probability that groups of these sizes have one value each if both columns are independent."""
    n_rows = np.bincount(source)
    shares = np.bincount(target) / len(target)
    sizes, n_groups = np.unique(n_rows[n_rows > 0], return_counts=True)
    with np.errstate(divide="ignore"):
        logs = sizes[:, None] * np.log(shares[shares > 0])
    return float(n_groups @ np.logaddexp.reduce(logs, axis=1))
