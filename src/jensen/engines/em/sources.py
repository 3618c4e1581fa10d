"""Sources: re-iterable batches of standardised rows.

An engine sweeps a source again and again. A source holds rows in units of its frame, x̃ = (x - origin) / scale, because
raw moments lose digits far from the origin, and sorts rows with holes into blocks that share a pattern of holes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Footprint
from jensen.runtime.progress import progress
from jensen.runtime.threads import threads_for

__all__ = ["ArraySource", "Frame", "in_row_order", "one_unit", "over_rows", "too_large"]

# A batch's features and responsibilities should fit the cache; fewer rows than the lower limit starve the products.
BATCH_BYTES, FEWEST_ROWS, MOST_ROWS = 2**23, 1024, 2**14


@dataclass(frozen=True)
class Frame:
    """The engine's coordinates: x̃ = (x - origin) / scale, feature by feature."""

    origin: Tensor  # (d,)
    scale: Tensor  # (d,)

    @classmethod
    def of(cls, x: Tensor, weight: Tensor | None, units: Callable[[Tensor], Tensor]) -> Frame:
        """Weighted mean and deviation of the observed entries of feature-major rows (d, n)."""
        d, n = x.shape
        chunks = [slice(start, start + MOST_ROWS) for start in range(0, n, MOST_ROWS)]  # no temporary as large as x

        def weighted_sums(origin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            mass, first, second = x.new_zeros(3, d)
            for chunk in chunks:
                deviation = x[:, chunk] - origin[:, None]
                w = deviation.isnan().logical_not_().to(x.dtype)
                w = w if weight is None else w.mul_(weight[chunk])
                weighted = deviation.nan_to_num_(nan=0.0) * w
                mass += w.sum(1)
                first += weighted.sum(1)
                second += (weighted * deviation).sum(1)
            return mass, first, second

        mass, first, _ = weighted_sums(x.new_zeros(d))
        origin = first / mass
        # About the mean, squares keep their digits, and what rounding left in the mean comes out.
        _, first, second = weighted_sums(origin)
        origin, variance = origin + first / mass, second / mass - (first / mass).square()
        if not variance.isfinite().all():
            raise too_large(x)
        return cls.of_moments(origin, variance, units)

    @classmethod
    def of_moments(cls, origin: Tensor, variance: Tensor, units: Callable[[Tensor], Tensor]) -> Frame:
        """The same from means and variances (d,)."""
        # A constant column has no spread of its own: it gets the average one, and the floor on variances binds there.
        constant = variance <= (16 * torch.finfo(variance.dtype).eps * origin).square()
        usual = variance[~constant].mean() if not constant.all() else torch.ones_like(variance[0])
        return cls(origin, units(torch.where(constant, usual, variance)))

    def standardise(self, x: Tensor) -> Tensor:
        """Feature-major rows (d, n), in place."""
        return x.sub_(self.origin[:, None]).div_(self.scale[:, None])


def too_large(x: Tensor) -> ValueError:
    return ValueError(f"X reaches {float(x.nan_to_num(nan=0.0).abs().max())}, too large to square; rescale it")


class ArraySource:
    """Rows of an array in memory.

    Args:
        x: feature-major rows (d, n) in the user's units, float64; the source takes the tensor over. NaN is missing.
        frame: the coordinates to hold them in.
        weight: row weights (n,).
        label: class per row (n,), -1 where unknown.
        footprint: what an E-step holds, for the size of batches.
        by_pattern: whether rows with holes come in blocks that share a pattern, or as they stand with a mask.
        in_one: whether all rows come in one batch.
    """

    def __init__(
        self,
        x: Tensor,
        frame: Frame,
        *,
        weight: Tensor | None = None,
        label: Tensor | None = None,
        footprint: Footprint,
        by_pattern: bool = True,
        in_one: bool = False,
    ) -> None:
        self.n_rows = x.shape[1]
        self.n_numbers = self.n_rows * footprint.per_row
        self._weight, self._label = weight, label
        self._log_scale = frame.scale.log()
        width = max(FEWEST_ROWS, min(MOST_ROWS, BATCH_BYTES // (8 * footprint.per_row)))
        self._width = self.n_rows if in_one else width
        self._blocks = max(1, BATCH_BYTES // (8 * footprint.per_block))
        x = frame.standardise(x)
        missing = x.isnan()
        holes = missing.any(0)
        if not holes.any():
            self.batches = list(self._chunks(x, torch.arange(self.n_rows, device=x.device)))
            return
        complete, incomplete = (~holes).nonzero().squeeze(1), holes.nonzero().squeeze(1)
        part, seen = x[:, incomplete].nan_to_num_(nan=0.0), ~missing[:, incomplete]
        if by_pattern:
            rest = self._patterned(part, seen, incomplete)
        elif in_one:
            complete, rest = complete[:0], self._chunks(x.nan_to_num_(nan=0.0), torch.arange(self.n_rows), ~missing)
        else:
            rest = self._chunks(part, incomplete, seen)
        self.batches = [*self._chunks(x[:, complete], complete), *rest]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def _take(self, values: Tensor | None, rows: Tensor) -> Tensor | None:
        return None if values is None else values[rows]

    def _chunks(self, x: Tensor, rows: Tensor, observed: Tensor | None = None) -> Iterator[Batch]:
        """Rows as they stand: complete, or with a mask (d, n) of what is observed."""
        log_jacobian = -self._log_scale.sum()[None]
        for start in range(0, len(rows), self._width):
            part, where = slice(start, start + self._width), rows[start : start + self._width]
            weight, label = self._take(self._weight, where), self._take(self._label, where)
            seen = None if observed is None else observed[:, part]
            of_seen = log_jacobian if seen is None else -(self._log_scale @ seen.to(x.dtype))
            yield Batch(x[:, part], where, weight, seen, label, of_seen)

    def _patterned(self, x: Tensor, observed: Tensor, rows: Tensor) -> Iterator[Batch]:
        """Rows with holes, in blocks of one pattern; blocks of about equal length are stacked, padded with weight 0."""
        for columns in stack_by_pattern(observed, self._width, self._blocks):
            padding = columns < 0
            kept = columns.clamp(min=0)
            where = rows[kept].masked_fill(padding, self.n_rows)
            weight = torch.ones_like(kept, dtype=x.dtype) if self._weight is None else self._weight[rows[kept]]
            seen = observed[:, columns[:, 0]].T
            yield Batch(
                x[:, kept].permute(1, 0, 2).contiguous(),
                where,
                weight.masked_fill(padding, 0.0),
                seen,
                self._take(self._label, rows[kept]),
                -(seen * self._log_scale).sum(1, keepdim=True),
            )


class Framed(Protocol):
    """Parameters that can be written in other coordinates."""

    def frame(self) -> Frame: ...

    def within(self, frame: Frame) -> Self: ...


Theta = TypeVar("Theta", bound=Framed)


def over_rows(
    theta: Theta, x: Tensor, answer: Callable[[Theta, Batch], Tensor], footprint: Footprint, by_pattern: bool = False
) -> Tensor:
    """Answers (*blocks, m, n) about batches of rows (n, d) in theta's own frame, in the order of the rows (n, m)."""
    frame = theta.frame()
    local = theta.within(frame)
    own = x.T.clone(memory_format=torch.contiguous_format)
    source = ArraySource(own, frame, footprint=footprint, by_pattern=by_pattern)
    return in_row_order(source, lambda batch: answer(local, batch))


def in_row_order(source: ArraySource, answer: Callable[[Batch], Tensor]) -> Tensor:
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


def stack_by_pattern(observed: Tensor, most_rows: int, most_blocks: int) -> Iterator[Tensor]:
    """Column numbers (P, n) of feature-major `observed` (d, N): a row of them shares one pattern, -1 is padding."""
    packed = np.packbits(observed.cpu().numpy(), axis=0)
    _, pattern = np.unique(packed.T.copy().view(f"V{len(packed)}").ravel(), return_inverse=True)
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


def one_unit(variance: Tensor) -> Tensor:
    """One deviation for all features (d,): what is round, or measured by distances, must stay so."""
    return variance.mean().sqrt().expand_as(variance).clone()
