"""Yes/no columns.

    p_k(x) = Π_j θ_kj^x_j (1-θ_kj)^(1-x_j),   x_j = 0 or 1
    M:  θ_kj = (S_kj + a - 1) / (N_kj + a + b - 2),  S_kj = Σ_i r_ik x_ij
under a Beta(a, b) prior; a = b = 1 is maximum likelihood.
Bishop (2006) 9.3.3. A probability of exactly 0 or 1 is a legitimate maximum: other values then have probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Footprint
from jensen.models.mixtures.families.entries import (
    EVEN,
    LARGEST_LOG,
    LARGEST_LOGIT,
    ColumnComponents,
    ColumnFamily,
    Hyper,
    Sums,
    check_concentration,
    xlogy,
)
from jensen.models.mixtures.families.lookup import Codes, Table, footprint_of, in_line, layout_of, numbers_of

# The least share of zeros that sums over many batches keep.
LEAST_SHARE = 1e-13


@dataclass(frozen=True)
class Bernoullis(ColumnComponents[Codes, Sums]):
    """Probabilities θ of 1 (K, d)."""

    probabilities: Tensor

    @property
    def expectation(self) -> Tensor:
        return self.probabilities

    @property
    def n_parameters(self) -> int:
        return self.probabilities.numel()

    @property
    def footprint(self) -> Footprint:
        return footprint_of((2,) * self.n_features, self.n_components)

    def view(self, batch: Batch) -> Codes:
        x, sizes = in_line(batch.x), (2,) * self.n_features
        return Codes.of(batch, *numbers_of(x, sizes), sizes)

    def log_density(self, view: Codes) -> Tensor:
        return view.lookup(self.table)

    @cached_property
    def table(self) -> Table:
        p = self.probabilities
        return Table(torch.stack([(-p).log1p(), p.log()], -1).flatten(1), layout_of((2,) * p.shape[1]))

    def moments(self, responsibilities: Tensor, view: Codes) -> Sums:
        tally, mass = view.tally(responsibilities)
        zeros, total = tally.unflatten(1, (-1, 2)).unbind(-1)
        # 1 - p must not be rounded to 0 where zeros were seen, however little they weigh: they would be impossible.
        zeros = torch.where(zeros > 0, torch.maximum(zeros, LEAST_SHARE * total), zeros)
        return Sums(mass, zeros + total, total)

    def expected_moments(self, weights: Tensor) -> Sums:
        count = weights[:, None].expand_as(self.probabilities)
        return Sums(weights, count, count * self.probabilities)

    def m_step(self, moments: Sums) -> Self:
        # Rounding can carry a share of all rows beyond 1.
        found = (moments.total / moments.count).clamp(0, 1)
        return type(self)(torch.where(moments.count > 0, found, self.probabilities))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(self.probabilities[component.to(self.probabilities.device)].cpu(), generator=generator)


def is_binary(x: Tensor) -> Tensor:
    return (x == 0) | (x == 1)


@dataclass(frozen=True)
class BernoulliFamily(ColumnFamily[Bernoullis]):
    """
    Args:
        a, b: of a Beta(a, b) prior on every probability, at least 1; 1, 1 is maximum likelihood.
    """

    a: Hyper = 1.0
    b: Hyper = 1.0
    needs = "a Bernoulli column has only 0 and 1; code it as 0 and 1, or give the column another family"

    def __post_init__(self) -> None:
        check_concentration("a", self.a)
        check_concentration("b", self.b)

    @property
    def share_of_levels(self) -> float:
        return 1.0

    def inside(self, x: Tensor) -> Tensor:
        return is_binary(x)

    def standard(self, k: int, d: int) -> Bernoullis:
        return Bernoullis(torch.full((k, d), 0.5, dtype=torch.float64))

    def m_step(self, components: Bernoullis, moments: Sums) -> Bernoullis:
        count, total = moments.count + (self.a + self.b - 2), moments.total + (self.a - 1)
        return components.m_step(replace(moments, count=count, total=total))

    def first(self, components: Bernoullis, moments: Sums, pseudo: float) -> Bernoullis:
        found = super().first(components, moments, pseudo).probabilities
        return Bernoullis((1 - EVEN) * found + EVEN / 2)

    def log_prior(self, components: Bernoullis) -> Tensor:
        p = components.probabilities
        a, b = torch.as_tensor(self.a, dtype=p.dtype), torch.as_tensor(self.b, dtype=p.dtype)
        normaliser = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b)
        return (normaliser + xlogy(a - 1, p) + xlogy(b - 1, 1 - p)).sum()

    def pack(self, components: Bernoullis) -> Tensor:
        return components.probabilities.logit().clamp(-LARGEST_LOG, LARGEST_LOGIT).flatten()

    def unpack(self, vector: Tensor, k: int, d: int) -> Bernoullis:
        return Bernoullis(vector.clamp(-LARGEST_LOG, LARGEST_LOGIT).reshape(k, d).sigmoid())

    def expected_log_density(self, components: Bernoullis, moments: Sums) -> Tensor:
        p, zeros = components.probabilities, (moments.count - moments.total).clamp(min=0)
        return (xlogy(moments.total, p) + xlogy(zeros, 1 - p)).sum()
