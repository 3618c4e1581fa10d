"""Rows of a scan for training: read part by part in a random order, and drawn from a buffer.

    parts in a random order, a few open at a time -> blocks -> buffer -> batches
The buffer is filled, shuffled, and half of it leaves as batches before it is filled again. Seed, epoch and the number
of processes determine all of it, so a run resumes within an epoch by reading up to its step. Rows that fit into the
buffer are read once and held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.rows import Described
from jensen.engines.em.streamed import located
from jensen.engines.sgd.buffer import batched, joined, shuffled
from jensen.engines.sgd.feeds import Feed, LabelledFeed, Minibatch, Order, TensorFeed, rows
from jensen.engines.sgd.places import Count, Share, Side, hash_places, shares_of
from jensen.engines.sgd.training_set import LEAST_ROWS, TrainingSet
from jensen.files.parts import ChangedError
from jensen.files.scan import FEWEST, Block, Scan
from jensen.runtime.ahead import ahead
from jensen.runtime.threads import in_threads

# Rows of the buffer if the trainer does not say: as many, or as have so many bytes.
BUFFER_ROWS, BUFFER_BYTES = 2**18, 2**28
# Parts that are read at the same time, so that rows of one batch come from several.
OPEN_PARTS = 4
# Blocks that fill the buffer, at least, unless they would be very small.
BLOCKS_PER_BUFFER = 8


@dataclass(frozen=True)
class ReadRows:
    """Encoded rows of a block.

    Args:
        x: (b, D) in single precision.
        label: class numbers (b,), -1 where unknown, or None.
        weight: (b,), or None if all are 1.
        numbers: (b,) of the rows in their part, among those with weight.
    """

    x: Tensor
    label: Tensor | None
    weight: Tensor | None
    numbers: np.ndarray

    def some(self, chosen: np.ndarray) -> Minibatch:
        index = torch.from_numpy(np.flatnonzero(chosen))
        extra = () if self.label is None else (rows(self.label, index),)
        return Minibatch((self.x[index], *extra), rows(self.weight, index))


@dataclass(frozen=True)
class Counts:
    """The rows of a side: without a label, and with one."""

    side: Side
    unknown: Count
    known: Count

    def __len__(self) -> int:
        return len(self.unknown) + len(self.known)

    @property
    def all(self) -> Count:
        return Count(self.unknown.rows + self.known.rows, self.unknown.mass + self.known.mass)


@dataclass(frozen=True)
class StreamedSet:
    """What a model is trained on if its rows stay where they are; with the methods of a `TrainingSet`.

    Args:
        scan: where the rows are.
        events: what they are.
        read: the rows of a block that have a weight, the first of which has this number in its part.
        sizes: (parts,) rows with weight.
        sample: some encoded rows, and the hashes of their places.
        missing: whether cells are empty, and whether networks see missing values, there or at atoms.
        class_mass: (C,) the total weight of every class, or None without labels.
        total_weight: of all rows.
        shuffle_rows: those of the buffer.
        n_processes: that share the work.
        checksum: of the rows.
        is_mixed: whether every batch has labelled and unlabelled rows, if there are both.
        is_even: whether the rows of a mixed batch count alike, so that few labelled rows count for more.
    """

    scan: Scan
    events: Described
    read: Callable[[Block, int], ReadRows | None]
    sizes: np.ndarray
    sample: tuple[Tensor, np.ndarray]
    missing: tuple[bool, bool]
    class_mass: Tensor | None
    total_weight: float
    shuffle_rows: int
    n_processes: int = 1
    checksum: float = 0.0
    is_mixed: bool = False
    is_even: bool = False

    @property
    def has_labels(self) -> bool:
        return self.class_mass is not None

    def has_missing(self) -> bool:
        """Whether values are missing, as networks see them."""
        return self.missing[1]

    def lacks_values(self) -> bool:
        """Whether values are missing, other than numbers at atoms."""
        return self.missing[0]

    def class_counts(self, n_classes: int) -> Tensor:
        """The total weight of the labelled rows of every class (C,)."""
        assert self.class_mass is not None
        return self.class_mass

    def split(self, validation_fraction: float, seed: int) -> tuple[Counts, Counts]:
        """The rows to train on and those held out, for the methods below."""
        fraction = validation_fraction if self.events.n_rows >= LEAST_ROWS else 0.0
        sides = [Side(fraction, seed, is_held_out) for is_held_out in (False, True)]
        if self.has_labels or self.scan.weight is not None:
            aside = tuple(name for name in (self.scan.label, self.scan.weight) if name is not None)
            parts: Sequence[Any] = self.scan.parts
            # Parts that can read some columns alone have no others to drop.
            can_choose = all(hasattr(part, "columns") for part in parts)
            scan = replace(self.scan, drop=()) if can_choose else self.scan
            only = [replace(part, columns=aside) for part in parts] if can_choose else parts
            found = list(in_threads(CountPart(scan, self.read, sides, self.n_processes), enumerate(only)))
        else:
            found = [self.count_unread(number, int(n), sides) for number, n in enumerate(self.sizes)]
        # (parts, sides, labelled or not, processes), and masses (sides, labelled or not).
        n, mass = np.stack([one[0] for one in found]), np.sum([one[1] for one in found], axis=0)
        training, held_out = (
            Counts(side, Count(n[:, i, 0], float(mass[i, 0])), Count(n[:, i, 1], float(mass[i, 1])))
            for i, side in enumerate(sides)
        )
        return training, held_out

    def count_unread(self, part: int, n_rows: int, sides: Sequence[Side]) -> tuple[np.ndarray, np.ndarray]:
        """What `CountPart` finds in a part without labels and weights."""
        total, mass = np.zeros((2, 2, self.n_processes), dtype=np.int64), np.zeros((2, 2))
        for start in range(0, n_rows, 2**20):
            numbers = np.arange(start, min(start + 2**20, n_rows))
            places = hash_places(part, numbers)
            for i, side in enumerate(sides):
                own = residues(part, numbers[side.mask(places)], self.n_processes)
                total[i, 0] += own
                mass[i, 0] += own.sum()
        return total, mass

    def some_rows(self, chosen: Counts) -> Tensor:
        """Some of these rows, enough to estimate frequencies from."""
        x, places = self.sample
        own = torch.from_numpy(chosen.side.mask(places))
        return x[own] if own.any() else x

    def feed(self, chosen: Counts, device: torch.device) -> Stream | TensorFeed:
        """These rows; their weights have mean 1."""
        return self.stream(chosen, None, chosen.all).held(device)

    def training_feed(self, chosen: Counts, device: torch.device) -> Feed:
        """The rows to train on; held-out rows come from `feed`."""
        if not self.is_mixed or not len(chosen.known) or not len(chosen.unknown):
            return self.feed(chosen, device)
        unlabelled = self.stream(chosen, False, chosen.unknown).held(device)
        labelled = self.stream(chosen, True, chosen.known).held(device)
        return LabelledFeed(unlabelled, labelled, chosen.known.mass / chosen.all.mass, self.is_even)

    def stream(self, chosen: Counts, is_known: bool | None, count: Count) -> Stream:
        return Stream(self, chosen.side, is_known, count)

    def identity(self) -> dict[str, object]:
        """What a checkpoint compares: other rows, or another buffer, are another fit."""
        return {
            "rows of X": self.events.n_rows,
            "shape of a row": list(self.events.shape),
            "parts of the scan": len(self.sizes),
            "the sum of the means": self.checksum,
            "the sum of the weights": self.total_weight,
            "the weight of the classes": None if self.class_mass is None else self.class_mass.tolist(),
            "shuffle_rows": self.shuffle_rows,
        }

    def read_part(self, number: int) -> Iterator[ReadRows]:
        """The rows of a part, block by block; their number must be that of the first sweep."""
        part, n = self.scan.parts[number], 0
        for block in self.scan.blocks(part):
            try:
                own = self.read(block, n)
            except ValueError as error:
                raise located(error, part, block) from error
            if own is not None:
                n += len(own.x)
                yield own
        if n != self.sizes[number]:
            raise ChangedError(
                f"{part.name} had {self.sizes[number]} rows with weight in the first sweep, and now {n}; every sweep "
                "must return the same rows: fit again, or write the rows to a file first"
            )


TrainingData = TrainingSet | StreamedSet


@dataclass(frozen=True)
class CountPart:
    """The rows of a part by side, by whether they have a label and by process, and their weights."""

    scan: Scan
    read: Any
    sides: Sequence[Side]
    n_processes: int

    def __call__(self, item: tuple[int, Any]) -> tuple[np.ndarray, np.ndarray]:
        number, part = item
        n, total, mass = 0, np.zeros((2, 2, self.n_processes), dtype=np.int64), np.zeros((2, 2))
        for block in ahead(self.scan.blocks(part)):
            kept, label, weight = self.read.aside(block)
            numbers = n + np.arange(len(kept))
            n += len(kept)
            places = hash_places(number, numbers)
            is_known = np.zeros(len(kept), dtype=bool) if label is None else (label >= 0).numpy()
            own = np.ones(len(kept)) if weight is None else weight.numpy()
            for i, side in enumerate(self.sides):
                on_side = side.mask(places)
                for j, chosen in enumerate((on_side & ~is_known, on_side & is_known)):
                    total[i, j] += residues(number, numbers[chosen], self.n_processes)
                    mass[i, j] += own[chosen].sum()
        return total, mass


def residues(part: int, numbers: np.ndarray, n_processes: int) -> np.ndarray:
    """How many of these rows each process takes, if it takes every world-th row."""
    return np.bincount((numbers + part) % n_processes, minlength=n_processes)


@dataclass(frozen=True)
class Stream:
    """Rows of a side of a scan, with a label, without one, or all."""

    data: StreamedSet
    side: Side
    is_known: bool | None
    count: Count

    def __len__(self) -> int:
        return len(self.count)

    def held(self, device: torch.device) -> Stream | TensorFeed:
        """In memory if all rows fit into the buffer."""
        if not 0 < len(self) <= self.data.shuffle_rows:
            return self
        every = joined(list(ahead(self.rows([Share(part, True) for part in range(len(self.data.sizes))], 0, 1))))
        inputs = tuple(None if tensor is None else tensor.to(device) for tensor in every.inputs)
        return TensorFeed(inputs, None if every.weight is None else every.weight.to(device))

    def batches(self, order: Order) -> Iterator[Minibatch]:
        shares, n_rows = shares_of(order, self.count.rows)
        size = order.batch_size // order.size
        found = self.drawn(order, shares, size)
        yield from islice(found, order.first, max(order.first, n_rows // size))

    def drawn(self, order: Order, shares: Sequence[Share], size: int) -> Iterator[Minibatch]:
        """Batches of so many rows from the buffer."""
        blocks = ahead(self.rows(shares, order.rank, order.size), 2)
        generator = order.generator(2, order.rank)
        return batched(shuffled(blocks, self.data.shuffle_rows, generator), size)

    def endless(self, order: Order, n_rows: int) -> Iterator[Minibatch]:
        """So many rows per step from the first step of the order on, from the beginning again after the last row."""

        def one(turn: int) -> Iterator[Minibatch]:
            own = replace(order, epoch=mixed_epoch(order.epoch, turn))
            shares, most = shares_of(own, self.count.rows)
            return self.drawn(own, shares, max(1, min(n_rows, most)))

        return islice(chain.from_iterable(map(one, count())), order.first, None)

    def in_order(self, n_rows: int, rank: int, size: int) -> Iterator[Minibatch]:
        shares = [Share(part, size == 1) for part in range(len(self.data.sizes))]
        for block in ahead(self.rows(shares, rank, size)):
            for start in range(0, len(block), n_rows):
                yield block.rows(slice(start, start + n_rows))

    def rows(self, shares: Sequence[Share], rank: int, size: int) -> Iterator[Minibatch]:
        """Blocks of rows, from a few parts in turns."""
        scan = self.data.scan
        fewer = max(FEWEST, self.data.shuffle_rows // BLOCKS_PER_BUFFER)
        smaller = replace(scan, block_rows=min(scan.block_rows, fewer))
        data, waiting, opened = replace(self.data, scan=smaller), deque(shares), deque[tuple[Share, Any]]()
        mean = self.count.mass / max(len(self), 1)
        while waiting or opened:
            while waiting and len(opened) < OPEN_PARTS:
                share = waiting.popleft()
                opened.append((share, data.read_part(share.part)))
            share, blocks = opened.popleft()
            block = next(blocks, None)
            if block is None:
                continue
            opened.append((share, blocks))
            chosen = self.side.mask(hash_places(share.part, block.numbers))
            if not share.is_whole:
                chosen &= (block.numbers + share.part) % size == rank
            if self.is_known is not None and block.label is not None:
                chosen &= ((block.label >= 0) == self.is_known).numpy()
            if chosen.any():
                own = block.some(chosen)
                yield own if own.weight is None else Minibatch(own.inputs, own.weight / mean)


def mixed_epoch(epoch: int, turn: int) -> int:
    """A number for every pass over labelled rows within an epoch."""
    return (epoch << 32) + turn + 1
