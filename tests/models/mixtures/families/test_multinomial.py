"""A block of words: scipy's multinomial without its coefficient, naive Bayes, words that never occur."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import dirichlet, multinomial
from sklearn.naive_bayes import MultinomialNB

from column_families import batch_of, log_density, tensor
from jensen.models.mixtures.families.multinomial import MultinomialFamily, Multinomials

BETA = [[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]]


def test_the_density_is_scipys_without_the_coefficient():
    x = np.random.default_rng(0).multinomial(6, BETA[0], 30).astype(float)
    coefficient = gammaln(7) - gammaln(x + 1).sum(1)
    expected = np.column_stack([multinomial.logpmf(x, 6, beta) for beta in BETA]) - coefficient[:, None]
    found = log_density(Multinomials(tensor(BETA)), x)
    assert not found.isnan().any()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_probabilities_sum_to_1_over_texts_of_one_length():
    texts = np.array([np.bincount(words, minlength=3) for words in product(range(3), repeat=4)], dtype=float)
    found = log_density(Multinomials(tensor(BETA)), texts)
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2, dtype=torch.float64))


def test_only_the_observed_words_count():
    found = log_density(Multinomials(tensor(BETA)), [[np.nan, 2.0, 1.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_allclose(found[0], 2 * np.log([0.5, 0.9]) + np.log([0.3, 0.1]), rtol=1e-12)
    assert found[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_the_mode_is_multinomial_naive_bayes(alpha):
    rng = np.random.default_rng(0)
    x, y = rng.poisson(1.0, (50, 6)).astype(float), rng.integers(0, 3, 50)
    theirs = MultinomialNB(alpha=alpha).fit(x, y)
    family = MultinomialFamily(alpha + 1)
    standard = family.standard(3, 6)
    ours = family.m_step(standard, standard.moments(tensor(np.eye(3)[y].T), standard.view(batch_of(x))))
    np.testing.assert_allclose(ours.probabilities.log(), theirs.feature_log_prob_, rtol=1e-12)


def test_the_prior_is_a_density():
    beta = tensor([BETA[0]])
    assert float(MultinomialFamily(1.7).log_prior(Multinomials(beta))) == pytest.approx(
        dirichlet.logpdf(BETA[0], [1.7] * 3)
    )
    uneven = [1.5, 2.0, 1.0]
    found = MultinomialFamily(tensor(uneven)).log_prior(Multinomials(beta))
    assert float(found) == pytest.approx(dirichlet.logpdf(BETA[0], uneven))


def test_draws_have_a_length():
    components = MultinomialFamily(length=7).standard(2, 3)
    drawn = components.draw(torch.tensor([0, 1, 1]), torch.Generator().manual_seed(0))
    assert drawn.sum(1).tolist() == [7.0] * 3
    assert components.expectation.sum(1).tolist() == pytest.approx([7.0, 7.0])
    assert components.n_parameters == 2 * 2


def test_words_are_counts():
    with pytest.raises(ValueError, match=r"column 'the' holds 0\.5, but a column of words has only counts"):
        MultinomialFamily().check(tensor([[0.5, 1.0]]), ["the", "a"])
