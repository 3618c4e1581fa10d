"""Gaussians of rows that each miss other entries: both formulas against scipy and direct inverses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from jensen.formulas.incomplete import ByRows, BySides, smaller_sides


@pytest.fixture(params=[0.1, 0.5, 0.8])
def problem(request):
    """Two covariances, deviations with missing entries 0, and which are observed; a row of each extreme."""
    rng = np.random.default_rng(0)
    d, n = 7, 40
    root = rng.normal(size=(2, d, d + 3))
    observed = rng.random((d, n)) > request.param
    observed[:, 0], observed[:, 1] = True, False
    z = rng.normal(size=(2, d, n)) * observed
    return root @ root.transpose(0, 2, 1) / d, z, observed


@pytest.mark.parametrize("how", [BySides, ByRows])
def test_rows_given_what_is_observed(problem, how):
    cov, z, observed = problem
    found = how.of(*map(torch.from_numpy, problem))
    weight = np.random.default_rng(1).random((2, z.shape[2]))
    residual, variance = np.zeros_like(cov), found.variance(2)
    for k in range(2):
        for i in range(z.shape[2]):
            o = observed[:, i]
            block, zo = cov[k][np.ix_(o, o)], z[k, o, i]
            gain = cov[k][:, o] @ np.linalg.inv(block)
            residual[k] += weight[k, i] * (cov[k] - gain @ cov[k][o])
            assert_allclose(found.deviation[k, :, i], gain @ zo, atol=1e-12)
            assert float(variance[k, i]) == pytest.approx((cov[k] - gain @ cov[k][o])[2, 2], abs=1e-12)
            log_density = -0.5 * (o.sum() * np.log(2 * np.pi) + float(found.log_det[k, i] + found.square[k, i]))
            expected = multivariate_normal(np.zeros(o.sum()), block).logpdf(zo) if o.any() else 0.0
            assert log_density == pytest.approx(expected, abs=1e-11)
    assert_allclose(found.residual(torch.from_numpy(weight)), residual, atol=1e-11)


@pytest.mark.parametrize("how", [BySides, ByRows])
def test_one_covariance_serves_all_components(problem, how):
    cov, z, observed = problem
    one = how.of(*map(torch.from_numpy, (cov[:1], z, observed)))
    both = how.of(*map(torch.from_numpy, (np.repeat(cov[:1], 2, 0), z, observed)))
    weight = torch.rand(2, z.shape[2], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_allclose(one.deviation, both.deviation, atol=1e-13)
    assert_allclose(one.square, both.square, atol=1e-13)
    assert_allclose(one.residual(weight), both.residual(weight), atol=1e-12)


def test_every_row_has_one_side(problem):
    observed = torch.from_numpy(problem[2])
    sides = smaller_sides(observed)
    assert sorted(torch.cat([side.rows for side in sides]).tolist()) == list(range(observed.shape[1]))
    for side in sides:
        for row, features in zip(side.rows.tolist(), side.features.tolist(), strict=True):
            own = [feature for feature in features if feature < len(observed)]
            assert own == (observed[:, row] ^ side.is_missing).nonzero().squeeze(1).tolist()
            assert 2 * len(own) <= len(observed)
