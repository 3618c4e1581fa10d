"""Document completion: how well half of a document's words predict the other half.

    perplexity = exp(-mean ln p(w | first half)),   p(w | first half) = Σ_k s_k β_kw
over the words of the second half; s are the shares of topics, or the posterior of the component, from the first half.
Unlike a bound divided by words, it is the probability of words that inference has not seen, whatever the model;
Wallach et al. (2009), Asuncion et al. (2009). The halves are the 1st, 3rd, ... and the other words in vocabulary order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor


@dataclass(frozen=True)
class Completion:
    """
    Args:
        nats_per_word: mean ln p of a word in the second halves.
        standard_error: of nats_per_word, from the variation between documents.
        n_words: words that were scored.
        n_documents: documents that have any.
        nats: ln p of the second half of every document (n,).
        words: the number of its words (n,).

    Example:
        >>> Completion(nats_per_word=-7.0, standard_error=0.02, n_words=1000, n_documents=10).perplexity
        1096.6331584284585
    """

    nats_per_word: float
    standard_error: float
    n_words: float
    n_documents: int
    nats: np.ndarray | None = field(default=None, repr=False, compare=False)
    words: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def perplexity(self) -> float:
        return perplexity(self.nats_per_word)

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.1f}: {self.nats_per_word:.4f} ± {self.standard_error:.4f} nats per word, "
            f"{self.n_words:.0f} words of {self.n_documents} documents"
        )


def perplexity(nats_per_word: float) -> float:
    """exp(-nats), infinite where that overflows."""
    return math.exp(-nats_per_word) if nats_per_word > -700 else math.inf


def word_scores(shares: Tensor, topics: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_w c_w ln Σ_k s_k β_kw and the number of words of every document (n,), from its shares s (n, K) of topics β
    (K, V); counts (n, V) are a CSR tensor, and only the words that occur are computed.
    """
    n, v = counts.shape
    probability = torch.sparse.sampled_addmm(counts, shares, topics, beta=0.0).values()
    ends, columns, ones = counts.crow_indices().numpy(), counts.col_indices().numpy(), np.ones(v)
    scores, words = (
        torch.from_numpy(csr_array((values.numpy(), columns, ends), (n, v)) @ ones)
        for values in (counts.values() * probability.log(), counts.values())
    )
    return scores, words


def per_word(total: np.ndarray, words: np.ndarray, weight: np.ndarray | None = None) -> tuple[float, float]:
    """The mean of nats per word, and its standard error, from the nats of documents (n,) and their words (n,).

    A weight (n,) is a count of the document.
    """
    weight = np.ones(len(words)) if weight is None else weight
    n_words, n = float(weight @ words), float(weight @ (words > 0))
    mean = float(weight @ total) / n_words
    if not math.isfinite(mean):
        return mean, math.nan
    # Of a ratio of sums over documents, which are independent; their words are not.
    error = math.sqrt(float(weight @ (total - mean * words) ** 2)) / n_words
    return mean, error * math.sqrt(n / (n - 1)) if n > 1 else math.nan


def completion_of(total: Tensor, words: Tensor) -> Completion:
    """From ln p of the scored words of every document (n,), and their number (n,)."""
    n_words = float(words.sum())
    if n_words == 0:
        raise ValueError("X has no document of two words or more; document completion needs one half to score")
    mean, error = per_word(total.numpy(), words.numpy())
    return Completion(mean, error, n_words, int((words > 0).sum()), total.numpy(), words.numpy())
