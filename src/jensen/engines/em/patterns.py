"""Patterns of missing values: rows that share one, stacked into blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

# A stack of at most so many cells, padding included, takes no longer than a smaller one: most of it is overhead.
FEW_CELLS = 1024


def pattern_numbers(observed: Tensor) -> np.ndarray:
    """The number of every row's pattern of missing values (N,), of feature-major `observed` (d, N)."""
    packed = np.packbits(observed.cpu().numpy(), axis=0)
    return np.unique(packed.T.copy().view(f"V{len(packed)}").ravel(), return_inverse=True)[1]


def in_rare_patterns(observed: Tensor, fewest: int) -> Tensor:
    """Which rows (N,) have a pattern that fewer than `fewest` rows share."""
    if fewest <= 1:
        return torch.zeros(observed.shape[1], dtype=torch.bool, device=observed.device)
    pattern = pattern_numbers(observed)
    return torch.from_numpy(np.bincount(pattern)[pattern] < fewest).to(observed.device)


def stack_by_pattern(observed: Tensor, most_rows: int, most_blocks: int) -> Iterator[Tensor]:
    """Column numbers (P, n) of feature-major `observed` (d, N): a row of them shares one pattern, -1 is padding."""
    pattern = pattern_numbers(observed)
    order = np.argsort(pattern, kind="stable")
    counts = np.bincount(pattern)
    ends = np.cumsum(counts)
    pieces = [
        (start, min(most_rows, end - start))
        for first, end in zip(ends - counts, ends, strict=True)
        for start in range(first, end, most_rows)
    ]
    starts, lengths = np.array(pieces).T
    for members in of_similar_length(lengths):
        width = int(lengths[members].max())
        per_stack = max(1, min(most_blocks, most_rows // width))
        for first in range(0, len(members), per_stack):
            chosen = members[first : first + per_stack]
            offset = np.arange(width)
            inside = offset < lengths[chosen, None]
            columns = order[np.minimum(starts[chosen, None] + offset, len(order) - 1)]
            yield torch.from_numpy(np.where(inside, columns, -1)).to(observed.device)


def of_similar_length(lengths: np.ndarray) -> list[np.ndarray]:
    """Blocks of these lengths in groups to be stacked: of lengths within a factor of two, or of few cells in all."""
    doublings = np.ceil(np.log2(lengths)).astype(int)
    groups: list[np.ndarray] = []
    for doubling in np.unique(doublings):
        members = np.flatnonzero(doublings == doubling)
        both = np.concatenate([groups[-1], members]) if groups else members
        if groups and len(both) * lengths[members].max() <= FEW_CELLS:
            groups[-1] = np.sort(both)
        else:
            groups.append(members)
    return groups
