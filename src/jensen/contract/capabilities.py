"""What a model can do, as a value that is known before any fit.

The registry, `compare`, `select`, the report and the command line read it, and scikit-learn's tags follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sklearn.utils import Tags


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a model takes and returns with its default arguments; a field left out claims nothing.

    Args:
        score: whether `score_samples` is ln p(x) ("exact") or a lower bound of it ("bound"); None without scores.
        missing_in_fit: whether X may have missing values in `fit`.
        missing_in_score: whether `score_samples` takes rows with missing values, by their observed entries.
        text: whether columns may hold text and categories besides numbers.
        values: the numbers that X may hold: "real", "nonnegative", "counts" (0, 1, 2, ...) or "words" (counts of words,
            which may be fractions); the scores of the last two are probabilities.
        texts: whether X may be one text per document.
        images: whether rows may be images (h, w) or (c, h, w).
        sparse: whether X may be a sparse matrix.
        labels: whether `fit` reads y as labels; "needed" where there is no fit without y.
        predict: whether there is a `predict`; "labels" where only a fit with labels has one.
        weights: whether `fit` takes a sample_weight.
        batches: whether there is a `partial_fit`.
        gradients: whether it is trained by stochastic gradients, which several processes can share.
    """

    score: Literal["exact", "bound"] | None = None
    missing_in_fit: bool = False
    missing_in_score: bool = False
    text: bool = False
    values: Literal["real", "nonnegative", "counts", "words"] = "real"
    texts: bool = False
    images: bool = False
    sparse: bool = False
    labels: bool | Literal["needed"] = False
    predict: bool | Literal["labels"] = False
    weights: bool = False
    batches: bool = False
    gradients: bool = False

    @property
    def scores_complete_rows_only(self) -> bool:
        """Whether rows with missing values can be trained on, but not scored."""
        return self.score is not None and self.missing_in_fit and not self.missing_in_score

    @property
    def measure(self) -> str:
        """What scores are of a column of numbers: the probability of a count or of words, or else a density."""
        return "probability" if self.values in ("counts", "words") else "density"

    def write_tags(self, tags: Tags) -> None:
        """Set scikit-learn's tags of the same meaning."""
        tags.input_tags.allow_nan = self.missing_in_fit
        tags.input_tags.sparse = self.sparse
        tags.input_tags.positive_only = self.values != "real"
        tags.input_tags.three_d_array = self.images
        tags.input_tags.string = self.text
        # scikit-learn's checks then round their rows.
        tags.input_tags.categorical = self.text or self.values == "counts"
        tags.target_tags.required = self.labels == "needed"


class ByArguments:
    """Capabilities that depend on the arguments: a class has those of the default arguments, a model its own.

    Args:
        default: with the default arguments.
        own: takes a model to what it can do with its arguments.
    """

    def __init__(self, default: Capabilities, own: Callable[[Any], Capabilities]) -> None:
        self.default, self.own = default, own

    def __get__(self, model: Any, owner: type | None = None) -> Capabilities:
        return self.default if model is None else self.own(model)
