"""Poisson columns: Hasselblad's counts, a rate of 0, the prior as a density."""

import numpy as np
import pytest
import torch
from scipy.stats import gamma

from column_families import batch_of, log_density, tensor
from jensen.engines.em import loop as em
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs, SmoothMixtureVerbs
from jensen.models.mixtures.families.poisson import PoissonFamily, Poissons

DEATHS = tensor([162, 267, 271, 185, 111, 61, 27, 8, 3, 1])
HASSELBLAD = batch_of(np.arange(10.0)[:, None], weight=DEATHS)


def start():
    return MixtureTheta(tensor([0.5, 0.5]), Poissons(tensor([[3.0], [1.0]])))


def test_two_poissons_of_hasselblads_counts():
    """Deaths of women above 80 in the London Times, 1910 to 1912; Titterington, Smith & Makov (1985)."""
    verbs = MixtureVerbs(PoissonFamily(), 2, 1)
    theta, old = start(), -np.inf
    for _ in range(20_000):
        summary = verbs.e_step(theta, HASSELBLAD)
        if float(summary.bound) - old < 1e-12:
            break
        old, theta = float(summary.bound), verbs.m_step(theta, summary.stats)
    assert float(summary.bound) == pytest.approx(-1989.945860, abs=2e-6)
    np.testing.assert_allclose(theta.weights, [0.640115, 0.359885], atol=2e-4)
    np.testing.assert_allclose(theta.components.rates.ravel(), [2.663404, 1.256095], atol=2e-4)


def test_squarem_needs_a_twentieth_of_the_steps():
    verbs = SmoothMixtureVerbs(PoissonFamily(), 2, 1)
    fits = [
        em.fit(verbs, start(), [HASSELBLAD], max_iter=10_000, stop=em.small_gain(1e-8 / 1096), algorithm=algorithm)
        for algorithm in (em.plain, em.squarem)
    ]
    assert fits[1].objective >= fits[0].objective - 1e-12
    assert 20 * fits[1].n_iter <= fits[0].n_iter


def test_a_rate_of_0_has_only_zeros():
    found = log_density(Poissons(tensor([[0.0, 2.0], [1.0, 0.0]])), [[0.0, 3.0], [1.0, 0.0], [1.0, 1.0], [np.nan, 0.0]])
    assert torch.isneginf(found).tolist() == [[False, True], [True, False], [True, True], [False, False]]
    assert not found.isnan().any()
    standard = PoissonFamily().standard(1, 1)
    moments = standard.moments(torch.ones(1, 2, dtype=torch.float64), standard.view(batch_of([[0.0], [0.0]])))
    assert PoissonFamily().m_step(standard, moments).rates.tolist() == [[0.0]]
    assert float(PoissonFamily().expected_log_density(Poissons(tensor([[0.0]])), moments)) == 0


def test_draws_have_their_variance():
    rows = Poissons(tensor([[4.0]])).draw(torch.zeros(40_000, dtype=torch.int64), torch.Generator().manual_seed(0))
    # The variance of a sample variance is (μ4 - λ²)/n, μ4 = λ + 3λ².
    assert abs(float(rows.var()) - 4.0) < 4 * ((4 + 2 * 16) / 40_000) ** 0.5


def test_probabilities_sum_to_1():
    found = log_density(Poissons(tensor([[0.3], [25.0]])), np.arange(200.0)[:, None])
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2, dtype=torch.float64))


def test_the_prior_is_a_density():
    rates = tensor([[0.3, 2.0], [1.0, 7.0]])
    found = PoissonFamily(2.5, 0.5).log_prior(Poissons(rates))
    assert float(found) == pytest.approx(gamma.logpdf(rates.numpy(), 2.5, scale=2.0).sum())
    assert float(PoissonFamily().log_prior(Poissons(rates))) == 0
    with pytest.raises(ValueError, match=r"b=0\.0 is no rate of a gamma prior with a=2\.0; give a number above 0"):
        PoissonFamily(2.0)


@pytest.mark.parametrize("value", [0.5, -1.0, np.inf])
def test_only_counts_have_a_probability(value):
    assert torch.isneginf(log_density(Poissons(tensor([[2.0]])), [[value]])).all()
    with pytest.raises(ValueError, match=f"column 'visits' holds {value:g}, but a Poisson column has only counts"):
        PoissonFamily().check(tensor([[1.0], [value]]), ["visits"])
