"""Rows for training, taken by number: from memory, from a memory-mapped array or from a torch Dataset.

A batch is one indexing of a tensor; there is no DataLoader and no work per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

__all__ = ["Feed", "Minibatch", "ReadFeed", "TensorFeed"]


@dataclass(frozen=True)
class Minibatch:
    """What the module's forward takes, and the weight of every row, None when all count 1."""

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None


class Feed(Protocol):
    """Rows by their numbers."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Minibatch: ...


@dataclass(frozen=True)
class TensorFeed:
    """Rows in memory: tensors with one entry per row, None for one that there is not; a batch keeps the order asked."""

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(next(tensor for tensor in self.inputs if tensor is not None))

    def take(self, index: Tensor) -> Minibatch:
        return Minibatch(tuple(rows(tensor, index) for tensor in self.inputs), rows(self.weight, index))


@dataclass(frozen=True)
class ReadFeed:
    """Rows that stay where they are, of which a batch at a time is read.

    A batch comes in the order of the file, which a disk reads fastest. The mean over it depends on the order only by
    rounding; but what a network draws for a row does, so weights are those of a `TensorFeed` where it draws nothing.

    Args:
        read: the rows with these numbers (b,), as the network takes them (b, ...).
        numbers: of the rows that belong to this feed.
        extra, weight: what stands beside the rows, in memory.
    """

    read: Callable[[np.ndarray], Tensor]
    numbers: np.ndarray
    extra: tuple[Tensor | None, ...] = ()
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, index: Tensor) -> Minibatch:
        index = index.sort().values
        extra = tuple(rows(tensor, index) for tensor in self.extra)
        return Minibatch((self.read(self.numbers[index.numpy()]), *extra), rows(self.weight, index))


def rows(tensor: Tensor | None, index: Tensor) -> Tensor | None:
    # index_select is twice as fast as tensor[index] on wide rows, but wants the index beside the tensor.
    return None if tensor is None else tensor.index_select(0, index.to(tensor.device))
