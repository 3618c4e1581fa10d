"""Targets of a regression: numbers, one or several per row, none of them missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["read_targets"]


def read_targets(y: Any, n_rows: int, counts: Tensor | None = None) -> tuple[Tensor, tuple[int, ...]]:
    """y as float64 (n, t), and the shape of one row of it: () for a vector, (t,) for a table.

    Where `counts` (n,) is false, a row is left out, and may hold anything.
    """
    if y is None:
        raise ValueError("a regression requires y to be passed, but the target y is None; give a number per row")
    given = np.asarray(y.detach().cpu().numpy() if isinstance(y, Tensor) else y)
    if given.dtype.kind == "c":
        raise ValueError("y holds complex numbers; give real ones, for example two targets y.real and y.imag")
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers, one or several per row: {error}") from None
    if values.ndim not in (1, 2) or len(values) != n_rows or not values.size:
        raise ValueError(f"y has shape {values.shape}, but X has {n_rows} rows; give y as (n,) or (n, n_targets)")
    table = values.reshape(n_rows, -1)
    bad = ~np.isfinite(table) & (True if counts is None else counts.numpy()[:, None])
    if bad.any():
        row, column = np.argwhere(bad)[0]
        place = f"row {row}" + (f", column {column}" if values.ndim == 2 else "")
        what = "NaN" if np.isnan(table[row, column]) else "infinity"
        raise ValueError(f"y contains {what}, first in {place}; drop the row, or give it sample_weight 0")
    return torch.from_numpy(table), values.shape[1:]
