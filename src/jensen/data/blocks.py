"""Rows of an array in blocks, so that encoding them in double precision needs little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

# Rows, and entries, that are encoded at a time: they need double precision, and stay in the caches.
MOST_ROWS, MOST_ENTRIES = 4_096, 2**19


def row_blocks(n_rows: int, n_columns: int) -> Iterator[np.ndarray]:
    """The numbers of all rows, as many at a time as are encoded together."""
    size = max(1, min(MOST_ROWS, MOST_ENTRIES // max(n_columns, 1)))
    return (np.arange(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def read_all(read: Callable[[np.ndarray], Tensor], shape: tuple[int, int], own: np.ndarray | None) -> Tensor:
    """All rows (n, D) in single precision.

    Args:
        read: the encoded rows with some numbers.
        shape: of all.
        own: the user's numbers (n, d), whose memory is returned if encoding changes no bit of them.
    """
    shared = own_memory(own, shape)
    out = torch.empty(shape) if shared is None else shared
    for numbers in row_blocks(*shape):
        block, part = read(numbers), slice(numbers[0], numbers[-1] + 1)
        if out is shared:
            if torch.equal(block.view(torch.int32), out[part].view(torch.int32)):
                continue
            out = torch.empty(shape)
            out[: part.start] = shared[: part.start]
        out[part] = block
    return out


def own_memory(numbers: np.ndarray | None, shape: tuple[int, int]) -> Tensor | None:
    """An array as a tensor of this shape that takes over its memory, if it can be one."""
    if numbers is None or numbers.dtype != np.float32 or numbers.shape != shape:
        return None
    return torch.from_numpy(numbers) if numbers.flags.c_contiguous and numbers.flags.writeable else None
