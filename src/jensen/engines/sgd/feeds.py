"""Rows for training, read by row number: from memory, from a memory-mapped array or from a torch Dataset.

A batch is one indexing of a tensor; there is no DataLoader and no work per row. `streams` has the rows that are read
in the order of their files instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.runtime.randomness import mixed


@dataclass(frozen=True)
class Minibatch:
    """The arguments of the module's forward, and the weight of every row; None if all weights are 1."""

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(next(tensor for tensor in self.inputs if tensor is not None))

    def pieces(self, n: int) -> list[Minibatch]:
        """The same rows in n batches or fewer, of nearly equal size."""
        if n == 1:
            return [self]
        parts = torch.arange(len(self)).tensor_split(min(n, len(self)))
        return [self.rows(slice(int(part[0]), int(part[-1]) + 1)) for part in parts]

    def rows(self, part: slice) -> Minibatch:
        inputs = tuple(None if tensor is None else tensor[part] for tensor in self.inputs)
        return Minibatch(inputs, None if self.weight is None else self.weight[part])


@dataclass(frozen=True)
class Order:
    """Which batches of an epoch a process takes.

    Args:
        seed, epoch: determine the order of the rows.
        first: the number of the first step that is not done yet.
        batch_size: rows per step, over all processes.
        rank, size: the number of this process, and of all.
    """

    seed: int
    epoch: int
    first: int
    batch_size: int
    rank: int = 0
    size: int = 1

    def generator(self, *more: int) -> torch.Generator:
        return torch.Generator().manual_seed(mixed(self.seed, self.epoch, *more))


class Feed(Protocol):
    """Rows to train on."""

    def __len__(self) -> int: ...

    def batches(self, order: Order) -> Iterator[Minibatch]:
        """The remaining batches of an epoch for one process; the last batch is dropped if it is smaller."""


class HeldOut(Protocol):
    """Rows to score."""

    def __len__(self) -> int: ...

    def in_order(self, n_rows: int, rank: int, size: int) -> Iterator[Minibatch]:
        """All rows that one of several processes scores, about so many at a time."""


class NumberedFeed(ABC):
    """Rows by their numbers: process r takes every world-th of a batch."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Tensor) -> Minibatch:
        """The rows with these numbers."""

    def batches(self, order: Order) -> Iterator[Minibatch]:
        numbers = torch.randperm(len(self), generator=order.generator())
        for step in range(order.first, len(self) // order.batch_size):
            batch = numbers[step * order.batch_size : (step + 1) * order.batch_size]
            yield self.take(batch[order.rank :: order.size])

    def in_order(self, n_rows: int, rank: int, size: int) -> Iterator[Minibatch]:
        own = torch.arange(rank, len(self), size)
        for index in own.split(n_rows) if len(own) else ():
            yield self.take(index)


@dataclass(frozen=True)
class TensorFeed(NumberedFeed):
    """Rows in memory: tensors with one entry per row, or None. A batch has the rows in the order of its index.

    Args:
        inputs, weight: of all rows.
        numbers: of those that are in the feed; None if all are.
    """

    inputs: tuple[Tensor | None, ...]
    weight: Tensor | None = None
    numbers: Tensor | None = None

    def __len__(self) -> int:
        every = next(tensor for tensor in self.inputs if tensor is not None)
        return len(every if self.numbers is None else self.numbers)

    def take(self, index: Tensor) -> Minibatch:
        index = index if self.numbers is None else self.numbers[index]
        return Minibatch(tuple(rows(tensor, index) for tensor in self.inputs), rows(self.weight, index))


@dataclass(frozen=True)
class ReadFeed(NumberedFeed):
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


class Endless(Protocol):
    """Labelled rows, as many as are asked for, epoch after epoch."""

    def __len__(self) -> int: ...

    def endless(self, order: Order, n_rows: int) -> Iterator[Minibatch]:
        """So many rows per step, from the first step of the order on."""


@dataclass(frozen=True)
class LabelledFeed:
    """Batches of unlabelled rows, each with some labelled rows drawn at random.

    Row weights make the mean over a batch an unbiased estimate of the mean over all rows, unless all rows of a batch
    count alike: then labelled rows count for more.

    Args:
        unlabelled, labelled: the two kinds of rows.
        share: the share of the labelled rows in the total weight.
        is_even: whether the rows of a batch count alike.
    """

    unlabelled: Feed
    labelled: NumberedFeed | Endless
    share: float
    is_even: bool = False

    def __len__(self) -> int:
        return len(self.unlabelled)

    def batches(self, order: Order) -> Iterator[Minibatch]:
        size = order.batch_size // order.size
        # If a few labelled rows outweigh all others, the share of the others may round to 0.
        fair = self.share / max(1 - self.share, torch.finfo(torch.float32).eps) * size
        n = min(len(self.labelled), max(round(fair), size // 2))
        more = self.drawn(order, n)
        for batch in self.unlabelled.batches(order):
            yield self.together(batch, next(more))

    def drawn(self, order: Order, n: int) -> Iterator[Minibatch]:
        if not isinstance(self.labelled, NumberedFeed):
            yield from self.labelled.endless(order, n)
            return
        while True:
            # torch's global generator: a checkpoint stores its state.
            yield self.labelled.take(torch.randperm(len(self.labelled))[:n])

    def together(self, base: Minibatch, extra: Minibatch) -> Minibatch:
        total = len(base) + len(extra)
        of_labelled = len(extra) / total if self.is_even else self.share
        weights, device = [], next(tensor.device for tensor in base.inputs if tensor is not None)
        for batch, share in ((base, 1 - of_labelled), (extra, of_labelled)):
            weight = torch.full((len(batch),), share * total / len(batch), device=device)
            weights.append(weight if batch.weight is None else weight * batch.weight.to(device))
        inputs = [
            None if a is None or b is None else torch.cat([a, b.to(a.device)])
            for a, b in zip(base.inputs, extra.inputs, strict=True)
        ]
        return Minibatch(tuple(inputs), torch.cat(weights))
