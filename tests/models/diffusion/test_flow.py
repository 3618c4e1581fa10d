"""ln p(x) by the probability-flow ODE, against Gaussians whose denoiser is known and a mixture of two."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from jensen import Diffusion, Schedule
from jensen.models.diffusion.flow import ode_levels, ode_log_prob, with_divergence
from jensen.runtime.row_draws import RowDraws
from known_denoisers import GaussianData, known_module, mixture_log_density, mixture_rows

SCHEDULES = {"linear": Schedule.linear(1000), "cosine": Schedule.cosine(1000)}
CPU = torch.device("cpu")


def estimated(module, x, k=None, n_draws=100, seed=0):
    rows = torch.tensor(x, dtype=torch.float32)
    levels = ode_levels(module.share, k or module.schedule.n_levels)
    with torch.no_grad():
        value, error = ode_log_prob(module, rows, levels, n_draws, RowDraws.of(rows, seed), CPU)
    return value.numpy(), error.numpy()


def gaussian_module(schedule, covariance):
    covariance = np.atleast_2d(covariance).astype(float)
    return known_module(schedule, network=GaussianData(schedule, covariance), d=len(covariance))


def gaussian_flow(x, variance, schedule):
    """ln p of N(0, variance) by the ODE itself: x at the last level is x √(variance there / variance)."""
    ratio = (schedule.alpha_bar[-1] * variance + schedule.noise_variance[-1]) / variance
    return norm.logpdf(x * math.sqrt(ratio)) + 0.5 * math.log(ratio)


def test_one_gaussian_has_the_value_worked_out_by_hand():
    module = gaussian_module(SCHEDULES["linear"], 0.25)
    (value,), (error,) = estimated(module, [[0.7]])
    assert gaussian_flow(0.7, 0.25, SCHEDULES["linear"]) == pytest.approx(-1.2057768, abs=1e-7)
    # Heun's steps through 1000 levels err by 4e-6, single precision by about as much; Euler's gives -1.1837.
    assert value == pytest.approx(-1.2057768, abs=2e-5)
    assert error == 0


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("k", [100, 1000])
def test_the_estimate_is_ln_p_of_gaussian_rows(name, k):
    covariance = np.array([[1.0, 0.6, 0.0], [0.6, 1.5, 0.3], [0.0, 0.3, 0.2]])
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), covariance, size=20)
    value, error = estimated(gaussian_module(SCHEDULES[name], covariance), x, k)
    # Ending at N(0, I) costs up to ᾱ_T x²/2 at the linear schedule's ᾱ_T of 4e-5; steps cost 1e-3 at 100 levels.
    assert_allclose(value, multivariate_normal.logpdf(x, np.zeros(3), covariance), atol={100: 5e-3, 1000: 3e-4}[k])
    assert (error == 0).all()


@pytest.mark.parametrize("prediction", ["velocity", "noise", "data", "mean"])
def test_every_prediction_gives_ln_p_of_a_mixture(prediction):
    x = mixture_rows(30, 1)
    value, _ = estimated(known_module(SCHEDULES["linear"], prediction), x)
    # Single precision: "mean" divides by u_t, which is 1e-4 at the last levels.
    assert_allclose(value, mixture_log_density(x), atol=5e-3)


def test_signs_are_unbiased_and_their_error_is_hutchinsons():
    """rᵀ J r of signs r has the mean tr J and the variance 2 Σ_{i≠j} J_ij² for the symmetric part of J."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 6))
    schedule = SCHEDULES["cosine"]
    module = gaussian_module(schedule, a @ a.T / 6 + 0.1 * np.eye(6))
    x, level = torch.tensor(rng.normal(size=(1, 6)), dtype=torch.float32), torch.tensor([400])
    signs = torch.tensor(rng.choice([-1.0, 1.0], size=(1, 20_000, 6)), dtype=torch.float32)
    with torch.no_grad():
        jacobian = with_divergence(module, x, level, torch.eye(6)[None], None)[1]
        of_signs = with_divergence(module, x, level, signs, None)[1][0]
    time, h = module.times[level - 1], 1e-2
    columns = torch.stack([(module.network(x + h * e, time) - module.network(x, time))[0] / h for e in torch.eye(6)])
    assert_allclose(jacobian[0], columns.diagonal(), atol=1e-3)
    symmetric = ((columns + columns.T) / 2).double()
    variance = float(2 * (symmetric.square().sum() - symmetric.diagonal().square().sum()))
    assert abs(of_signs.mean() - jacobian.sum()) < 4 * math.sqrt(variance / 20_000)
    assert float(of_signs.var()) == pytest.approx(variance, rel=0.05)


def test_the_standard_error_covers_what_signs_leave_open():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 5))
    covariance = a @ a.T / 5 + 0.1 * np.eye(5)
    module = gaussian_module(SCHEDULES["cosine"], covariance)
    x = rng.multivariate_normal(np.zeros(5), covariance, size=300)
    exact, _ = estimated(module, x, 50, n_draws=5)
    value, error = estimated(module, x, 50, n_draws=4)
    z = (value - exact) / error
    # A t of 3 degrees of freedom has the standard deviation √3; its quartiles are at ±0.765.
    assert 0.4 < (np.abs(z) < 0.765).mean() < 0.6
    assert abs((value - exact).mean()) < 4 * (value - exact).std() / math.sqrt(300)
    assert np.isnan(estimated(module, x[:2], 50, n_draws=1)[1]).all()


@pytest.fixture(scope="module")
def irises():
    from sklearn.datasets import load_iris

    x = load_iris().data * [1, 10, 100, 1000]
    y = load_iris().target
    model = Diffusion(n_steps=60, max_epochs=100, batch_size=32, learning_rate=3e-3, random_state=0)
    return x, y, model.fit(x, y)


def test_scores_are_in_the_units_of_the_data_and_near_the_bound(irises):
    x, y, model = irises
    found = model.ode_log_prob(x, levels="all")
    assert_allclose(model.score_samples(x, method="ode"), model.ode_log_prob(x).value)
    assert (found.standard_error == 0).all()
    assert abs(found.value.mean() - model.score(x)) < 1.5
    # The classes tell the rows apart.
    assert model.ode_log_prob(x, y=y).value.mean() > model.ode_log_prob(x, y=(y + 1) % 3).value.mean() + 1


def test_the_density_integrates_to_one():
    """Of one column: the ODE is a change of variables, whatever the network."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((400, 1)) < 0.3, 5.0, 1.0) + rng.normal(size=(400, 1)) * 0.4
    model = Diffusion(n_steps=100, max_epochs=30, random_state=0).fit(x)
    at = np.linspace(-6, 14, 4001)[:, None]
    mass = np.exp(model.ode_log_prob(at, levels="all").value).sum() * 20 / 4000
    assert mass == pytest.approx(1, abs=0.01)


def test_data_on_a_grid_is_refused():
    images = np.random.default_rng(0).choice(3, size=(60, 2, 2))
    model = Diffusion(n_steps=20, max_epochs=1, data_levels=3, random_state=0).fit(images)
    with pytest.raises(ValueError, match="method='ode' needs columns of numbers, but X is on a grid of 3 levels"):
        model.ode_log_prob(images)


def test_what_has_no_density_is_refused(irises):
    import pandas as pd

    x, _, model = irises
    with pytest.raises(ValueError, match="method='exact' is not known; choose 'bound' or 'ode'"):
        model.score_samples(x, method="exact")
    with pytest.raises(ValueError, match="X holds NaN in row 0"):
        model.score_samples(np.full((1, 4), np.nan), method="ode")
    with pytest.raises(ValueError, match="n_draws=0 must be a whole number"):
        model.ode_log_prob(x, n_draws=0)
    with pytest.raises(ValueError, match="levels=2 must be 'all'"):
        model.ode_log_prob(x, levels=2)
    frame = pd.DataFrame({"a": x[:, 0], "town": np.where(x[:, 1] > 30, "Bonn", "Oslo")})
    mixed = Diffusion(n_steps=20, max_epochs=1, random_state=0).fit(frame)
    with pytest.raises(ValueError, match="method='ode' needs columns of numbers, but 'town' has"):
        mixed.score_samples(frame, method="ode")
