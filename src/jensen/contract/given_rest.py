"""Every cell of some rows given the rest of its row: how likely it is, and what it should have been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class GivenRest:
    """p(x_j | x_-j) of every cell, x_-j being the other observed cells of the row.

    Args:
        nats: ln p(x_j | x_-j) = ln p(x) - ln p(x_-j), (n, d); NaN where the cell is missing or its column is not
            modelled. Nats of different columns are not comparable: their units differ.
        tail: P{p(X_j | x_-j) ≤ p(x_j | x_-j)} (n, d), the probability of a value that is at most as likely. It has no
            unit, so cells of different columns are ranked by it.
        expected: a table like X with E[x_j | x_-j] in every cell, or the most probable level.
        low, high: tables like X with the ends of a central interval of p(x_j | x_-j); of a level, the level expected.
    """

    nats: np.ndarray
    tail: np.ndarray
    expected: Any
    low: Any
    high: Any


class NoClosedFormError(ValueError):
    """A model has a column whose distribution given the rest is not found in closed form; draws of it are."""


def check_coverage(coverage: float) -> float:
    """A share of probability, for an interval."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage!r} must be between 0 and 1, such as 0.9")
    return float(coverage)
