"""Document completion of a topic model: θ̂ = γ/Σγ of one half of the words scores the other half."""

from __future__ import annotations

from torch import Tensor

from jensen.data.words import halves
from jensen.formulas.completion import word_scores
from jensen.models.topics.em import TopicTheta
from jensen.models.topics.inference import Patience, posterior


def completion_scores(theta: TopicTheta, counts: Tensor, patience: Patience) -> tuple[Tensor, Tensor]:
    """ln p of the second half of every document (n,) given the first, and the number of its words (n,)."""
    given, scored = halves(counts)
    gamma = posterior(theta, given, patience)
    return word_scores(gamma / gamma.sum(1, keepdim=True), theta.mean_topics, scored)
