"""The shuffle buffer: rows that come in the order of their files leave as batches of rows from all over the buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from jensen.engines.sgd.feeds import Minibatch, rows


def joined(parts: Sequence[Minibatch]) -> Minibatch:
    """All rows of some batches; the same inputs are None in all of them."""
    if len(parts) == 1:
        return parts[0]
    inputs = tuple(
        None if own[0] is None else torch.cat([tensor for tensor in own if tensor is not None])
        for own in zip(*(part.inputs for part in parts), strict=True)
    )
    weights = [part.weight for part in parts if part.weight is not None]
    return Minibatch(inputs, torch.cat(weights) if weights else None)


def taken(batch: Minibatch, index: Tensor) -> Minibatch:
    return Minibatch(tuple(rows(tensor, index) for tensor in batch.inputs), rows(batch.weight, index))


def shuffled(blocks: Iterator[Minibatch], n_rows: int, generator: torch.Generator) -> Iterator[Minibatch]:
    """The same rows in a random order within a buffer of about so many rows; half of it leaves at a time."""
    buffer: list[Minibatch] = []
    n = 0
    for block in blocks:
        buffer.append(block)
        n += len(block)
        if n >= n_rows:
            every, order, half = joined(buffer), torch.randperm(n, generator=generator), n // 2
            buffer, n = [taken(every, order[half:])], n - half
            yield taken(every, order[:half])
    if n:
        yield taken(joined(buffer), torch.randperm(n, generator=generator))


def batched(runs: Iterator[Minibatch], size: int) -> Iterator[Minibatch]:
    """The rows in batches of this size; what is left at the end is dropped."""
    left: list[Minibatch] = []
    n = 0
    for run_of_rows in runs:
        left.append(run_of_rows)
        n += len(run_of_rows)
        if n < size:
            continue
        every = joined(left)
        for start in range(0, n - size + 1, size):
            yield every.rows(slice(start, start + size))
        left, n = [every.rows(slice(n - n % size, n))] if n % size else [], n % size
