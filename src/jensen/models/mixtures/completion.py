"""Document completion of a mixture of multinomials: the component of one half of the words scores the other half.

    p(w | first half) = Σ_k q_k β_kw,   q_k ∝ π_k Π_v β_kv^{c_v} over the words of the first half
Both functions are methods of `Mixture`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from jensen.data.container import Kind
from jensen.data.sparse import is_sparse, rows_tensor
from jensen.data.words import halves
from jensen.formulas.completion import Completion, completion_of, word_scores
from jensen.models.mixtures.inference import responsibilities


def has_words(model: Any) -> bool:
    """A check for methods that only a mixture of words has."""
    if not model._takes_sparse:
        raise AttributeError(
            f"families={model.families!r}, and only words can be completed; give families='multinomial', which makes "
            "all columns words"
        )
    return True


@available_if(has_words)  # type: ignore[untyped-decorator]
def document_completion(self: Any, X: Any) -> Completion:
    """How well half of the words of every document predict the other half: nats per word, and perplexity."""
    return completion_of(*completion(self, X)[:2])


@available_if(has_words)  # type: ignore[untyped-decorator]
def completion_samples(self: Any, X: Any) -> Any:
    """ln p of the 2nd, 4th, ... words of every document given the others, in nats per document."""
    total, _, kind = completion(self, X)
    return kind.values(total)


def completion(model: Any, X: Any) -> tuple[Tensor, Tensor, Kind]:
    """ln p of the second half of every document (n,) given the first, and the number of its words (n,)."""
    counts, kind = model._read(X)
    given, scored = halves(counts if is_sparse(counts) else as_sparse(counts))
    theta = model.theta_
    (words,) = theta.components.parts
    q = responsibilities(theta, given)
    return *word_scores(q.double(), words.probabilities.double(), scored), kind


def as_sparse(counts: Tensor) -> Tensor:
    """Dense counts (n, V) as a CSR tensor; without a count no word can be told from the others."""
    missing = counts.isnan()
    if bool(missing.any()):
        row, column = np.argwhere(missing.numpy())[0].tolist()
        raise ValueError(
            f"X holds NaN in row {row}, column {column}, and document completion needs the count of every word; write "
            "0 where a word does not occur"
        )
    return rows_tensor(csr_array(counts.to(torch.float64).cpu().numpy()))
