"""Variational EM of latent Dirichlet allocation.

    θ_d ~ Dir(α),  β_k ~ Dir(η),  z ~ θ_d,  w ~ β_z;      q(θ_d) = Dir(γ_d),  q(β_k) = Dir(λ_k),  q(z) = φ
    E:  γ and φ of every document at B = e^{E ln β} (documents.py)
    M:  λ_kw = η + Σ_d c_dw φ_dwk;  α and η by Newton's method, where they are learnt
    Σ_d [Σ_w c_w ln Σ_k e^{E ln θ_k + E ln β_kw} - KL(γ_d ‖ α)] - Σ_k KL(λ_k ‖ η)
Every update is the best one given the others, so this bound never falls: γ starts where the last sweep left it, which
also saves most of the E-step's work. Only rounding can lower it, by about ε nats a word in single precision.
Blei, Ng & Jordan (2003); online: Hoffman, Blei & Bach (2010); the priors: Minka (2000).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import rows_matrix
from jensen.engines.em.batch import Additive, Batch, Summary, Swept
from jensen.engines.em.checkpoint import fingerprint
from jensen.engines.em.frame import Frame
from jensen.formulas.dirichlet import (
    concentration_of_logs,
    dirichlet_kl,
    expected_log,
    log_beta,
    symmetric_concentration_of_logs,
)
from jensen.models.topics.documents import (
    Documents,
    Topics,
    csr_tensor,
    expected_shares,
    first_gamma,
    infer,
    normalisers,
)

# Work of a sweep, in numbers of (words that occur) x K, from which single precision pays.
MUCH = 2**22
# A block's γ should fit the cache.
BLOCK_NUMBERS = 2**17
# Relative rounding of ln s in single precision, and of the sums of a document's terms in double precision.
SINGLE, DOUBLE = 1e-6, 1e-13


@dataclass(frozen=True)
class TopicTheta:
    """
    Args:
        concentration: λ (K, V) of the topics' posterior.
        alpha: the prior of a document's topics (K,).
        eta: the prior of a topic's words.
        length: mean number of words of a training document, which samples have.
        class_weights: share of every class (C,) among the labelled documents; empty without labels. Topic k < C is that
            of class k, and the rest are shared by all documents.
    """

    concentration: Tensor
    alpha: Tensor
    eta: float
    length: float
    class_weights: Tensor

    def __reduce__(self) -> tuple[Any, ...]:
        # Parameters alone travel to workers; what follows from them is computed there.
        return TopicTheta, (self.concentration, self.alpha, self.eta, self.length, self.class_weights)

    @property
    def n_topics(self) -> int:
        return len(self.concentration)

    @cached_property
    def expected_log_topics(self) -> Tensor:
        """E ln β (K, V)."""
        return expected_log(self.concentration)

    @cached_property
    def mean_topics(self) -> Tensor:
        """β̂ = E β (K, V)."""
        return self.concentration / self.concentration.sum(1, keepdim=True)

    @cached_property
    def topics_kl(self) -> Tensor:
        """KL(λ_k ‖ η) of every topic (K,)."""
        return dirichlet_kl(self.concentration, torch.full_like(self.concentration[0], self.eta))

    @cached_property
    def expected_likelihood(self) -> Topics:
        """e^{E ln β}, for training."""
        return Topics.of(self.expected_log_topics, torch.float64)

    @cached_property
    def likelihood(self) -> Topics:
        """β̂, which sums to 1, for new documents."""
        return Topics.of(self.mean_topics.log(), torch.float64)

    def allowed(self, label: Tensor) -> Tensor:
        """Which topics (n, K) documents of these classes (n,) may have, -1 for any."""
        return allowed_topics(label, len(self.class_weights), self.n_topics)

    def outside(self, frame: Frame) -> TopicTheta:
        """Counts have no units."""
        return self


def allowed_topics(label: Tensor, n_classes: int, n_topics: int) -> Tensor:
    """Which topics (n, K) documents of these classes (n,) may have: that of the class and those beyond the classes."""
    topic = torch.arange(n_topics)
    return (label[:, None] < 0) | (topic == label[:, None]) | (topic >= n_classes)


@dataclass(frozen=True)
class TopicStats(Additive):
    """Σ_d c_dw φ_dwk (K, V), Σ_d E ln θ_dk (K,) of the documents that may have topic k, and their weight (K,)."""

    words: Tensor
    log_shares: Tensor
    weight: Tensor


@dataclass
class Block:
    """Documents of a batch, and the γ that the last sweep found for them."""

    documents: Documents
    gamma: Tensor | None = None


class TopicSource(Swept, Protocol):
    """Documents for the engine, each with the γ that the last sweep found for it.

    dtype is the precision of the work.
    """

    dtype: torch.dtype
    is_labelled: bool

    def forget(self) -> None:
        """Let the next sweep start from evenly spread words."""

    def remember(self) -> None:
        """From now on, keep the γ that a sweep starts from until the next one."""

    def write_shares(self, file: IO[bytes]) -> None:
        """Write the γ that the last sweep started from."""

    def read_shares(self, file: IO[bytes]) -> None:
        """Let the next sweep start from what was written."""

    def shuffled(self, block: int) -> Iterable[Batch]:
        """The same documents in an order that is random but always the same, in smaller blocks."""


def block_of(n_topics: int, n_words: int, words_per_document: float) -> int:
    """Documents per block.

    Every block adds (K, V) numbers to the statistics, so it should have about as many words as there are.
    """
    return int(max(256, BLOCK_NUMBERS // n_topics, n_words / max(1.0, words_per_document)))


class DocumentSource:
    """Documents in memory, in blocks.

    Args:
        counts: a CSR tensor (n, V).
        weight: row weights (n,).
        allowed: the topics that each document may have (n, K), None for all.
        n_topics: K.
        dtype: the precision of the work.
        block: documents per block; None chooses.
    """

    def __init__(
        self,
        counts: Tensor,
        weight: Tensor | None,
        allowed: Tensor | None,
        n_topics: int,
        dtype: torch.dtype,
        block: int | None = None,
    ) -> None:
        self.n_rows: int = counts.shape[0]
        self.n_numbers = len(counts.values()) * n_topics
        self.dtype = dtype
        self._counts, self._weight, self._allowed = counts, weight, allowed
        self.is_labelled = allowed is not None
        if block is None:
            block = block_of(n_topics, counts.shape[1], len(counts.values()) / max(1, self.n_rows))
        self.batches = list(self._blocks(block, torch.arange(self.n_rows)))
        self._before: list[Tensor] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if self._before is not None:
            self._before = [batch.held.gamma for batch in self.batches]
        return iter(self.batches)

    def fingerprint(self) -> str:
        return fingerprint(self._counts, self._weight, self._allowed)

    def forget(self) -> None:
        for batch in self.batches:
            batch.held.gamma = None

    def remember(self) -> None:
        self._before = []

    def write_shares(self, file: IO[bytes]) -> None:
        for gamma in self._before or ():
            np.save(file, gamma.numpy())

    def read_shares(self, file: IO[bytes]) -> None:
        for batch in self.batches:
            batch.held.gamma = torch.from_numpy(np.load(file, allow_pickle=False))

    def shuffled(self, block: int) -> list[Batch]:
        order = torch.randperm(self.n_rows, generator=torch.Generator().manual_seed(0))
        return list(self._blocks(block, order))

    def _blocks(self, block: int, order: Tensor) -> Iterator[Batch]:
        matrix = rows_matrix(self._counts)
        for start in range(0, self.n_rows, block):
            rows = order[start : start + block]
            part = matrix[rows.numpy()]
            part.data = part.data.astype("float32" if self.dtype == torch.float32 else "float64")
            # 32 bits hold every index of a block, and halve the memory that a product reads.
            part.indices, part.indptr = part.indices.astype("int32"), part.indptr.astype("int32")
            allowed = None if self._allowed is None else self._allowed[rows]
            weight = None if self._weight is None else self._weight[rows]
            own = Block(Documents(csr_tensor(part), allowed))
            yield Batch(torch.empty(0), rows, weight, None, None, torch.zeros(1), held=own)


@dataclass(frozen=True)
class TopicVerbs:
    """
    Args:
        tol, most_steps: of the E-step's iterations for a document.
        learns_alpha: whether α is learnt: None, "symmetric" (one number) or "asymmetric" (one for every topic).
        learns_eta: whether η is.
        is_single: whether the work is in single precision.
        words_per_document: for the watch over rounding.
    """

    tol: float
    most_steps: int
    learns_alpha: str | None
    learns_eta: bool
    is_single: bool
    words_per_document: float

    def e_step(self, theta: TopicTheta, batch: Batch) -> Summary[TopicStats]:
        block: Block = batch.held
        documents, dtype = block.documents, torch.float32 if self.is_single else torch.float64
        topics = theta.expected_likelihood.within(dtype)
        gamma = first_gamma(documents, theta.alpha, dtype) if block.gamma is None else block.gamma
        gamma = infer(documents, topics, theta.alpha, gamma, self.tol, self.most_steps)
        block.gamma = gamma
        return summary_of(theta, documents, topics, gamma, batch.weight)

    def m_step(self, theta: TopicTheta, stats: TopicStats) -> TopicTheta:
        concentration = theta.eta + stats.words
        alpha, eta = theta.alpha, theta.eta
        if self.learns_alpha is not None:
            mean = stats.log_shares / stats.weight
            if self.learns_alpha == "asymmetric":
                alpha = concentration_of_logs(mean, alpha)
            else:
                one = symmetric_concentration_of_logs(mean.mean(), float(alpha[0]), len(alpha))
                alpha = torch.full_like(alpha, one)
        if self.learns_eta:
            logs = expected_log(concentration)
            eta = symmetric_concentration_of_logs(logs.mean(), eta, logs.shape[1])
        return replace(theta, concentration=concentration, alpha=alpha, eta=eta)

    def log_prior(self, theta: TopicTheta) -> Tensor:
        """-KL of the topics, which belongs to no document."""
        return -theta.topics_kl.sum()

    def resolution(self, theta: TopicTheta) -> float:
        return (SINGLE if self.is_single else DOUBLE) * self.words_per_document


def summary_of(
    theta: TopicTheta, documents: Documents, topics: Topics, gamma: Tensor, weight: Tensor | None
) -> Summary[TopicStats]:
    """Statistics and bound of documents at γ, with the φ that is best for it; sums are in double precision."""
    shares, best = expected_shares(gamma, documents.allowed)
    s = normalisers(documents, shares, topics)
    gamma = gamma.double()
    words = documents.word_scores(s, topics) + documents.length * (best.double() - torch.digamma(gamma.sum(1)))
    logs, is_used = log_shares(gamma, documents.allowed)
    bound = words - shares_kl(gamma, theta.alpha, documents.allowed, logs)
    own = torch.ones(len(gamma), dtype=torch.float64) if weight is None else weight
    sums = word_sums(documents, shares, s, topics, own)
    stats = TopicStats(sums, (own[:, None] * logs).sum(0), (own[:, None] * is_used).sum(0))
    return Summary(stats, (own * bound).sum(), own.sum())


def word_sums(documents: Documents, shares: Tensor, s: Tensor, topics: Topics, weight: Tensor) -> Tensor:
    """Σ_d w_d c_dw φ_dwk (K, V), from s = Σ_k θ̃_k B_kw."""
    ratio = documents.as_matrix(documents.counts.values().double() / s.double())
    sums = torch.from_numpy(ratio.T @ (shares.double() * weight[:, None]).numpy())
    return sums.mul_(topics.relative).T.contiguous()


def shares_kl(gamma: Tensor, alpha: Tensor, allowed: Tensor | None, logs: Tensor) -> Tensor:
    """KL(Dir(γ) ‖ Dir(α)) (n,), over the topics that a document may have; E ln θ (n, K) is known."""
    if allowed is None:
        return log_beta(alpha) - log_beta(gamma) + ((gamma - alpha) * logs).sum(1)
    prior = torch.where(allowed, alpha, 0.0)
    return masked_log_beta(prior, allowed) - masked_log_beta(gamma, allowed) + ((gamma - prior) * logs).sum(1)


def masked_log_beta(concentration: Tensor, allowed: Tensor) -> Tensor:
    """ln B over the allowed entries; the others are 0."""
    inside = torch.lgamma(concentration.masked_fill(~allowed, 1.0)).sum(1)
    return inside - torch.lgamma(concentration.sum(1))


def log_shares(gamma: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """E ln θ (n, K), 0 where a document may not have the topic, and where it may as numbers."""
    if allowed is None:
        return expected_log(gamma), torch.ones_like(gamma)
    logs = torch.digamma(gamma.masked_fill(~allowed, 1.0)) - torch.digamma(gamma.sum(1, keepdim=True))
    return logs.masked_fill(~allowed, 0.0), allowed.to(gamma.dtype)
