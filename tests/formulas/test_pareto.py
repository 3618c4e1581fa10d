"""The tail of importance weights against scipy and tails that are known."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import genpareto, norm

from jensen.formulas.latent_gaussian import weighted_error
from jensen.formulas.pareto import checked_error, effective_samples, fit_tail, log_mean_error, pareto_k


def gaussian_log_weights(ratio, n_draws, n_rows=1, seed=0):
    """ln p/q of draws from q = N(0, ratio) for p = N(0, 1): E w = 1."""
    noise = torch.from_numpy(np.random.default_rng(seed).normal(size=(n_draws, n_rows)))
    return 0.5 * (1 - ratio) * noise.square() + 0.5 * np.log(ratio)


@pytest.mark.parametrize("k", [-0.4, 0.0, 0.3, 0.7, 1.2])
def test_the_fit_is_as_good_as_maximum_likelihood(k):
    """Both err by about (1+k)/√n of n draws, and hardly differ from each other."""
    x = np.sort(genpareto.rvs(k, scale=2.0, size=2000, random_state=0))
    tail = fit_tail(torch.from_numpy(x))
    shape, _, scale = genpareto.fit(x, floc=0)
    assert float(tail.shape) == pytest.approx(shape, abs=0.02)
    assert float((tail.probability * tail.scales).sum()) == pytest.approx(scale, rel=0.03)
    assert float(tail.shape) == pytest.approx(k, abs=3 * (1 + k) / np.sqrt(2000))


@pytest.mark.parametrize("ratio", [0.9, 0.7, 0.5, 0.3])
def test_a_narrow_gaussian_proposal_has_a_known_tail(ratio):
    """k = 1 - v_q/v_p, which the largest of finitely many weights approach slowly."""
    assert float(pareto_k(gaussian_log_weights(ratio, 10**6))[0]) == pytest.approx(1 - ratio, abs=0.1)


def test_a_wide_gaussian_proposal_has_bounded_weights():
    assert float(pareto_k(gaussian_log_weights(2.0, 1000))[0]) < 0


def test_rows_are_fitted_apart():
    log_weight = torch.cat([gaussian_log_weights(ratio, 200) for ratio in (0.8, 0.4)], 1)
    for ask in (pareto_k, effective_samples, log_mean_error):
        assert_allclose(ask(log_weight), torch.cat([ask(log_weight[:, i : i + 1]) for i in range(2)]), rtol=1e-12)


def test_the_unit_of_the_weights_does_not_matter():
    log_weight = gaussian_log_weights(0.5, 100, 5)
    for ask in (pareto_k, effective_samples, log_mean_error):
        assert_allclose(ask(log_weight + 900), ask(log_weight), rtol=1e-8)


def test_effective_samples():
    assert_allclose(effective_samples(torch.zeros(10, 1)), [10])
    weight = torch.tensor([[1.0], [2.0], [5.0]]).double()
    assert_allclose(effective_samples(weight.log()), [8**2 / 30])


def test_weights_without_a_tail():
    few, equal = torch.randn((20, 3)), torch.zeros((100, 3))
    assert pareto_k(few).isnan().all()
    assert_allclose(log_mean_error(few), weighted_error(few))
    assert pareto_k(equal).isnan().all()
    assert_allclose(log_mean_error(equal), 0)
    one = torch.where(torch.arange(100)[:, None] == 7, 0.0, -1e4).double()
    assert pareto_k(one).isposinf().all()
    assert log_mean_error(one).isfinite().all()


@pytest.mark.parametrize(("ratio", "n_draws"), [(2.0, 100), (0.8, 100), (0.6, 100), (0.6, 1000), (0.5, 1000)])
def test_intervals_cover_the_mean_of_heavy_weights(ratio, n_draws):
    """Of 95 % intervals at least 90 %, where the delta method's fall to 84 to 89 % below ratio 0.8."""
    log_weight = gaussian_log_weights(ratio, n_draws, 3000)
    estimate = log_weight.logsumexp(0) - np.log(n_draws)
    trusted = pareto_k(log_weight) <= 0.7
    covered = estimate.abs() < 1.96 * log_mean_error(log_weight)
    assert covered[trusted].double().mean() > 0.9
    assert (log_mean_error(log_weight) >= weighted_error(log_weight)).all()


def test_a_second_mode_that_no_draw_finds_is_in_the_checked_error():
    """p = ½ N(-5, 1) + ½ N(5, 1) by draws from q = N(5, 1): half of p(x) is missing, which no weight shows."""
    rng = np.random.default_rng(0)

    def log_target(z):
        return np.logaddexp(norm.logpdf(z, -5), norm.logpdf(z, 5)) - np.log(2)

    q, prior = norm(5, 1), norm(0, 6)
    strata = q.rvs((400, 50), random_state=rng), prior.rvs((400, 50), random_state=rng)
    log_weight = torch.from_numpy(log_target(strata[0]) - q.logpdf(strata[0]))
    mixture = [log_target(z) - np.logaddexp(q.logpdf(z), prior.logpdf(z)) + np.log(2) for z in strata]
    estimate = log_weight.logsumexp(0) - np.log(400)
    assert_allclose(estimate, np.log(0.5), atol=1e-6)
    assert (1.96 * log_mean_error(log_weight) < np.log(2)).all()
    error = checked_error(log_weight, torch.from_numpy(np.stack(mixture)))
    assert (estimate.abs() < 1.96 * error).all()
    assert (error < 1).all()
