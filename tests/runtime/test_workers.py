"""No more threads than the process may use, in workers of joblib, dask and pytest; and no deadlock after a fork."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import GridSearchCV

from jensen import GaussianMixture
from jensen.runtime.threads import workers
from thread_probe import MAKES, threads_in_fit

MANY_ROWS = 100_000  # several batches of EM, which threads share
X = np.random.default_rng(0).normal(size=(60, 2))


def check(found, limit):
    assert found["before"] == found["after"] == limit
    assert found["steps"] > 0
    assert 1 <= found["most"] <= limit


@pytest.fixture
def threads():
    """Sets the number of threads that this process may use."""
    yield torch.set_num_threads
    torch.set_num_threads(1)
    workers.cache_clear()


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("limit", [1, 3])
def test_a_fit_computes_with_the_threads_that_it_may_use(name, limit, threads):
    threads(limit)
    check(threads_in_fit(name, 500 if name == "vae" else MANY_ROWS), limit)


def test_workers_of_joblib_have_the_threads_that_joblib_gives_them():
    # More than the one thread of this process.
    with parallel_config("loky", inner_max_num_threads=2):
        found = Parallel(2)(delayed(threads_in_fit)(name, MANY_ROWS) for name in ("mixture", "curve"))
    for one in found:
        check(one, 2)


def n_threads(model, X, y=None):
    return torch.get_num_threads()


def test_a_grid_search_in_processes_has_the_threads_that_joblib_gives_it():
    with parallel_config("loky", inner_max_num_threads=2):
        search = GridSearchCV(
            GaussianMixture(2, random_state=0), {"reg_covar": [1e-6, 1e-3]}, cv=2, n_jobs=2, scoring=n_threads
        )
        search.fit(X)
    assert (search.cv_results_["mean_test_score"] == 2).all()


def test_threads_of_joblib_leave_the_threads_of_each_other(threads):
    threads(2)
    with parallel_config("threading"):
        Parallel(2)(delayed(GaussianMixture(2, random_state=seed).fit)(X) for seed in range(8))
    assert torch.get_num_threads() == 2


@pytest.mark.slow
def test_workers_of_dask_have_one_thread_each():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(sys.path.append, str(Path(__file__).parents[1]))
        allowed = client.run(lambda: int(os.environ["OMP_NUM_THREADS"]))
        assert set(allowed.values()) == {1}
        jobs = [client.submit(threads_in_fit, name, MANY_ROWS, pure=False) for name in ("mixture", "curve", "vae")]
        for found in client.gather(jobs):
            check(found, 1)


@pytest.mark.slow
def test_workers_of_pytest_have_the_threads_of_their_environment(tmp_path):
    test = """
import pytest
from thread_probe import threads_in_fit

@pytest.mark.parametrize("name", ["mixture", "curve"])
def test_threads(name):
    found = threads_in_fit(name, 100_000)
    assert found["before"] == found["after"] == 2
    assert found["most"] <= 2
"""
    (tmp_path / "test_threads.py").write_text(test)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2") | {"PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


def fit_and_send(to):
    to.send([threads_in_fit(name, MANY_ROWS)["steps"] for name in ("mixture", "curve")])


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(name, marks=pytest.mark.slow) for name in ("forkserver", "spawn"))]
)
def test_a_process_that_starts_after_threads_have_run_does_not_wait_for_them(method, threads):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    threads(2)
    torch.ones(2000, 2000).mm(torch.ones(2000, 2000))  # within an operation
    # And beside each other.
    expected = [threads_in_fit(name, MANY_ROWS)["steps"] for name in ("mixture", "curve")]
    context = multiprocessing.get_context(method)
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=fit_and_send, args=(there,), daemon=True)
    child.start()
    try:
        assert here.poll(120), f"a {method}ed process hangs"
        assert here.recv() == expected
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
