"""The discretised logistic against scipy's distribution function, and at its extremes."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import logistic as scipy_logistic

from jensen.formulas.logistic import draw, fit, log_mass, mean

LEVELS = [2, 3, 17, 256]


def grid(n_levels):
    return torch.linspace(-1, 1, n_levels, dtype=torch.float64)


def mass(location, scale, n_levels):
    """P of all levels, from differences of the distribution function of the logistic."""
    edges = np.concatenate([[-np.inf], np.linspace(-1, 1, 2 * n_levels - 1)[1::2], [np.inf]])
    return np.diff(scipy_logistic.cdf(edges, location, scale))


def found(location, scale, n_levels, dtype=torch.float64):
    at = [torch.tensor(value, dtype=dtype) for value in (location, scale)]
    return log_mass(grid(n_levels).to(dtype), *at, n_levels).exp().double()


@pytest.mark.parametrize("n_levels", LEVELS)
@pytest.mark.parametrize(("location", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.2, 0.2), (0.999, 0.01), (4.0, 1.5)])
def test_every_level_has_the_mass_of_its_cell(location, scale, n_levels):
    assert_allclose(found(location, scale, n_levels), mass(location, scale, n_levels), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("n_levels", LEVELS)
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("location", [-1e3, -1.0, 0.1234, 1.0, 1e3])
def test_levels_sum_to_one_at_extreme_scales(location, scale, n_levels):
    # At the scale of 1e6 a cell of 256 levels has mass 1e-9, from 1 - e^-1e-8: single precision has 7 digits of each.
    assert_allclose(found(location, scale, n_levels).sum(), 1, rtol=1e-9)
    assert_allclose(found(location, scale, n_levels, torch.float32).sum(), 1, rtol=1e-5)


def test_the_outer_levels_have_all_of_the_tails():
    """MATH section 20: ln σ(a) at the lowest level, ln σ(-b) at the highest."""
    location, scale, h = torch.tensor(0.2), torch.tensor(0.3), 1 / 3
    low, high = log_mass(torch.tensor([-1.0, 1.0]), location, scale, 4)
    assert low.exp() == pytest.approx(scipy_logistic.cdf(-1 + h, 0.2, 0.3), rel=1e-6)
    assert high.exp() == pytest.approx(scipy_logistic.sf(1 - h, 0.2, 0.3), rel=1e-6)


def test_a_far_level_keeps_its_digits():
    """σ(a) - σ(b) is 0 in double precision 100 scales away; its logarithm is known all the same."""
    location, scale = torch.tensor(-0.9, dtype=torch.float64), torch.tensor(0.005, dtype=torch.float64)
    a, b = (0.5 + 1 / 255 + 0.9) / 0.005, (0.5 - 1 / 255 + 0.9) / 0.005
    # σ(a) - σ(b) = e^-b - e^-a up to a factor 1 - e^-b.
    expected = -b + np.log1p(-np.exp(b - a))
    assert log_mass(torch.tensor(0.5, dtype=torch.float64), location, scale, 256) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_and_right(dtype):
    x = grid(256).to(dtype)
    for value in (1e-4, 1e-2, 1.0, 1e4):
        location = torch.tensor(-1.0, dtype=dtype, requires_grad=True)
        scale = torch.tensor(value, dtype=dtype, requires_grad=True)
        log_mass(x, location, scale, 256).sum().backward()
        assert location.grad.isfinite()
        assert scale.grad.isfinite()
    inputs = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda pair: log_mass(grid(17), pair[0], pair[1], 17), inputs)


@pytest.mark.parametrize(("location", "scale"), [(0.0, 0.1), (0.95, 0.2), (-3.0, 0.5), (0.2, 1e-4)])
def test_the_mean_is_that_of_the_levels(location, scale):
    exact = mass(location, scale, 256) @ np.linspace(-1, 1, 256)
    assert_allclose(mean(torch.tensor(location), torch.tensor(scale)), exact, atol=1 / 255)


def test_draws_have_the_masses_of_the_levels():
    uniform = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    drawn = draw(torch.tensor(0.8), torch.tensor(0.2), 5, uniform)
    share = np.bincount(drawn.int(), minlength=5) / len(drawn)
    assert_allclose(share, mass(0.8, 0.2, 5), atol=1e-5)


def test_frequencies_of_a_logistic_give_its_parameters_back():
    location, scale = np.array([0.1, -0.6, 0.0]), np.array([0.2, 0.3, 0.05])
    counts = np.stack([mass(*pair, 64) for pair in zip(location, scale, strict=True)], 1) * 1e6
    found_location, found_scale = fit(torch.tensor(counts))
    assert_allclose(found_location, location, atol=0.002)
    assert_allclose(found_scale, scale, rtol=0.02)


def test_a_column_with_one_level_starts_near_it():
    counts = torch.zeros(256, 2)
    counts[0, 0] = counts[255, 1] = 1000
    location, scale = fit(counts)
    probable = log_mass(torch.tensor([-1.0, 1.0], dtype=torch.float64), location, scale, 256)
    assert (probable.exp() > 0.5).all()
