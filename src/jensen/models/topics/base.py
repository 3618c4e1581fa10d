"""What an estimator of topics does: reads documents, fits, answers, and keeps itself in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Rows, not_offered, whole_number
from jensen.contract.capabilities import Capabilities
from jensen.contract.em import EMEstimator
from jensen.contract.fitted import Fitted, Values, not_negative, positive, read_values
from jensen.data.container import Kind, as_array
from jensen.data.labels import encode_labels, numbers_of_classes
from jensen.data.reader import known_names, read_weights
from jensen.data.sparse import rows_matrix, some_rows
from jensen.files.scan import Scan
from jensen.formulas.completion import Completion, completion_of
from jensen.models.topics.describe import coherence, top_words, typical_documents
from jensen.models.topics.em import TopicTheta
from jensen.models.topics.inference import Patience, bound_terms, class_scores, draw, posterior
from jensen.models.topics.pictures import draw_shares, draw_topics
from jensen.models.topics.reading import block_texts, counted, known_words, read_documents, texts_in
from jensen.models.topics.scanning import survey_documents
from jensen.models.topics.scoring import bound_sums, completed, over_documents
from jensen.models.topics.vocabulary import find_vocabulary
from jensen.runtime.threads import at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMA = {
    "concentration": Values("K", "V", check=positive),
    "alpha": Values("K", check=positive),
    "eta": Values(check=positive),
    "length": Values(check=not_negative),
    "class_weights": Values("C", check=not_negative),
}
NO_CRITERION = (
    "the prior on topics leaves the number of free parameters open; document_completion(X) of other documents compares "
    "numbers of topics"
)
NO_IMPUTE = "a document is a bag of the words that occur, and in it no count can be missing"


def has_classes(model: TopicModel) -> bool:
    """A check for methods that only a fit with labels has."""
    if not len(getattr(model, "classes_", ())):
        raise AttributeError("the model has no classes; fit it with labels y for some documents")
    return True


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EMEstimator):
    """Documents, and the topics they are made of."""

    theta_: TopicTheta
    classes_: np.ndarray
    is_sparse_: bool
    n_components: int
    n_jobs: int | None
    mean_change_tol: float
    max_doc_update_iter: int
    total_samples: float
    capabilities = Capabilities(
        score="bound",
        values="words",
        texts=True,
        sparse=True,
        labels=True,
        predict="labels",
        weights=True,
        batches=True,
    )
    _takes_plain_numbers = False
    components_ = Fitted[np.ndarray](lambda model: model.theta_.concentration)
    exp_dirichlet_component_ = Fitted[np.ndarray](lambda model: model.theta_.expected_log_topics.exp())
    topics_kl_ = Fitted[float](lambda model: model.theta_.topics_kl.sum())
    impute = not_offered("impute", NO_IMPUTE)
    impute_draws = not_offered("impute_draws", NO_IMPUTE)
    bic = not_offered("bic", NO_CRITERION)
    aic = not_offered("aic", NO_CRITERION)

    # Documents

    def _remember(self, rows: Rows) -> None:
        super()._remember(rows)
        if len(rows.classes):
            self.classes_ = rows.classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _read(self, X: Any) -> tuple[Tensor, Kind]:
        check_is_fitted(self)
        counts, kind, _ = read_documents(self, X, reset=False)
        return counts, kind

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, is_batch: bool) -> Rows:
        if isinstance(X, Scan):
            return survey_documents(self, X)
        return super()._training_rows(X, y, sample_weight, is_batch)

    def _begin_scan(self, scan: Scan) -> None:
        head = scan.head().table
        if texts_in(head) is None:
            _, _, self.is_sparse_ = read_documents(self, head, reset=True)
            return
        self.vocabulary_ = find_vocabulary(self, scan)
        self.n_features_in_, self.is_sparse_ = len(self.vocabulary_), True

    def _of_block(self, table: Any) -> Any:
        # Not every block of texts need have a word of the vocabulary.
        return table if texts_in(table) is None else counted(known_words(self), block_texts(table))

    def _check_classes(self, classes: np.ndarray) -> None:
        if len(classes) > self.n_components:
            raise ValueError(
                f"n_components={self.n_components} is less than the {len(classes)} classes in y, and each has a topic; "
                "raise n_components, or pass y=None to ignore labels"
            )

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        counts, kind, was_sparse = read_documents(self, X, reset=reset)
        if reset:
            self.is_sparse_ = was_sparse
        n = counts.shape[0]
        weight = read_weights(sample_weight, n)
        known = None if reset else getattr(self, "classes_", np.array([]))
        kept = None if weight is None else (weight > 0).numpy()
        label, classes = encode_labels(y, n, known, kept)
        self._check_classes(classes)
        if weight is not None and kept is not None:
            label = None if label is None else label[kept]
            counts, weight = some_rows(counts, torch.from_numpy(np.flatnonzero(kept))), weight[kept]
        return Rows(counts, weight, label, classes, kind)

    def _find_constants(self, x: Any) -> None: ...  # a word that occurs nowhere has a topic's probability all the same

    def find_measure(self, X: Any) -> tuple[str, ...]:
        """`measure_` of a fit to X: every word has a probability."""
        return ("probability",) * read_documents(clone(self), X, reset=True)[0].shape[1]

    @property
    def words_(self) -> Sequence[Any]:
        """The words: of the texts, the names of a data frame's columns, or the columns' numbers."""
        check_is_fitted(self)
        found: Sequence[Any] = getattr(self, "vocabulary_", known_names(self))
        return found

    # Answers

    @property
    def _patience(self) -> Patience:
        return Patience(float(self.mean_change_tol), int(self.max_doc_update_iter))

    def bound(self, X: Any) -> Bound:
        """Expected ln p of the words - KL of a document's topics - KL of the words' topics, given the topics.

        Words stand in one order, without a multinomial coefficient. The topics' own KL is `topics_kl_`.
        """
        counts, kind = self._read(X)
        with at_most(self.n_jobs):
            terms = bound_terms(self.theta_, counts, self._patience)
        kl = {"topics": kind.values(terms.shares_kl), "words": kind.values(terms.assignments_kl)}
        return Bound(kind.values(terms.words), kl, is_exact=False)

    def score_samples(self, X: Any) -> Any:
        """A lower bound of ln p(words | topics) per document, in nats."""
        return self.bound(X).total

    def document_completion(self, X: Any) -> Completion:
        """How well half of the words of every document predict the other half: nats per word, and perplexity."""
        found = over_documents(self, X, completed)
        return completion_of(found.total, found.n_words)

    def completion_samples(self, X: Any) -> Any:
        """ln p of the 2nd, 4th, ... words of every document given the others, in nats per document."""
        found = completed(self, X)
        return found.kind.values(found.total)

    def posterior(self, X: Any) -> torch.distributions.Dirichlet:
        """q(θ|w): for every document a Dirichlet distribution of its topics."""
        return torch.distributions.Dirichlet(self._gamma(X)[0])

    def transform(self, X: Any, *, normalize: bool = True) -> Any:
        """The shares of the topics (n, K), E θ under the posterior; γ itself if not normalised."""
        gamma, kind = self._gamma(X)
        return kind.values(gamma / gamma.sum(1, keepdim=True) if normalize else gamma)

    def fit_transform(self, X: Any, y: Any = None, *, normalize: bool = True, **fit_params: Any) -> Any:
        """Fit, and return `transform(X)`."""
        return self.fit(X, y, **fit_params).transform(X, normalize=normalize)

    def _gamma(self, X: Any) -> tuple[Tensor, Kind]:
        counts, kind = self._read(X)
        with at_most(self.n_jobs):
            return posterior(self.theta_, counts, self._patience), kind

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """P(class | words) (n, C), from the bound of a document of each class: exact with one topic per class."""
        counts, kind = self._read(X)
        with at_most(self.n_jobs):
            return kind.values(class_scores(self.theta_, counts, self._patience).softmax(1))

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every document."""
        found: np.ndarray = self.classes_[np.asarray(self.predict_proba(X)).argmax(1)]
        return found

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Documents of Poisson length, and their topic shares (n, K); y is one class for all, or one for each.

        Counts are sparse if those of the fit were, or came from texts.
        """
        check_is_fitted(self)
        n = whole_number("n_samples", n_samples) if self.is_sparse_ else self._n_samples(n_samples)
        label = None
        if y is not None:
            has_classes(self)
            label = numbers_of_classes(y, self.classes_, n)
        drawn, shares = draw(self.theta_, n, self._generator(random_state), label)
        if self.is_sparse_:
            return drawn.astype(self._kind.dtype), self._kind.values(shares)
        return self._kind.table(torch.from_numpy(drawn.toarray())), self._kind.values(shares)

    def score(self, X: Any, y: Any = None) -> float:
        """scikit-learn's total: the bound of all documents at e^(E ln β), less the topics' KL.

        It is no figure to compare numbers of topics by; `document_completion` is.
        """
        return self._approx_bound(X)[0]

    def perplexity(self, X: Any, sub_sampling: bool = False) -> float:
        """scikit-learn's exp(-score / words), in which the topics' KL is divided by the words of X.

        On other documents than those of the fit it is wrong by orders of magnitude, and grows with the number of
        topics; `document_completion(X).perplexity` is the figure to use.
        """
        total, n_words = self._approx_bound(X, sub_sampling)
        return float(np.exp(-total / n_words))

    def _approx_bound(self, X: Any, sub_sampling: bool = False) -> tuple[float, float]:
        """scikit-learn's bound, and the number of words."""
        bound, n_words, n = over_documents(self, X, bound_sums).tolist()
        scale = float(self.total_samples) / n if sub_sampling else 1.0
        return scale * bound - float(self.theta_.topics_kl.sum()), scale * n_words

    # Topics as people read them

    @property
    def topics_(self) -> pd.DataFrame:
        """The ten most probable words of every topic: topic, share, rank, word, probability, lift."""
        return self.top_words()

    def top_words(self, n_words: int = 10) -> pd.DataFrame:
        """The most probable words of every topic, with probability, and lift over their share in all documents."""
        check_is_fitted(self)
        return top_words(self.theta_, self.words_, whole_number("n_words", n_words))

    def coherence(self, X: Any, n_words: int = 10, measure: str = "npmi") -> np.ndarray:
        """How often the top words of a topic occur in the same documents of X (K,), by "npmi" or "u_mass"."""
        if measure not in ("npmi", "u_mass"):
            raise ValueError(f"measure={measure!r} must be 'npmi' or 'u_mass'")
        counts, _ = self._read(X)
        return coherence(self.theta_, csr_array(rows_matrix(counts)), whole_number("n_words", n_words), measure)

    def count_words(self, X: Any) -> csr_array:
        """How often every word of the vocabulary occurs in the documents (n, V), as a sparse array."""
        return csr_array(rows_matrix(self._read(X)[0]))

    def typical_documents(self, X: Any, n: int = 3) -> pd.DataFrame:
        """The documents with the largest share of every topic: topic, rank, document (its row in X), share."""
        n_typical, (counts, _) = whole_number("n", n), self._read(X)
        with at_most(self.n_jobs):
            gamma = posterior(self.theta_, counts, self._patience)
        lengths = csr_array(rows_matrix(counts)).sum(1)
        return typical_documents((gamma / gamma.sum(1, keepdim=True)).numpy(), lengths, n_typical)

    def plot_topics(self, n_words: int = 8) -> Figure:
        """Draw the most probable words of every topic as bars; colour is their lift. Returns the figure."""
        return draw_topics(self.top_words(n_words), [str(name) for name in getattr(self, "classes_", ())])

    def plot_shares(self, X: Any, ax: Axes | None = None) -> Axes:
        """Draw the shares of the topics in documents X as a heat map, sorted by the largest topic of a document."""
        return draw_shares(as_array(self.transform(X)), [str(name) for name in getattr(self, "classes_", ())], ax)

    @property
    def doc_topic_prior_(self) -> float | np.ndarray:
        """α: one number if it is the same for all topics."""
        alpha = self.theta_.alpha.numpy()
        return float(alpha[0]) if (alpha == alpha[0]).all() else alpha.copy()

    @property
    def topic_word_prior_(self) -> float:
        """η."""
        return self.theta_.eta

    @property
    def random_state_(self) -> np.random.RandomState:
        """scikit-learn's generator for `random_state`."""
        state: np.random.RandomState = check_random_state(self.random_state)
        return state

    @property
    def n_parameters_(self) -> int:
        """Numbers in the topics: K (V - 1)."""
        check_is_fitted(self)
        k, v = self.theta_.concentration.shape
        return int(k * (v - 1))

    @property
    def _n_features_out(self) -> int:
        return self.theta_.n_topics

    # Files

    def _theta_record(self) -> dict[str, Tensor]:
        theta = self.theta_
        numbers = {name: torch.tensor(getattr(theta, name), dtype=torch.float64) for name in ("eta", "length")}
        return numbers | {name: getattr(theta, name) for name in ("concentration", "alpha", "class_weights")}

    def _theta_from(self, record: dict[str, Tensor]) -> TopicTheta:
        sizes = {"V": int(self.n_features_in_), "C": len(getattr(self, "classes_", ()))}
        found = read_values(record, SCHEMA, **sizes)
        topics, alpha, classes = found["concentration"], found["alpha"], found["class_weights"]
        return TopicTheta(topics, alpha, float(found["eta"]), float(found["length"]), classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
