"""From arguments and documents to the problem that EM solves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import IO, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.data.sparse import rows_matrix
from jensen.engines.em import loop as em
from jensen.models.topics.collapsed import CollapsedVerbs
from jensen.models.topics.em import MUCH, DocumentSource, TopicSource, TopicTheta, TopicVerbs, allowed_topics
from jensen.models.topics.online import Steps, passes
from jensen.runtime.interrupt import Interrupted

# Sweeps of collapsed inference that variational EM starts with. From random topics, γ of variational EM would settle
# before there is anything to settle for; chosen on a part of the training documents of 20 Newsgroups.
START_SWEEPS = 20
# Updates of a document in a training sweep, which the next one resumes.
FEW_UPDATES, MORE_UPDATES = 5, 20


@dataclass(frozen=True)
class Options:
    """Arguments of the estimator that a fit depends on."""

    n_topics: int
    alpha: Any
    eta: float | None
    method: str
    steps: Steps
    batch_size: int
    evaluate_every: int
    perp_tol: float
    mean_change_tol: float
    most_updates: int
    tol: float
    learns: str | None
    progress: str | None = None


def prior_of(alpha: Any, n_topics: int) -> Tensor:
    """α (K,)."""
    if alpha is None:
        alpha = 1 / n_topics
    values = np.asarray(alpha, dtype=np.float64)
    if values.shape not in ((), (n_topics,)):
        raise ValueError(
            f"doc_topic_prior has shape {values.shape}; give one number, or one for each of n_components={n_topics} "
            "topics"
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"doc_topic_prior holds {values.min()}; give positive numbers")
    return torch.from_numpy(np.array(np.broadcast_to(values, (n_topics,))))


class Corpus(Protocol):
    """What a fit has to know of its training documents."""

    @property
    def n_words(self) -> int:
        """V."""

    @property
    def n_entries(self) -> int:
        """Words that occur, over all documents."""

    @property
    def total(self) -> float:
        """Weight of all documents."""

    @property
    def mean_length(self) -> float:
        """Words per document."""

    @property
    def class_weights(self) -> Tensor:
        """The share of every class (C,) among the labelled documents."""

    @property
    def class_words(self) -> Tensor | None:
        """Words of the labelled documents by class (C, V); None without labels."""

    def source(self, n_topics: int, dtype: torch.dtype, block: int | None = None) -> TopicSource:
        """The documents in blocks."""


@dataclass(frozen=True)
class HeldCorpus:
    """Documents in memory: counts (n, V) as a CSR tensor, weights, class numbers (n,), and the number of classes."""

    counts: Tensor
    weight: Tensor | None
    label: Tensor | None
    n_classes: int

    @property
    def n_words(self) -> int:
        return int(self.counts.shape[1])

    @property
    def n_entries(self) -> int:
        return len(self.counts.values())

    @cached_property
    def total(self) -> float:
        return float(self.counts.shape[0] if self.weight is None else self.weight.sum())

    @cached_property
    def n_occurrences(self) -> float:
        """Words of all documents."""
        words = self.counts.values()
        if self.weight is not None:
            per_row = torch.from_numpy(np.diff(self.counts.crow_indices().numpy()))
            words = words * torch.repeat_interleave(self.weight, per_row)
        return float(words.sum())

    @property
    def mean_length(self) -> float:
        return self.n_occurrences / self.total

    @cached_property
    def class_sizes(self) -> Tensor:
        """Weight of the labelled documents by class (C,)."""
        sizes = torch.zeros(self.n_classes, dtype=torch.float64)
        if self.label is None:
            return sizes
        weight = torch.ones(len(self.label), dtype=torch.float64) if self.weight is None else self.weight
        is_known = self.label >= 0
        return sizes.index_add_(0, self.label[is_known], weight[is_known])

    @property
    def class_weights(self) -> Tensor:
        return self.class_sizes / self.class_sizes.sum() if self.label is not None else self.class_sizes

    @property
    def class_words(self) -> Tensor | None:
        if self.label is None:
            return None
        weight = torch.ones(len(self.label), dtype=torch.float64) if self.weight is None else self.weight
        members = (self.label == torch.arange(self.n_classes)[:, None]) * weight
        return torch.from_numpy(rows_matrix(self.counts).T @ members.T.numpy()).T

    def source(self, n_topics: int, dtype: torch.dtype, block: int | None = None) -> DocumentSource:
        allowed = None if self.label is None else allowed_topics(self.label, self.n_classes, n_topics)
        return DocumentSource(self.counts, self.weight, allowed, n_topics, dtype, block)


def corpus_of(rows: Rows) -> Corpus:
    """Documents in memory, or those of a scan."""
    found: Corpus | None = getattr(rows, "corpus", None)
    return HeldCorpus(rows.x, rows.weight, rows.label, len(rows.classes)) if found is None else found


def first_theta(options: Options, corpus: Corpus, generator: torch.Generator) -> TopicTheta:
    """Random topics: λ ~ Gamma(100, 1/100), as in scikit-learn; the topic of a class has the words of its documents."""
    shape = (options.n_topics, corpus.n_words)
    noise = torch._standard_gamma(torch.full(shape, 100.0, dtype=torch.float64), generator=generator) / 100
    words = corpus.class_words
    if words is not None:
        # Without them, topics that all documents share would take the words of the classes.
        noise[: len(words)] += words
    eta = 1 / options.n_topics if options.eta is None else float(options.eta)
    return TopicTheta(noise, prior_of(options.alpha, options.n_topics), eta, corpus.mean_length, corpus.class_weights)


def source_for(options: Options, corpus: Corpus, block: int | None = None) -> TopicSource:
    """The documents in blocks, in single precision where there are many."""
    is_much = corpus.n_entries * options.n_topics >= MUCH
    return corpus.source(options.n_topics, torch.float32 if is_much else torch.float64, block)


def verbs_for(
    options: Options, source: TopicSource, length: float, *, is_resumed: bool = False
) -> TopicVerbs | CollapsedVerbs:
    """E- and M-step; γ need not settle in a sweep that the next one resumes."""
    is_single = source.dtype == torch.float32
    is_collapsed = options.method == "collapsed"
    some = FEW_UPDATES if is_collapsed else MORE_UPDATES
    updates = min(options.most_updates, some) if is_resumed else options.most_updates
    if is_collapsed:
        return CollapsedVerbs(options.mean_change_tol, updates, is_single, length)
    learns = options.learns
    # A labelled document has some topics only: its α is not that of the others, and no closed update fits both.
    alpha = None if source.is_labelled else learns
    return TopicVerbs(options.mean_change_tol, updates, alpha, learns is not None, is_single, length)


def problem_of(options: Options, corpus: Corpus) -> Problem:
    """What `fit` solves, from random topics."""
    source, length = source_for(options, corpus), corpus.mean_length
    verbs = verbs_for(options, source, length, is_resumed=options.method != "online")

    def begin(generator: torch.Generator) -> TopicTheta:
        source.forget()
        theta = first_theta(options, corpus, generator)
        if options.method != "batch":
            return theta
        short = verbs_for(replace(options, method="collapsed"), source, length, is_resumed=True)
        stop = em.small_gain(options.tol * length)
        try:
            found = em.fit(short, theta, source, max_iter=START_SWEEPS, stop=stop, progress=options.progress)
        except Interrupted as interrupted:
            raise Interrupted("interrupted in the start; its topics are kept", interrupted.best.theta) from None
        finally:
            source.forget()
        return found.theta

    algorithm: em.Algorithm[Any, Any] = em.plain
    if options.method == "online":
        steps = replace(options.steps, total=corpus.total)
        algorithm = passes(steps, source, options.batch_size)
    stop = Stopping(options, length)
    return Problem(
        verbs,
        source,
        begin,
        lambda found, value, weight: value,
        stop,
        algorithm,
        is_monotone=options.method != "online",
        memory=TopicMemory(source, stop),
        template=partial(first_theta, options, corpus),
    )


class Stopping:
    """When a sweep gains less than tol nats per word, or the perplexity changes by less than perp_tol.

    A pass of online steps may also fall, and ends the fit by a small change only.
    """

    def __init__(self, options: Options, length: float) -> None:
        self._small = em.small_gain(options.tol * max(length, 1e-300))
        self._every, self._tol, self._length = options.evaluate_every, options.perp_tol, length
        self._last, self._count = math.inf, 0

    def __call__(self, old: em.State[Any, Any], new: em.State[Any, Any]) -> bool:
        return self._has_settled(new.objective) or self._small(old, new)

    def resume(self, history: list[float]) -> None:
        """Know the objectives of earlier sweeps, the first of which is that of the start."""
        self._last, self._count = math.inf, 0
        for objective in history[1:]:
            self._has_settled(objective)

    def _has_settled(self, objective: float) -> bool:
        self._count += 1
        if self._every <= 0 or self._count % self._every or self._length <= 0:
            return False
        perplexity = math.exp(min(700.0, -objective / self._length))
        self._last, before = perplexity, self._last
        return abs(before - perplexity) < self._tol


@dataclass(frozen=True)
class TopicMemory:
    """What a sweep depends on beside the topics: the γ of every document, and when the perplexity was looked at."""

    source: TopicSource
    stop: Stopping

    def begin(self) -> None:
        self.source.remember()

    def write(self, file: IO[bytes]) -> None:
        self.source.write_shares(file)

    def read(self, file: IO[bytes], history: list[float]) -> None:
        self.source.read_shares(file)
        self.stop.resume(history)
