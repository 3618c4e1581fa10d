"""Rows of any kind: how many there are, some of them, and all of them as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

__all__ = ["as_array", "n_rows", "read_items", "take"]


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
    """Of a tensor, a Dataset, a list or a frame; NaN where an array is masked. Memory is shared where it can be."""
    if isinstance(values, Dataset):
        return read_items(values, np.arange(len(values)))  # type: ignore[arg-type]
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)  # numpy has no such type
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.result_type(values.dtype, np.float32)), np.nan))
    return np.asarray(values)


def read_items(dataset: Any, numbers: np.ndarray) -> np.ndarray:
    """Items of a torch Dataset (b, ...); an item is x, or a tuple that begins with it."""
    wanted = numbers.tolist()
    items = dataset.__getitems__(wanted) if hasattr(dataset, "__getitems__") else [dataset[i] for i in wanted]
    values = [item[0] if isinstance(item, (tuple, list)) else item for item in items]
    return np.stack([np.asarray(value) for value in values])
