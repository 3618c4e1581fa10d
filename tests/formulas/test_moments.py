"""Weighted mean and variance with missing values."""

import numpy as np
import torch
from numpy.testing import assert_allclose

from jensen.formulas.moments import Spread

RNG = np.random.default_rng(0)
# Far from 0, where a difference of raw moments would have no digit left.
X = 1e8 + RNG.normal(size=(3, 500))
X[RNG.random(X.shape) < 0.3] = np.nan
WEIGHT = RNG.integers(0, 4, 500).astype(float)


def test_moments_are_those_of_the_observed_entries():
    found = Spread.of(torch.from_numpy(X), torch.from_numpy(WEIGHT))
    for j, row in enumerate(X):
        seen = ~np.isnan(row)
        mean = np.average(row[seen], weights=WEIGHT[seen])
        assert_allclose(found.mean[j], mean, rtol=1e-15)
        # The mean itself has an error of 1e-8, whose square is what two ways of computing may differ by.
        assert_allclose(found.variance[j], np.average((row[seen] - mean) ** 2, weights=WEIGHT[seen]), rtol=1e-12)


def test_parts_add_up_to_the_whole():
    whole = Spread.of(torch.from_numpy(X))
    parts = Spread.of(torch.from_numpy(X[:, :123])) + Spread.of(torch.from_numpy(X[:, 123:]))
    assert_allclose(parts.mass, whole.mass)
    assert_allclose(parts.mean, whole.mean, rtol=1e-15)
    # The difference of two means near 1e8 has an error of about 1e-8.
    assert_allclose(parts.variance, whole.variance, rtol=1e-8)


def test_a_feature_that_no_row_has_counts_for_nothing():
    empty = Spread.of(torch.full((1, 4), torch.nan, dtype=torch.float64))
    full = Spread.of(torch.tensor([[1.0, 3.0]], dtype=torch.float64))
    assert (float(empty.mass), float(empty.mean), float(empty.squares)) == (0.0, 0.0, 0.0)
    for both in (empty + full, full + empty):
        assert (float(both.mass), float(both.mean), float(both.variance)) == (2.0, 2.0, 1.0)
