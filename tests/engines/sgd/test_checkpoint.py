"""A run that was killed, or ended by Ctrl-C, goes on to the weights that it would have come to, bit for bit."""

import json
import re
import signal
from functools import cache

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.datasets import load_iris
from torch import nn

import jensen
from altered import rewrite
from deep_runs import alone, digits, digits_vae, fingerprint
from jensen import VAE, GaussianMixture, Trainer
from jensen.engines.sgd.feeds import TensorFeed
from jensen.engines.sgd.loop import Phase, Plan, fit_sgd

N_STEPS = 6  # per epoch; a round has nine


class Noisy(nn.Module):
    """Draws, dropout and statistics in buffers: everything that a resumed run could get wrong."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Tanh())
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        out = self.second(self.first(x))[:, 0]
        return {"fit": -(out - x[:, 0] + 0.1 * torch.randn(len(x))).square(), "size": out.square()}


@pytest.fixture(autouse=True)
def _listening():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def trained(path=None, ctrl_c_at=None, max_epochs=30, patience=100, phases=False, **options):
    """The weights and the history, without its clock, of a run with or without Ctrl-C in one of its steps."""
    n_steps = 0

    def objective(terms, done):
        nonlocal n_steps
        n_steps += 1
        if n_steps == ctrl_c_at:
            signal.raise_signal(signal.SIGINT)
        return terms["fit"] - done * terms["size"]

    torch.manual_seed(1)
    module = Noisy()
    x = torch.from_numpy(load_iris().data).float()
    turns = [Phase("first", list(module.first.parameters())), Phase("second", list(module.second.parameters()))]
    plan = Plan(
        max_epochs,
        20,
        0.01,
        Trainer(averaging=0.98, patience=patience, checkpoint_every=1e9),
        phases=turns if phases else (),
        checkpoint=None if path is None else str(path),
        **({"seed": 5, "identity": {"model": "Noisy"}} | options),
    )
    feed, held_out = TensorFeed((x[:125],), torch.linspace(0.5, 1.5, 125)), TensorFeed((x[125:],))
    run = fit_sgd(module, feed, objective, plan, held_out=held_out, score=lambda terms, done: terms["fit"])
    history = [{name: value for name, value in row.items() if name != "seconds"} for row in run.history]
    return fingerprint(module), history, run.objective, n_steps


@cache
def trained_at_once(phases):
    return trained(phases=phases)


@pytest.mark.parametrize("phases", [False, True], ids=["joint", "phases"])
@pytest.mark.parametrize("step", [1, N_STEPS, 3 * N_STEPS + 2, 9 * N_STEPS, 20 * N_STEPS + 5])
def test_a_run_that_ctrl_c_ended_goes_on_to_the_same_weights(tmp_path, step, phases):
    """In the first step, at the end of an epoch, inside one, at the end of a round, and after two rounds."""
    whole = trained_at_once(phases)
    with pytest.warns(RuntimeWarning, match="the best weights so far are kept, and a fit .* resumes here: .*run.ckpt"):
        *_, n_before = trained(tmp_path / "run.ckpt", ctrl_c_at=step, phases=phases)
    *resumed, n_after = trained(tmp_path / "run.ckpt", phases=phases)
    assert (*resumed, n_before + n_after) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_a_finished_run_is_not_trained_further(tmp_path):
    *whole, n_steps = trained(tmp_path / "run.ckpt")
    assert n_steps == 30 * N_STEPS
    assert trained(tmp_path / "run.ckpt") == (*whole, 0)
    # Weights of fewer epochs are gone, and more epochs go on from there.
    with pytest.raises(ValueError, match="is at epoch 30, beyond max_epochs=20"):
        trained(tmp_path / "run.ckpt", max_epochs=20)
    assert trained(tmp_path / "run.ckpt", max_epochs=33)[-1] == 3 * N_STEPS


def test_a_run_that_stopped_early_has_stopped_for_good(tmp_path):
    *whole, n_steps = trained(tmp_path / "run.ckpt", patience=1, max_epochs=400)
    assert n_steps < 400 * N_STEPS
    assert trained(tmp_path / "run.ckpt", patience=1, max_epochs=400) == (*whole, 0)


def test_a_run_killed_with_sigkill_comes_to_the_same_weights_bit_for_bit(tmp_path):
    assert alone("killed", tmp_path) == -signal.SIGKILL
    with safe_open(tmp_path / "run.ckpt", framework="pt") as file:
        position = json.loads(file.metadata()["content"])["position"]["dict"]
    assert (position["epoch"], position["step"]) == (5, 6)
    resumed = digits_vae(checkpoint=str(tmp_path / "run.ckpt"), trainer=Trainer(checkpoint_every=0)).fit(digits())
    whole = digits_vae(trainer=Trainer(checkpoint_every=0)).fit(digits())
    for name, weight in whole.module_.state_dict().items():
        assert torch.equal(weight, resumed.module_.state_dict()[name])
    assert whole.history_.drop(columns="seconds").equals(resumed.history_.drop(columns="seconds"))
    assert whole.lower_bound_ == resumed.lower_bound_


def test_a_fit_without_a_seed_goes_on_with_the_seed_of_its_checkpoint(tmp_path):
    """Other rows held out would be no continuation."""
    model = VAE(2, max_epochs=3, checkpoint=tmp_path / "run.ckpt")
    first = model.fit(load_iris().data).transform(load_iris().data)
    np.testing.assert_array_equal(model.fit(load_iris().data).transform(load_iris().data), first)
    assert len(model.history_) == 1
    model.save(tmp_path / "model.jensen")
    assert jensen.load(tmp_path / "model.jensen").checkpoint == str(tmp_path / "run.ckpt")


@pytest.mark.parametrize("limited", [Trainer(max_seconds=60), Trainer(max_seconds=60, checkpoint_every=5)])
def test_a_fit_resumes_with_another_limit_of_time(tmp_path, limited):
    """trainer=None is Trainer() with its defaults, in both directions."""
    x = load_iris().data
    for first, second in ((None, limited), (limited, None)):
        path = tmp_path / f"{first is None}.ckpt"
        VAE(2, max_epochs=2, trainer=first, random_state=0, checkpoint=path).fit(x)
        model = VAE(2, max_epochs=3, trainer=second, random_state=0, checkpoint=path).fit(x)
        assert model.n_iter_ == 3
        with pytest.raises(ValueError, match=r"another fit, with trainer__clip '10.0' instead of '1.0'"):
            model.set_params(trainer=Trainer(clip=1.0)).fit(x)


class TestFilesThatAreNotGoneOnFrom:
    def test_a_folder_that_is_not_there_is_named_before_training(self, tmp_path):
        with pytest.raises(ValueError, match=r"nowhere/run.ckpt' cannot be written; give a file in an existing folder"):
            trained(tmp_path / "nowhere" / "run.ckpt")
        with pytest.raises(ValueError, match="cannot be written; give a file"):
            trained(tmp_path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seed": 6}, "with seed 5 instead of 6; delete it to start again, or give another file"),
            ({"identity": {"model": "Other"}}, "with model 'Noisy' instead of 'Other'; delete it"),
            ({"identity": {"model": "Noisy", "rows": 3}}, "with rows None instead of 3; delete it"),
        ],
    )
    def test_another_fit(self, tmp_path, options, message):
        trained(tmp_path / "run.ckpt", max_epochs=1)
        with pytest.raises(ValueError, match=f"was written by another fit, {message}"):
            trained(tmp_path / "run.ckpt", **options)

    def test_other_rows_or_arguments_of_an_estimator(self, tmp_path):
        x = load_iris().data
        model = VAE(2, max_epochs=1, random_state=0, checkpoint=tmp_path / "run.ckpt").fit(x)
        with pytest.raises(ValueError, match="another fit, with rows of X 150 instead of 149"):
            model.fit(x[1:])
        with pytest.raises(ValueError, match="another fit, with the sum of the weights None instead of 300"):
            model.fit(x, sample_weight=np.full(150, 2))
        with pytest.raises(ValueError, match=r"another fit, with the sum of the labels \[\] instead of \[150.0\]"):
            model.fit(x, load_iris().target)
        with pytest.raises(ValueError, match=r"another fit, with learning_rate '0.001' instead of '0.01'"):
            model.set_params(learning_rate=0.01).fit(x)

    def test_a_model_is_not_a_checkpoint(self, tmp_path):
        GaussianMixture().fit(load_iris().data).save(tmp_path / "model.jensen")
        with pytest.raises(ValueError, match=r"model.jensen' is a fitted model, not a checkpoint; give another file"):
            trained(tmp_path / "model.jensen")

    def test_something_else_is_not_a_checkpoint_either(self, tmp_path):
        (tmp_path / "run.ckpt").write_text("nonsense")
        with pytest.raises(ValueError, match=r"cannot be resumed: .* delete it to start again"):
            trained(tmp_path / "run.ckpt")
        save_file({"weight": torch.zeros(2)}, tmp_path / "run.ckpt")
        with pytest.raises(ValueError, match=r"cannot be resumed: .* no checkpoint of a training by gradients"):
            trained(tmp_path / "run.ckpt")

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
    def test_half_a_file(self, tmp_path, share):
        path = tmp_path / "run.ckpt"
        trained(path, max_epochs=1)
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
        with pytest.raises(ValueError, match="cannot be resumed"):
            trained(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"change_content": lambda content: content.pop("position")}, "is damaged: it has no position; delete it"),
            (
                {"change_content": lambda content: content["identity"]["dict"].pop("seed")},
                "is damaged: it has no seed; delete it",
            ),
            (
                {"change_content": lambda content: content["parts"]["dict"].pop("average")},
                "does not fit this model's networks: 'average'",
            ),
            (
                {"change_content": lambda content: content["position"]["dict"].update(colour=1)},
                "does not fit this model's networks: .*colour",
            ),
            (
                {"change_tensors": lambda tensors: tensors.update({"parts.module.second.weight": torch.zeros(1, 9)})},
                "does not fit this model's networks: .*second.weight",
            ),
            (
                {"change_content": lambda content: content["position"]["dict"].update(epoch="two")},
                "does not fit this model's networks: .*does not have the types of a position",
            ),
            (
                {"change_tensors": lambda tensors: tensors.update({"parts.optimiser.#0.exp_avg": torch.zeros(3)})},
                "does not fit this model's networks: the optimiser's moments of parameter 0",
            ),
            ({"change_tensors": lambda tensors: tensors.update(randomness=torch.zeros(3))}, "does not fit"),
            ({"change_content": lambda content: content.update(identity={"list": []})}, "it has no identity; delete"),
        ],
    )
    def test_a_damaged_description(self, tmp_path, change, message):
        path = tmp_path / "run.ckpt"
        trained(path, max_epochs=1)
        rewrite(path, **change)
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
            trained(path)
