"""Rows of any kind: how many there are, some of them, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset, Subset

__all__ = ["as_array", "n_rows", "take"]


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, or entries of a vector, of any kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, Dataset):
        return Subset(X, rows.tolist())
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def as_array(values: Any) -> np.ndarray:
    return np.asarray(values.cpu() if isinstance(values, Tensor) else values)
