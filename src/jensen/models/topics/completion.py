"""Document completion: how well half of a document's words predict the other half.

    θ̂ = γ/Σγ from one half;   perplexity = exp(-mean ln Σ_k θ̂_k β̂_kw) over the words of the other
Unlike a bound divided by words, it is the probability of words that inference has not seen, whatever the model;
Wallach et al. (2009), Asuncion et al. (2009). The halves are the 1st, 3rd, ... and the other words in vocabulary order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from jensen.data.words import halves
from jensen.models.topics.em import TopicTheta
from jensen.models.topics.inference import Patience, posterior, word_scores


@dataclass(frozen=True)
class Completion:
    """
    Args:
        nats_per_word: mean ln p of a word in the second halves.
        standard_error: of nats_per_word, from the variation between documents.
        n_words: words that were scored.
        n_documents: documents that have any.

    Example:
        >>> Completion(nats_per_word=-7.0, standard_error=0.02, n_words=1000, n_documents=10).perplexity
        1096.6331584284585
    """

    nats_per_word: float
    standard_error: float
    n_words: float
    n_documents: int

    @property
    def perplexity(self) -> float:
        return math.exp(-self.nats_per_word)

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.1f}: {self.nats_per_word:.4f} ± {self.standard_error:.4f} nats per word, "
            f"{self.n_words:.0f} words of {self.n_documents} documents"
        )


def completion_scores(theta: TopicTheta, counts: Tensor, patience: Patience) -> tuple[Tensor, Tensor]:
    """ln p of the second half of every document (n,) given the first, and the number of its words (n,)."""
    given, scored = halves(counts)
    gamma = posterior(theta, given, patience)
    return word_scores(theta, gamma / gamma.sum(1, keepdim=True), scored)


def completion_of(total: Tensor, length: Tensor) -> Completion:
    """From ln p of the scored words of every document (n,), and their number (n,)."""
    n_words = float(length.sum())
    if n_words == 0:
        raise ValueError("X has no document of two words or more; document completion needs one half to score")
    mean = float(total.sum()) / n_words
    # Of a ratio of sums over documents, which are independent; their words are not.
    error = float((total - mean * length).square().sum().sqrt()) / n_words
    n = int((length > 0).sum())
    return Completion(mean, error * math.sqrt(n / max(1, n - 1)), n_words, n)
