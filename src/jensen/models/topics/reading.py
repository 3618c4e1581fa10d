"""Documents as users have them: texts, tables of counts, sparse matrices."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor

from jensen.data.container import Kind, is_frame, names_in
from jensen.data.labels import MISSING
from jensen.data.names import shown
from jensen.data.reader import column_names, read_array
from jensen.data.sparse import rows_tensor


def is_texts(X: Any) -> bool:
    """Whether X is one text per document: a list, tuple, array or series of them."""
    if isinstance(X, str | bytes):
        raise ValueError(f"X is one text, {str(X)[:30]!r}; give a list with one text per document")
    if isinstance(X, list | tuple):
        some = [value for value in X[:100] if not is_missing(value)]
        if not X or (some and all(is_tokens(value) for value in some)):
            given = "empty" if not X else "lists of words"
            raise ValueError(f"X is {given}; give one text per document, such as ' '.join(words), or counts of words")
        return bool(some) and all(isinstance(value, str) for value in some)
    if getattr(X, "ndim", None) == 1 or (hasattr(X, "to_list") and not hasattr(X, "columns")):
        first = next((value for value in X if not is_missing(value)), None)
        return isinstance(first, str)
    return False


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == MISSING


def is_tokens(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(word, str) for word in value)


def texts_of(X: Any) -> list[str]:
    """The texts; one that is missing has no words."""
    texts = ["" if is_missing(value) else value for value in X]
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X holds {text!r} in row {row}, which is no text; give one text per document")
    return texts


def read_documents(model: BaseEstimator, X: Any, *, reset: bool) -> tuple[Tensor, Kind, bool]:
    """Counts (n, V) as a CSR tensor in double precision, their kind, and whether they were sparse or texts."""
    if is_texts(X):
        matrix = count_words(model, texts_of(X), reset=reset)
        return rows_tensor(matrix), Kind("numpy", "float64"), True
    if reset and hasattr(model, "vocabulary_"):
        del model.vocabulary_
    if is_frame(X):
        X = words_of_frame(model, X)
    array, kind = read_array(model, X, reset=reset, sparse=True)
    was_sparse: bool = issparse(array)
    matrix = csr_array(array, dtype=np.float64)
    check_counts(model, matrix)
    matrix.eliminate_zeros()
    return rows_tensor(matrix), kind, was_sparse


def words_of_frame(model: Any, X: Any) -> Any:
    """A data frame, with the columns of a model of texts in their order; an error for a column of texts alone."""
    names = names_in(X)
    if len(names) == 1 and is_texts(column := nw.from_native(X, eager_only=True)[:, 0].to_list()):
        raise ValueError(
            f"X is a table with {len(column)} texts in its column {shown(names[0])}; give the column, X[{names[0]!r}]"
        )
    words = getattr(model, "vocabulary_", None)
    if words is None:
        return X
    absent = [word for word in words if word not in set(names)]
    if absent:
        raise ValueError(
            f"X has no column of counts of {shown(absent[0])}, which is among the {len(words)} words of the model; "
            "give texts, or a table with a column for every word"
        )
    return nw.from_native(X, eager_only=True).select(list(words)).to_numpy()


def count_words(model: Any, texts: list[str], *, reset: bool) -> csr_array:
    """The words of texts, counted by scikit-learn; a fitted model counts those of its vocabulary."""
    if reset:
        options = {name: getattr(model, name) for name in ("stop_words", "min_df", "max_df", "max_features")}
        counter = CountVectorizer(dtype=np.float64, **options)
        matrix = counter.fit_transform(texts)
        model.vocabulary_ = counter.get_feature_names_out().astype(str)
        model.n_features_in_ = matrix.shape[1]
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
        return csr_array(matrix)
    words = known_words(model)
    counts = counted(words, texts)
    if len(texts) and not counts.nnz and any(text.strip() for text in texts):
        raise ValueError(
            f"no word of X is in the vocabulary of the model, {len(words)} words such as {shown(words[0])}; "
            "give texts like those of the fit"
        )
    return counts


def known_words(model: Any) -> list[str]:
    """The words that a fitted model counts in texts."""
    words = getattr(model, "vocabulary_", getattr(model, "feature_names_in_", None))
    if words is None:
        raise ValueError(
            "X holds texts, but the model was fitted to counts whose words have no names; give counts "
            f"(n, {model.n_features_in_}), or fit the model to texts"
        )
    return list(words)


def counted(words: list[str], texts: list[str]) -> csr_array:
    """How often these words occur in texts (n, V)."""
    return csr_array(CountVectorizer(dtype=np.float64, vocabulary=words).transform(texts))


def texts_in(table: Any) -> Any:
    """The texts of a block of a scan: a list or a column of them, or a table with no other column; None for counts."""
    if is_frame(table):
        if len(names_in(table)) != 1:
            return None
        table = nw.from_native(table, eager_only=True)[:, 0].to_list()
        # A later block may have missing texts only.
        return table if all(map(is_missing, table)) or is_texts(table) else None
    return table if not issparse(table) and is_texts(table) else None


def block_texts(table: Any) -> list[str]:
    """The texts of a block of a scan that began with texts."""
    found = texts_in(table)
    if found is None:
        raise ValueError("the scan begins with texts, and these rows are none; give one column of texts, with columns=")
    return texts_of(found)


def check_counts(model: BaseEstimator, matrix: csr_array) -> None:
    """An error for counts that are missing or negative."""
    for wrong, what, wanted in (
        (
            np.isnan(matrix.data),
            "Input X contains NaN in data passed to",
            "counts; write 0 where a word does not occur",
        ),
        (matrix.data < 0, "Negative values in data passed to", "counts of 0 or more; correct the value"),
    ):
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
            name = column_names(model)[int(matrix.indices[place])]
            raise ValueError(
                f"{what} {type(model).__name__}: X holds {matrix.data[place]:g} in row {row}, column {name}, but it is "
                f"for {wanted}, or choose another model"
            )
