"""The parameters of k-medoids, and how they come back from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from jensen.contract.fitted import Values


@dataclass(frozen=True)
class Medoids:
    """The rows of the medoids (K, d), None for given distances, and their row numbers (K,) in the training data."""

    rows: Tensor | None
    indices: Tensor


def medoids_from(record: Mapping[str, Any], k: int, d: int, is_given: bool, takes_missing: bool) -> Medoids:
    """K medoids with d features from a file, without rows for given distances; refuses what no fit could have left."""
    indices, rows = record["indices"], record.get("rows")
    is_whole = indices.shape == (k,) and not indices.is_floating_point() and len(indices.unique()) == k
    if not is_whole or (indices < 0).any() or (is_given and (indices >= d).any()):
        raise ValueError(f"indices must be {k} different row numbers, got {indices.tolist()}")
    if is_given != (rows is None):
        found = None if rows is None else tuple(rows.shape)
        raise ValueError(f"rows has shape {found}, but {None if is_given else (k, d)} is needed for this model")
    if rows is not None:
        rows = Values(k, d, allows_nan=takes_missing).read("rows", rows)
    return Medoids(rows, indices)
