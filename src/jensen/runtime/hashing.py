"""Hashes of rows: 64 bits that depend on the content alone, not on the place of a row or on how a table stores it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

# A block of so many values fits the cache.
NUMBERS_AT_ONCE = 2**15


def hash_rows(x: Any) -> np.ndarray:
    """A 64-bit hash per row of an array or a CSR matrix: Σ_j h(x_j) a_j mod 2⁶⁴ with odd a_j, then scrambled.

    h(0) = 0, so a sparse row hashes like the same row written out.
    """
    odd = scrambled(np.arange(1, x.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    state = np.zeros(x.shape[0], dtype=np.uint64)
    is_sparse: bool = issparse(x)
    if is_sparse:
        row_of = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
        np.add.at(state, row_of, hash_values(x.data) * odd[x.indices])
    step = max(1, NUMBERS_AT_ONCE // (1 if is_sparse else max(1, x.shape[1])))
    for start in range(0, x.shape[0], step):
        part = slice(start, start + step)
        state[part] = scrambled(state[part] if is_sparse else hash_values(x[part]) @ odd)
    return state


def hash_values(values: np.ndarray) -> np.ndarray:
    """Equal values hash equally: adding 0 turns -0 into 0, and every NaN gets one pattern of bits."""
    number = np.add(values, 0.0, dtype=np.float64)
    missing = np.isnan(number)
    if missing.any():
        number[missing] = np.nan
    # Signs and exponents stand in the highest bits, where a sum of products would let them cancel.
    state: np.ndarray = number.view(np.uint64)
    state ^= state >> np.uint64(32)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(29)
    return state


def scrambled(state: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the outcome depends on every bit of the state."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    out: np.ndarray = state ^ (state >> np.uint64(31))
    return out
