"""Tables of words: rows are documents, and columns the counts of words in them.

A score is ln p of the words of a document in one order, given their number: a probability, without a grid and without
noise. That of a mixture of multinomials is exact and that of topics is a bound, which may be low for a good model. So
models of words are ranked by what both have without a bound, document completion (`formulas.completion`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from jensen.evaluate.footing import Footing
from jensen.registry import MODELS, model_class

WORDS = "words"
# Models that are of words in such a table, and of something else in others.
ALSO_OF_WORDS = ("mixture",)
# For a caption: what the scores are.
UNIT = (
    "ranked by document completion, the mean ln p of every second word of a document given its other words: nats per "
    "word, and perplexity; nats are ln p of all words of a document in one order, without a multinomial coefficient, "
    "and a bound that is low does not show that a model is bad"
)


def completes(model: Any) -> bool:
    """Whether a model is of words: it predicts half of a document from the other half."""
    return hasattr(getattr(model, "model", model), "document_completion")  # the model of `Chosen`


def check_no_texts(X: Any) -> None:
    """An error for one text per document."""
    some = [*X[:100]] if isinstance(X, (list, tuple)) or getattr(X, "ndim", 0) == 1 else []
    if any(isinstance(value, str) for value in some):
        raise ValueError(
            "X holds texts, one per document; count their words first, all with one vocabulary, and give "
            "CountVectorizer().fit_transform(X) of sklearn.feature_extraction.text"
        )


def is_of_words(X: Any, models: Any) -> bool:
    """Whether X is a table of words: it is sparse, or a table whose models are all of words."""
    if issparse(X):
        return True
    if len(X.shape) != 2 or (isinstance(models, str) and models == "auto"):
        return False
    given = models.values() if isinstance(models, Mapping) else models
    given = [given] if isinstance(given, str) or hasattr(given, "get_params") else list(given)
    names = [one.strip() if isinstance(one, str) else None for one in given]
    # A wrong name is an error later on.
    right = {*MODELS, *MODELS.values()}
    known = [model_class(name)() if name in right else one for name, one in zip(names, given, strict=True)]
    are_words = [completes(model) for model in known]
    return any(are_words) and all(
        is_one or name in ALSO_OF_WORDS for is_one, name in zip(are_words, names, strict=True)
    )


def words_footing(X: Any, discrete: Any) -> tuple[Any, Footing]:
    """Rows that can be taken apart, sparse ones as CSR, and their footing."""
    if discrete is False:
        raise ValueError("discrete=False asks for densities, and words have probabilities; leave it out")
    n, d = X.shape
    if not n or not d:
        raise ValueError(f"X has shape {(n, d)}, which is empty; give rows with columns")
    reason, held = "all models are of words, and columns are counts of words: probabilities", float(d)
    is_sparse: bool = issparse(X)
    if is_sparse:
        X = csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        check_counts(X)
        reason, held = "a sparse table holds counts of words: probabilities", X.nnz / n
    return X, Footing(WORDS, None, 0, (d,), ("probability",) * d, reason, held=held)


def check_counts(X: csr_array) -> None:
    """An error for sparse entries that count nothing."""
    wrong = ~(np.isfinite(X.data) & (X.data >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        raise ValueError(
            f"X is sparse and holds {X.data[place]:g} in row {row}, column {X.indices[place]}, but sparse rows are "
            "counts of words, 0 or more; give X.toarray() to compare models of numbers"
        )
