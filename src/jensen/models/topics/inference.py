"""What a fitted topic model returns about documents, given its topics.

    ln p(w | β̂, α) ≥ Σ_w c_w Σ_k φ_wk ln β̂_kw - KL(γ ‖ α) - Σ_w c_w KL(φ_w ‖ e^{E ln θ})
The words stand in one order: no multinomial coefficient. β̂ = E β sums to 1, as e^{E ln β} does not. A document's answer
does not depend on the others, and all work is in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from jensen.data.sparse import rows_matrix
from jensen.models.topics.documents import (
    Documents,
    Topics,
    csr_tensor,
    expected_shares,
    first_gamma,
    infer,
    normalisers,
)
from jensen.models.topics.em import BLOCK_NUMBERS, TopicTheta, log_shares, shares_kl
from jensen.runtime.threads import in_threads, threads_for


@dataclass(frozen=True)
class Patience:
    """When the topics of a document have settled: mean change of γ, and steps at most."""

    tol: float
    most_steps: int


@dataclass(frozen=True)
class Terms:
    """The bound of documents, term by term (n,): words - shares - assignments."""

    words: Tensor
    shares_kl: Tensor
    assignments_kl: Tensor

    @property
    def total(self) -> Tensor:
        return self.words - self.shares_kl - self.assignments_kl


# Longer documents than this, and than the vocabulary, are drawn by their counts, not word by word.
MANY_WORDS, LARGE_RATE = 10_000, 1e15


def blocks_of(theta: TopicTheta, counts: Tensor, label: Tensor | None) -> Iterator[Documents]:
    """Documents (n, V) in blocks; with labels (n,) each has the topics of its class only."""
    matrix, n = rows_matrix(counts), max(64, BLOCK_NUMBERS // theta.n_topics)
    for start in range(0, max(1, counts.shape[0]), n):
        part = csr_array(matrix[start : start + n])
        own = csr_array(
            (part.data.astype(np.float64), part.indices.astype(np.int32), part.indptr.astype(np.int32)), part.shape
        )
        allowed = None if label is None else theta.allowed(label[start : start + n])
        yield Documents(csr_tensor(own), allowed)


def over_documents(
    theta: TopicTheta, counts: Tensor, answer: Callable[[Documents], Tensor], label: Tensor | None = None
) -> Tensor:
    """Answers (n, ...) about documents, several blocks at a time."""
    with threads_for(len(counts.values()) * theta.n_topics):
        return torch.cat(list(in_threads(answer, blocks_of(theta, counts, label))))


def posterior(theta: TopicTheta, counts: Tensor, patience: Patience) -> Tensor:
    """γ (n, K) given β̂."""
    return over_documents(theta, counts, lambda documents: settled(theta, documents, theta.likelihood, patience))


def settled(theta: TopicTheta, documents: Documents, topics: Topics, patience: Patience) -> Tensor:
    start = first_gamma(documents, theta.alpha, torch.float64)
    return infer(documents, topics, theta.alpha, start, patience.tol, patience.most_steps)


def bound_terms(
    theta: TopicTheta, counts: Tensor, patience: Patience, label: Tensor | None = None, topics: Topics | None = None
) -> Terms:
    """The bound of every document given β̂, or given other likelihoods of words."""
    likelihood = theta.likelihood if topics is None else topics

    def terms(documents: Documents) -> Tensor:
        gamma = settled(theta, documents, likelihood, patience)
        return terms_at(theta, documents, likelihood, gamma)

    found = over_documents(theta, counts, terms, label)
    return Terms(*found.unbind(1))


def terms_at(theta: TopicTheta, documents: Documents, topics: Topics, gamma: Tensor) -> Tensor:
    """The three terms (n, 3) at γ, with the φ that is best for it."""
    shares, best = expected_shares(gamma, documents.allowed)
    s = normalisers(documents, shares, topics)
    # Σ_k φ_k ln B_k relative to the best topic of the word.
    relative = Topics(torch.special.xlogy(topics.relative, topics.relative), topics.log_best)
    mean_log = normalisers(documents, shares, relative) / s + topics.log_best[documents.counts.col_indices().long()]
    words = documents.row_sums(documents.counts.values() * mean_log)
    evidence = documents.word_scores(s, topics) + documents.length * (best - torch.digamma(gamma.sum(1)))
    # Rounding can take a divergence of 0 below it.
    assignments = (words - evidence).clamp(min=0.0)
    logs, _ = log_shares(gamma, documents.allowed)
    divergence = shares_kl(gamma, theta.alpha, documents.allowed, logs).clamp(min=0.0)
    return torch.stack([words, divergence, assignments], 1)


def class_scores(theta: TopicTheta, counts: Tensor, patience: Patience) -> Tensor:
    """ln π_c + the bound of a document of class c (n, C)."""
    every = range(len(theta.class_weights))
    columns = [bound_terms(theta, counts, patience, torch.full((counts.shape[0],), c)).total for c in every]
    return torch.stack(columns, 1) + theta.class_weights.log()


def draw(
    theta: TopicTheta, n: int, generator: torch.Generator, label: Tensor | None = None
) -> tuple[csr_array, Tensor]:
    """Documents (n, V) as sparse counts, and their topics θ (n, K); lengths are Poisson."""
    alpha = theta.alpha.expand(n, -1)
    if label is not None:
        alpha = torch.where(theta.allowed(label), alpha, 0.0)
    # An α of 0 draws tiny numbers instead of 0.
    shares = torch._standard_gamma(alpha, generator=generator).where(alpha > 0, 0.0)
    # Shares of a tiny α can all be 0 in floating point: such a document has one topic.
    lost = shares.sum(1) == 0
    if bool(lost.any()):
        chosen = torch.multinomial(alpha[lost], 1, generator=generator)
        shares[lost] = torch.zeros_like(shares[lost]).scatter_(1, chosen, 1.0)
    shares = shares / shares.sum(1, keepdim=True)
    if theta.length > max(MANY_WORDS, theta.concentration.shape[1]):
        return csr_array(draw_counts(theta.length * shares @ theta.mean_topics, generator).numpy()), shares
    length = torch.poisson(torch.full((n,), theta.length, dtype=torch.float64), generator=generator).long()
    rows = torch.repeat_interleave(torch.arange(n), length)
    ends = theta.mean_topics.cumsum(1)
    topic = torch.searchsorted(
        shares.cumsum(1)[rows], torch.rand(len(rows), 1, dtype=torch.float64, generator=generator)
    )
    topic = topic[:, 0].clamp_(max=theta.n_topics - 1)
    place, words = torch.rand(len(rows), dtype=torch.float64, generator=generator), torch.empty_like(rows)
    for k in range(theta.n_topics):
        own = topic == k
        words[own] = torch.searchsorted(ends[k], place[own] * ends[k, -1]).clamp_(max=ends.shape[1] - 1)
    ones = np.ones(len(rows))
    drawn = csr_array((ones, (rows.numpy(), words.numpy())), shape=(n, ends.shape[1]))
    drawn.sum_duplicates()
    return drawn, shares


def draw_counts(rates: Tensor, generator: torch.Generator) -> Tensor:
    """Poisson counts of these rates; in a document of Poisson length, the counts of words are independent."""
    counts = torch.poisson(rates.clamp(max=LARGE_RATE), generator=generator)
    # Beyond it a Poisson is a Gaussian to nine digits, and its counts are no whole numbers of 64 bits at last.
    noise = torch.randn(rates.shape, dtype=rates.dtype, generator=generator)
    return torch.where(rates > LARGE_RATE, (rates + rates.sqrt() * noise).round(), counts)
