"""A fit of topics that was stopped resumes with the shares of its documents, and ends with the same bits."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

import jensen
from jensen import LatentDirichletAllocation
from jensen.engines.em import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
TOPICS, SHARES = RNG.dirichlet(np.full(30, 0.2), 3), RNG.dirichlet(np.full(3, 0.3), 200)
COUNTS = csr_array([RNG.multinomial(n, p) for n, p in zip(RNG.poisson(20, 200), SHARES @ TOPICS, strict=True)])
Y = np.where(RNG.random(200) < 0.3, SHARES.argmax(1) // 2, -1)
MODELS = {
    "batch": {"learning_method": "batch"},
    "collapsed": {"learning_method": "collapsed"},
    "priors": {"learning_method": "batch", "learn_priors": "asymmetric"},
    # 15 sweeps: the perplexity of the 10th is compared with that of the 15th.
    "perplexity": {"learning_method": "batch", "evaluate_every": 5, "perp_tol": 0.1},
}


class StopError(Exception):
    """What ends a fit from outside, at a place where nothing is caught."""


def make(name):
    return LatentDirichletAllocation(3, max_iter=20, tol=0, random_state=0, mean_change_tol=0.1, **MODELS[name])


def bits(model):
    return {name: value.numpy().tobytes() for name, value in checkpoint.leaves(model.theta_).items()}


@pytest.fixture(autouse=True)
def every_step(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


@pytest.fixture(params=["memory", "labels", "files", "executor"])
def fit(request, tmp_path):
    """Fits a model to the same documents in different places."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(0, 200, 60):
        save_npz(folder / f"{i:03d}.npz", COUNTS[i : i + 60])

    def of(model, **options):
        if request.param == "memory":
            return model.fit(COUNTS, **options)
        if request.param == "labels":
            return model.fit(COUNTS, Y, **options)
        rows = jensen.scan(folder, block_rows=25)
        if request.param == "executor":
            with ThreadPoolExecutor(2) as executor:
                return model.fit(rows, executor=executor, **options)
        return model.fit(rows, **options)

    return of


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_written", [0, 6])
def test_a_fit_that_was_stopped_ends_with_the_same_bits(fit, name, n_written, tmp_path, monkeypatch):
    path, whole = tmp_path / "run.ckpt", fit(make(name))
    with monkeypatch.context() as patch:
        write, left = checkpoint.write, iter(range(n_written))

        def then_stop(*arguments):
            was_written = write(*arguments)
            if next(left, None) is None:
                raise StopError
            return was_written

        patch.setattr(checkpoint, "write", then_stop)
        with pytest.raises(StopError):
            fit(make(name), checkpoint=path)
    resumed = fit(make(name), checkpoint=path)
    assert bits(resumed) == bits(whole)
    assert (resumed.n_iter_, resumed.converged_) == (whole.n_iter_, whole.converged_)
    assert (resumed.lower_bound_, resumed.lower_bounds_) == (whole.lower_bound_, whole.lower_bounds_)
    # The shares of the last checkpoint, and no others.
    assert len(list(tmp_path.glob("run.ckpt.*"))) == 1
    # A fit that was done is not done again.
    assert bits(fit(make(name), checkpoint=path)) == bits(whole)


SCRIPT = """
import sys, time
import jensen
from jensen.engines.em import checkpoint
checkpoint.EVERY = 0.0
write = checkpoint.write
checkpoint.write = lambda *given: (write(*given), time.sleep(0.05))[0]
rows = jensen.scan(sys.argv[1], block_rows=25)
jensen.LatentDirichletAllocation(3, max_iter=30, tol=0, random_state=0).fit(rows, checkpoint=sys.argv[2])
"""


def test_a_fit_that_was_killed_ends_with_the_same_bits(tmp_path):
    save_npz(tmp_path / "rows.npz", COUNTS)
    path = tmp_path / "run.ckpt"
    run = subprocess.Popen([sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "rows.npz"), str(path)])
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL

    def fit(**options):
        rows = jensen.scan(tmp_path / "rows.npz", block_rows=25)
        return LatentDirichletAllocation(3, max_iter=30, tol=0, random_state=0).fit(rows, **options)

    assert bits(fit(checkpoint=path)) == bits(fit())


class TestWhatGoesWrong:
    def test_the_shares_are_gone(self, tmp_path):
        path = tmp_path / "run.ckpt"
        make("batch").fit(COUNTS, checkpoint=path)
        (shares,) = tmp_path.glob("run.ckpt.*")
        shares.unlink()
        with pytest.raises(ValueError, match=r"run\.ckpt' needs 'run\.ckpt\.[ab]' in its folder, .*delete both"):
            make("batch").fit(COUNTS, checkpoint=path)

    def test_other_documents(self, tmp_path):
        path, others = tmp_path / "run.ckpt", COUNTS.copy()
        others.data[:2] += [1, -1]
        for rows in (lambda x: x, lambda x: jensen.scan(lambda: [x])):
            path.unlink(missing_ok=True)
            make("batch").fit(rows(COUNTS), checkpoint=path)
            with pytest.raises(ValueError, match=r"is of another fit: rows was"):
                make("batch").fit(rows(others), checkpoint=path)

    def test_online_steps(self, tmp_path):
        with pytest.raises(ValueError, match="cannot resume; leave it out"):
            LatentDirichletAllocation(3, learning_method="online").fit(COUNTS, checkpoint=tmp_path / "run.ckpt")
