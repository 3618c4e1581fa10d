"""Sources: batches of rows in the engine's coordinates, which an engine sweeps again and again.

A source never needs all rows at once: rows with missing values are sorted into blocks that share a pattern chunk by
chunk, and a start looks at a sample. `ArraySource` and `SparseSource` hold their batches in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, some_rows
from jensen.engines.em.batch import Batch, Footprint, Swept
from jensen.engines.em.checkpoint import fingerprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.patterns import in_rare_patterns, stack_by_pattern
from jensen.engines.em.sampling import RowSample, sample_of
from jensen.runtime.progress import progress
from jensen.runtime.threads import in_threads, threads_for

# A batch should fit the cache; fewer rows than the lower limit starve the products.
BATCH_BYTES, FEWEST_ROWS, MOST_ROWS = 2**23, 1024, 2**14
# Rows that are read once are copied in parts of this size: large enough for patterns of missing values to be shared.
PART_BYTES, ROWS_TO_TURN = 2**26, 512
# All columns, none, or the numbers of some.
Patterns = bool | tuple[int, ...]
Hold = Callable[[Batch], Any]


class Source(Swept, Protocol):
    """What a start asks of them."""

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
        log_noise: the log-density of noise (n,) in the user's own numbers, where a model has such a component.
        footprint: what an E-step holds, for the size of batches.
        by_pattern: whether rows with missing values come in blocks that share a pattern, unless it is rare, or as they
            stand with a mask; or the columns whose pattern they share.
        in_one: whether all rows come in one batch.
        hold: what a model makes of a batch, to be held instead of its rows; the batch itself where it is the same.
    """

    def __init__(
        self,
        x: Tensor,
        frame: Frame,
        *,
        weight: Tensor | None = None,
        label: Tensor | None = None,
        log_jacobian: Tensor | None = None,
        log_noise: Tensor | None = None,
        footprint: Footprint,
        by_pattern: Patterns = True,
        in_one: bool = False,
        hold: Hold | None = None,
        _rows: Tensor | None = None,
    ) -> None:
        self.n_rows: int = x.shape[1]
        self.n_numbers = self.n_rows * footprint.per_row
        self._weight, self._label, self._frame, self._rows = weight, label, frame, _rows
        self._log_jacobian, self._log_noise = log_jacobian, log_noise
        self._log_scale = frame.scale.log()
        width = max(FEWEST_ROWS, min(MOST_ROWS, BATCH_BYTES // (8 * footprint.per_row)))
        self._width = self.n_rows if in_one else width
        self._blocks = max(1, BATCH_BYTES // (8 * max(1, footprint.per_block)))
        self._is_standard = bool((frame.origin == 0).all() and (frame.scale == 1).all())
        self.batches = list(
            in_threads(partial(made, hold), self._makers(x, by_pattern, in_one, footprint.fewest_in_block))
        )

    def _makers(self, x: Tensor, by_pattern: Patterns, in_one: bool, fewest: int) -> Iterator[Callable[[], Batch]]:
        """What makes the batches of x."""
        # A sum shows in one pass, without a mask, that no entry is missing.
        missing = None if bool(x.sum().isfinite()) else x.isnan()
        self.is_complete = missing is None or not bool(missing.any())
        if missing is None or self.is_complete or (in_one and not by_pattern):
            yield from self._chunks(x, torch.arange(self.n_rows), with_mask=not self.is_complete)
            return
        is_incomplete = missing.any(0)
        complete, incomplete = (~is_incomplete).nonzero().squeeze(1), is_incomplete.nonzero().squeeze(1)
        columns = list(by_pattern) if isinstance(by_pattern, tuple) else slice(None)
        shared = ~missing[columns][:, incomplete] if by_pattern else None
        # Masks of all rows would be in memory beside the batches.
        del missing, is_incomplete
        yield from self._chunks(x, complete)
        if shared is not None:
            rare = in_rare_patterns(shared, fewest)
            yield from self._patterned(x, incomplete[~rare], shared[:, ~rare], by_pattern is True)
            yield from self._chunks(x, incomplete[rare], with_mask=True)
        else:
            yield from self._chunks(x, incomplete, with_mask=True)

    @classmethod
    def of_rows(
        cls,
        x: Tensor,
        frame: Frame,
        *,
        weight: Tensor | None = None,
        label: Tensor | None = None,
        log_jacobian: Tensor | None = None,
        log_noise: Tensor | None = None,
        footprint: Footprint,
        by_pattern: Patterns = True,
        hold: Hold | None = None,
    ) -> ArraySource:
        """Of the user's rows (n, d), which are copied."""
        return cls(
            x.T,
            frame,
            weight=weight,
            label=label,
            log_jacobian=log_jacobian,
            log_noise=log_noise,
            footprint=footprint,
            by_pattern=by_pattern,
            hold=hold,
            _rows=x,
        )

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def fingerprint(self) -> str:
        rows = [self._rows, *(batch.x for batch in self.batches if self._rows is None)]
        return fingerprint(*rows, self._weight, self._label, self._log_scale)

    def sample(self, n: int, limit: int) -> RowSample:
        assert self._rows is not None, "only a source that was made by `of_rows` has rows to sample"
        sample = sample_of(self._rows, self._weight, self._label, n, limit)
        return replace(sample, x=self._frame.standardise(sample.x))

    def _block(self, x: Tensor, rows: Tensor) -> Tensor:
        """Some rows in the frame's units (d, n), a copy unless the source owns x and they are a run of it."""
        start, stop = int(rows[0]), int(rows[-1]) + 1
        is_run = stop - start == len(rows)
        own = x[:, start:stop] if is_run else x[:, rows]
        if self._rows is not None:
            own = feature_major(self._rows[start:stop] if is_run else self._rows[rows])
        return own if self._is_standard else self._frame.standardise(own)

    def _take(self, values: Tensor | None, rows: Tensor) -> Tensor | None:
        return None if values is None else values[rows]

    def _with_own(self, log_jacobian: Tensor, rows: Tensor) -> Tensor:
        """The log-Jacobian of the frame, and that of the rows before it."""
        return log_jacobian if self._log_jacobian is None else log_jacobian + self._log_jacobian[rows]

    def _chunks(self, x: Tensor, rows: Tensor, with_mask: bool = False) -> Iterator[Callable[[], Batch]]:
        """Rows as they stand, in ascending order: complete, or with a mask (d, n) of what is observed."""
        for start in range(0, len(rows), self._width):
            yield partial(self._chunk, x, rows[start : start + self._width], with_mask)

    def _chunk(self, x: Tensor, rows: Tensor, with_mask: bool) -> Batch:
        block, seen, log_jacobian = self._block(x, rows), None, -self._log_scale.sum()[None]
        if with_mask:
            seen = ~block.isnan()
            block, log_jacobian = block.nan_to_num_(nan=0.0), -(self._log_scale @ seen.to(x.dtype))
        weight, label = self._take(self._weight, rows), self._take(self._label, rows)
        log_noise = self._take(self._log_noise, rows)
        return Batch(block, rows, weight, seen, label, self._with_own(log_jacobian, rows), log_noise=log_noise)

    def _patterned(self, x: Tensor, rows: Tensor, shared: Tensor, is_whole: bool) -> Iterator[Callable[[], Batch]]:
        """Blocks of rows with one pattern of missing values (d, n), of all columns if it is whole; blocks of similar
        length are stacked and padded.
        """
        if not len(rows):
            return
        for numbers in stack_by_pattern(shared, self._width, self._blocks):
            yield partial(self._stack, x, rows, numbers, is_whole)

    def _stack(self, x: Tensor, rows: Tensor, numbers: Tensor, is_whole: bool) -> Batch:
        padding, kept = numbers < 0, rows[numbers.clamp(min=0)]
        own = feature_major(x.T[kept.flatten()])
        block = self._frame.standardise(own).unflatten(1, kept.shape).permute(1, 0, 2).contiguous()
        seen = ~block.isnan()
        if is_whole:
            seen = seen[..., 0].contiguous()
            log_jacobian = -(seen * self._log_scale).sum(1, keepdim=True)
        else:
            log_jacobian = -(seen * self._log_scale[:, None]).sum(1)
        weight = torch.ones_like(kept, dtype=x.dtype) if self._weight is None else self._weight[kept]
        return Batch(
            block.nan_to_num_(nan=0.0),
            kept.masked_fill(padding, self.n_rows),
            weight.masked_fill(padding, 0.0),
            seen,
            self._take(self._label, kept),
            self._with_own(log_jacobian, kept),
            log_noise=self._take(self._log_noise, kept),
        )


def feature_major(rows: Tensor) -> Tensor:
    """A copy of rows (n, d) as (d, n), in parts that stay in the cache."""
    copy = rows.new_empty(rows.shape[1], len(rows))
    for start in range(0, len(rows), ROWS_TO_TURN):
        copy[:, start : start + ROWS_TO_TURN] = rows[start : start + ROWS_TO_TURN].T
    return copy


def made(hold: Hold | None, make: Callable[[], Batch]) -> Batch:
    """A batch with what is held of it, and without its rows if that is something else."""
    batch = make()
    own = batch if hold is None else hold(batch)
    return batch if own is batch else replace(batch, x=batch.x[..., :0].clone(), observed=None, held=own)


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
        self.is_complete = True
        self._rows, self._weight, self._label = x, weight, label
        # Large batches, since each adds sums (K, d) to those of the others, and d is large where rows are sparse.
        self.batches = [self._batch(slice(start, start + MOST_ROWS)) for start in range(0, self.n_rows, MOST_ROWS)]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def fingerprint(self) -> str:
        return fingerprint(self._rows, self._weight, self._label)

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
    log_noise: Tensor | None = None,
    footprint: Footprint,
    by_pattern: Patterns = True,
    hold: Hold | None = None,
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
        log_noise=log_noise,
        footprint=footprint,
        by_pattern=by_pattern,
        hold=hold,
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
