"""The words of a scan of texts, found in one sweep whose parts add, by the rules of CountVectorizer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from jensen.engines.em.streamed import sum_over
from jensen.files.scan import Block, Scan
from jensen.models.topics.reading import block_texts


@dataclass(frozen=True)
class WordCounts:
    """How many documents have each word, how often it occurs in all, and the number of documents."""

    documents: Counter[str]
    occurrences: Counter[str]
    n_documents: int

    def __add__(self, other: WordCounts) -> WordCounts:
        # In place: the left one is a sum that nobody else has.
        self.documents.update(other.documents)
        self.occurrences.update(other.occurrences)
        return WordCounts(self.documents, self.occurrences, self.n_documents + other.n_documents)


@dataclass(frozen=True)
class CountBlock:
    stop_words: Any

    def __call__(self, block: Block) -> WordCounts:
        texts = block_texts(block.table)
        analyse = CountVectorizer(stop_words=self.stop_words).build_analyzer()
        documents: Counter[str] = Counter()
        occurrences: Counter[str] = Counter()
        for text in texts:
            words = Counter(analyse(text))
            occurrences.update(words)
            documents.update(words.keys())
        return WordCounts(documents, occurrences, len(texts))


def find_vocabulary(model: Any, scan: Scan) -> np.ndarray:
    """The words of a scan of texts, sorted; the limits are those of CountVectorizer."""
    return limited(model, sum_over(scan, CountBlock(model.stop_words)))


def limited(model: Any, found: WordCounts) -> np.ndarray:
    words = np.array(sorted(found.documents), dtype=str)
    if not len(words):
        raise ValueError("empty vocabulary: the texts of the scan have no words beside stop_words; give other texts")
    low, high = (
        value if isinstance(value, Integral) else value * found.n_documents for value in (model.min_df, model.max_df)
    )
    if high < low:
        raise ValueError(f"max_df={model.max_df} is fewer documents than min_df={model.min_df}; lower min_df")
    in_documents = np.array([found.documents[word] for word in words.tolist()])
    is_kept = (in_documents >= low) & (in_documents <= high)
    if model.max_features is not None:
        occurrences = np.array([found.occurrences[word] for word in words.tolist()])
        # The same sort as scikit-learn's, so that ties end as they do there.
        most = (-occurrences[is_kept]).argsort()[: model.max_features]
        kept = np.zeros_like(is_kept)
        kept[np.flatnonzero(is_kept)[most]] = True
        is_kept = kept
    if not is_kept.any():
        raise ValueError(
            f"no word of the scan is left by min_df={model.min_df} and max_df={model.max_df}; lower min_df or raise "
            "max_df"
        )
    return words[is_kept]
