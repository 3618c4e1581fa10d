"""Places of the rows of a scan: which rows are held out, and which process reads which.

A row is at place (part, number among the rows with weight of its part). A hash of the place decides, so that every
part has rows on both sides, and no list of rows is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from jensen.engines.sgd.feeds import Order
from jensen.runtime.hashing import scrambled
from jensen.runtime.randomness import mixed

# Rows of the processes may differ by this share of their mean before all parts are shared row by row.
MOST_UNEVEN = 0.05


def hash_places(part: int, numbers: np.ndarray) -> np.ndarray:
    """64 bits per row of a part."""
    start = scrambled(np.array([part], dtype=np.uint64))
    return scrambled(start ^ scrambled(numbers.astype(np.uint64)))


@dataclass(frozen=True)
class Side:
    """The rows of a scan that are held out, or the others.

    Args:
        fraction: of the rows that are held out.
        seed: chooses them.
        is_held_out: which of the two these are.
    """

    fraction: float
    seed: int
    is_held_out: bool

    def mask(self, places: np.ndarray) -> np.ndarray:
        """Which of the places, by their hashes, are on this side."""
        if not self.fraction:
            return np.full(len(places), not self.is_held_out)
        own = scrambled(places ^ np.uint64(mixed(self.seed)))
        return np.asarray((own < np.uint64(int(self.fraction * 2.0**64))) == self.is_held_out)


@dataclass(frozen=True)
class Count:
    """Rows of one kind in every part.

    Args:
        rows: (parts, processes), by the process that takes them if the part is shared row by row.
        mass: their total weight.
    """

    rows: np.ndarray
    mass: float

    def __len__(self) -> int:
        return int(self.rows.sum())


@dataclass(frozen=True)
class Share:
    """A part, and whether this process reads all of its rows or every world-th."""

    part: int
    is_whole: bool


def shares_of(order: Order, rows: np.ndarray) -> tuple[list[Share], int]:
    """The parts that a process reads in an epoch, in random order, and the rows that every process has at least.

    Whole parts go to the process with the fewest rows, unless it would then have more than its share; the others are
    read by all, each of which takes every world-th row. If parts are so uneven that processes would differ, all are
    shared in this way.
    """
    parts = [int(part) for part in torch.randperm(len(rows), generator=order.generator(1))]
    parts = [part for part in parts if rows[part].sum()]
    owner = owners(parts, rows, order.size)
    loads = loads_of(owner, rows, order.size)
    if loads.max() - loads.min() > MOST_UNEVEN * loads.mean():
        owner = dict.fromkeys(parts)
        loads = loads_of(owner, rows, order.size)
    own = [Share(part, owner[part] is not None) for part in parts if owner[part] in (None, order.rank)]
    return own, int(loads.min())


def owners(parts: Sequence[int], rows: np.ndarray, size: int) -> dict[int, int | None]:
    """The process that reads each part; None if all do."""
    fair, loads, found = rows.sum() / size, np.zeros(size), dict[int, int | None]()
    for part in parts:
        least, n = int(loads.argmin()), rows[part].sum()
        found[part] = least if loads[least] + n <= fair else None
        loads[least] += n if found[part] is not None else 0
    return found


def loads_of(owner: dict[int, int | None], rows: np.ndarray, size: int) -> np.ndarray:
    """Rows (processes,) that each of them reads."""
    loads = np.zeros(size)
    for part, own in owner.items():
        if own is None:
            loads += rows[part]
        else:
            loads[own] += rows[part].sum()
    return loads
