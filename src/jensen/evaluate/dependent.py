"""Columns that follow from others, of which a comparison of models should have one only."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from jensen.data.functions import find_functions
from jensen.data.names import shown
from jensen.evaluate.kinds import silently_learnt
from jensen.runtime.messages import levels_inside

# In wider tables, such as pixels, pairs of columns are not looked at.
MOST_COLUMNS = 100
NUMBERS = ("number", "count", "date")


def warn_of_functions(X: Any) -> None:
    """Warn of columns of a table that are a function of another, as the number of a name is.

    A model that notices it scores higher, by as much as its smallest variance allows, and knows no more of the rows.
    """
    if len(X.shape) != 2 or X.shape[1] > MOST_COLUMNS:
        return
    try:
        columns = silently_learnt(X)
    except ValueError:  # such as running numbers alone, which models of numbers may still be compared on
        return
    x = columns.codes(X, is_learnt=True).x.double().numpy()
    found = find_functions(x, np.array([kind not in NUMBERS for kind in columns.kinds]))
    if not found:
        return
    names = columns.names
    pairs = ", ".join(f"{shown(names[one.target])} of {shown(names[one.source])}" for one in found)
    warnings.warn(
        f"X has columns that are a function of another: {pairs}; models that notice it score higher and know no more, "
        f"so drop {', '.join(shown(names[one.target]) for one in found)}",
        UserWarning,
        stacklevel=levels_inside(),
    )
