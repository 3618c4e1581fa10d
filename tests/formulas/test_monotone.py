"""Numbers between bounds: g, its inverse and its derivative against scipy, quadrature and differences."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import logistic, lognorm, norm

from jensen.formulas.monotone import expectation, forward, inverse, log_derivative

INF = math.inf
BOUNDS = [(-INF, INF), (0.0, INF), (-3.0, INF), (-INF, 2.0), (0.0, 1.0), (-3.0, 5.0), (1e6, 1e6 + 1)]


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)


def points(low, high):
    """Between the bounds, some of them near."""
    if low == -INF and high == INF:
        return tensor([-5.0, 0.0, 7.5])
    if high == INF:
        return low + tensor([1e-3, 0.5, 1.0, 40.0])
    if low == -INF:
        return high - tensor([1e-3, 0.5, 1.0, 40.0])
    return low + (high - low) * tensor([1e-3, 0.2, 0.5, 0.999])


def test_a_standard_normal_through_the_logarithm():
    x = tensor([2.0])
    log_density = norm.logpdf(forward(x, 0, INF)) + log_derivative(x, 0, INF).numpy()
    assert log_density == pytest.approx(-1.852312, abs=1e-6)
    assert log_density == pytest.approx(lognorm.logpdf(2.0, 1.0), rel=1e-14)


def test_a_logistic_through_the_logit_is_uniform():
    x = tensor([1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-12])
    assert_allclose(logistic.logpdf(forward(x, 0, 1)) + log_derivative(x, 0, 1).numpy(), 0, atol=1e-12)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_inverse_undoes_g(low, high):
    x = points(low, high)
    # Near a large bound x itself has few digits after it.
    assert_allclose(inverse(forward(x, low, high), low, high), x, rtol=1e-13)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_derivative_is_that_of_g(low, high):
    x = points(low, high).requires_grad_()
    (slope,) = torch.autograd.grad(forward(x, low, high).sum(), x)
    assert bool((slope > 0).all())
    assert_allclose(log_derivative(x, low, high).detach(), slope.log(), rtol=1e-12, atol=1e-12)


def test_digits_near_a_bound_are_kept():
    """ln(x/(1-x)) of x = 1e-300, and of the largest number below 1, whose distance from it is 2⁻⁵³."""
    x = tensor([1e-300, 1 - 2.0**-53])
    assert_allclose(forward(x, 0, 1), [-300 * math.log(10), 53 * math.log(2)], rtol=1e-15)
    assert_allclose(inverse(forward(x, 0, 1), 0, 1), x, rtol=1e-12)


@pytest.mark.parametrize(("low", "high"), BOUNDS[1:])
def test_nothing_reaches_a_bound(low, high):
    x = inverse(tensor([-1e4, -100.0, 100.0, 1e4]), low, high)
    assert bool(((x > low) & (x < high) & x.isfinite()).all())


def test_beyond_a_bound_there_is_no_density():
    x = tensor([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan])
    assert forward(x, 0, 1).isnan().tolist() == [True, True, False, True, True, True]
    assert log_derivative(x, 0, 1)[[0, 1, 3, 4]].tolist() == [-INF] * 4
    assert bool(log_derivative(x, 0, 1)[5].isnan())


@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("deviation", [0.0, 0.3, 2.0, 5.0])
def test_the_mean_is_the_integral(low, high, deviation):
    """E[x] by adaptive quadrature; with σ = 5 the steps of ours leave about 1e-7."""
    for mean in (-2.0, 0.4, 3.0):

        def weighted(z, mean=mean):
            return norm.pdf(z) * float(inverse(tensor([mean + deviation * z]), low, high)[0])

        reach = 8 + deviation  # where e^{σz} φ(z) is large
        expected = quad(weighted, -reach, reach, epsabs=1e-13, epsrel=1e-12, limit=400, points=[-deviation, deviation])
        found = float(expectation(tensor([mean]), tensor([deviation**2]), low, high)[0])
        scale = 1.0 if math.isinf(high - low) else high - low
        error = 3e-7 * scale if deviation == 5 and scale == high - low else 1e-11
        assert found == pytest.approx(expected[0], rel=1e-11, abs=error)


@pytest.mark.parametrize("deviation", [0.0, 0.3, 2.0, 9.0])
@pytest.mark.parametrize("end", [0.2, 3.0, 1e5])
def test_the_mean_of_a_number_that_ends(deviation, end):
    """E[min(x, end)] above 0 by quadrature on both sides of the end, and its mirror image below 1."""
    for mean in (-2.0, 0.4, 12.0):
        if deviation == 0:
            expected = min(math.exp(mean), end)
        else:
            u = math.log(end)
            inside, _ = quad(lambda t, m=mean: math.exp(t) * norm.pdf(t, m, deviation), min(u, mean) - 90, u, limit=400)
            expected = inside + end * norm.sf(u, mean, deviation)
        m, v = tensor([mean]), tensor([deviation**2])
        assert float(expectation(m, v, 0, INF, greatest=end)[0]) == pytest.approx(expected, rel=1e-9)
        assert float(expectation(-m, v, -INF, 1, least=1 - end)[0]) == pytest.approx(1 - expected, rel=1e-9)
    assert float(expectation(tensor([3.0]), tensor([900.0]), 0, INF, greatest=5.0)[0]) < 5


def test_the_density_of_a_bounded_number_integrates_to_one():
    x = np.linspace(0, 1, 20_001)[1:-1]
    log_density = norm.logpdf(forward(tensor(x), 0, 1), 0.5, 0.7) + log_derivative(tensor(x), 0, 1).numpy()
    assert np.trapezoid(np.exp(log_density), x) == pytest.approx(1, abs=1e-8)
