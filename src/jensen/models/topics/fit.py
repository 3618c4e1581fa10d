"""From arguments and documents to the problem that EM solves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Problem
from jensen.data.sparse import rows_matrix
from jensen.engines.em import loop as em
from jensen.models.topics.collapsed import CollapsedVerbs
from jensen.models.topics.em import MUCH, DocumentSource, TopicTheta, TopicVerbs, allowed_topics
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


@dataclass(frozen=True)
class Corpus:
    """Training documents: counts (n, V) as a CSR tensor, weights, class numbers (n,), and the number of classes."""

    counts: Tensor
    weight: Tensor | None
    label: Tensor | None
    n_classes: int

    @cached_property
    def total(self) -> float:
        """Weight of all documents."""
        return float(self.counts.shape[0] if self.weight is None else self.weight.sum())

    @cached_property
    def mean_length(self) -> float:
        """Words per document."""
        words = self.counts.values()
        if self.weight is not None:
            per_row = torch.from_numpy(np.diff(self.counts.crow_indices().numpy()))
            words = words * torch.repeat_interleave(self.weight, per_row)
        return float(words.sum()) / self.total

    @cached_property
    def class_weights(self) -> Tensor:
        """The share of every class (C,) among the labelled documents."""
        sizes = torch.zeros(self.n_classes, dtype=torch.float64)
        if self.label is None:
            return sizes
        weight = torch.ones(len(self.label), dtype=torch.float64) if self.weight is None else self.weight
        is_known = self.label >= 0
        sizes.index_add_(0, self.label[is_known], weight[is_known])
        return sizes / sizes.sum()

    @property
    def class_words(self) -> Tensor:
        """Words of the labelled documents by class (C, V)."""
        assert self.label is not None
        weight = torch.ones(len(self.label), dtype=torch.float64) if self.weight is None else self.weight
        members = (self.label == torch.arange(self.n_classes)[:, None]) * weight
        return torch.from_numpy(rows_matrix(self.counts).T @ members.T.numpy()).T


def first_theta(options: Options, corpus: Corpus, generator: torch.Generator) -> TopicTheta:
    """Random topics: λ ~ Gamma(100, 1/100), as in scikit-learn; the topic of a class has the words of its documents."""
    shape = (options.n_topics, corpus.counts.shape[1])
    noise = torch._standard_gamma(torch.full(shape, 100.0, dtype=torch.float64), generator=generator) / 100
    if corpus.label is not None:
        # Without them, topics that all documents share would take the words of the classes.
        noise[: corpus.n_classes] += corpus.class_words
    eta = 1 / options.n_topics if options.eta is None else float(options.eta)
    return TopicTheta(noise, prior_of(options.alpha, options.n_topics), eta, corpus.mean_length, corpus.class_weights)


def source_for(options: Options, corpus: Corpus, block: int | None = None) -> DocumentSource:
    """The documents in blocks, in single precision where there are many."""
    is_much = len(corpus.counts.values()) * options.n_topics >= MUCH
    allowed = None if corpus.label is None else allowed_topics(corpus.label, corpus.n_classes, options.n_topics)
    dtype = torch.float32 if is_much else torch.float64
    return DocumentSource(corpus.counts, corpus.weight, allowed, options.n_topics, dtype, block)


def verbs_for(
    options: Options, source: DocumentSource, length: float, *, is_resumed: bool = False
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
    alpha = learns if source.allowed is None else None
    return TopicVerbs(options.mean_change_tol, updates, alpha, learns is not None, is_single, length)


def problem_of(options: Options, corpus: Corpus) -> Problem:
    """What `fit` solves, from random topics."""
    source, length = source_for(options, corpus), corpus.mean_length
    verbs = verbs_for(options, source, length, is_resumed=options.method != "online")

    is_interrupted = False

    def begin(generator: torch.Generator) -> TopicTheta:
        nonlocal is_interrupted
        source.forget()
        theta = first_theta(options, corpus, generator)
        if options.method != "batch":
            return theta
        short = verbs_for(replace(options, method="collapsed"), source, length, is_resumed=True)
        stop = em.small_gain(options.tol * length)
        try:
            found = em.fit(short, theta, source, max_iter=START_SWEEPS, stop=stop, progress=options.progress)
        except Interrupted as interrupted:
            found, is_interrupted = interrupted.best, True
        source.forget()
        return found.theta

    def batch(
        verbs: em.Verbs[Any, Any], state: em.State[Any, Any], evaluate: em.Evaluate[Any, Any]
    ) -> Iterator[em.State[Any, Any]]:
        if is_interrupted:
            # Ctrl-C in the start ends the fit, which keeps the topics of the start.
            raise KeyboardInterrupt
        yield from em.plain(verbs, state, evaluate)

    algorithm: em.Algorithm[Any, Any] = batch
    if options.method == "online":
        steps = replace(options.steps, total=corpus.total)
        algorithm = passes(steps, source, options.batch_size)
    stop, is_monotone = stopping(options, length), options.method != "online"
    return Problem(verbs, source, begin, lambda found, value, weight: value, stop, algorithm, is_monotone)


def stopping(options: Options, length: float) -> em.Stop:
    """When a sweep gains less than tol nats per word, or the perplexity changes by less than perp_tol.

    A pass of online steps may also fall, and ends the fit by a small change only.
    """
    small, last, count = em.small_gain(options.tol * max(length, 1e-300)), math.inf, 0

    def stop(old: em.State[Any, Any], new: em.State[Any, Any]) -> bool:
        nonlocal last, count
        count += 1
        if options.evaluate_every > 0 and count % options.evaluate_every == 0 and length > 0:
            perplexity = math.exp(min(700.0, -new.objective / length))
            last, before = perplexity, last
            if abs(before - perplexity) < options.perp_tol:
                return True
        return small(old, new)

    return stop
