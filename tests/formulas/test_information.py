"""The textbook checks: code lengths, the chain rule, maximum likelihood as minimum divergence."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.testing import assert_allclose
from torch.distributions import Categorical, Normal

from jensen import conditional_kl, cross_entropy, entropy, kl

RNG = np.random.default_rng(0)
P, Q = RNG.dirichlet(np.ones(12), size=2).reshape(2, 3, 4)


def test_a_uniform_code_for_32_symbols_takes_5_bits():
    assert entropy(np.full(32, 1 / 32), unit="bits") == pytest.approx(5)


def test_against_scipy():
    assert entropy(P) == pytest.approx(scipy.stats.entropy(P.ravel()))
    assert kl(P, Q, unit="bits") == pytest.approx(scipy.stats.entropy(P.ravel(), Q.ravel(), base=2))


def test_cross_entropy_is_entropy_plus_divergence():
    assert cross_entropy(P, Q) == pytest.approx(entropy(P) + kl(P, Q))


def test_divergence_is_zero_only_for_itself_and_not_symmetric():
    assert kl(P, P) == pytest.approx(0, abs=1e-15)
    assert kl(P, Q) > 0
    assert kl(P, Q) != pytest.approx(kl(Q, P))


def test_zero_probabilities():
    assert entropy([1.0, 0.0]) == 0
    assert kl([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert conditional_kl([[0.5, 0.0], [0.5, 0.0]], [[0.25, 0.25], [0.25, 0.25]]) == pytest.approx(0)


@pytest.mark.parametrize("unit", ["nats", "bits"])
def test_certainty_has_no_entropy_and_nothing_diverges_from_itself(unit):
    """Zeros are exact, and no zero is negative."""
    for value in (
        entropy([1.0, 0.0, 0.0], unit=unit),
        cross_entropy([1.0, 0.0], [1.0, 0.0], unit=unit),
        kl(P, P, unit=unit),
        conditional_kl(P, P, unit=unit),
    ):
        assert value == 0
        assert math.copysign(1, value) == 1


def test_divergence_is_never_negative():
    """Σ p ln(p/q) of tables that differ by rounding is of either sign; by the last term of a series it is 0 or more."""
    rng = np.random.default_rng(0)
    for size in (1e-16, 1e-12, 1e-8, 1e-4):
        for _ in range(50):
            p = rng.dirichlet(np.ones(6)).reshape(2, 3)
            shift = size * rng.normal(size=p.shape)
            q = p * (1 + shift - (p * shift).sum())
            assert kl(p, q) >= 0
            assert conditional_kl(p, q) >= 0
            assert float(kl(Categorical(torch.tensor(p.ravel())), Categorical(torch.tensor(q.ravel())))) >= 0
            # KL(p‖p(1+s)) = Σ p s² / 2 to leading order.
            if size == 1e-8:
                assert_allclose(kl(p, q), (p * (q / p - 1) ** 2).sum() / 2, rtol=1e-6)


def test_conditional_divergence_is_the_mean_over_columns():
    expected = sum(p.sum() * scipy.stats.entropy(p / p.sum(), q / q.sum()) for p, q in zip(P.T, Q.T, strict=True))
    assert conditional_kl(P, Q) == pytest.approx(expected)


@pytest.mark.parametrize("unit", ["nats", "bits"])
def test_the_chain_rule(unit):
    marginal = kl(P.sum(0), Q.sum(0), unit=unit)
    assert kl(P, Q, unit=unit) == pytest.approx(marginal + conditional_kl(P, Q, unit=unit))


def test_distributions_of_torch():
    p, q = Categorical(torch.tensor(P.ravel())), Categorical(torch.tensor(Q.ravel()))
    assert_allclose(float(kl(p, q)), kl(P, Q))
    assert_allclose(float(cross_entropy(p, q, unit="bits")), cross_entropy(P, Q, unit="bits"))
    assert_allclose(float(entropy(Normal(0.0, 2.0))), 0.5 * math.log(2 * math.pi * math.e * 4), rtol=1e-6)


def test_the_gaussian_has_the_largest_entropy_for_its_variance():
    variance = 3.0
    rivals = [scipy.stats.uniform(scale=math.sqrt(12 * variance)), scipy.stats.laplace(scale=math.sqrt(variance / 2))]
    assert all(r.var() == pytest.approx(variance) for r in rivals)
    largest = float(entropy(Normal(0.0, math.sqrt(variance))))
    assert all(r.entropy() < largest for r in rivals)


def test_maximum_likelihood_is_minimum_divergence():
    """mean ln P_θ = -H(P̂) - KL(P̂ ‖ P_θ) for every θ, so both are best at one θ."""
    rows = RNG.integers(4, size=50)
    empirical = np.bincount(rows, minlength=4) / 50
    for theta in RNG.dirichlet(np.ones(4), size=5):
        assert np.log(theta[rows]).mean() == pytest.approx(-entropy(empirical) - kl(empirical, theta))
        assert np.log(theta[rows]).mean() <= np.log(empirical[rows]).mean()


def test_naive_bayes_splits_into_separate_problems():
    """KL(P̂ ‖ P_θ) = KL of y + Σ_j KL of x_j given y + total correlation, which θ does not touch (MATH section 1)."""
    joint = RNG.dirichlet(np.ones(8)).reshape(2, 2, 2)  # x_1, x_2, y

    def model(p_y, p_1, p_2):
        return np.einsum("iy,jy,y->ijy", p_1, p_2, p_y)

    def theta():
        return RNG.dirichlet(np.ones(2)), RNG.dirichlet(np.ones(2), size=2).T, RNG.dirichlet(np.ones(2), size=2).T

    p_y, first, second = joint.sum((0, 1)), joint.sum(1), joint.sum(0)
    correlations = []
    for p, p_1, p_2 in (theta(), theta()):
        parts = kl(p_y, p) + conditional_kl(first, p_1 * p) + conditional_kl(second, p_2 * p)
        correlations.append(kl(joint, model(p, p_1, p_2)) - parts)
    independent = model(p_y, first / p_y, second / p_y)
    assert_allclose(correlations, kl(joint, independent), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entropy([0.5, 0.4]), "p must be probabilities that sum to 1, got minimum 0.4 and sum 0.9"),
        (lambda: kl([1.0], [1.5]), "q must be probabilities"),
        (lambda: kl([0.5, 0.5], [0.2, 0.2, 0.6]), r"p has shape \(2,\) and q \(3,\)"),
        (lambda: entropy([1.0], unit="bans"), "unit='bans' is not known; use 'nats' or 'bits'"),
        (lambda: conditional_kl([0.5, 0.5], [0.5, 0.5]), "must be joint tables"),
        (lambda: entropy([]), r"p is empty, with shape \(0,\); give one probability per outcome"),
        (lambda: kl([1.0], []), "q is empty"),
        (lambda: conditional_kl(np.zeros((2, 0)), np.zeros((2, 0))), "p is empty"),
        (lambda: entropy(["a"]), "p must be numbers, one probability per outcome"),
        (lambda: entropy([np.nan, 1.0]), "p must be probabilities that sum to 1, got minimum nan"),
        (lambda: kl(Normal(0.0, 1.0), [1.0]), "p is a Normal and q a list; give two tables or two torch distributions"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_array_may_be_read_backwards():
    p = np.array([0.5, 0.3, 0.2])
    assert kl(p[::-1], p) == pytest.approx(kl([0.2, 0.3, 0.5], p), abs=1e-15)
