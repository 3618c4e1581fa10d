"""Pixels that hardly vary in the training rows may vary in others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jensen import MLP, VAE, ConjugatePrior, Diffusion, Gaussian, GaussianMixture, LatentDiffusion, Trainer, load
from jensen.data.scaled import pooled_scale

RNG = np.random.default_rng(0)
# The last of eight pixels is dark in all training rows, but for noise, and bright in some others.
TRAINED = np.hstack([100 + 40 * RNG.normal(size=(400, 7)), RNG.random((400, 1))])
HELD_OUT = TRAINED[:50] + 60.0 * (np.arange(8) == 7)


# A score of so unlikely a row is an estimate from few draws, and some nats of thousands.
pytestmark = pytest.mark.filterwarnings("ignore:the scores of .* rows are uncertain")


def vae(scaling, variance="point"):
    network = MLP(hidden=(16,))
    return VAE(
        2,
        likelihood=Gaussian(variance=variance),
        scaling=scaling,
        encoder=network,
        decoder=network,
        max_epochs=60,
        learning_rate=1e-2,
        trainer=Trainer(validation_fraction=0.0),
        random_state=0,
    )


def test_the_scale_has_one_more_row():
    std = TRAINED.std(0)
    found = np.asarray(vae("pooled").set_params(max_epochs=1).fit(TRAINED).columns_.scale)
    assert_allclose(found**2, (400 * std**2 + (std**2).mean()) / 401)
    # The mean variance stays as it is, however large; a pixel without any has that of the other row alone.
    assert_allclose((pooled_scale(1e200 * std, 400) / 1e200) @ np.ones(8), found.sum())
    assert_allclose(pooled_scale(np.array([2.0, 0.0]), 9), [np.sqrt((9 * 4 + 2) / 10), np.sqrt(0.2)])
    assert_allclose(pooled_scale(np.zeros(2), 9), 1.0)


def test_a_dark_pixel_that_is_bright_costs_no_more_than_in_one_gaussian():
    one = GaussianMixture(1, covariance_type="diag", prior=ConjugatePrior(scale="pooled")).fit(TRAINED)
    least = 0.5 * 60**2 / ((TRAINED.var(0)).mean() / 401)
    cost = one.score_samples(TRAINED[:50]) - one.score_samples(HELD_OUT)
    # 60² / 2σ² with the σ² of one more row; the prior of a mixture counts for a little more than one.
    assert 0.5 * least < cost.mean() < 1.5 * least
    for variance in ("learned", "feature", "point"):
        model = vae("pooled", variance).fit(TRAINED)
        assert (model.score_samples(TRAINED[:50]) - model.score_samples(HELD_OUT)).mean() < 2 * cost.mean()
        own = vae("feature", variance).fit(TRAINED)
        assert (own.score_samples(TRAINED[:50]) - own.score_samples(HELD_OUT)).mean() > 4 * cost.mean()


def test_the_floor_is_saved_and_a_prior_of_latents_has_it(tmp_path):
    own = vae("pooled").set_params(max_epochs=2)
    for model in (own, LatentDiffusion(own, Diffusion(max_epochs=2), random_state=0)):
        model.fit(TRAINED[:100])
        module = model.theta_ if model is own else model.theta_.vae
        scale = model.columns_.scale
        assert_allclose(module.emission.numbers.log_least.exp(), (scale**2).mean() / (101 * scale**2), rtol=1e-5)
        model.save(tmp_path / "model.jensen")
        assert_allclose(load(tmp_path / "model.jensen").score_samples(HELD_OUT), model.score_samples(HELD_OUT))
