"""Figures of all documents together, which are in memory or in a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from jensen.contract.scanning import as_scan
from jensen.data.container import Kind
from jensen.engines.em.streamed import sum_over
from jensen.files.scan import Block, Scan
from jensen.models.topics.completion import completion_scores
from jensen.models.topics.inference import bound_terms
from jensen.runtime.threads import at_most

Sums = TypeVar("Sums")


@dataclass(frozen=True)
class OfBlock:
    """What a function of a model and its documents returns about a block."""

    model: Any
    function: Callable[[Any, Any], Any]

    def __call__(self, block: Block) -> Any:
        return self.function(self.model, self.model._of_block(block.table))


def over_documents(model: Any, X: Any, function: Callable[[Any, Any], Sums]) -> Sums:
    """What a function returns about documents; about those of a scan or of dask, the sum over blocks."""
    rows = as_scan(X, None, None, None)
    return sum_over(rows, OfBlock(model, function)) if isinstance(rows, Scan) else function(model, X)


def bound_sums(model: Any, X: Any) -> Tensor:
    """scikit-learn's bound, the number of words and that of documents (3,)."""
    counts, _ = model._read(X)
    with at_most(model.n_jobs):
        terms = bound_terms(model.theta_, counts, model._patience, topics=model.theta_.expected_likelihood)
    return torch.stack([terms.total.sum(), counts.values().sum(), torch.tensor(float(counts.shape[0])).double()])


@dataclass(frozen=True)
class Completed:
    """ln p of half of the words of every document given the others, and the number of these words."""

    total: Tensor
    n_words: Tensor
    kind: Kind

    def __add__(self, other: Completed) -> Completed:
        total, n_words = torch.cat([self.total, other.total]), torch.cat([self.n_words, other.n_words])
        return Completed(total, n_words, self.kind)


def completed(model: Any, X: Any) -> Completed:
    counts, kind = model._read(X)
    with at_most(model.n_jobs):
        return Completed(*completion_scores(model.theta_, counts, model._patience), kind)
