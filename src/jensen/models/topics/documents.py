"""Documents as sparse counts, and what a document's words say about its topics.

    E:  φ_wk = θ̃_k B_kw / s_w,  s_w = Σ_k θ̃_k B_kw,  γ_k = α_k + Σ_w c_w φ_wk,     θ̃ = e^{E ln θ}
repeated until γ stays. B is e^{E ln β} in training, and β̂ for new documents. Two products of sparse with dense arrays
are all there is to it: s at the words that occur, and (c/s) B; neither ever forms φ, which has K numbers for every
word of every document. Blei, Ng & Jordan (2003), figure 6, with φ eliminated as in Hoffman, Blei & Bach (2010).

Only ratios of θ̃ and of B at one word matter, so both are held relative to their largest entry: single precision
then has room for e^{ψ(α)} of a small α.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

# Relative to the largest topic of a document, or of a word, the others are at least so much: s stays above 0.
SMALLEST = {torch.float32: 1e-30, torch.float64: 1e-250}
# Documents that have settled leave when so few of those at work are still moving.
LEAVING = 0.8


@dataclass(frozen=True)
class Topics:
    """The likelihood of words, relative to the topic that likes the word best.

    Args:
        relative: B_kw / max_j B_jw, (V, K), in the precision of the work.
        log_best: ln max_k B_kw (V,), float64.
    """

    relative: Tensor
    log_best: Tensor

    @classmethod
    def of(cls, log_likelihood: Tensor, dtype: torch.dtype) -> Topics:
        """Of ln B (K, V)."""
        best = log_likelihood.amax(0)
        relative = (log_likelihood - best).exp_().clamp_(min=SMALLEST[dtype])
        return cls(relative.to(dtype).T.contiguous(), best)

    def within(self, dtype: torch.dtype) -> Topics:
        """The same in single precision, made once for all blocks of documents, or as it is."""
        return self if dtype == self.relative.dtype else self._single

    @cached_property
    def _single(self) -> Topics:
        return Topics(self.relative.float().clamp_(min=SMALLEST[torch.float32]), self.log_best)


@dataclass(frozen=True)
class Documents:
    """Counts of words (n, V), and the topics that a document may have.

    Args:
        counts: a CSR tensor; its values may be fractions.
        allowed: (n, K), or None where every document may have every topic.
    """

    counts: Tensor
    allowed: Tensor | None = None

    @property
    def length(self) -> Tensor:
        """Words per document (n,), float64."""
        return self.row_sums(self.counts.values().double())

    def row_sums(self, values: Tensor) -> Tensor:
        """Σ_w of values at the words that occur, document by document (n,)."""
        return torch.from_numpy(self.as_matrix(values) @ np.ones(self.counts.shape[1]))

    def word_scores(self, s: Tensor, topics: Topics) -> Tensor:
        """Σ_w c_w ln s_w of every document (n,), in nats: s is relative to the best topic of a word."""
        logs = s.double().log() + topics.log_best[self.counts.col_indices().long()]
        return self.row_sums(self.counts.values().double() * logs)

    def take(self, rows: Tensor) -> Documents:
        """Some of them, by number."""
        matrix = self.as_matrix(self.counts.values())[rows.numpy()]
        return Documents(csr_tensor(matrix), None if self.allowed is None else self.allowed[rows])

    def as_matrix(self, values: Tensor) -> csr_array:
        """Values at the words that occur, as a matrix of scipy."""
        ends, columns = self.counts.crow_indices().numpy(), self.counts.col_indices().numpy()
        n, v = self.counts.shape
        return csr_array((values.numpy(), columns, ends), (n, v))


def csr_tensor(matrix: csr_array) -> Tensor:
    """A CSR matrix as a tensor on the same memory."""
    ends, columns, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(ends, columns, values, matrix.shape, check_invariants=False)


# Takes γ (n, K) and the allowed topics to θ̃ relative to the largest entry of a document, and the log of that (n,).
SharesOf = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


def expected_shares(gamma: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """θ̃ = e^{ψ(γ)}, of variational inference."""
    logs = torch.digamma(gamma if allowed is None else gamma.masked_fill(~allowed, 1.0))
    return relative_to_best(logs, allowed)


def mean_shares(gamma: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """θ̃ = γ, of collapsed inference."""
    return relative_to_best(gamma.log(), allowed)


def relative_to_best(logs: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    logs = logs if allowed is None else logs.masked_fill(~allowed, -torch.inf)
    best = logs.amax(1, keepdim=True)
    shares = (logs - best).exp_().clamp_(min=SMALLEST[logs.dtype])
    return (shares if allowed is None else shares.masked_fill_(~allowed, 0.0)), best[:, 0]


def normalisers(documents: Documents, shares: Tensor, topics: Topics) -> Tensor:
    """s_w = Σ_k θ̃_k B_kw at the words that occur, in the order of the counts."""
    sampled = torch.sparse.sampled_addmm(documents.counts, shares, topics.relative.T, beta=0.0)
    values: Tensor = sampled.values()
    return values


def expected_counts(documents: Documents, shares: Tensor, topics: Topics) -> Tensor:
    """Σ_w c_w φ_wk (n, K): the words of a document by topic."""
    ratio = documents.counts.values() / normalisers(documents, shares, topics)
    words = documents.as_matrix(ratio) @ topics.relative.numpy()
    return torch.from_numpy(np.asarray(words)).mul_(shares)


def first_gamma(documents: Documents, alpha: Tensor, dtype: torch.dtype) -> Tensor:
    """γ (n, K) of documents whose words are spread evenly over the topics they may have."""
    length, allowed = documents.length, documents.allowed
    if allowed is None:
        return (alpha + length[:, None] / len(alpha)).to(dtype)
    return torch.where(allowed, alpha + (length / allowed.sum(1))[:, None], 0.0).to(dtype)


def infer(
    documents: Documents,
    topics: Topics,
    alpha: Tensor,
    gamma: Tensor,
    tol: float,
    most_steps: int,
    shares_of: SharesOf = expected_shares,
) -> Tensor:
    """γ (n, K) of every document, from a start, until its mean change is below `tol`.

    What a document ends with does not depend on the others: one that has settled is left as it is, and leaves the work
    when many have.
    """
    prior = alpha.to(gamma.dtype) if documents.allowed is None else alpha.to(gamma.dtype) * documents.allowed
    found, at_work, now = gamma.clone(), torch.arange(len(gamma)), gamma
    is_moving = torch.ones(len(gamma), dtype=torch.bool)
    for _ in range(most_steps):
        shares, _ = shares_of(now, documents.allowed)
        new = expected_counts(documents, shares, topics).add_(prior)
        new = torch.where(is_moving[:, None], new, now)
        is_moving &= (new - now).abs_().mean(1) >= tol
        now = new
        n_moving = int(is_moving.sum())
        if n_moving == 0:
            break
        if n_moving < LEAVING * len(now):
            found[at_work] = now
            kept = is_moving.nonzero()[:, 0]
            documents, at_work, now = documents.take(kept), at_work[kept], now[kept]
            prior = prior if prior.ndim == 1 else prior[kept]
            is_moving = torch.ones(n_moving, dtype=torch.bool)
    found[at_work] = now
    return found
