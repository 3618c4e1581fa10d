"""What makes a classifier of a mixture whose components belong to classes.

p(y=c | x) = Σ_{k of class c} π_k p_k(x) / p(x)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from jensen.data.container import Table, n_rows, take
from jensen.data.labels import are_unlabelled, of_one_kind


def labelled(X: Table, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[Any, Any, Any]:
    """The rows with a label, their labels and their weights; at least one must have a label."""
    no_label = "y has no label; accuracy is that of rows with one: give the class of at least one row"
    if y is None:
        raise ValueError(no_label)
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.shape != (n_rows(X),):
        return X, y, sample_weight  # scikit-learn reports wrong shapes
    labels = of_one_kind(labels)
    known = np.flatnonzero(~are_unlabelled(labels, unlabelled))
    if not len(known):
        raise ValueError(no_label)
    if len(known) == len(labels):
        return X, y, sample_weight
    found = labels[known]
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return take(X, known), np.array(found.tolist()) if found.dtype == object else found, weight


def check_classes(asked: Any, found: np.ndarray) -> None:
    """An error if a first batch lacks one of the classes that its caller expects."""
    missing = np.setdiff1d(asked, found).tolist()
    if missing:
        raise ValueError(f"the first batch has no row of the classes {missing}; give it rows of every class")
