"""A fit that was stopped resumes from its checkpoint and ends with the same bits."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

import jensen
from jensen.engines.em import checkpoint
from jensen.models.mixtures.em import MixtureVerbs

X = np.random.default_rng(0).normal(size=(400, 3)) + np.random.default_rng(1).integers(0, 3, 400)[:, None] * 1.5
HOLES = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)

MODELS = {
    "mixture": lambda: jensen.GaussianMixture(3, tol=1e-9, max_iter=60, random_state=0),
    "squarem": lambda: jensen.GaussianMixture(3, tol=1e-9, max_iter=60, random_state=0, acceleration="squarem"),
    "gradient": lambda: jensen.GaussianMixture(2, tol=1e-9, max_iter=12, random_state=0, algorithm="gradient"),
    "starts": lambda: jensen.GaussianMixture(
        3, tol=1e-9, max_iter=30, n_init=3, random_state=0, init_params="random_from_data"
    ),
    "noise": lambda: jensen.GaussianMixture(2, tol=1e-9, max_iter=40, random_state=0, noise=True),
    "columns": lambda: jensen.Mixture(3, tol=1e-9, max_iter=40, random_state=0),
    "subspaces": lambda: jensen.MixtureOfPPCA(2, n_latent=1, tol=1e-9, max_iter=30, random_state=0),
    "ppca": lambda: jensen.ProbabilisticPCA(1, tol=1e-12, max_iter=30),
    "factors": lambda: jensen.FactorAnalysis(1, tol=1e-12, max_iter=30),
    "curve": lambda: jensen.LatentCurve(tol=1e-9, max_iter=20),
    "kmeans": lambda: jensen.KMeans(3, tol=0, max_iter=20, random_state=0, init="random", n_init=2),
}


class StopError(Exception):
    """What ends a fit from outside, at a place where nothing is caught."""


def bits(model):
    return {name: value.numpy().tobytes() for name, value in checkpoint.leaves(model.theta_).items()}


def stopped_after(n, monkeypatch):
    """Fits end with the n-th checkpoint that they write."""
    write, left = checkpoint.write, iter(range(n))

    def then_stop(*arguments):
        write(*arguments)
        if next(left, None) is None:
            raise StopError

    monkeypatch.setattr(checkpoint, "write", then_stop)


@pytest.fixture(autouse=True)
def every_step(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_written", [0, 3])
def test_a_fit_that_was_stopped_ends_with_the_same_bits(name, n_written, tmp_path, monkeypatch):
    whole = MODELS[name]().fit(HOLES)
    with monkeypatch.context() as patch:
        stopped_after(n_written, patch)
        with pytest.raises(StopError):
            MODELS[name]().fit(HOLES, checkpoint=tmp_path / "run.ckpt")
    resumed = MODELS[name]().fit(HOLES, checkpoint=tmp_path / "run.ckpt")
    assert bits(resumed) == bits(whole)
    assert (resumed.n_iter_, resumed.converged_) == (whole.n_iter_, whole.converged_)
    assert resumed.lower_bound_ == whole.lower_bound_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_was_done_is_not_done_again(tmp_path, monkeypatch):
    model = jensen.GaussianMixture(3, random_state=0)
    whole = model.fit(X, checkpoint=tmp_path / "run.ckpt").theta_
    steps = []
    m_step = MixtureVerbs.m_step
    monkeypatch.setattr(MixtureVerbs, "m_step", lambda *given: steps.append(1) or m_step(*given))
    # The start takes steps of its own, on a sample.
    jensen.GaussianMixture(3, random_state=0).fit(X)
    n_whole, steps[:] = len(steps), []
    again = jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=tmp_path / "run.ckpt")
    assert torch.equal(again.theta_.weights, whole.weights)
    assert len(steps) < n_whole


def test_a_scan_resumes_too(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", HOLES)

    def fit(**options):
        rows = jensen.scan(tmp_path / "x.npy", block_rows=50)
        return jensen.GaussianMixture(3, tol=1e-4, max_iter=60, random_state=0).fit(rows, **options)

    whole = fit()
    with monkeypatch.context() as patch:
        stopped_after(4, patch)
        with pytest.raises(StopError):
            fit(checkpoint=tmp_path / "run.ckpt")
    assert bits(fit(checkpoint=tmp_path / "run.ckpt")) == bits(whole)


SCRIPT = """
import sys, time
import numpy as np
import jensen
from jensen.engines.em import checkpoint
checkpoint.EVERY = 0.0
from jensen.models.mixtures.em import MixtureVerbs
step = MixtureVerbs.m_step
MixtureVerbs.m_step = lambda *given: time.sleep(0.02) or step(*given)
X = np.load(sys.argv[1])
jensen.GaussianMixture(3, tol=0, max_iter=100, random_state=0, init_params="kmeans").fit(X, checkpoint=sys.argv[2])
"""


def test_a_fit_that_was_killed_ends_with_the_same_bits(tmp_path):
    np.save(tmp_path / "x.npy", X)
    path = tmp_path / "run.ckpt"
    run = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "x.npy"), str(path)])
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()

    def fit(**options):
        model = jensen.GaussianMixture(3, tol=0, max_iter=100, random_state=0, init_params="kmeans")
        return model.fit(X, **options)

    with pytest.warns(match="did not converge"):
        whole, resumed = fit(), fit(checkpoint=path)
    assert bits(resumed) == bits(whole)


class TestWhatGoesWrong:
    def test_a_checkpoint_of_another_fit(self, tmp_path):
        path = tmp_path / "run.ckpt"
        jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=path)
        with pytest.raises(ValueError, match=r"is of another fit: n_components was '3' and is '2'; delete it"):
            jensen.GaussianMixture(2, random_state=0).fit(X, checkpoint=path)
        with pytest.raises(ValueError, match=r"n_rows was 400 and is 399"):
            jensen.GaussianMixture(3, random_state=0).fit(X[1:], checkpoint=path)
        with pytest.raises(ValueError, match=r"is of another fit: rows was"):
            jensen.GaussianMixture(3, random_state=0).fit(2 * X, checkpoint=path)

    def test_a_checkpoint_of_another_model(self, tmp_path):
        path = tmp_path / "run.ckpt"
        jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=path)
        with pytest.raises(
            ValueError, match=r"is of another fit: model was 'GaussianMixture' and is 'Mixture'; delete"
        ):
            jensen.Mixture(3, random_state=0).fit(X, checkpoint=path)
        with pytest.raises(
            ValueError, match=r"run\.ckpt' cannot be resumed: it is no checkpoint of a training by gradients; delete it"
        ):
            jensen.VAE(1, max_epochs=1, checkpoint=path).fit(X)
        jensen.VAE(1, max_epochs=1, checkpoint=tmp_path / "deep.ckpt").fit(X)
        with pytest.raises(ValueError, match=r"deep\.ckpt' is no checkpoint of EM; give another path"):
            jensen.GaussianMixture(3).fit(X, checkpoint=tmp_path / "deep.ckpt")

    def test_a_damaged_checkpoint(self, tmp_path):
        path = tmp_path / "run.ckpt"
        jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=path)
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(ValueError, match=r"run\.ckpt' is damaged or no checkpoint of EM .*; give another path"):
            jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=path)

    @pytest.mark.parametrize("kind", [OSError, SafetensorError])
    def test_a_full_disk(self, kind, tmp_path, monkeypatch):
        def full(*given, **options):
            raise kind(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(checkpoint, "save_file", full)
        with pytest.warns(match=r"checkpoint=.*run\.ckpt' cannot be written: .*No space left.*the fit goes on without"):
            model = jensen.GaussianMixture(3, random_state=0).fit(X, checkpoint=tmp_path / "run.ckpt")
        assert bits(model) == bits(jensen.GaussianMixture(3, random_state=0).fit(X))

    def test_a_model_whose_steps_depend_on_earlier_ones(self, tmp_path):
        model = jensen.KMeans(2, depot=jensen.Depot([0.0, 0.0, 0.0], weight=0.5))
        with pytest.raises(ValueError, match="cannot resume; leave it out"):
            model.fit(X, checkpoint=tmp_path / "run.ckpt")
