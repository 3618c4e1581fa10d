"""Bernoulli columns: probabilities of exactly 0 and 1, naive Bayes, the prior as a density."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import beta
from sklearn.naive_bayes import BernoulliNB

from column_families import batch_of, log_density, tensor
from jensen.models.mixtures.families.bernoulli import BernoulliFamily, Bernoullis

P = [[0.3, 0.0, 1.0, 0.6], [1.0, 1.0, 0.0, 0.2], [0.5, 0.5, 0.5, 1.0]]
EVERY = np.array([*product([0.0, 1.0], repeat=4)])


def test_probabilities_sum_to_1_even_at_the_borders():
    found = log_density(Bernoullis(tensor(P)), EVERY)
    assert not found.isnan().any()
    torch.testing.assert_close(found.exp().sum(0), torch.ones(3, dtype=torch.float64))
    expected = np.prod(np.where(EVERY[:, None, :] == 1, P, 1 - np.array(P)), 2)
    np.testing.assert_allclose(found.exp(), expected, rtol=1e-12)


def test_a_missing_entry_is_summed_out_at_the_borders():
    x = EVERY.copy()
    x[:, 2] = np.nan
    both = torch.stack([log_density(Bernoullis(tensor(P)), np.where(np.isnan(x), v, x)) for v in (0.0, 1.0)])
    torch.testing.assert_close(log_density(Bernoullis(tensor(P)), x), both.logsumexp(0))


def test_what_never_occurs_has_probability_0():
    x = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    standard = BernoulliFamily().standard(1, 2)
    moments = standard.moments(torch.ones(1, 3, dtype=torch.float64), standard.view(batch_of(x)))
    found = BernoulliFamily().m_step(standard, moments)
    assert found.probabilities.tolist() == [[0.0, pytest.approx(2 / 3)]]
    assert torch.isneginf(log_density(found, [[1.0, 1.0]])).all()
    assert float(BernoulliFamily().expected_log_density(found, moments)) == pytest.approx(2 * np.log(2 / 3) - np.log(3))
    assert float(BernoulliFamily().log_prior(found)) == 0


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.3])
def test_the_mode_is_bernoulli_naive_bayes(alpha):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (60, 5)).astype(float), rng.integers(0, 3, 60)
    theirs = BernoulliNB(alpha=alpha, force_alpha=True).fit(x, y)
    family = BernoulliFamily(alpha + 1, alpha + 1)
    standard = family.standard(3, 5)
    one_hot = tensor(np.eye(3)[y].T)
    ours = family.m_step(standard, standard.moments(one_hot, standard.view(batch_of(x))))
    np.testing.assert_allclose(ours.probabilities.log(), theirs.feature_log_prob_, rtol=1e-12)


def test_the_prior_is_a_density():
    p = tensor(P[2:]) * 0.9
    found = BernoulliFamily(2.5, 1.5).log_prior(Bernoullis(p))
    assert float(found) == pytest.approx(beta.logpdf(p.numpy(), 2.5, 1.5).sum())
    with pytest.raises(ValueError, match=r"a=0\.5 has no mode; give 1 or more"):
        BernoulliFamily(0.5, 1.0)


@pytest.mark.parametrize("value", [0.5, 2.0, 1e200, -1e200, np.inf])
def test_only_0_and_1_have_a_probability(value):
    found = log_density(Bernoullis(tensor(P)), [[value, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]])
    assert torch.isneginf(found[0]).all()
    assert not torch.isneginf(found[1]).all()
    with pytest.raises(ValueError, match=r"column 'b' holds .* code it as 0 and 1"):
        BernoulliFamily().check(tensor([[1.0, value]]), ["a", "b"])


def test_borders_have_coordinates():
    family, components = BernoulliFamily(), Bernoullis(tensor(P))
    vector = family.pack(components)
    assert torch.isfinite(vector).all()
    back = family.unpack(vector, 3, 4).probabilities
    torch.testing.assert_close(back, components.probabilities, rtol=1e-12, atol=1e-15)
    assert ((back > 0) & (back < 1)).all()
