"""Columns with finitely many values: log-densities read from a table, weights tallied into one.

    ln p_k(x) = Σ_{j observed} T_k[j, x_j],   t_k[j, l] = Σ_i r_ik [x_ij = l]
Neighbouring columns with few values are joined: eight of yes and no are one with 256 values, whose table is the sum of
theirs, and whose tallies add up to theirs. So a row of data needs one look-up per group of columns, each a vector over
the components, which takes several times fewer operations than a product with the data, and the rows are held as whole
numbers. A missing entry is one more value, whose log-density is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from scipy.sparse import csc_array, csr_array
from torch import Tensor

from jensen.engines.em.batch import Batch, Footprint
from jensen.engines.em.sources import MOST_ROWS
from jensen.engines.em.spool import SHARED
from jensen.models.mixtures.families.entries import LOG_ZERO, without_impossible

# Values that joined columns may have. The first that suits is taken: a table of all groups should stay in the cache,
# and have no more rows than it saves look-ups.
MOST_VALUES, ROWS_IN_CACHE = (1024, 256, 64, 16), 4096

# The indicators of a small batch are kept between sweeps, in which making them takes longer than using them.
MOST_KEPT = 2**14


@dataclass(frozen=True)
class Layout:
    """Where the values of every column stand: the column of a row of the table (S,), the first row of a column (d,)."""

    column: Tensor
    first: Tensor

    @property
    def n_rows(self) -> int:
        return len(self.column)

    def total(self, per_value: Tensor) -> Tensor:
        """Sums (K, d) over the values of every column."""
        sums = per_value.new_zeros(len(per_value), len(self.first))
        return sums.index_add(1, self.column, per_value)


@lru_cache(maxsize=256)
def layout_of(sizes: tuple[int, ...]) -> Layout:
    """Of columns with so many values."""
    n = torch.tensor(sizes, dtype=torch.int64)
    return Layout(torch.repeat_interleave(torch.arange(len(sizes)), n), n.cumsum(0) - n)


@dataclass(frozen=True)
class Group:
    """Neighbouring columns that are joined.

    Args:
        columns: which.
        rows: of theirs in the table of all columns.
        members: (joint values, rows) 1 where a joint value has the value of a row; None for a single column.
    """

    columns: slice
    rows: slice
    members: Tensor | None

    @property
    def n_values(self) -> int:
        return self.rows.stop - self.rows.start if self.members is None else len(self.members)


@lru_cache(maxsize=64)
def groups_of(sizes: tuple[int, ...], most_values: int) -> tuple[Group, ...]:
    """Columns with so many values, joined as long as no group has more than `most_values`."""
    groups, first, row = [], 0, 0
    while first < len(sizes):
        last, n_values = first + 1, sizes[first]
        while last < len(sizes) and n_values * sizes[last] <= most_values:
            n_values, last = n_values * sizes[last], last + 1
        own = sizes[first:last]
        rows = slice(row, row + sum(own))
        values = torch.cartesian_prod(*map(torch.arange, own)) if len(own) > 1 else None
        members = None
        if values is not None:
            one_hot = [torch.nn.functional.one_hot(column, n) for column, n in zip(values.T, own, strict=True)]
            members = torch.cat(one_hot, 1).double()
        groups.append(Group(slice(first, last), rows, members))
        first, row = last, rows.stop
    return tuple(groups)


@lru_cache(maxsize=256)
def joined(sizes: tuple[int, ...], n_rows: int) -> tuple[Group, ...]:
    """The groups for a batch of so many rows: tables are built for every batch, so they must be smaller than it."""
    for most in MOST_VALUES:
        groups = groups_of(sizes, most)
        total = sum(group.n_values for group in groups if group.members is not None)
        if total <= (ROWS_IN_CACHE if most == MOST_VALUES[0] else max(n_rows, 1)) and total <= n_rows:
            return groups
    return groups_of(sizes, 1)


def footprint_of(sizes: tuple[int, ...], k: int) -> Footprint:
    """Of K components of columns with so many values. Making a batch takes more memory, but only once."""
    return Footprint(max(2 * k + len(joined(sizes, MOST_ROWS)) // 2, len(sizes) // 4))


@lru_cache(maxsize=16)
def ones(n: int) -> np.ndarray:
    """Shared by the indicator matrices of many batches."""
    return np.ones(n)


@lru_cache(maxsize=16)
def starts(n_rows: int, n_groups: int) -> np.ndarray:
    return np.arange(n_rows + 1, dtype=np.int32) * np.int32(n_groups)


@dataclass(frozen=True, eq=False)
class Table:
    """Log-densities of every value of every column under the components (K, S).

    Joint tables are needed for every batch of a sweep, so they are kept.
    """

    values: Tensor
    layout: Layout
    joints: dict[tuple[int, ...], Tensor] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> Any:
        return Table, (self.values, self.layout)

    def joint(self, groups: tuple[Group, ...], has_missing: bool) -> Tensor:
        """The table of columns that are joined (joint values, K)."""
        key = (has_missing, *(group.columns.stop for group in groups))
        if key not in self.joints:
            rows = self.values.clamp(min=LOG_ZERO)
            if has_missing:
                wide = rows.new_zeros(len(rows), self.layout.n_rows + len(self.layout.first))
                rows = wide.index_copy(1, kept(self.layout), rows)
            parts = [g.members @ rows.T[g.rows] if g.members is not None else rows.T[g.rows] for g in groups]
            parts = parts or [rows.T]  # of no column
            self.joints[key] = without_impossible(torch.cat(parts))
        return self.joints[key]


def kept(layout: Layout) -> Tensor:
    """The rows (S,) of the values in a table where every column has one more for a missing entry, its last."""
    return torch.arange(layout.n_rows) + layout.column


class SparseProduct(torch.autograd.Function):
    """A known sparse matrix (N, S) times a table (S, K)."""

    @staticmethod
    def forward(ctx: Any, matrix: csr_array, table: Tensor) -> Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(matrix @ table.numpy())

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor]:
        return None, torch.from_numpy(ctx.matrix.T @ slope.contiguous().numpy())


@dataclass(frozen=True)
class Codes:
    """A batch of columns with finitely many values. It depends on the batch alone, so it is kept between sweeps.

    Args:
        index: the value of every group of columns (N, groups), in as few bytes as it needs.
        groups: the columns that are joined.
        layout: of the table, without missing values.
        has_missing: whether every column has one more value, for a missing entry.
        blocks: of the batch (*blocks,).
        outside: which rows (N,) have an entry outside the support, None when no row has.
    """

    index: np.ndarray
    groups: tuple[Group, ...] = field(metadata=SHARED)
    layout: Layout = field(metadata=SHARED)
    has_missing: bool
    blocks: torch.Size
    outside: Tensor | None

    @classmethod
    def of(cls, batch: Batch, numbers: np.ndarray, inside: np.ndarray, sizes: tuple[int, ...]) -> Codes:
        """
        Args:
            batch: of the same entries.
            numbers: the number of every value (d, N), from 0 to the size of its column less 1; anything for others.
            inside: which entries (d, N) have a value in the support.
            sizes: the number of values of every column.
        """
        missing, outside = missing_in_line(batch), None
        if not inside.all():
            wrong = ~inside if missing is None else ~(inside | missing.numpy())
            numbers = np.where(inside, numbers, 0)
            outside = torch.from_numpy(wrong.any(0)) if wrong.any() else None
        if missing is not None:
            numbers = np.where(missing.numpy(), np.array(sizes)[:, None], numbers)
            sizes = tuple(size + 1 for size in sizes)
        groups = joined(sizes, numbers.shape[1])
        kind = np.min_scalar_type(max((group.n_values for group in groups), default=1) - 1)
        index = np.empty((numbers.shape[1], len(groups)), dtype=kind)
        for g, group in enumerate(groups):
            first, *rest = numbers[group.columns].astype(kind, copy=False)
            for own, size in zip(rest, sizes[group.columns][1:], strict=True):
                first = first * kind.type(size) + own
            index[:, g] = first
        layout = layout_of(sizes if missing is None else tuple(size - 1 for size in sizes))
        return cls(index, groups, layout, missing is not None, batch.x.shape[:-2], outside)

    @property
    def matrices(self) -> tuple[csr_array, csc_array]:
        """Indicators (N, joint values) of the value that every group of columns has, and their transpose."""
        return self._kept if self.index.size <= MOST_KEPT else self._made()

    @cached_property
    def _kept(self) -> tuple[csr_array, csc_array]:
        return self._made()

    def _made(self) -> tuple[csr_array, csc_array]:
        n_values = [group.n_values for group in self.groups]
        first = np.cumsum(n_values, dtype=np.int32) - np.array(n_values, dtype=np.int32)
        places = np.add(self.index, first, dtype=np.int32).ravel()
        parts = (ones(places.size), places, starts(*self.index.shape))
        found = csr_array(parts, shape=(len(self.index), sum(n_values)))
        return found, found.T

    def lookup(self, table: Table) -> Tensor:
        """Σ_j T_k[j, x_j] (*blocks, K, n); -∞ for rows outside the support."""
        joint = table.joint(self.groups, self.has_missing)
        found: Tensor = SparseProduct.apply(self.matrices[0], joint).T  # type: ignore[no-untyped-call]
        if self.outside is not None:
            found.masked_fill_(self.outside, -torch.inf)
        return in_blocks(found, self.blocks)

    def tally(self, responsibilities: Tensor) -> tuple[Tensor, Tensor]:
        """t (K, S), and the weight of all rows (K,)."""
        r = in_line(responsibilities).T.contiguous()
        joint = torch.from_numpy(self.matrices[1] @ r.numpy())
        parts = joint.split([group.n_values for group in self.groups])
        if not self.groups:
            return r.new_zeros(r.shape[1], 0), r.sum(0)
        mass = parts[0].sum(0)
        found = [part if g.members is None else g.members.T @ part for g, part in zip(self.groups, parts, strict=True)]
        rows = torch.cat(found).T
        return (rows[:, kept(self.layout)] if self.has_missing else rows).contiguous(), mass


def numbers_of(x: Tensor, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Values 0, 1, ... below the size of their column (d, N) in few bytes, and which entries (d, N) are such values."""
    kind = np.min_scalar_type(max(sizes, default=0))
    with np.errstate(invalid="ignore"):
        numbers = x.numpy().astype(kind)
    inside = numbers == x.numpy()
    inside &= numbers < np.array(sizes, dtype=kind)[:, None]
    return numbers, inside


def in_line(values: Tensor) -> Tensor:
    """Values (*blocks, m, n) as (m, N)."""
    return values.movedim(-2, 0).flatten(1)


def in_blocks(values: Tensor, blocks: torch.Size) -> Tensor:
    """Undo `in_line`."""
    return values.unflatten(1, (*blocks, -1)).movedim(0, -2) if blocks else values


def missing_in_line(batch: Batch) -> Tensor | None:
    """Which entries (d, N) of a batch are missing; None if none is."""
    if batch.observed is None:
        return None
    observed = batch.observed[..., None] if batch.observed.ndim < batch.x.ndim else batch.observed
    return None if bool(observed.all()) else in_line(~observed.expand_as(batch.x))
