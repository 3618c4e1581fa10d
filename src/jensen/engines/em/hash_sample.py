"""A sample of distinct rows that adds: the same from any parts, in any order.

Rows are kept whose hash is below a limit, and the limit is halved until few enough are left. So the sample depends on
the set of all rows alone, and copies of a row share its fate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import rows_matrix, some_rows, stacked
from jensen.engines.em.seeding import LIMIT
from jensen.runtime.hashing import hash_rows

# Of every class and of the unlabelled rows; starts look at no more.
MOST, FEWEST = LIMIT, 200
EVERYTHING = 64


@dataclass(frozen=True)
class Group:
    """Distinct rows of one class.

    Args:
        x: rows (n, d), NaN where missing; may be sparse.
        hashes: of the rows (n,), rising.
        weight: of all copies of each row (n,).
        bits: rows are kept whose hash is below 2^bits.
        mass: the weight of all rows, also of those that are not kept.
    """

    x: Tensor
    hashes: np.ndarray
    weight: np.ndarray
    bits: int
    mass: float

    @classmethod
    def of(cls, x: Tensor, weight: np.ndarray) -> Group:
        hashes = hash_rows(rows_matrix(x))
        found, first, copy = np.unique(hashes, return_index=True, return_inverse=True)
        bits = bits_for(found, MOST)
        n = len(found) if bits == EVERYTHING else int(np.searchsorted(found, np.uint64(1 << bits)))
        kept = some_rows(x, torch.from_numpy(first[:n]))
        return cls(kept, found[:n], np.bincount(copy, weight)[:n], bits, float(weight.sum()))

    def __add__(self, other: Group) -> Group:
        bits = min(self.bits, other.bits)
        one, two = self.below(bits), other.below(bits)
        hashes = np.concatenate([one.hashes, two.hashes])
        found, first, copy = np.unique(hashes, return_index=True, return_inverse=True)
        x = some_rows(stacked([one.x, two.x]), torch.from_numpy(first))
        weight = np.bincount(copy, np.concatenate([one.weight, two.weight]))
        return Group(x, found, weight, bits, self.mass + other.mass)

    def below(self, bits: int) -> Group:
        if bits >= self.bits:
            return self
        n = int(np.searchsorted(self.hashes, np.uint64(1 << bits)))
        return Group(some_rows(self.x, torch.arange(n)), self.hashes[:n], self.weight[:n], bits, self.mass)

    def at_most(self, n: int) -> Group:
        return self.below(min(self.bits, bits_for(self.hashes, n)))


def bits_for(hashes: np.ndarray, n: int) -> int:
    """The largest power of two below which lie at most n of these rising hashes."""
    if len(hashes) <= n:
        return EVERYTHING
    return max(1, int(hashes[n]).bit_length() - 1)


@dataclass(frozen=True)
class HashSample:
    """Groups of distinct rows by class, -1 for unlabelled ones."""

    groups: dict[int, Group]

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None, label: Tensor | None) -> HashSample:
        """Of rows (n, d), their weights (n,) and class numbers (n,)."""
        mass = np.ones(len(x)) if weight is None else weight.numpy().astype(np.float64)
        if label is None:
            return cls({-1: Group.of(x, mass)}).limited()
        numbers = label.numpy()
        places = {int(c): np.flatnonzero(numbers == c) for c in np.unique(numbers)}
        groups = {c: Group.of(some_rows(x, torch.from_numpy(own)), mass[own]) for c, own in places.items()}
        return cls(groups).limited()

    def __add__(self, other: HashSample) -> HashSample:
        groups = dict(self.groups)
        for number, group in other.groups.items():
            groups[number] = groups[number] + group if number in groups else group
        return HashSample(dict(sorted(groups.items()))).limited()

    def limited(self) -> HashSample:
        most = max(FEWEST, MOST // max(1, len(self.groups)))
        return HashSample({number: group.at_most(most) for number, group in self.groups.items()})

    @property
    def is_everything(self) -> bool:
        """Whether these are all distinct rows."""
        return all(group.bits == EVERYTHING for group in self.groups.values())

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (n, d), their weights (n,), which add to those of all rows of a class, and class numbers (n,)."""
        x = stacked([group.x for group in self.groups.values()])
        weight = np.concatenate([g.weight * (g.mass / g.weight.sum()) for g in self.groups.values() if len(g.weight)])
        label = reduce(add, ([number] * len(group.x) for number, group in self.groups.items()))
        return x, torch.from_numpy(weight), torch.tensor(label)
