"""Samples come from the density they claim."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.asks("sample")


def test_samples_match_the_moments(case, model):
    n = 40_000
    weights, means = case.components(model)
    x, z = model.sample(n, random_state=0)
    assert x.shape == (n, case.x.shape[1])
    assert (np.abs(x.mean(0) - weights @ means) < 5 * x.std(0) / np.sqrt(n)).all()
    if np.ndim(z) > 1:  # a vector, not the number of a component
        return
    assert_allclose(np.bincount(z, minlength=len(weights)) / n, weights, atol=5 / np.sqrt(n))
    for k in range(len(weights)):
        rows = x[z == k]
        assert (np.abs(rows.mean(0) - means[k]) < 5 * rows.std(0) / np.sqrt(len(rows))).all()


def test_samples_have_the_entropy_of_the_model(case, model):
    """E[-ln p] over samples equals that over other samples, and is finite: no row falls outside the density."""
    first = model.score_samples(model.sample(20_000, random_state=1)[0])
    second = model.score_samples(model.sample(20_000, random_state=2)[0])
    error = np.sqrt(first.var() / len(first) + second.var() / len(second))
    assert abs(first.mean() - second.mean()) < 5 * error


def test_a_seed_repeats_a_sample(case, model):
    assert_array_equal(model.sample(5, random_state=3)[0], model.sample(5, random_state=3)[0])
    assert not np.array_equal(model.sample(5, random_state=3)[0], model.sample(5, random_state=4)[0])
    assert_array_equal(model.sample(5)[0], model.sample(5)[0])
