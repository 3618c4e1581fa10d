"""Random numbers of rows that depend on a seed and on the content of a row, not on the rows beside it.

    number j of a row = scrambled(s + c_j),   s = scrambled(hash of the row ⊕ scrambled(seed)),   c_j = scrambled(j)
Every number is computed from its place j alone, for all rows at a time (Salmon, Moraes, Dror & Shaw 2011, with the
finaliser of splitmix64 for the block function). So a row has the same numbers in any order, batch or block of rows, and
equal rows have equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from jensen.runtime.hashing import NUMBERS_AT_ONCE, hash_rows, scrambled


class RowDraws:
    """A stream of random numbers for each of n rows; every call takes the next numbers of all streams.

    Args:
        state: s of every row (n,).
        n_used: how many numbers of every stream are taken.
    """

    def __init__(self, state: np.ndarray, n_used: int = 0) -> None:
        self.state, self.n_used = state, n_used

    @classmethod
    def of(cls, x: Tensor, seed: int) -> RowDraws:
        """The streams of rows (n, d), NaN where missing."""
        return cls(scrambled(hash_rows(x.numpy()) ^ scrambled(np.array([seed], dtype=np.uint64))))

    def __len__(self) -> int:
        return len(self.state)

    def __getitem__(self, rows: slice | np.ndarray) -> RowDraws:
        """The rest of the streams of some rows, at the same place."""
        return RowDraws(self.state[rows], self.n_used)

    def own(self, row: np.ndarray, number: np.ndarray) -> RowDraws:
        """A new stream for each pair of a row and a number (m,), independent of the others and of the rows' own."""
        return RowDraws(scrambled(scrambled(self.state[row]) ^ scrambled(~number.astype(np.uint64))))

    def apart(self, number: int) -> RowDraws:
        """A new stream for every row, for another purpose."""
        return self.own(np.arange(len(self)), np.full(len(self), number))

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), (n, *shape), float64."""
        size = math.prod(shape)
        out = np.empty((len(self), size))
        for rows, bits in self._bits(size):
            out[rows] = (bits >> np.uint64(11)) * 2.0**-53
        return torch.from_numpy(out).view(len(self), *shape)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (n, *shape), float32; two from every 64 bits (Box & Muller 1958)."""
        size = math.prod(shape)
        half = -(-size // 2)
        out = np.empty((len(self), 2 * half), np.float32)
        for rows, bits in self._bits(half):
            halves = bits.view(np.uint32).reshape(len(bits), half, 2).astype(np.float32)
            radius = np.sqrt(-2 * np.log((halves[..., 0] + np.float32(0.5)) * np.float32(2.0**-32)))
            angle = halves[..., 1] * np.float32(2 * math.pi * 2.0**-32)
            out[rows, :half], out[rows, half:] = radius * np.cos(angle), radius * np.sin(angle)
        return torch.from_numpy(out)[:, :size].reshape(len(self), *shape)

    def _bits(self, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of rows and 64 random bits (b, size) for each."""
        place = scrambled(np.arange(self.n_used, self.n_used + size, dtype=np.uint64))
        self.n_used += size
        n_rows = max(1, NUMBERS_AT_ONCE // max(size, 1))
        for start in range(0, len(self.state), n_rows):
            rows = slice(start, start + n_rows)
            yield rows, scrambled(self.state[rows, None] + place)


# What draws random numbers: for rows of new data a generator, for scores of given rows a stream for each.
Source = torch.Generator | RowDraws


def normals(source: Source, n: int, *shape: int) -> Tensor:
    """Standard normal numbers (n, *shape) for n rows, float32."""
    if isinstance(source, RowDraws):
        return source.normal(*shape)
    return torch.randn((n, *shape), generator=source)


def uniforms(source: Source, n: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Uniform numbers in [0, 1), (n, *shape) for n rows."""
    if isinstance(source, RowDraws):
        return source.uniform(*shape).to(dtype)
    return torch.rand((n, *shape), generator=source, dtype=dtype)


def streams_of(source: Source, n: int) -> RowDraws:
    """A stream for each of n rows; those of a generator are new ones."""
    if isinstance(source, RowDraws):
        return source
    return RowDraws(torch.randint(2**62, (n,), generator=source).numpy().view(np.uint64))


def part_of(source: Source, rows: slice) -> Source:
    """The source for some of the rows."""
    return source[rows] if isinstance(source, RowDraws) else source


def copies_of(source: Source, n_copies: int) -> Source:
    """The source for so many copies of all rows, one copy of all after the other, with numbers of their own."""
    if not isinstance(source, RowDraws):
        return source
    n = len(source)
    return source.own(np.tile(np.arange(n), n_copies), np.repeat(np.arange(n_copies), n))
