"""Samples come from the density they claim."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.asks("sample")


def assert_moments(rows, mean, covariance=None):
    """Mean and covariance within five errors of an average over the rows, which happens by chance once in millions."""
    assert_mean(rows, mean)
    if covariance is not None:
        centred = rows - mean
        assert_mean(centred[:, :, None] * centred[:, None, :], covariance)


def assert_mean(values, expected):
    assert (np.abs(values.mean(0) - expected) <= 5 * values.std(0) / np.sqrt(len(values))).all()


def total_moments(weights, means, spreads):
    mean = weights @ means
    centred = means - mean
    return mean, np.einsum("k,kij->ij", weights, spreads + centred[:, :, None] * centred[:, None, :])


def test_samples_match_the_moments(case, model):
    n = 40_000
    weights, means = case.components(model)
    x, z = model.sample(n, random_state=0)
    assert x.shape == (n, case.x.shape[1])
    if case.spreads is None:
        assert_moments(x, weights @ means)
        return
    spreads = case.spreads(model)
    assert_moments(x, *total_moments(weights, means, spreads))
    if isinstance(z, tuple) or np.ndim(z) > 1:  # a vector, not the number of a component
        return
    z = z % len(weights)  # noise is -1, and the last of the components
    assert_allclose(np.bincount(z, minlength=len(weights)) / n, weights, atol=5 / np.sqrt(n))
    for k in range(len(weights)):
        assert_moments(x[z == k], means[k], spreads[k])


@pytest.mark.asks("inverse_transform", "any")
def test_samples_have_the_noise_of_the_model_around_their_latent_vector(case, model):
    """Beside the spread of E[x|z] that of the noise is small, and an error in it would not be seen in the whole."""
    classes = () if case.y is None else (np.full(20_000, case.y.max()),)
    x, z = model.sample(20_000, *classes, random_state=0)
    z = z if case.y is None else z[0]
    noise = getattr(model, "vae_", model).noise_variance_ * np.eye(x.shape[1])
    assert_moments(x - model.inverse_transform(z, *classes), np.zeros(x.shape[1]), noise)


@pytest.mark.asks("score_samples", "untrained")
def test_samples_have_the_entropy_of_the_density(case, model):
    """ln p has the mean and spread that it has over rows drawn by numpy."""
    n, rng = 20_000, np.random.default_rng(1)
    ours = model.score_samples(model.sample(n, random_state=1)[0])
    others = model.score_samples(case.drawn(model, n, rng))
    for values, expected in ((ours, others), (ours**2, others**2)):
        error = np.sqrt((values.var() + expected.var()) / n)
        assert abs(values.mean() - expected.mean()) < 5 * error


@pytest.mark.asks("score_samples")
def test_no_sample_falls_outside_the_density(case, model):
    assert np.isfinite(model.score_samples(model.sample(2000, random_state=1)[0])).all()


def test_a_seed_repeats_a_sample(case, model):
    assert_array_equal(model.sample(5, random_state=3)[0], model.sample(5, random_state=3)[0])
    assert not np.array_equal(model.sample(5, random_state=3)[0], model.sample(5, random_state=4)[0])
    assert_array_equal(model.sample(5)[0], model.sample(5)[0])
