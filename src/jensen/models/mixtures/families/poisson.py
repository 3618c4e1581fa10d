"""Counts whose variance is their mean.

    p_k(x) = Π_j λ_kj^x_j e^-λ_kj / x_j!,   x_j = 0, 1, 2, ...
    M:  λ_kj = (S_kj + a - 1) / (N_kj + b),  S_kj = Σ_i r_ik x_ij
under a Gamma(a, rate b) prior; a = 1, b = 0 is maximum likelihood.
Hasselblad (1969). -ln x! stays in the score, which is a log-probability.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.models.mixtures.families.entries import (
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Entries,
    Hyper,
    Sums,
    check_concentration,
    is_count,
    log_or_least,
    without_impossible,
    xlogy,
)

# A start has no smaller rate: with a rate of 0 a component would never gain a row with a count above 0.
LEAST_AT_START = 1e-3


@dataclass(frozen=True)
class View:
    """Entries, and Σ_j ln x_j! of every row (*blocks, 1, n)."""

    entries: Entries
    log_factorials: Tensor


@dataclass(frozen=True)
class Poissons(ColumnComponents[View, Sums]):
    """Rates λ (K, d)."""

    rates: Tensor

    @property
    def expectation(self) -> Tensor:
        return self.rates

    @property
    def n_parameters(self) -> int:
        return self.rates.numel()

    def view(self, batch: Batch) -> View:
        # A missing entry is 0, and 0! = 1.
        return View(Entries.of(batch, is_count(batch.x)), torch.lgamma(batch.x + 1).sum(-2, keepdim=True))

    def log_density(self, view: View) -> Tensor:
        entries = view.entries
        log_density = (
            (log_or_least(self.rates) @ entries.x).sub_(entries.total_of(self.rates)).sub_(view.log_factorials)
        )
        if bool((self.rates == 0).any()):
            log_density = without_impossible(log_density)
        return entries.excluded(log_density)

    def moments(self, responsibilities: Tensor, view: View) -> Sums:
        return Sums.of(responsibilities, view.entries)

    def expected_moments(self, weights: Tensor) -> Sums:
        count = weights[:, None].expand_as(self.rates)
        return Sums(weights, count, count * self.rates)

    def m_step(self, moments: Sums) -> Self:
        return type(self)(torch.where(moments.count > 0, moments.total / moments.count, self.rates))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(self.rates[component.to(self.rates.device)].cpu(), generator=generator)


@dataclass(frozen=True)
class PoissonFamily(ColumnFamily[Poissons]):
    """
    Args:
        a, b: of a Gamma(a, rate b) prior on every rate, a ≥ 1 and b > 0; 1, 0 is maximum likelihood.
    """

    a: Hyper = 1.0
    b: Hyper = 0.0
    needs = "a Poisson column has only counts 0, 1, 2, ...; correct the value, or give the column another family"

    def __post_init__(self) -> None:
        check_concentration("a", self.a)
        check_rate(self.a, self.b)

    def inside(self, x: Tensor) -> Tensor:
        return is_count(x)

    def standard(self, k: int, d: int) -> Poissons:
        return Poissons(torch.ones(k, d, dtype=torch.float64))

    def m_step(self, components: Poissons, moments: Sums) -> Poissons:
        return components.m_step(replace(moments, count=moments.count + self.b, total=moments.total + (self.a - 1)))

    def first(self, components: Poissons, moments: Sums, pseudo: float) -> Poissons:
        return Poissons(super().first(components, moments, pseudo).rates.clamp(min=LEAST_AT_START))

    def log_prior(self, components: Poissons) -> Tensor:
        return log_gamma_prior(components.rates, self.a, self.b)

    def pack(self, components: Poissons) -> Tensor:
        return components.rates.log().clamp(-LARGEST_LOG, LARGEST_LOG).flatten()

    def unpack(self, vector: Tensor, k: int, d: int) -> Poissons:
        return Poissons(vector.clamp(-LARGEST_LOG, LARGEST_LOG).reshape(k, d).exp())

    def expected_log_density(self, components: Poissons, moments: Sums) -> Tensor:
        """Less Σ r ln x!, in which there is no parameter."""
        return (xlogy(moments.total, components.rates) - moments.count * components.rates).sum()


def check_rate(a: Hyper, b: Hyper) -> None:
    """b = 0 is no prior, with a = 1."""
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    if bool(((b < 0) | ((b == 0) & (a != 1))).any()):
        raise ValueError(f"b={b.tolist()} is no rate of a gamma prior with a={a.tolist()}; give a number above 0")


def log_gamma_prior(rates: Tensor, a: Hyper, b: Hyper) -> Tensor:
    """Σ ln Gamma(λ; a, rate b); 0 where b = 0, which is no prior."""
    a, b = torch.as_tensor(a, dtype=rates.dtype), torch.as_tensor(b, dtype=rates.dtype)
    normaliser = xlogy(a, b) - torch.lgamma(a)
    log_prior = normaliser + xlogy(a - 1, rates) - b * rates
    return torch.where(b > 0, log_prior, 0.0).sum()
