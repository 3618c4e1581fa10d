"""Weights and their range."""

import numpy as np
import torch

from jensen import VAE, GaussianMixture
from jensen.data.reader import read_weights


def test_a_row_too_light_to_change_a_digit_is_left_out():
    weight = read_weights([1e20, 1e-5, 1e-11], 3)
    assert weight.tolist() == [1e20, 1e-5, 0.0]


def test_weights_over_ten_orders_of_magnitude():
    """A row that outweighs all others by 10¹⁰ is all that a mixture sees, and no network divides by the rest."""
    rng = np.random.default_rng(0)
    x, heavy = rng.normal(size=(60, 2)), np.where(np.arange(60) == 7, 1e10, 1.0)
    np.testing.assert_allclose(GaussianMixture(1).fit(x, sample_weight=heavy).means_[0], x[7], atol=1e-7)
    labels = np.where(np.arange(60) % 3 == 1, np.arange(60) % 2, -1)
    model = VAE(1, max_epochs=1, random_state=0).fit(x, labels, sample_weight=heavy)
    assert np.isfinite(model.score_samples(x)).all()
    assert torch.isfinite(torch.cat([p.flatten() for p in model.theta_.parameters()])).all()
