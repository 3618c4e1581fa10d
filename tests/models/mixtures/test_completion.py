"""Document completion of a mixture of multinomials, by hand on tiny documents."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from jensen import LatentDirichletAllocation, Mixture, NaiveBayes
from jensen.formulas.completion import per_word

# Words 0 0 1, 1 2 2 2, 0, none.
DOCUMENTS = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
TRAINED = np.array([[5.0, 1.0, 1.0], [4.0, 2.0, 1.0], [1.0, 1.0, 6.0], [1.0, 2.0, 5.0]])


def fitted(x=TRAINED):
    return Mixture(2, families="multinomial", alpha=0.5, random_state=0).fit(x)


def by_hand(model):
    """Of the first two documents, from the weights and probabilities."""
    pi = model.weights_
    beta = np.stack([model.parameters_[j]["probability"] for j in range(3)], 1)
    # Given 0 and 1, the 2nd word is 0; given 1 and 2, the 2nd and 4th are 2.
    halves = [([0, 1], [0]), ([1, 2], [2, 2])]
    out = []
    for given, scored in halves:
        q = pi * np.prod(beta[:, given], 1)
        q = q / q.sum()
        out.append(sum(math.log(q @ beta[:, word]) for word in scored))
    return out


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csc_matrix, pd.DataFrame])
def test_the_component_of_the_first_half_predicts_the_second(convert):
    model = fitted()
    # A document of fewer than two words has nothing to score.
    assert_allclose(model.completion_samples(convert(DOCUMENTS)), [*by_hand(model), 0.0, 0.0], rtol=1e-12)
    found, (one, two) = model.document_completion(convert(DOCUMENTS)), by_hand(model)
    assert (found.n_words, found.n_documents) == (3.0, 2)
    assert found.nats_per_word == pytest.approx((one + two) / 3, rel=1e-12)
    apart = [one - found.nats_per_word, two - 2 * found.nats_per_word]
    assert found.standard_error == pytest.approx(math.sqrt(2 * (apart[0] ** 2 + apart[1] ** 2)) / 3, rel=1e-9)
    assert_allclose(found.nats, [one, two, 0.0, 0.0])
    assert_allclose(found.words, [1.0, 2.0, 0.0, 0.0])


def test_one_component_is_one_topic_as_the_prior_goes_to_zero():
    model = Mixture(1, families="multinomial").fit(TRAINED)
    topic = LatentDirichletAllocation(1, topic_word_prior=1e-12, random_state=0).fit(TRAINED)
    assert_allclose(topic.completion_samples(DOCUMENTS), model.completion_samples(DOCUMENTS), rtol=1e-9)
    # The second halves are 0, and 2 2; the counts of the words are 11, 6, 13 of 30.
    expected = [math.log(11 / 30), 2 * math.log(13 / 30), 0.0, 0.0]
    assert_allclose(model.completion_samples(DOCUMENTS), expected, rtol=1e-12)


def test_a_word_of_probability_zero_has_no_finite_score():
    model = Mixture(1, families="multinomial").fit([[2, 1, 0], [1, 3, 0]])
    assert model.completion_samples(DOCUMENTS)[1] == -np.inf
    assert model.document_completion(DOCUMENTS).perplexity == np.inf


def test_classes_complete_documents():
    model = NaiveBayes(families="multinomial").fit(TRAINED, [0, 0, 1, 1])
    assert np.isfinite(model.completion_samples(DOCUMENTS)).all()


def test_a_weight_of_documents_is_a_count():
    rng = np.random.default_rng(0)
    total, words, weight = -rng.random(20), rng.integers(0, 5, 20).astype(float), rng.integers(0, 3, 20)
    again = np.repeat(np.arange(20), weight)
    assert_allclose(per_word(total * words, words, weight), per_word((total * words)[again], words[again]))


class TestErrors:
    def test_other_families_have_no_words(self):
        model = Mixture(2)
        assert not hasattr(model, "document_completion")
        with pytest.raises(AttributeError) as found:
            model.completion_samples(DOCUMENTS)
        assert "only words can be completed; give families='multinomial'" in str(found.value.__cause__)

    def test_a_missing_count(self):
        with pytest.raises(ValueError, match=r"X holds NaN in row 0, column 1, and document completion needs"):
            fitted().document_completion([[1.0, np.nan, 2.0]])

    def test_no_document_has_two_words(self):
        with pytest.raises(ValueError, match="X has no document of two words or more"):
            fitted().document_completion(DOCUMENTS[2:])
