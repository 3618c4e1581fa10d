"""The negative binomial against scipy, its Poisson limit, and its size against a search on a grid."""

import numpy as np
import pytest
import torch
from scipy import stats

from jensen.formulas.counts import (
    LARGEST_SIZE,
    log_negative_binomial,
    log_poisson,
    mass_for_size,
    negative_binomial_size,
)
from jensen.formulas.gamma import digamma_rise


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("size", [0.05, 0.7, 3.0, 40.0, 3e3])
def test_the_negative_binomial_is_scipys(size):
    x, mean = torch.arange(200, dtype=torch.float64), 6.5
    found = log_negative_binomial(x, tensor(mean), tensor(size))
    np.testing.assert_allclose(found, stats.nbinom.logpmf(x, size, size / (size + mean)), rtol=1e-9, atol=1e-10)


def test_large_sizes_tend_to_the_poisson_distribution():
    x, mean = torch.arange(30, dtype=torch.float64), tensor(6.5)
    poisson = stats.poisson.logpmf(x, 6.5)
    np.testing.assert_allclose(log_poisson(x, mean), poisson, rtol=1e-12)
    np.testing.assert_allclose(log_negative_binomial(x, mean, tensor(np.inf)), poisson, rtol=1e-12)
    # ln p differs by (x(x-1)/2 + μ²/2 - xμ)/s to first order.
    s = 1e7
    difference = log_negative_binomial(x, mean, tensor(s)) - log_poisson(x, mean)
    np.testing.assert_allclose(difference * s, x * (x - 1) / 2 + 6.5**2 / 2 - x * 6.5, rtol=1e-5, atol=1e-5)


def test_a_mean_of_0_has_only_zeros():
    found = log_negative_binomial(tensor(0.0, 1.0), tensor(0.0), tensor(2.0))
    assert found.tolist() == [0.0, -np.inf]


@pytest.mark.parametrize("size", [0.3, 4.0, 60.0])
def test_the_mass_is_the_one_whose_size_it_is(size):
    """For a whole distribution it is 1; for a part of one, the size comes out."""
    x = torch.arange(2000, dtype=torch.float64)
    p = log_negative_binomial(x, tensor(5.0), tensor(size)).exp()
    rise = digamma_rise(tensor(size), x)
    assert float(mass_for_size((p * rise).sum(), (p * x).sum(), tensor(size))) == pytest.approx(1.0, rel=1e-8)
    part = p * (x % 3 == 0)
    mass = mass_for_size((part * rise).sum()[None], (part * x).sum()[None], tensor(size))
    column = torch.zeros(len(x), dtype=torch.int64)
    for start in (size, 1.0, np.inf):
        found = negative_binomial_size(part[None], x, column, mass[None], tensor(start)[None])
        assert float(found) == pytest.approx(size, rel=1e-6)


def fitted(x, start=1.0):
    values, tally = np.unique(x, return_counts=True)
    column = torch.zeros(len(values), dtype=torch.int64)
    mass = tensor(float(len(x)))[None]
    tally = torch.from_numpy(tally.astype(float))[None]
    return float(negative_binomial_size(tally, torch.from_numpy(values), column, mass, tensor(start)[None]))


@pytest.mark.parametrize(("size", "mean"), [(0.02, 0.5), (0.5, 3.0), (2.0, 40.0), (30.0, 5.0), (5.0, 3000.0)])
@pytest.mark.parametrize("start", [1e-6, 1.0, 1e6, np.inf])
def test_the_size_is_the_best_on_a_grid(size, mean, start):
    x = np.random.default_rng(3).negative_binomial(size, size / (size + mean), 500).astype(float)
    assert x.var() > x.mean()
    found, m = fitted(x, start), x.mean()
    grid = np.append(found * np.exp(np.linspace(-3, 3, 601)), found)
    values = [stats.nbinom.logpmf(x, s, s / (s + m)).sum() for s in grid]
    assert values[-1] >= max(values) - 1e-8 * abs(max(values))
    slope = (stats.nbinom.logpmf(x, found * 1.001, found * 1.001 / (found * 1.001 + m)).sum() - values[-1]) / 1e-3
    assert abs(slope) < 0.2


@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0, 2.0], [4.0] * 9, [0.0, 2.0], [0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
def test_a_variance_that_is_not_above_the_mean_is_poisson(x):
    assert np.var(x) <= np.mean(x)
    assert fitted(np.array(x)) == np.inf


def test_a_variance_just_above_the_mean():
    """The size is μ²/(variance - mean) to first order, up to sizes that cannot be told from infinity."""
    values = np.arange(40.0)
    for size in (1e3, 1e5):
        p = stats.nbinom.pmf(values, size, size / (size + 4.0))
        arguments = (torch.from_numpy(p / p.sum())[None], torch.from_numpy(values), torch.zeros(40, dtype=torch.int64))
        found = negative_binomial_size(*arguments, tensor(1.0)[None], tensor(1.0)[None])
        assert float(found) == pytest.approx(size, rel=1e-4)
    size = 100 * LARGEST_SIZE
    excess = values * (values - 1) / 2 + 8 - 4 * values
    p = stats.poisson.pmf(values, 4.0) * (1 + excess / size)
    arguments = (torch.from_numpy(p / p.sum())[None], torch.from_numpy(values), torch.zeros(40, dtype=torch.int64))
    assert float(negative_binomial_size(*arguments, tensor(1.0)[None], tensor(1.0)[None])) == np.inf
