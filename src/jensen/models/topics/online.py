"""Online variational EM: a step after every few documents.

    λ ← (1-ρ_t) λ + ρ_t (η + (D/B) Σ_{d in batch} c_dw φ_dwk),   ρ_t = (τ + t)^-κ
which is stepwise EM on the mean statistics s = (λ - η)/D of a document. Hoffman, Blei & Bach (2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch
from jensen.models.topics.em import TopicSource, TopicStats, TopicTheta


@dataclass(frozen=True)
class Steps:
    """
    Args:
        decay: κ.
        offset: τ.
        total: D, the documents that the stream will have.
    """

    decay: float
    offset: float
    total: float

    def take(
        self, verbs: em.Verbs[TopicTheta, TopicStats], theta: TopicTheta, batches: Iterable[Batch], number: int
    ) -> tuple[TopicTheta, int]:
        """Theta after a step for every batch, and the number of the next step."""
        for batch in batches:
            running = em.Running(self.statistics(theta), self.total)
            rate = (self.offset + number) ** -self.decay
            theta, _ = em.stepwise(verbs, theta, [batch], running, rate=rate, total=self.total)
            number += 1
        return theta, number

    def statistics(self, theta: TopicTheta) -> TopicStats:
        """Mean statistics of a document that theta is the M-step of; its priors are where they are stationary."""
        logs = torch.digamma(theta.alpha) - torch.digamma(theta.alpha.sum())
        return TopicStats((theta.concentration - theta.eta) / self.total, logs, torch.ones_like(theta.alpha))


def passes(steps: Steps, source: TopicSource, batch_size: int) -> em.Algorithm[Any, Any]:
    """An algorithm whose step is a pass over all documents in random order, `batch_size` at a time."""

    def run(
        verbs: em.Verbs[TopicTheta, TopicStats],
        state: em.State[TopicTheta, TopicStats],
        evaluate: em.Evaluate[TopicTheta, TopicStats],
    ) -> Iterator[em.State[TopicTheta, TopicStats]]:
        batches, number = source.shuffled(batch_size), 1
        while True:
            theta, number = steps.take(verbs, state.theta, batches, number)
            new = evaluate(theta)
            state = em.State(theta, new.summary, new.objective, gain=new.objective - state.objective)
            yield state

    return run
