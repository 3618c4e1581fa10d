"""A block of count columns, such as the words of a text, with one multinomial per component.

    ln p_k(x) = Σ_w x_w ln β_kw
    M:  β_kw = (C_kw + α - 1) / Σ_v (C_kv + α - 1),  C_kw = Σ_i r_ik x_iw
under a Dirichlet(α) prior; α = 1 gives maximum likelihood. Nigam et al. (2000). The coefficient ln N! - Σ_w ln x_w!,
N = Σ_w x_w, is left out, as in topic models: the score is that of the words in one order, given their number. A missing
entry is a factor 1: only the observed words count. Rows may be sparse; of these all
entries are counts, since the reader refuses others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, rows_matrix, times
from jensen.engines.em.batch import Additive, Batch
from jensen.engines.em.seeding import sketch
from jensen.models.mixtures.families.entries import (
    EVEN,
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Entries,
    Hyper,
    check_concentration,
    is_count,
    log_or_least,
    mass_of,
    product,
    without_impossible,
    xlogy,
)

# Coordinates in which starts look for clusters of texts.
N_COORDINATES = 128


@dataclass(frozen=True)
class Words(Additive):
    """Σ_i r_ik (K,) and Σ_i r_ik x_iw (K, d)."""

    mass: Tensor
    total: Tensor


@dataclass(frozen=True)
class Multinomials(ColumnComponents[Entries, Words]):
    """Probabilities β of the words (K, d), and the number of words of a row that is drawn."""

    probabilities: Tensor
    length: int = 1

    @property
    def expectation(self) -> Tensor:
        return self.length * self.probabilities

    @property
    def n_parameters(self) -> int:
        k, d = self.probabilities.shape
        return k * (d - 1)

    def view(self, batch: Batch) -> Entries:
        return Entries(batch.x, None, None) if is_sparse(batch.x) else Entries.of(batch, is_count(batch.x))

    def log_density(self, view: Entries) -> Tensor:
        log_density = times(log_or_least(self.probabilities), view.x)
        if bool((self.probabilities == 0).any()):
            log_density = without_impossible(log_density)
        return view.excluded(log_density)

    def moments(self, responsibilities: Tensor, view: Entries) -> Words:
        return Words(mass_of(responsibilities), product(responsibilities, view.x))

    def expected_moments(self, weights: Tensor) -> Words:
        return Words(weights, weights[:, None] * self.expectation)

    def m_step(self, moments: Words) -> Self:
        count = moments.total.sum(1, keepdim=True)
        return replace(self, probabilities=torch.where(count > 0, moments.total / count, self.probabilities))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        of_rows = self.probabilities[component.to(self.probabilities.device)].cpu()
        words = torch.multinomial(of_rows, self.length, replacement=True, generator=generator)
        return torch.zeros_like(of_rows).scatter_add_(1, words, torch.ones_like(words, dtype=of_rows.dtype))


@dataclass(frozen=True)
class MultinomialFamily(ColumnFamily[Multinomials]):
    """
    Args:
        alpha: of a Dirichlet prior on the probabilities, one number or one for every word (d,), at least 1; None is
            maximum likelihood.
        length: the number of words of a row that is drawn, for instance the mean length of the training rows.
    """

    alpha: Hyper | None = None
    length: int = 1
    needs = "a column of words has only counts 0, 1, 2, ...; correct the value, or give the column another family"

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_concentration("alpha", self.alpha)

    def inside(self, x: Tensor) -> Tensor:
        return is_count(x)

    def check(self, x: Tensor, names: Sequence[str]) -> None:
        if not is_sparse(x):
            super().check(x, names)

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """√ of the words' shares in each row, whose distances are Hellinger's: the block is as one column."""
        counts = rows_matrix((x if is_sparse(x) else x.nan_to_num(nan=0.0)).mT)
        roots = sketch(counts**0.5, N_COORDINATES)
        length = torch.from_numpy(counts.sum(1)).clamp(min=1)
        points = torch.from_numpy(roots).mT / length.sqrt()
        return points, torch.ones(len(points), dtype=points.dtype)

    def standard(self, k: int, d: int) -> Multinomials:
        return Multinomials(torch.full((k, d), 1 / d, dtype=torch.float64), self.length)

    def m_step(self, components: Multinomials, moments: Words) -> Multinomials:
        if self.alpha is not None:
            moments = replace(moments, total=moments.total + (self.alpha - 1))
        return components.m_step(moments)

    def first(self, components: Multinomials, moments: Words, pseudo: float) -> Multinomials:
        found = super().first(components, moments, pseudo)
        even = EVEN / found.n_features
        return replace(found, probabilities=(1 - EVEN) * found.probabilities + even)

    def log_prior(self, components: Multinomials) -> Tensor:
        if self.alpha is None:
            return super().log_prior(components)
        p = components.probabilities
        alpha = torch.as_tensor(self.alpha, dtype=p.dtype).expand(p.shape[1])
        normaliser = torch.lgamma(alpha.sum()) - torch.lgamma(alpha).sum()
        return len(p) * normaliser + xlogy(alpha - 1, p).sum()

    def pack(self, components: Multinomials) -> Tensor:
        return components.probabilities.log().clamp(min=-LARGEST_LOG).flatten()

    def unpack(self, vector: Tensor, k: int, d: int) -> Multinomials:
        return Multinomials(vector.reshape(k, d).softmax(1), self.length)

    def expected_log_density(self, components: Multinomials, moments: Words) -> Tensor:
        return xlogy(moments.total, components.probabilities).sum()
