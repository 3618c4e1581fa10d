"""Rows that meet conditions, drawn from p(x | all of them).

    p(x | x_j in S_j for all j) = Σ_k w_k p_k(x | x_j in S_j for all j),   w_k ∝ π_k P_k(x_j in S_j for all j)
Levels, and the number that is least likely to meet its condition, are drawn from their truncated distributions,
component by component; the other columns from p(rest | these). Rows that miss the conditions on further numbers are
drawn again. So the result is exact; only its cost depends on the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from jensen.data.columns import Columns
from jensen.data.functions import Function
from jensen.data.names import listed, shown
from jensen.data.some import code_of, places_of
from jensen.models.mixtures.mixture import Mixture
from jensen.tasks.synthesis.scores import NormalScores, same

# Rows drawn at once, and in all, for every row that is asked for.
AT_ONCE, MOST_DRAWS = 20_000, 1000
LEAST = 1e-300
NO_INTERVAL = np.zeros((0, 2))
# Codes of the values that are allowed (m,), or the ends of an interval of numbers.
Allowed = np.ndarray | tuple[float, float]


@dataclass(frozen=True, eq=False)
class Condition:
    """What a column of the mixture may be.

    Args:
        codes: levels, or codes of atoms.
        intervals: (m, 2) scores, open below and closed above.
        ends: of the numbers that are allowed; equal for a single one, which need not have been observed.
    """

    codes: np.ndarray
    intervals: np.ndarray = field(default_factory=lambda: NO_INTERVAL)
    ends: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_possible(self) -> bool:
        return len(self.codes) + len(self.intervals) > 0

    def holds(self, column: np.ndarray) -> np.ndarray:
        """Which entries (n,) of the mixture's column meet it."""
        low, high = self.intervals.T
        inside = ((column[:, None] > low) & (column[:, None] <= high)).any(1)
        found: np.ndarray = np.isin(column, self.codes) | inside
        return found


def read_given(
    columns: Columns, functions: Sequence[Function], scores: Mapping[int, NormalScores], given: Mapping[Any, Any]
) -> dict[int, Condition]:
    """Conditions by column of the table, from {column: value, (low, high), or a list of values}.

    A condition on a column that follows from another is one on that other column.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"given={given!r} must be a dictionary of values by column")
    by_target = {one.target: one for one in functions}
    found: dict[int, Condition] = {}
    for name, wish in given.items():
        (own,) = places_of(columns, [name])
        allowed, j = allowed_values(columns, own, name, wish), own
        if own in by_target:
            function = by_target[own]
            j, allowed = function.source, function.keys[[meets(value, allowed) for value in function.values]]
        condition = of_number(scores[j], allowed, j == own) if j in scores else Condition(np.asarray(allowed))
        if not condition.is_possible:
            raise impossible(name, wish, columns, own)
        if j in found:
            condition = both(found[j], condition)
            if not condition.is_possible:
                raise ValueError(f"given={dict(given)!r}: no value of column {shown(columns.names[j])} meets all of it")
        found[j] = condition
    return found


def allowed_values(columns: Columns, j: int, name: Any, wish: Any) -> Allowed:
    """What a user allows in one column; a level that was not observed is an error."""
    if isinstance(wish, tuple):
        levels = columns.levels[j]
        if len(wish) != 2 or not all(isinstance(level, Real) for level in levels):
            raise ValueError(
                f"given[{name!r}]={wish!r}: an interval has two ends, (low, high), and is for a column of numbers or "
                "dates; give a list for several values"
            )
        read = float if levels else partial(code_of, columns, j)
        low, high = (far if end is None else read(end) for end, far in zip(wish, (-np.inf, np.inf), strict=True))
        if low > high:
            raise ValueError(f"given[{name!r}]={wish!r}: the first end is above the second one; swap them")
        if levels:
            return np.flatnonzero([low <= level <= high for level in levels]).astype(float)
        return low, high
    values = wish if isinstance(wish, list | set | frozenset | np.ndarray) else [wish]
    return np.array([code_of(columns, j, value) for value in values])


def meets(value: float, allowed: Allowed) -> bool:
    if isinstance(allowed, tuple):
        return allowed[0] <= value <= allowed[1]
    return bool(same(allowed, value).any())


def of_number(scores: NormalScores, allowed: Allowed, is_own: bool) -> Condition:
    """The condition on a column of scores; a single number of its own may lie between two observed ones."""
    codes = np.array([code for atom, code in zip(scores.atoms, scores.codes, strict=True) if meets(atom, allowed)])
    if isinstance(allowed, tuple):
        low, high = allowed
        return Condition(codes, intervals_of(scores.below(low, False), scores.below(high, True)), allowed)
    others = allowed[[not any(same(allowed[i : i + 1], atom)[0] for atom in scores.atoms) for i in range(len(allowed))]]
    others = others[(others >= scores.values[0]) & (others <= scores.values[-1])]
    if not len(others):
        return Condition(codes)
    nearest = scores.values[np.abs(scores.values[:, None] - others).argmin(0)]
    is_one = is_own and len(allowed) == 1
    ends = (float(others[0]), float(others[0])) if is_one else (-np.inf, np.inf)
    return Condition(codes, intervals_of(*scores.cells(nearest)), ends)


def intervals_of(low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """Those that are not empty, from F to scores."""
    ends = ndtri(np.stack([np.atleast_1d(low), np.atleast_1d(high)], 1))
    return np.asarray(ends[ends[:, 0] < ends[:, 1]])


def both(one: Condition, other: Condition) -> Condition:
    """Two conditions on the same column."""
    low = np.maximum(one.intervals[:, None, 0], other.intervals[None, :, 0]).ravel()
    high = np.minimum(one.intervals[:, None, 1], other.intervals[None, :, 1]).ravel()
    ends = max(one.ends[0], other.ends[0]), min(one.ends[1], other.ends[1])
    return Condition(np.intersect1d(one.codes, other.codes), np.stack([low, high], 1)[low < high], ends)


def impossible(name: Any, wish: Any, columns: Columns, j: int) -> ValueError:
    low, high = columns.ranges[j].tolist()
    seen = f"among {listed(columns.levels[j])}" if columns.levels[j] else f"between {low:g} and {high:g}"
    return ValueError(
        f"given[{name!r}]={wish!r}, but no row has such a value; column {shown(columns.names[j])} is {seen}"
    )


def draw(
    model: Mixture, n: int, conditions: Mapping[int, Condition], given: Mapping[Any, Any], rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, m) of a mixture of an array that meet conditions by column."""
    if not conditions:
        rows = np.asarray(model.sample(n, random_state=int(rng.integers(2**31)))[0])
        return rows[rng.permutation(n)]
    chance = {j: probabilities(model, j, one) for j, one in conditions.items()}
    numbers = [j for j, one in conditions.items() if len(one.intervals)]
    # The number that is least likely to meet its condition is drawn from what is allowed; others are drawn and checked.
    tightest = min(numbers, key=lambda j: float(model.weights_ @ chance[j]), default=None)
    drawn = [j for j in conditions if j not in numbers or j == tightest]
    weights = model.weights_ * np.prod([chance[j] for j in drawn], axis=0)
    if weights.sum() < LEAST:
        raise ValueError(f"given={dict(given)!r} has probability 0: no component has all of these values; give others")
    kept: list[np.ndarray] = []
    n_kept = n_drawn = 0
    while n_kept < n and n_drawn < MOST_DRAWS * n:
        size = min(AT_ONCE, max(100, int(1.2 * (n - n_kept) * (n_drawn + 1) / (n_kept + 1))))
        component = rng.choice(len(weights), size=size, p=weights / weights.sum())
        start = np.full((size, model.n_features_in_), np.nan)
        for j in drawn:
            start[:, j] = truncated(model, j, conditions[j], component, rng)
        rows = np.asarray(model.impute_draws(start, 1, random_state=int(rng.integers(2**31)))[0])
        rows = rows[np.all([conditions[j].holds(rows[:, j]) for j in conditions], axis=0)]
        kept.append(rows)
        n_kept, n_drawn = n_kept + len(rows), n_drawn + size
    if n_kept < n:
        raise ValueError(
            f"given={dict(given)!r} holds in {n_kept} of {n_drawn} rows drawn, too few for n={n}; widen an interval or "
            "lower n"
        )
    return np.concatenate(kept)[:n]


def probabilities(model: Mixture, j: int, one: Condition) -> np.ndarray:
    """P_k (K,) that a column meets its condition."""
    found: np.ndarray = options(model, j, one)[0].sum(1)
    return found


def truncated(model: Mixture, j: int, one: Condition, component: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column (n,) given its condition and the component (n,) of every row."""
    chance, a, b = (part[component] for part in options(model, j, one))
    total = chance.cumsum(1)
    u = rng.uniform(size=(len(component), 1))
    choice = (u * total[:, -1:] >= total).sum(1, keepdims=True).clip(0, total.shape[1] - 1)
    n_intervals = len(one.intervals)
    codes = np.r_[np.full(n_intervals, np.nan), one.codes][choice[:, 0]]
    if not n_intervals:
        return np.asarray(codes)
    place = choice.clip(0, n_intervals - 1)
    low, high = (np.take_along_axis(part, place, 1)[:, 0] for part in (a, b))
    mean, std = (moment[component] for moment in score_moments(model, j))
    z = mean + std * ndtri(low + (high - low) * rng.uniform(size=len(component)))
    # The ends are those of `holds`, also after rounding.
    ends = one.intervals[place[:, 0]]
    z = np.clip(z, np.nextafter(ends[:, 0], np.inf), ends[:, 1])
    return np.asarray(np.where(choice[:, 0] < n_intervals, z, codes))


def options(model: Mixture, j: int, one: Condition) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities (K, m + c) of the intervals and codes of a condition, and Φ at the ends of the intervals (K, m)."""
    codes, chances = shares(model, j)
    column = {code: chances[:, i] for i, code in enumerate(codes.tolist())}
    nothing = np.zeros(len(chances))
    of_codes = np.stack([column.get(code, nothing) for code in one.codes.tolist()], 1) if len(one.codes) else None
    if not len(one.intervals):
        assert of_codes is not None
        return of_codes, nothing[:, None], nothing[:, None]
    mean, std = score_moments(model, j)
    a, b = (ndtr((end - mean[:, None]) / std[:, None]) for end in one.intervals.T)
    inside = (1 - chances.sum(1, keepdims=True)).clip(0) * (b - a)
    return (inside if of_codes is None else np.concatenate([inside, of_codes], 1)), a, b


def shares(model: Mixture, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The codes (L,) of the levels or atoms of a column, and their probabilities (K, L)."""
    found, columns = model.parameters_[j], model.columns_
    if "mean" in found:
        return np.array(columns.atoms[j]), found.get("atoms", np.zeros((len(model.weights_), 0)))
    levels = np.array(columns.levels[j], dtype=float)
    if "probability" in found:
        return levels, np.stack([1 - found["probability"], found["probability"]], 1)
    return levels, found["probabilities"]


def score_moments(model: Mixture, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (K,) of the scores of a column."""
    found = model.parameters_[j]
    return found["mean"], np.sqrt(found["variance"])
