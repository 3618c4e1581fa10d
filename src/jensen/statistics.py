"""Additive records: what an E-step leaves behind.

Sufficient statistics are sums over rows, so statistics of chunks, files or machines add up to those of the whole,
and a stepwise average is a weighted sum. Every record here is closed under `+` and scalar `*`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

__all__ = ["Additive", "Summary"]


@dataclass(frozen=True)
class Additive:
    """A frozen record whose fields add; subclass it as a frozen dataclass of tensors, numbers or such records."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, factor: float) -> Self:
        return type(self)(*(getattr(self, f.name) * factor for f in fields(self)))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Summary(Additive):
    """One sweep: the statistics, Σ_i w_i ELBO_i in nats, and the weight Σ_i w_i they rest on."""

    stats: Any
    bound: Any
    weight: Any
