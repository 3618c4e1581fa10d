"""Mixtures of normals on the line, against quadrature and scipy."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from jensen.formulas.normal_mixture import distribution, log_density, quantile, tail

MIXTURES = {
    "one": ([1.0], [0.5], [2.0]),
    "two apart": ([0.3, 0.7], [-4.0, 3.0], [0.5, 1.0]),
    "narrow inside wide": ([0.6, 0.4], [0.0, 0.2], [5.0, 0.01]),
    "three": ([0.2, 0.5, 0.3], [-1.0, 0.0, 8.0], [1.0, 0.3, 2.0]),
    "units of a million": ([0.5, 0.5], [1e6, 3e6], [2e5, 1e5]),
}


def tensors(weights, means, deviations, n):
    parts = (np.log(weights), means, deviations)
    return [torch.tensor(np.tile(part, (n, 1)), dtype=torch.float64) for part in parts]


def density(x, weights, means, deviations):
    return sum(w * norm(m, s).pdf(x) for w, m, s in zip(weights, means, deviations, strict=True))


def tail_by_cells(x, weights, means, deviations):
    """The mass of all short cells of the line whose density is at most that at x."""
    reach = max(abs(x - m) + 10 * s for m, s in zip(means, deviations, strict=True))
    fine = [np.linspace(m - 10 * s, m + 10 * s, 100_001) for m, s in zip(means, deviations, strict=True)]
    edges = np.unique(np.concatenate([*fine, [min(means) - reach, max(means) + reach]]))
    centre = (edges[1:] + edges[:-1]) / 2
    mass = sum(w * np.diff(norm(m, s).cdf(edges)) for w, m, s in zip(weights, means, deviations, strict=True))
    return mass[density(centre, weights, means, deviations) <= density(x, weights, means, deviations)].sum()


@pytest.mark.parametrize("name", MIXTURES)
def test_the_tail_is_the_mass_of_values_that_are_at_most_as_likely(name):
    mixture = MIXTURES[name]
    scale = max(mixture[2])
    x = np.concatenate([[m + z * scale for m in mixture[1] for z in (-2.5, -0.3, 0.01, 1.7)], [np.mean(mixture[1])]])
    found = tail(torch.tensor(x), *tensors(*mixture, len(x))).numpy()
    # The cells of the oracle are a 5000th of a deviation wide.
    np.testing.assert_allclose(found, [tail_by_cells(v, *mixture) for v in x], atol=4e-4)


def test_a_far_tail_keeps_its_digits():
    """20 deviations out only the outer intervals of both sides remain, found here with scipy's root and sf."""
    weights, means, deviations = [0.4, 0.6], [0.0, 1.0], [1.0, 1.0]
    x = 21.0
    found = float(tail(torch.tensor([x], dtype=torch.float64), *tensors(weights, means, deviations, 1)))

    def log_f(v):
        return float(log_density(torch.tensor([v], dtype=torch.float64), *tensors(weights, means, deviations, 1)))

    other = brentq(lambda v: log_f(v) - log_f(x), -40, -10, xtol=1e-13)
    expected = 0.4 * (norm.sf(21) + norm.cdf(other)) + 0.6 * (norm.sf(20) + norm.cdf(other - 1))
    assert found == pytest.approx(expected, rel=1e-6, abs=0)
    assert 0 < found < 1e-80


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.95])
def test_quantiles_undo_the_distribution(name, p):
    log_weights, means, deviations = tensors(*MIXTURES[name], 1)
    x = quantile(p, log_weights.exp(), means, deviations)
    assert float(distribution(x, log_weights.exp(), means, deviations)) == pytest.approx(p, abs=1e-12)
    _, centres, spreads = MIXTURES[name]
    low = min(m - 12 * s for m, s in zip(centres, spreads, strict=True))
    inner = [m + z * s for m, s in zip(centres, spreads, strict=True) for z in (-4, 0, 4)]
    points = sorted(point for point in inner if low < point < float(x))
    mass = quad(density, low, float(x), args=MIXTURES[name], points=points or None, limit=500)[0]
    assert mass == pytest.approx(p, abs=1e-6)


def test_many_cells_are_those_one_by_one():
    mixture = MIXTURES["three"]
    x = torch.linspace(-20, 20, 3001, dtype=torch.float64)
    together = tail(x, *tensors(*mixture, len(x)))
    alone = [float(tail(value[None], *tensors(*mixture, 1))) for value in x[::500]]
    np.testing.assert_allclose(together[::500].numpy(), alone, rtol=1e-12)
