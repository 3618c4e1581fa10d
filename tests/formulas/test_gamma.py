"""Gamma functions without cancellation, against sums of whole steps; the shape of a gamma distribution."""

import math

import numpy as np
import pytest
import torch
from scipy.special import digamma

from jensen.formulas.gamma import LARGE, digamma_rise, gamma_shape, log_minus_digamma, log_rise, stirling


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("z", [1e-8, 0.3, 1.0, 9.99, 10.0, 10.01, 123.4, 1e5, 1e8])
@pytest.mark.parametrize("u", [0, 1, 2, 17, 400])
def test_rises_are_sums_of_steps(z, u):
    logs = math.fsum(math.log1p(v / z) for v in range(u))
    inverses = math.fsum(1 / (z + v) for v in range(u))
    # Below LARGE, ln Γ itself is subtracted, and costs some digits of its size.
    assert float(log_rise(tensor(z), tensor(u))) == pytest.approx(logs, rel=1e-12, abs=1e-12 * u)
    assert float(digamma_rise(tensor(z), tensor(u))) == pytest.approx(inverses, rel=1e-12)


def test_the_series_is_stirlings():
    z = tensor(LARGE, 12.5, 80.0, 1e4)
    expected = [math.lgamma(v) - (v - 0.5) * math.log(v) + v - 0.5 * math.log(2 * math.pi) for v in z.tolist()]
    np.testing.assert_allclose(stirling(z), expected, atol=1e-11)


def test_log_minus_digamma():
    z = tensor(1e-6, 0.5, 3.0, 9.999, 10.0, 50.0)
    np.testing.assert_allclose(log_minus_digamma(z), np.log(z.numpy()) - digamma(z.numpy()), rtol=1e-12)
    # 1/(2z) + 1/(12z²) beyond the digits that ln z - ψ(z) has left.
    assert float(log_minus_digamma(tensor(1e12))) == pytest.approx(5e-13, rel=1e-11)


def test_the_shape_solves_its_equation():
    shape = torch.logspace(-3, 9, 200, dtype=torch.float64)
    np.testing.assert_allclose(gamma_shape(log_minus_digamma(shape), 1e10), shape, rtol=1e-7)
    small = shape[shape < 1e3]
    np.testing.assert_allclose(gamma_shape(log_minus_digamma(small), 1e10), small, rtol=1e-11)


def test_equal_values_have_the_largest_shape():
    np.testing.assert_allclose(gamma_shape(tensor(0.0, -1e-17, 1e-30), 1e6), 1e6, rtol=1e-9)
