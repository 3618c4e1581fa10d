"""Images in a VAE: levels of pixels, decoder means, drawn classes."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from jensen import MLP, VAE, Diffusion, Elbo, LatentDiffusion, ResidualMLP, load

SMALL = {"encoder": MLP((32,)), "decoder": MLP((32,)), "random_state": 0}
LONG = {"max_epochs": 60, "batch_size": 16, "learning_rate": 0.005, **SMALL}


def ramps(n=400, side=6, seed=0):
    """Images (n, side, side) from dark on the left to bright on the right, and the column where they change."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(0.5, side - 1.5, size=n)
    bright = 255 / (1 + np.exp(-2 * (np.arange(side) - place[:, None])))
    noise = rng.integers(-5, 6, size=(n, side, side))
    return (bright[:, None] + noise).round().clip(0, 255).astype(np.uint8), place


@pytest.fixture(scope="module")
def model():
    return VAE(3, **LONG).fit(ramps()[0])


def test_pixels_have_probabilities(model):
    assert set(model.measure_) == {"probability"}
    scores = model.score_samples(ramps(20, seed=1)[0])
    assert (scores < 0).all()
    bits = model.bits_per_dimension(ramps(20, seed=1)[0])
    assert_allclose(bits, -scores / (36 * np.log(2)))
    # Less than the 8 bits of a uniform pixel, and more than those of noise of 11 levels in half of the pixels.
    assert 0.5 * np.log2(11) < bits.mean() < 6


def test_samples_look_like_the_data(model):
    """Every sample is a ramp."""
    samples, z = model.sample(300, random_state=1)
    assert_array_equal(samples, np.rint(samples))
    assert z.shape == (300, 3)
    # The mean of 6 pixels falls rarely from column to column; among uniform columns it falls half the time.
    rise = np.diff(samples.mean(1), axis=1)
    assert (rise > -30).mean() > 0.9
    assert np.median(rise.max(1)) > 60
    means = model.sample(300, random_state=1, mean=True)[0]
    # The same latent vectors; a mean has less noise around neighbouring pixels than a draw.
    assert np.abs(np.diff(means.astype(float), axis=1)).mean() < np.abs(np.diff(samples.astype(float), axis=1)).mean()
    assert_array_equal(means, model.inverse_transform(z))


@pytest.mark.parametrize("n_levels", [256, 2001])
def test_scaled_pixels_are_on_their_grid(n_levels):
    """x / 255 has the scores of x: a probability has no unit."""
    images = np.random.default_rng(0).integers(0, n_levels, size=(60, 4, 4))
    images[0, 0, :2] = 0, n_levels - 1
    options = {"max_epochs": 2, "evaluation_samples": 20, **SMALL}
    whole = VAE(2, **options).fit(images)
    scaled = VAE(2, **options).fit(images / (n_levels - 1))
    assert set(scaled.columns_.kinds) == {"grid"}
    assert scaled.columns_.n_levels[0] == n_levels
    assert_allclose(scaled.score_samples(images / (n_levels - 1)), whole.score_samples(images), rtol=1e-5)
    steps = scaled.sample(5)[0] * (n_levels - 1)
    assert_allclose(steps, np.rint(steps), atol=1e-3)


def test_bits_compare_with_those_of_a_diffusion():
    """Both are probabilities of the same levels."""
    images = ramps(60)[0]
    diffusion = Diffusion(network=ResidualMLP(16, 1), n_steps=10, max_epochs=1, random_state=0).fit(images)
    vae = VAE(2, max_epochs=1, **SMALL).fit(images)
    assert vae.measure_ == diffusion.measure_
    assert vae.bits_per_dimension(images).shape == diffusion.bits_per_dimension(images).shape == (60,)


def test_missing_pixels_are_filled_with_levels(model):
    images = ramps(10, seed=2)[0].astype(float)
    images[:, 2] = np.nan
    filled = model.impute(images)
    assert not np.isnan(filled).any()
    observed = ~np.isnan(images)
    assert_array_equal(filled[observed], images[observed])
    draws = model.impute_draws(images, 2)
    assert all((draw % 1 == 0).all() for draw in draws)
    # Bits of the observed pixels.
    assert_allclose(model.bits_per_dimension(images), -model.score_samples(images) / (30 * np.log(2)))


def test_the_class_of_every_sample_is_returned(tmp_path):
    images, place = ramps()
    names = np.array(["left", "right"])[(place > 2.5).astype(int)]
    model = VAE(2, **LONG).fit(images, names)
    _, (z, y) = model.sample(200, random_state=0)
    assert z.shape == (200, 2)
    assert set(y) == {"left", "right"}
    assert_array_equal(model.sample(3, y="left")[1][1], ["left"] * 3)
    assert_array_equal(model.inverse_transform(z, y), model.sample(200, random_state=0, mean=True)[0])
    model.save(tmp_path / "m.jensen")
    assert_array_equal(load(tmp_path / "m.jensen").sample(9, random_state=0)[0], model.sample(9, random_state=0)[0])


def test_the_decoder_sees_a_class_as_long_as_two_latent_vectors(tmp_path):
    """‖z‖ is about √m; a class of length 1 beside a long z hardly matters."""
    images, place = ramps(60)
    VAE(9, max_epochs=1, **SMALL).fit(images, place > 2.5).save(tmp_path / "m.jensen")
    model = load(tmp_path / "m.jensen")
    seen = []
    model.module_.decoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model.sample(5, y=True)
    model.bound(images)
    assert_array_equal(seen[0][:, 9:], [[0.0, 6.0]] * 5)
    assert {*seen[1][:, 9:].abs().sum(1).tolist()} == {6.0}
    assert "class_length" not in VAE(2, max_epochs=1, **SMALL).fit(images)._facts.record()
    given = VAE(9, class_length=1.5, max_epochs=1, **SMALL).fit(images, place > 2.5)
    assert_array_equal(given.module_.beside_class(torch.zeros(1, 9), torch.ones(1, 2))[:, 9:], [[1.5, 1.5]])


def test_a_latent_diffusion_has_decoder_means():
    images = ramps(60)[0]
    recipe = VAE(2, max_epochs=2, **SMALL)
    model = LatentDiffusion(vae=recipe, diffusion=Diffusion(n_steps=5, max_epochs=1), random_state=0).fit(images)
    means, z = model.sample(4, random_state=1, mean=True)
    assert_array_equal(means, model.inverse_transform(z))
    assert not np.array_equal(means, model.sample(4, random_state=1)[0])


def test_defaults_of_images():
    """The weight of the KL rises: objective = reconstruction - β kl with a β below 1 in the first round."""
    images = np.random.default_rng(0).integers(0, 256, size=(60, 8, 8))
    model = VAE(max_epochs=10, random_state=0, encoder=MLP((4,)), decoder=MLP((4,))).fit(images)
    first = model.history_.iloc[0]
    assert first["objective"] > first["reconstruction"] - first["latent"]
    plain = VAE(2, max_epochs=10, objective=Elbo(), **SMALL).fit(images).history_.iloc[0]
    assert plain["objective"] == pytest.approx(plain["reconstruction"] - plain["latent"], rel=1e-5)


def test_images_train_for_1000_steps(monkeypatch):
    """Unless this is fewer than 20 epochs. Densities train for 5000."""
    found = []
    monkeypatch.setattr(VAE, "_train", lambda model, data, spec: found.append(spec))
    images = ramps(60)[0]
    VAE(2).fit(images)
    VAE(2, scaling="common").fit(images)
    on_grid, density = found
    assert [on_grid.n_epochs(14), on_grid.n_epochs(400)] == [72, 20]
    assert density.n_epochs(14) == 358


def test_a_scale_asks_for_a_density_and_a_logistic_for_levels():
    images = ramps(60)[0]
    assert set(VAE(2, max_epochs=1, scaling="common", **SMALL).fit(images).measure_) == {"density"}
    with pytest.raises(ValueError, match="scaling='common' is for densities, and a Logistic has probabilities"):
        VAE(2, likelihood="logistic", scaling="common", max_epochs=1, **SMALL).fit(images)
    with pytest.raises(ValueError, match='likelihood="logistic" is for numbers that are all on one grid'):
        VAE(2, likelihood="logistic", max_epochs=1, **SMALL).fit(np.random.default_rng(0).normal(size=(60, 4)))


def test_convolutions_keep_channels_last():
    model = VAE(2, max_epochs=1, random_state=0).fit(np.random.default_rng(0).integers(0, 256, size=(50, 3, 16, 16)))
    weights = [weight for weight in model.module_.parameters() if weight.ndim == 4]
    assert weights
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
    assert model.sample(2)[0].shape == (2, 3, 16, 16)
