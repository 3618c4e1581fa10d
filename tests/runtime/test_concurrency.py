"""Fits in several threads are the fits of one, and leave the process as it was."""

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from jensen import MLP, VAE, Diffusion, GaussianMixture, KMeans, ResidualMLP, compare
from jensen.bound import averaging, is_averaging
from jensen.runtime.messages import own_filters, recorded_warnings
from jensen.runtime.randomness import seeded

N_THREADS = 4
X, _ = make_blobs(200, centers=3, n_features=3, random_state=0)
MAKES = {
    "kmeans": partial(KMeans, 3),
    "mixture": partial(GaussianMixture, 3),
    "vae": partial(VAE, 1, encoder=MLP((8,), dropout=0.2), decoder=MLP((8,)), max_epochs=8),
    "diffusion": partial(Diffusion, n_steps=20, network=ResidualMLP(width=16, n_blocks=1), max_epochs=8),
}


def in_threads(jobs):
    """What every job returns; all threads start at once."""
    gate = threading.Barrier(N_THREADS)

    def run(job):
        gate.wait()
        return job()

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(run, jobs))


def parameters(model):
    if hasattr(model, "module_"):
        return np.concatenate([np.ravel(weight) for weight in model.module_.state_dict().values()])
    names = ("cluster_centers_", "weights_", "means_", "covariances_")
    return np.concatenate([np.ravel(getattr(model, name)) for name in names if hasattr(model, name)])


@pytest.fixture
def process():
    """What belongs to the whole process, before and after."""

    def now():
        return {
            "filters": list(warnings.filters),
            "showwarning": warnings.showwarning,
            "torch": torch.get_rng_state().tolist(),
            "numpy": np.random.get_state()[1].tolist(),
            "threads": torch.get_num_threads(),
            "threads of a new thread": in_new_thread(torch.get_num_threads),
        }

    return now


def in_new_thread(job):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(job).result()


@pytest.mark.parametrize("name", MAKES)
def test_fits_in_threads_are_the_fits_of_one_thread(name, process):
    make = MAKES[name]
    expected = [parameters(make(random_state=seed).fit(X)) for seed in range(N_THREADS)]
    before = process()  # after a fit, because packages that torch imports when it trains add filters of their own
    fits = in_threads([partial(make(random_state=seed).fit, X) for seed in range(N_THREADS)])
    for model, one in zip(fits, expected, strict=True):
        assert_array_equal(parameters(model), one)
    assert process() == before


@pytest.mark.parametrize("context", [own_filters, recorded_warnings])
def test_threads_that_change_the_filters_take_turns(context, process):
    """Without turns all would be inside at once, and the last to leave would put back the filters of another."""
    before, inside = process(), []

    def change():
        with context():
            inside.append(warnings.filters[0] == before["filters"][0])
            warnings.simplefilter("ignore")
            time.sleep(0.02)

    in_threads([change] * N_THREADS)
    assert inside == [True] * N_THREADS
    assert process() == before


def test_comparisons_in_threads_leave_the_filters(process):
    ask = partial(compare, X[:60], models=[KMeans(2)], cv=2, random_state=0)
    expected, before = ask(), process()
    for board in in_threads([ask] * N_THREADS):
        assert_array_equal(board.table["nats"], expected.table["nats"])
    assert process() == before


def test_a_seed_within_a_seed_does_not_wait_for_itself():
    with seeded(0, torch.device("cpu")):
        first = torch.rand(1)
        with seeded(1, torch.device("cpu")):
            torch.rand(1)
        second = torch.rand(1)
    with seeded(0, torch.device("cpu")):
        assert_array_equal(torch.rand(2), torch.cat([first, second]))


def test_an_average_in_one_thread_leaves_the_others_their_warnings(process):
    before = process()
    with averaging():
        assert is_averaging()
        assert in_threads([is_averaging] * N_THREADS) == [False] * N_THREADS
        assert process() == before
    assert not is_averaging()
