"""Rubin's rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

import jensen


def test_a_worked_example():
    """Five estimates with the variance 0.04, whose own variance is 0.025: T = 0.04 + 1.2 · 0.025."""
    pooled = jensen.pool([1, 1.2, 0.9, 1.1, 1.3], [0.04] * 5, degrees_of_freedom=98)
    assert_allclose(pooled.estimate, 1.1)
    assert_allclose(pooled.variance, 0.07)
    assert_allclose(pooled.missing_share, 0.03 / 0.07)
    assert_allclose(pooled.degrees_of_freedom, 15.5918, atol=5e-5)
    assert_allclose(pooled.interval()[1], 1.1 + t.ppf(0.975, 15.5918) * np.sqrt(0.07), rtol=1e-5)


def test_several_estimates_are_pooled_one_by_one():
    q, u = np.random.default_rng(0).normal(size=(4, 3)), np.full((4, 3), 0.1)
    whole = jensen.pool(q, u, degrees_of_freedom=20)
    for j in range(3):
        one = jensen.pool(q[:, j], u[:, j], degrees_of_freedom=20)
        assert_allclose(one.degrees_of_freedom, whole.degrees_of_freedom[j])
        assert_allclose(one.interval(0.9), [bound[j] for bound in whole.interval(0.9)])


def test_equal_tables_have_the_degrees_of_freedom_of_the_analysis():
    """Nothing is missing: λ = 0, and 1/ν = (ν_c + 3) / ((ν_c + 1) ν_c)."""
    pooled = jensen.pool([2.0, 2.0], [0.5, 0.5], degrees_of_freedom=10)
    assert pooled.missing_share == 0
    assert_allclose(pooled.degrees_of_freedom, 11 * 10 / 13)
    assert np.isinf(jensen.pool([2.0, 2.0], [0.5, 0.5]).degrees_of_freedom)


@pytest.mark.parametrize(
    ("estimates", "variances", "options", "message"),
    [
        ([1.0], [1.0], {}, "at least 2 imputed tables"),
        ([1.0, 2.0], [1.0], {}, r"variances has shape \(1,\)"),
        ([1.0, 2.0], [1.0, -1.0], {}, "squared standard errors"),
        ([1.0, 2.0], [1.0, 1.0], {"degrees_of_freedom": 0}, "degrees_of_freedom=0 must be positive"),
    ],
)
def test_errors(estimates, variances, options, message):
    with pytest.raises(ValueError, match=message):
        jensen.pool(estimates, variances, **options)


def test_a_level_is_a_share():
    with pytest.raises(ValueError, match="level=95 must be between 0 and 1"):
        jensen.pool([1.0, 2.0], [1.0, 1.0]).interval(95)
