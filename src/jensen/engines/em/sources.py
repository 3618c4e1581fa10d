"""Sources: batches of rows in the engine's coordinates, which an engine sweeps again and again.

A source never needs all rows at once: rows with missing values are sorted into blocks that share a pattern chunk by
chunk, and a start looks at a sample. `ArraySource` and `SparseSource` hold their batches in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, some_rows
from jensen.engines.em.batch import Batch, Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.sampling import RowSample, sample_of
from jensen.runtime.progress import progress
from jensen.runtime.threads import threads_for

# A batch's features and responsibilities should fit the cache; fewer rows than the lower limit starve the products.
BATCH_BYTES, FEWEST_ROWS, MOST_ROWS = 2**23, 1024, 2**14
# Rows that are read once are copied in parts of this size: large enough for patterns of missing values to be shared.
PART_BYTES = 2**26


# All columns, none, or the numbers of some.
Patterns = bool | tuple[int, ...]


class Source(Protocol):
    """What an engine asks of rows, wherever they are.

    n_rows is None where it is not known before a sweep; n_numbers are those that a sweep computes, for the number of
    threads.
    """

    @property
    def n_rows(self) -> int | None: ...

    @property
    def n_numbers(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...

    def sample(self, n: int, limit: int) -> RowSample:
        """All distinct rows when there are at most `limit`, else about n of them, in the units of the batches."""


class ArraySource:
    """Rows of an array in memory.

    Args:
        x: feature-major rows (d, n) in the user's units, float64; the source takes the tensor over. NaN is missing.
        frame: the coordinates to hold them in.
        weight: row weights (n,).
        label: class per row (n,), -1 where unknown.
        log_jacobian: (n,), if x is already a transform of the user's own numbers, ln |dx/d own|; None if it is them.
        footprint: what an E-step holds, for the size of batches.
        by_pattern: whether rows with missing values come in blocks that share a pattern, unless it is rare, or as they
            stand with a mask; or the columns whose pattern they share.
        in_one: whether all rows come in one batch.
    """

    def __init__(
        self,
        x: Tensor,
        frame: Frame,
        *,
        weight: Tensor | None = None,
        label: Tensor | None = None,
        log_jacobian: Tensor | None = None,
        footprint: Footprint,
        by_pattern: Patterns = True,
        in_one: bool = False,
    ) -> None:
        self.n_rows: int = x.shape[1]
        self.n_numbers = self.n_rows * footprint.per_row
        self._weight, self._label, self._frame = weight, label, frame
        self._log_jacobian = log_jacobian
        self._rows: Tensor | None = None
        self._log_scale = frame.scale.log()
        width = max(FEWEST_ROWS, min(MOST_ROWS, BATCH_BYTES // (8 * footprint.per_row)))
        self._width = self.n_rows if in_one else width
        self._blocks = max(1, BATCH_BYTES // (8 * max(1, footprint.per_block)))
        x = frame.standardise(x)
        missing = x.isnan()
        is_incomplete = missing.any(0)
        if not is_incomplete.any():
            self.batches = list(self._chunks(x, torch.arange(self.n_rows, device=x.device)))
            return
        complete, incomplete = (~is_incomplete).nonzero().squeeze(1), is_incomplete.nonzero().squeeze(1)
        part, seen = x[:, incomplete].nan_to_num_(nan=0.0), ~missing[:, incomplete]
        if by_pattern:
            columns = list(by_pattern) if isinstance(by_pattern, tuple) else None
            shared = seen if columns is None else seen[columns]
            rare = in_rare_patterns(shared, footprint.fewest_in_block)
            rest: Iterator[Batch] = chain(
                self._patterned(part[:, ~rare], seen[:, ~rare], incomplete[~rare], columns),
                self._chunks(part[:, rare], incomplete[rare], seen[:, rare]),
            )
        elif in_one:
            complete, rest = complete[:0], self._chunks(x.nan_to_num_(nan=0.0), torch.arange(self.n_rows), ~missing)
        else:
            rest = self._chunks(part, incomplete, seen)
        self.batches = [*self._chunks(x[:, complete], complete), *rest]

    @classmethod
    def of_rows(
        cls,
        x: Tensor,
        frame: Frame,
        *,
        weight: Tensor | None = None,
        label: Tensor | None = None,
        log_jacobian: Tensor | None = None,
        footprint: Footprint,
        by_pattern: Patterns = True,
    ) -> ArraySource:
        """Of the user's rows (n, d), which are copied."""
        own = x.T.clone(memory_format=torch.contiguous_format)
        source = cls(
            own,
            frame,
            weight=weight,
            label=label,
            log_jacobian=log_jacobian,
            footprint=footprint,
            by_pattern=by_pattern,
        )
        source._rows = x
        return source

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def sample(self, n: int, limit: int) -> RowSample:
        # A hash of the user's own numbers does not depend on the rounding of the frame.
        assert self._rows is not None, "only a source that was made by `of_rows` has rows to sample"
        sample = sample_of(self._rows, self._weight, self._label, n, limit)
        return replace(sample, x=self._frame.standardise(sample.x))

    def _take(self, values: Tensor | None, rows: Tensor) -> Tensor | None:
        return None if values is None else values[rows]

    def _with_own(self, log_jacobian: Tensor, rows: Tensor) -> Tensor:
        """The log-Jacobian of the frame, and that of the rows before it."""
        return log_jacobian if self._log_jacobian is None else log_jacobian + self._log_jacobian[rows]

    def _chunks(self, x: Tensor, rows: Tensor, observed: Tensor | None = None) -> Iterator[Batch]:
        """Rows as they stand: complete, or with a mask (d, n) of what is observed."""
        log_jacobian = -self._log_scale.sum()[None]
        for start in range(0, len(rows), self._width):
            part, where = slice(start, start + self._width), rows[start : start + self._width]
            weight, label = self._take(self._weight, where), self._take(self._label, where)
            seen = None if observed is None else observed[:, part]
            of_seen = log_jacobian if seen is None else -(self._log_scale @ seen.to(x.dtype))
            yield Batch(x[:, part], where, weight, seen, label, self._with_own(of_seen, where))

    def _patterned(
        self, x: Tensor, observed: Tensor, rows: Tensor, columns: list[int] | None = None
    ) -> Iterator[Batch]:
        """Blocks of rows with one pattern of missing values, in all columns or in these; blocks of similar length are
        stacked and padded.
        """
        if not len(rows):
            return
        shared = observed if columns is None else observed[columns]
        for numbers in stack_by_pattern(shared, self._width, self._blocks):
            padding = numbers < 0
            kept = numbers.clamp(min=0)
            where = rows[kept].masked_fill(padding, self.n_rows)
            weight = torch.ones_like(kept, dtype=x.dtype) if self._weight is None else self._weight[rows[kept]]
            if columns is None:
                seen = observed[:, numbers[:, 0]].T
                log_jacobian = -(seen * self._log_scale).sum(1, keepdim=True)
            else:
                seen = observed[:, kept].permute(1, 0, 2).contiguous()
                log_jacobian = -(seen * self._log_scale[:, None]).sum(1)
            yield Batch(
                x[:, kept].permute(1, 0, 2).contiguous(),
                where,
                weight.masked_fill(padding, 0.0),
                seen,
                self._take(self._label, rows[kept]),
                self._with_own(log_jacobian, rows[kept]),
            )


class SparseSource:
    """Sparse rows in memory, in the user's units and without missing values.

    Args:
        x: rows (n, d), a CSR tensor.
        weight: row weights (n,).
        label: class per row (n,), -1 where unknown.
    """

    def __init__(self, x: Tensor, *, weight: Tensor | None = None, label: Tensor | None = None) -> None:
        self.n_rows: int = x.shape[0]
        self.n_numbers = len(x.values())
        self._rows, self._weight, self._label = x, weight, label
        # Large batches, since each adds sums (K, d) to those of the others, and d is large where rows are sparse.
        self.batches = [self._batch(slice(start, start + MOST_ROWS)) for start in range(0, self.n_rows, MOST_ROWS)]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def sample(self, n: int, limit: int) -> RowSample:
        return sample_of(self._rows, self._weight, self._label, n, limit)

    def _batch(self, part: slice) -> Batch:
        x, rows = some_rows(self._rows, part), torch.arange(self.n_rows)[part]
        weight = None if self._weight is None else self._weight[part]
        label = None if self._label is None else self._label[part]
        return Batch(x.mT, rows, weight, None, label, torch.zeros(1, dtype=x.dtype))


Held = ArraySource | SparseSource


def source_of(
    x: Tensor,
    frame: Frame,
    *,
    weight: Tensor | None = None,
    label: Tensor | None = None,
    log_jacobian: Tensor | None = None,
    footprint: Footprint,
    by_pattern: Patterns = True,
) -> Held:
    """A source of the user's rows (n, d); dense ones are copied, sparse ones are not."""
    if is_sparse(x):
        return SparseSource(x, weight=weight, label=label)
    return ArraySource.of_rows(
        x,
        frame,
        weight=weight,
        label=label,
        log_jacobian=log_jacobian,
        footprint=footprint,
        by_pattern=by_pattern,
    )


class Framed(Protocol):
    """Parameters that know coordinates in which they lose no digits."""

    def frame(self) -> Frame: ...

    def within(self, frame: Frame) -> Self: ...


Theta = TypeVar("Theta", bound=Framed)


def over_rows(
    theta: Theta,
    x: Tensor,
    answer: Callable[[Theta, Batch], Tensor],
    footprint: Footprint,
    by_pattern: Patterns = False,
) -> Tensor:
    """Answers (*blocks, m, n) of parameters about every batch of rows (n, d), in the order of the rows (n, m)."""
    frame = theta.frame()
    local = theta.within(frame)
    parts = []
    # Rows are read once, so they are copied a part at a time.
    n_at_once = max(MOST_ROWS, PART_BYTES // (8 * max(1, x.shape[1])))
    for start in range(0, len(x), n_at_once):
        part = some_rows(x, slice(start, start + n_at_once))
        source = source_of(part, frame, footprint=footprint, by_pattern=by_pattern)
        parts.append(in_row_order(source, partial(answer_about, local, answer, start)))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def answer_about(theta: Theta, answer: Callable[[Theta, Batch], Tensor], first: int, batch: Batch) -> Tensor:
    """The answer about a batch whose rows are counted from `first`."""
    return answer(theta, replace(batch, rows=batch.rows + first) if first else batch)


def in_row_order(source: Held, answer: Callable[[Batch], Tensor]) -> Tensor:
    """Answers (*blocks, m, n) about every batch, in the order of the user's rows (n, m)."""
    out = None
    with threads_for(source.n_numbers):
        for batch in progress(source.batches, "rows"):
            values = answer(batch).movedim(-2, -1)
            if out is None:
                # Padding points one past the last row.
                out = values.new_empty(source.n_rows + 1, values.shape[-1])
            out[batch.rows] = values
    assert out is not None
    return out[:-1]


def pattern_numbers(observed: Tensor) -> np.ndarray:
    """The number of every row's pattern of missing values (N,), of feature-major `observed` (d, N)."""
    packed = np.packbits(observed.cpu().numpy(), axis=0)
    return np.unique(packed.T.copy().view(f"V{len(packed)}").ravel(), return_inverse=True)[1]


def in_rare_patterns(observed: Tensor, fewest: int) -> Tensor:
    """Which rows (N,) have a pattern that fewer than `fewest` rows share."""
    if fewest <= 1:
        return torch.zeros(observed.shape[1], dtype=torch.bool, device=observed.device)
    pattern = pattern_numbers(observed)
    return torch.from_numpy(np.bincount(pattern)[pattern] < fewest).to(observed.device)


def stack_by_pattern(observed: Tensor, most_rows: int, most_blocks: int) -> Iterator[Tensor]:
    """Column numbers (P, n) of feature-major `observed` (d, N): a row of them shares one pattern, -1 is padding."""
    pattern = pattern_numbers(observed)
    order = np.argsort(pattern, kind="stable")
    counts = np.bincount(pattern)
    ends = np.cumsum(counts)
    pieces = [
        (start, min(most_rows, end - start))
        for first, end in zip(ends - counts, ends, strict=True)
        for start in range(first, end, most_rows)
    ]
    starts, lengths = np.array(pieces).T
    doublings = np.ceil(np.log2(lengths)).astype(int)
    for doubling in np.unique(doublings):
        members = np.flatnonzero(doublings == doubling)
        width = int(lengths[members].max())
        per_stack = max(1, min(most_blocks, most_rows // width))
        for first in range(0, len(members), per_stack):
            chosen = members[first : first + per_stack]
            offset = np.arange(width)
            inside = offset < lengths[chosen, None]
            columns = order[np.minimum(starts[chosen, None] + offset, len(order) - 1)]
            yield torch.from_numpy(np.where(inside, columns, -1)).to(observed.device)
