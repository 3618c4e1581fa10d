"""A batch: the rows that one E-step reads.

Rows lie feature-major, so that densities are matrix products and reductions run over the first axis. Rows with missing
values come in blocks that share their pattern of missing values; every tensor then has a leading axis of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows in the engine's own units.

    Args:
        x: values (*blocks, d, n); missing entries are 0.
        rows: where each column of x stands in the user's table (*blocks, n); padding points one past the end.
        weight: (*blocks, n), or None when every row counts once; padding weighs 0.
        observed: which features a block has (P, d), when its rows share a pattern of missing values; or which entries
            (*blocks, d, n), when they share it in some columns only or in none; None when all.
        label: the class of a row (*blocks, n), -1 where unknown, or None when no row has one.
        log_jacobian: ln |dx̃/dx| over the observed features (*blocks, 1 or n); a log-density plus it is in
            the user's units.
        held: what a model holds of the rows instead of x and observed, which are then empty; None where it holds them.
        log_noise: the log-density of noise (*blocks, n) in the user's units, where a model has such a component.
    """

    x: Tensor
    rows: Tensor
    weight: Tensor | None
    observed: Tensor | None
    label: Tensor | None
    log_jacobian: Tensor
    held: Any = None
    log_noise: Tensor | None = None


@dataclass(frozen=True)
class Footprint:
    """What an E-step holds, which decides how rows are batched.

    Args:
        per_row: numbers per row.
        per_block: numbers per block of rows with the same pattern of missing values.
        fewest_in_block: patterns of fewer rows come without blocks, every row with a mask of its own.
    """

    per_row: int
    per_block: int = 1
    fewest_in_block: int = 1


class Addable(Protocol):
    """What statistics must offer: sums over batches, and multiples for stepwise EM."""

    def __add__(self, other: Self, /) -> Self: ...

    def __mul__(self, factor: float, /) -> Self: ...


@dataclass(frozen=True)
class Additive:
    """A frozen record whose fields add; subclass it as a frozen dataclass of tensors, numbers or such records."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, factor: float) -> Self:
        return type(self)(*(getattr(self, f.name) * factor for f in fields(self)))

    __rmul__ = __mul__


Stats = TypeVar("Stats", bound=Addable)


@dataclass(frozen=True)
class Summary(Additive, Generic[Stats]):
    """One sweep: the statistics, Σ_i w_i ELBO_i in nats, and the weight Σ_i w_i of its rows."""

    stats: Stats
    bound: Tensor
    weight: Tensor


class Swept(Protocol):
    """What an engine asks of rows, wherever they are.

    n_rows is None where it is not known before a sweep; n_numbers are those that a sweep computes, for the number of
    threads; a fingerprint is a checksum of the rows.
    """

    @property
    def n_rows(self) -> int | None: ...

    @property
    def n_numbers(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...

    def fingerprint(self) -> str: ...
