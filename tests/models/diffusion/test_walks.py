"""Walks down from noise stay near the data, whatever is predicted and whatever the noise and the sampler."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import StandardScaler

import jensen
from jensen import Denoiser, Diffusion, ResidualMLP, Schedule, Trainer

X = StandardScaler().fit_transform(load_iris().data)
WALKS = [
    {},
    {"steps": 40},
    {"sampler": "ddim"},
    {"sampler": "ddim", "steps": 10},
    {"sampler": "ddim", "steps": 40, "eta": 0.5},
    {"sampler": "dpm"},
    {"sampler": "dpm", "steps": 10},
]


def untrained(prediction, schedule="cosine", n_steps=100, X=X, **arguments):
    network = ResidualMLP(width=8, n_blocks=1)
    arguments = {"network": network, "max_epochs": 1, "random_state": 0} | arguments
    return Diffusion(schedule, n_steps, prediction=prediction, **arguments).fit(X)


@pytest.mark.parametrize(
    ("prediction", "schedule"),
    [
        ("noise", "cosine"),
        *(
            pytest.param(prediction, schedule, marks=pytest.mark.slow)
            for prediction in ("noise", "mean", "data", "velocity")
            for schedule in ("linear", "cosine")
            if (prediction, schedule) != ("noise", "cosine")
        ),
    ],
)
def test_no_walk_of_a_trained_model_leaves_eight_deviations(prediction, schedule):
    network = ResidualMLP(width=64, n_blocks=2)
    training = {"max_epochs": 500, "batch_size": 64, "learning_rate": 2e-3, "random_state": 0}
    model = Diffusion(schedule, 100, prediction=prediction, network=network, **training).fit(X)
    for walk in WALKS:
        rows, _ = model.sample(200, random_state=1, **walk)
        assert np.abs(rows).max() < 8, walk


@pytest.mark.parametrize(
    ("prediction", "n_steps", "largest"),
    [("noise", 1000, 0.05), ("mean", 1000, 0.05), ("noise", 20, 0.75), ("velocity", 1000, 0.999), ("data", 20, 0.999)],
)
def test_the_last_noise_of_the_cosine_suits_what_is_predicted(prediction, n_steps, largest, tmp_path):
    model = untrained(prediction, n_steps=n_steps)
    cosine = Schedule.cosine(n_steps).beta
    assert_allclose(model.schedule_.beta, np.minimum(cosine, largest), rtol=1e-12)
    assert model.schedule_.name == "cosine"
    model.save(tmp_path / "m.jensen")
    assert_array_equal(jensen.load(tmp_path / "m.jensen").schedule_.beta, model.schedule_.beta)


def test_what_is_told_of_x0_stays_within_the_data_where_little_of_it_is_left():
    """One number, that of the farthest entry to learn from, in scores as in samples; training is free."""
    model, x = untrained("noise", trainer=Trainer(validation_fraction=0.0)), torch.randn(50, 4)
    module = model.module_
    assert_allclose(module.space.clip, np.abs(X).max(), rtol=1e-6)
    signal = np.sqrt(model.schedule_.alpha_bar)
    for t in (1, int((signal >= 0.5).sum()), int((signal >= 0.5).sum()) + 1, 100):
        level = torch.full((50,), t)
        with torch.no_grad():
            found, free = module.eval().belief(x, level).mean, module.train().belief(x, level).mean
        module.eval()
        limit = module.space.clip if signal[t - 1] < 0.5 else math.inf
        assert_allclose(found, free.clamp(-limit, limit))
    assert (free.abs() > module.space.clip).any()
    assert untrained("velocity").module_.space.clip is None
    digits = untrained("noise", n_steps=20, X=load_digits().data[:50])
    assert digits.module_.space.clip == 1


def test_a_known_denoiser_is_taken_at_its_word():
    class Zero(torch.nn.Module):
        def forward(self, x, t, y=None):
            return torch.zeros_like(x)

    class Known(Denoiser):
        def build(self, in_shape, out_shape, n_classes=0):
            return Zero()

    model = untrained("noise", network=Known())
    assert model.module_.space.clip is None
    assert "clip" in model._facts.record()


def test_a_file_without_these_facts_has_the_cosine_as_it_is_defined_and_walks_from_its_end():
    model = untrained("noise")
    later = ("largest_beta", "least_signal", "clip")
    facts = {name: value for name, value in model._facts.record().items() if name not in later}
    module = model._build(model._facts_from(facts))
    assert_array_equal(module.schedule.beta, Schedule.cosine(100).beta)
    assert module.schedule.beta[-1] == 0.999
    assert (module.space.least_signal, module.space.clip) == (0, None)


@pytest.mark.parametrize("prediction", ["noise", "mean"])
def test_a_schedule_with_too_large_steps_is_pointed_out(prediction):
    with pytest.warns(UserWarning, match=rf"β up to 0.999, where prediction='{prediction}'.* choose .*'velocity'"):
        untrained(prediction, Schedule.cosine(100), None)


@pytest.mark.parametrize("prediction", ["noise", "velocity"])
def test_where_walks_begin(prediction):
    """The scored chain has all levels; other walks of a quotient leave out those with √ᾱ_t below 0.1."""
    model, seen = untrained(prediction), []
    network = model.module_.network
    handle = network.register_forward_hook(lambda module, inputs, output: seen.append(float(inputs[1][0])))
    kept = np.sqrt(model.schedule_.alpha_bar) >= (0.1 if prediction == "noise" else 0.0)
    for walk in WALKS:
        seen.clear()
        model.sample(1, random_state=0, **walk)
        whole = walk == {}
        assert max(seen) == model.schedule_.time[-1 if whole else kept.sum() - 1]
        assert len(seen) == min(walk.get("steps", 100), 100 if whole else kept.sum())
    seen.clear()
    model.impute(np.where([[True, False, False, False]], np.nan, X[:1]), n_draws=1, resamplings=1)
    assert max(seen) == model.schedule_.time[kept.sum() - 1]
    handle.remove()


def test_a_learned_variance_needs_numbers():
    digits = load_digits().images[:50]
    message = "variance='learned' needs columns of numbers, but every column of X has levels.* prediction='velocity'"
    for prediction in ("auto", "levels"):
        with pytest.raises(ValueError, match=message):
            Diffusion(n_steps=20, prediction=prediction, variance="learned", objective="hybrid").fit(digits)
