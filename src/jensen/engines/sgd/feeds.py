"""Rows for training, read by row number: from memory, from a memory-mapped array or from a torch Dataset.

A batch is one indexing of a tensor; there is no DataLoader and no work per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.data.rows import Events

# Rows that frequencies of levels and moments are estimated from, at most.
MOST_FOR_FREQUENCIES = 20_000


@dataclass(frozen=True)
class Minibatch:
    """The arguments of the module's forward, and the weight of every row; None if all weights are 1."""

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None


class Feed(Protocol):
    """Rows by their numbers."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Minibatch: ...


@dataclass(frozen=True)
class TensorFeed:
    """Rows in memory: tensors with one entry per row, or None. A batch has the rows in the order of its index."""

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(next(tensor for tensor in self.inputs if tensor is not None))

    def take(self, index: Tensor) -> Minibatch:
        return Minibatch(tuple(rows(tensor, index) for tensor in self.inputs), rows(self.weight, index))


@dataclass(frozen=True)
class ReadFeed:
    """Rows on disk, read one batch at a time.

    A batch is sorted by row number, which a disk reads fastest. The order changes the mean over the batch only by
    rounding. It does change which random numbers a network draws for a row, so the trained weights equal those of a
    `TensorFeed` only for networks that draw none.

    Args:
        read: returns the rows with these numbers (b,), as the network takes them (b, ...).
        numbers: the numbers of the rows in this feed.
        extra, weight: tensors in memory with one entry per row.
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
    # index_select is twice as fast as tensor[index] on wide rows, but needs the index on the tensor's device.
    return None if tensor is None else tensor.index_select(0, index.to(tensor.device))


@dataclass(frozen=True)
class TrainingSet:
    """What a model is trained on.

    Args:
        events: the rows.
        extra: one more argument of the module's forward, with an entry per row: class numbers, -1 where unknown, or
            latent vectors.
        weight: of the rows; None if all weights are 1.
    """

    events: Events
    extra: Tensor | None = None
    weight: Tensor | None = None

    @cached_property
    def x(self) -> Tensor:
        """All rows, encoded once."""
        return self.events.all()

    def has_missing(self) -> bool:
        """Whether values are missing. Rows on disk are not searched: they may have some, unless they are integers."""
        if not self.events.can_have_missing:
            return False
        return not self.events.is_in_memory or bool(self.x.isnan().any())

    def some_rows(self, rows: np.ndarray) -> Tensor:
        """A part of the rows with these numbers, enough to estimate frequencies from."""
        some = rows[:: max(1, len(rows) // MOST_FOR_FREQUENCIES)]
        return self.x[torch.from_numpy(some)] if self.events.is_in_memory else self.events.read(some)

    def feed(self, rows: np.ndarray, device: torch.device) -> Feed:
        """The rows with these numbers, in memory where they fit; their weights have mean 1."""
        index = torch.from_numpy(rows)
        extra = () if self.extra is None else (self.extra[index].to(device),)
        weight = None if self.weight is None else self.weight[index].float().to(device)
        if weight is not None:
            weight = weight / weight.mean()
        if not self.events.is_in_memory:
            return ReadFeed(lambda numbers: self.events.read(rows[numbers]), np.arange(len(rows)), extra, weight)
        x = self.x if len(rows) == self.events.n_rows else self.x[index]
        return TensorFeed((x.to(device), *extra), weight)

    def training_feed(self, rows: np.ndarray, device: torch.device) -> Feed:
        """The rows to train on; held-out rows come from `feed`."""
        return self.feed(rows, device)

    def class_counts(self, n_classes: int) -> Tensor:
        """The total weight of the labelled rows of every class (C,)."""
        assert self.extra is not None
        known, weight = self.extra >= 0, self.weights()
        return torch.bincount(self.extra[known], weight[known], minlength=n_classes)

    def weights(self) -> Tensor:
        """The weight of every row (n,), in double precision."""
        return torch.ones(self.events.n_rows).double() if self.weight is None else self.weight.double()
