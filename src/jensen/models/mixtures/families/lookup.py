"""Columns with finitely many values: log-densities read from a table, weights tallied into one.

    ln p_k(x) = Σ_{j observed} T_k[j, x_j],   t_k[j, l] = Σ_i r_ik [x_ij = l]
The tables of all columns stand one below the other, S rows in all, each a vector over the components. The log-densities
of a row of data are the sum of d rows of the table, which costs less than a product with an indicator matrix. Two more
rows stand for a missing entry (0) and for a value outside the support (-∞).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


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
    n = torch.tensor(sizes)
    return Layout(torch.repeat_interleave(torch.arange(len(sizes)), n), n.cumsum(0) - n)


@dataclass(frozen=True)
class Codes:
    """Rows of the table (d, N) that the entries of a batch point to, and the batch's blocks (*blocks,)."""

    index: Tensor
    blocks: torch.Size

    def in_blocks(self, values: Tensor) -> Tensor:
        """Values (m, N) as (*blocks, m, n)."""
        return values.unflatten(1, (*self.blocks, -1)).movedim(0, -2) if self.blocks else values

    def lookup(self, table: Tensor) -> Tensor:
        """Σ_j T_k[j, x_j] (*blocks, K, n) from a table (K, S)."""
        k = len(table)
        rows = torch.cat([table, table.new_zeros(k, 1), table.new_full((k, 1), -torch.inf)], 1).T.contiguous()
        found = rows.index_select(0, self.index[0])
        for where in self.index[1:]:
            found += rows.index_select(0, where)
        return self.in_blocks(found.T.contiguous())

    def tally(self, responsibilities: Tensor, n_rows: int) -> Tensor:
        """t (K, S)."""
        r = in_line(responsibilities).T.contiguous()
        sums = r.new_zeros(n_rows + 2, r.shape[1])
        for where in self.index:
            sums.index_add_(0, where, r)
        return sums[:n_rows].T.contiguous()


def in_line(values: Tensor) -> Tensor:
    """Values (*blocks, m, n) as (m, N)."""
    return values.movedim(-2, 0).flatten(1)
