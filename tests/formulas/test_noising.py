"""The noising and the terms of the bound, against the oracles of a Gaussian whose denoiser is known."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import norm

from jensen import Schedule
from jensen.formulas.gaussian import gaussian_kl
from jensen.formulas.noising import (
    PREDICTIONS,
    Noising,
    data_of,
    discretised_gaussian,
    kl_entries,
    prior_kl,
    simple_weight,
)

SCHEDULES = {
    "linear": Schedule.linear(1000),
    "cosine": Schedule.cosine(1000),
    "short": Schedule.linear(30),
    "one": Schedule([0.4]),
    "falling": Schedule([0.5, 0.2, 0.1, 0.3]),
}


def levels_of(schedule):
    table = Noising.table(schedule)
    return Noising.at(table, torch.arange(1, schedule.n_levels + 1))


def expected_bound(schedule, variance, data_variance, kind, squared_norm=None):
    """Nats per dimension of N(0, s² I) with its best denoiser x̂_0 = √ᾱ s² / (ᾱ s² + 1 - ᾱ) x_t, noise averaged exactly.

    The error of x̂_0 is its bias on x_0 and the noise that it lets through; with `squared_norm` of one row's x_0².
    """
    at = levels_of(schedule)
    bar, noise = at.signal.square(), at.noise.square()
    gain = at.signal * data_variance / (bar * data_variance + noise)
    x0_squared = data_variance if squared_norm is None else squared_norm
    error = (1 - gain * at.signal).square() * x0_squared + gain.square() * noise
    log_variance = at.log_variance(kind) if variance is None else variance(error, at)
    terms = kl_entries(error, log_variance, at)[1:].sum()
    l0 = 0.5 * (error[0] * (-log_variance[0]).exp() + log_variance[0] + math.log(2 * math.pi))
    bar_last = schedule.alpha_bar[-1]
    prior = 0.5 * (bar_last * x0_squared - bar_last - math.log1p(-bar_last))
    return float(prior), float(terms), float(l0)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("squared_norm", [0.0, 1.0, 7.3])
def test_a_standard_normal_has_its_own_density_as_bound(name, squared_norm):
    """Row by row, for every schedule, with variance β."""
    total = sum(expected_bound(SCHEDULES[name], None, 1.0, "beta", squared_norm))
    assert_allclose(total, 0.5 * math.log(2 * math.pi) + squared_norm / 2, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "prior", "denoising", "first", "total"),
    [
        ("linear", 2.018e-5, 5.07004, -3.07253, 1.997533),
        ("cosine", 1.2e-9, 5.45416, -3.50076, 1.953396),
    ],
)
def test_what_the_posterior_variance_loses(name, prior, denoising, first, total):
    found = expected_bound(SCHEDULES[name], None, 1.0, "posterior")
    assert_allclose(found[0], prior, rtol=3e-2)  # given to two digits for the cosine
    assert_allclose(found[1:], (denoising, first), atol=5e-6)
    assert_allclose(sum(found), total, atol=5e-7)


def test_a_narrow_normal():
    linear = SCHEDULES["linear"]
    assert_allclose(sum(expected_bound(linear, None, 0.25, "beta")), 0.72688, atol=5e-6)
    assert_allclose(sum(expected_bound(linear, None, 0.25, "posterior")), 1.29572, atol=5e-6)

    def best(error, at):
        """β̃_t + u_t² E(x_0 - x̂_0)², and at the first level the error itself."""
        # β̃_1 is 0, and `log_posterior` holds β̃_2 there.
        fixed = at.log_posterior.exp() * (torch.arange(len(error))[:, None] > 0)
        return torch.log(fixed + at.of_data.square() * error)

    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.25)
    assert_allclose(entropy, 0.72579, atol=5e-6)
    # L_T is what is left: x_T is no standard normal.
    assert_allclose(sum(expected_bound(linear, best, 0.25, "beta")), entropy, atol=2e-5)


@pytest.mark.parametrize(("name", "mean"), [("linear", 0.275513), ("cosine", 0.495578)])
def test_the_simple_loss_of_a_standard_normal_is_what_is_left_of_the_data(name, mean):
    """E(ε - ε_θ)² = ᾱ_t for x̂_0 = √ᾱ x_t: the error of x̂_0 times ᾱ / (1 - ᾱ)."""
    at = levels_of(SCHEDULES[name])
    error = at.noise.square().square() + at.signal.square() * at.noise.square()
    simple = error * (at.signal / at.noise).square()
    assert_allclose(simple, at.signal.square(), rtol=1e-9)
    assert_allclose(simple.mean(), mean, atol=5e-7)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_terms_are_divergences_of_gaussians(name):
    schedule = SCHEDULES[name]
    at = levels_of(schedule)
    rng = np.random.default_rng(0)
    x0, guess, xt = (torch.from_numpy(rng.normal(size=(schedule.n_levels, 3))) for _ in range(3))
    for kind in ("beta", "posterior"):
        found = kl_entries((x0 - guess).square(), at.log_variance(kind), at).sum(-1)
        for t in range(1, schedule.n_levels):
            q = at.mean(x0, xt)[t], torch.eye(3, dtype=torch.float64) * at.log_posterior[t].exp()
            p = at.mean(guess, xt)[t], torch.eye(3, dtype=torch.float64) * at.log_variance(kind)[t].exp()
            assert_allclose(found[t], gaussian_kl(*q, *p), rtol=1e-6, atol=1e-12)


def test_the_prior_term_is_a_divergence():
    schedule, x0 = SCHEDULES["short"], torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    bar = schedule.alpha_bar[-1]
    eye = torch.eye(2, dtype=torch.float64)
    expected = gaussian_kl(math.sqrt(bar) * x0[0], (1 - bar) * eye, torch.zeros(2, dtype=torch.float64), eye)
    assert_allclose(prior_kl(x0, schedule), [expected], rtol=1e-9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_prediction_says_the_same(name):
    """What the network of each kind should say is turned into the x_0 it was made of."""
    schedule = SCHEDULES[name]
    at = levels_of(schedule)
    rng = np.random.default_rng(1)
    x0, noise = (torch.from_numpy(rng.normal(size=(schedule.n_levels, 2))) for _ in range(2))
    xt = at.noised(x0, noise)
    said = {
        "noise": noise,
        "data": x0,
        "mean": at.mean(x0, xt),
        "velocity": at.signal * noise - at.noise * x0,
    }
    assert set(said) == set(PREDICTIONS)
    for prediction, output in said.items():
        # ᾱ_T of the cosine is 2e-9, and the noise is divided by its root.
        assert_allclose(data_of(prediction, output, xt, at), x0, rtol=1e-6, atol=1e-6)
    assert_allclose(at.noise_of(x0, xt), noise, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_simple_loss_is_the_error_of_what_is_said(name):
    at = levels_of(SCHEDULES[name])
    rng = np.random.default_rng(2)
    x0, guess, noise = (torch.from_numpy(rng.normal(size=(SCHEDULES[name].n_levels, 2))) for _ in range(3))
    xt = at.noised(x0, noise)
    for prediction, truth, said in (
        ("noise", noise, at.noise_of(guess, xt)),
        ("data", x0, guess),
        ("velocity", at.signal * noise - at.noise * x0, (at.signal * xt - guess) / at.noise),
    ):
        found = simple_weight(prediction, at) * (x0 - guess).square()
        # The last levels of the cosine keep 5e-5 of x_0, which the noise is found from.
        assert_allclose(found, (truth - said).square(), rtol=1e-6, atol=1e-9)


def test_one_step_after_another_is_the_closed_form():
    """Mean and variance of x_t, step by step through q(x_t|x_{t-1}), are those of q(x_t|x_0)."""
    schedule, x0 = SCHEDULES["short"], 1.7
    mean, var = x0, 0.0
    for t in range(schedule.n_levels):
        mean, var = math.sqrt(schedule.alpha[t]) * mean, schedule.alpha[t] * var + schedule.beta[t]
        assert_allclose((mean, var), (math.sqrt(schedule.alpha_bar[t]) * x0, schedule.noise_variance[t]), rtol=1e-12)


@pytest.mark.parametrize("n_levels", [2, 17, 256])
@pytest.mark.parametrize("std", [1e-3, 0.01, 0.3, 5.0])
def test_the_masses_of_the_levels_sum_to_one(n_levels, std):
    levels = torch.linspace(-1, 1, n_levels, dtype=torch.float64)
    for mean in (-3.0, -1.0, -0.037, 0.0, 0.61, 1.0, 40.0):
        mean_std = torch.tensor([mean, std], dtype=torch.float64)
        log_mass = discretised_gaussian(levels, *mean_std, n_levels)
        assert_allclose(log_mass.exp().sum(), 1, rtol=1e-9)


def test_the_mass_of_a_cell_is_scipys():
    levels = np.linspace(-1, 1, 17)
    edges = np.concatenate([[-np.inf], levels[:-1] + 1 / 16, [np.inf]])
    expected = np.log(np.diff(norm.cdf(edges, 0.2, 0.15)))
    mean, std = torch.tensor([0.2, 0.15], dtype=torch.float64)
    # The difference of two cdfs loses digits in the right tail, where both are near one; there it is of survivals.
    survived = np.log(-np.diff(norm.sf(edges, 0.2, 0.15)))
    found = discretised_gaussian(torch.tensor(levels), mean, std, 17)
    assert_allclose(found, np.where(levels < 0.2, expected, survived), rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masses_and_their_slopes_are_finite_far_away(dtype):
    mean = torch.linspace(-30, 30, 61, dtype=dtype).requires_grad_()
    std = torch.tensor(0.01, dtype=dtype, requires_grad=True)
    levels = torch.tensor([-1.0, 0.0, 1.0], dtype=dtype)[:, None]
    total = discretised_gaussian(levels, mean, std, 3).sum()
    total.backward()
    assert total.isfinite()
    assert mean.grad.isfinite().all()
    assert std.grad.isfinite()
