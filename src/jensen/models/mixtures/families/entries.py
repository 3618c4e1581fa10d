"""Entries of a batch, as families of independent columns read them.

    ln p_k(x) = Σ_{j observed} ln p_kj(x_j),   N_kj = Σ_i r_ik over the rows that have j
A missing entry is a factor 1. A row with an entry outside the support has the log-density -∞.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from jensen.data.sparse import times
from jensen.engines.em.batch import Additive, Batch
from jensen.formulas.moments import CHUNK
from jensen.models.mixtures.components import C, Components, M, SmoothFamily, V

# Stands for ln 0 in matrix products, where -∞ · 0 would be NaN; every sum that holds it is below IMPOSSIBLE.
LOG_ZERO, IMPOSSIBLE = -1e300, -1e290
# Share of an even distribution in a start: what is impossible there would remain impossible.
EVEN = 1e-3
# Exponents that float64 still holds, and the largest logit whose probability is below 1.
LARGEST_LOG, LARGEST_LOGIT = 700.0, 36.0

# A hyper-parameter: one number for all, or one for every column (or level).
Hyper = float | Tensor


def seen(batch: Batch) -> Tensor | None:
    """1 where an entry is observed, 0 where missing (*blocks, d, n), or (P, d, 1) for whole blocks; None if all are."""
    if batch.observed is None:
        return None
    observed = batch.observed.to(batch.x.dtype)
    return observed[..., None] if observed.ndim < batch.x.ndim else observed


@dataclass(frozen=True)
class Entries:
    """A batch without its rows' numbers and weights. It depends on the batch alone, so it can be kept between sweeps.

    Args:
        x: values (*blocks, d, n), 0 where missing.
        seen: as above.
        outside: which rows (*blocks, n) have an entry outside the support; None when no row has.
    """

    x: Tensor
    seen: Tensor | None
    outside: Tensor | None

    @classmethod
    def of(cls, batch: Batch, inside: Tensor) -> Entries:
        """`inside` (*blocks, d, n) says which entries are in the support; it may be of length 1 where all are."""
        observed, outside = seen(batch), None
        if not bool(inside.all()):
            wrong = ~inside if observed is None else ~inside & (observed > 0)
            outside = wrong.any(-2)
        return cls(batch.x, observed, outside)

    def total_of(self, per_column: Tensor) -> Tensor:
        """Σ_{j observed} v_kj (*blocks, K, 1 or n) of values (K, d)."""
        return per_column.sum(1, keepdim=True) if self.seen is None else per_column @ self.seen

    def count(self, responsibilities: Tensor) -> Tensor:
        """N_kj (K, d)."""
        r = responsibilities
        if self.seen is None:
            return over_blocks(r.sum(-1)[..., None].expand(*r.shape[:-1], self.x.shape[-2]))
        if self.seen.shape[-1] == r.shape[-1]:
            return over_blocks(r @ self.seen.mT)
        return over_blocks(r.sum(-1, keepdim=True) * self.seen.mT)

    def excluded(self, log_density: Tensor) -> Tensor:
        """Log-densities (*blocks, K, n), in place, with -∞ for rows outside the support."""
        if self.outside is None:
            return log_density
        return log_density.masked_fill_(self.outside[..., None, :], -torch.inf)


def over_blocks(values: Tensor) -> Tensor:
    """Statistics (K, ...) of all blocks (P, K, ...)."""
    return values.sum(0) if values.ndim == 3 else values


def mass_of(responsibilities: Tensor) -> Tensor:
    """N_k (K,)."""
    return responsibilities.movedim(-2, 0).flatten(1).sum(1)


def product(responsibilities: Tensor, features: Tensor) -> Tensor:
    """Σ_i r_ik f_i (K, F) of features (*blocks, F, n)."""
    return over_blocks(times(responsibilities, features.mT))


def log_or_least(p: Tensor) -> Tensor:
    """ln p for matrix products."""
    return torch.where(p > 0, p, 1.0).log().masked_fill(p == 0, LOG_ZERO)


def without_impossible(log_density: Tensor) -> Tensor:
    """-∞, in place, where a product held ln 0."""
    return log_density.masked_fill_(log_density < IMPOSSIBLE, -torch.inf)


def xlogy(x: Hyper, y: Tensor) -> Tensor:
    """x ln y, and 0 where x = 0."""
    value: Tensor = torch.special.xlogy(x, y)
    return value


def is_count(x: Tensor) -> Tensor:
    return (x >= 0) & (x == x.floor()) & (x < torch.inf)


@dataclass(frozen=True)
class Sums(Additive):
    """Σ_i r_ik (K,); the same over the rows that have feature j, and Σ_i r_ik x_ij over them (K, d)."""

    mass: Tensor
    count: Tensor
    total: Tensor

    @classmethod
    def of(cls, responsibilities: Tensor, entries: Entries) -> Sums:
        r = responsibilities
        return cls(mass_of(r), entries.count(r), product(r, entries.x))


@dataclass(frozen=True)
class ColumnComponents(Components[V, M]):
    """Components of independent columns; fields that are not tensors are known before the fit.

    Views depend on the batch and on these fields alone, so that a fit holds them between sweeps.
    """

    def hold(self, batch: Batch) -> Any:
        return self.view(batch)

    def view_held(self, held: Any) -> V:
        view: V = held
        return view

    def pick(self, numbers: Tensor) -> Self:
        return replace(self, **{name: part[numbers] for name, part in self.tensors().items()})

    def select(self, columns: Tensor) -> Self:
        """The same components of some columns."""
        return replace(self, **{name: part[:, columns] for name, part in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        parts = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: part for name, part in parts if isinstance(part, Tensor)}


class ColumnFamily(SmoothFamily[C]):
    """A family of independent columns; it says which values they can hold."""

    # Completes the sentence "column 'a' holds -1, but ...".
    needs: ClassVar[str]

    @abstractmethod
    def inside(self, x: Tensor) -> Tensor:
        """Which values (n, d) are in the support."""

    def check(self, x: Tensor, names: Sequence[str]) -> None:
        """An error names the first value of rows (n, d), NaN where missing, that is outside the support."""
        for part in x.split(CHUNK):
            wrong = ~(self.inside(part) | part.isnan())
            if bool(wrong.any()):
                row, column = (int(number) for number in wrong.nonzero()[0])
                raise ValueError(f"X: column {names[column]!r} holds {float(part[row, column]):g}, but {self.needs}")


def check_concentration(name: str, value: Hyper) -> None:
    """A Beta, Dirichlet or gamma prior has a finite mode if its parameters are at least 1."""
    if bool((torch.as_tensor(value) < 1).any()):
        raise ValueError(f"{name}={value} has no mode; give 1 or more")
