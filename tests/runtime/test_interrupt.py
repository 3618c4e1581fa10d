"""What becomes of a fit that Ctrl-C ends."""

import pickle
import threading
import warnings

import numpy as np
import pytest

from jensen import GaussianMixture
from jensen.engines.em import loop as em
from jensen.evaluate import parallel
from jensen.models.mixtures import start
from jensen.runtime.interrupt import Interrupted, InterruptedFitWarning, propagating_interrupts


def stopped():
    return Interrupted("interrupted after step 3", best="the weights so far")


def test_a_fit_of_its_own_keeps_the_best_and_warns():
    with pytest.warns(InterruptedFitWarning, match="interrupted after step 3") as heard:
        assert stopped().kept() == "the weights so far"
    assert {warning.filename for warning in heard} == {__file__}


def test_one_of_several_processes_keeps_it_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stopped().kept(warns=False) == "the weights so far"


def test_in_a_search_it_is_raised():
    with propagating_interrupts(), pytest.raises(KeyboardInterrupt, match="interrupted after step 3"):
        stopped().kept()
    with pytest.warns(InterruptedFitWarning):
        stopped().kept()


def test_a_search_in_one_thread_leaves_fits_in_others_alone():
    found = []
    with propagating_interrupts():
        other = threading.Thread(target=lambda: found.append(stopped().kept(warns=False)))
        other.start()
        other.join()
    assert found == ["the weights so far"]


def test_another_process_receives_the_message_alone():
    copy = pickle.loads(pickle.dumps(Interrupted("interrupted", best=lambda: None)))
    assert (str(copy), copy.best) == ("interrupted", None)


def ended():
    stopped().kept()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_worker_processes_raise_it_too(n_jobs):
    with pytest.raises(KeyboardInterrupt, match="interrupted after step 3"):
        parallel.run_all([ended, ended], n_jobs, "select", False)


def test_ctrl_c_in_a_later_start_keeps_the_fit_before(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(9, 1, (100, 2))])
    once = GaussianMixture(2, init_params="kmeans", random_state=0).fit(x)
    real, calls = start.from_assignment, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(start, "from_assignment", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted in fit 2 of n_init=3; the best before it is kept"):
        model = GaussianMixture(2, n_init=3, init_params="kmeans", random_state=0).fit(x)
    np.testing.assert_array_equal(model.means_, once.means_)
    assert model.converged_


def test_ctrl_c_in_a_portfolio_keeps_its_best_start(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(9, 1, (100, 2))])
    real, calls = em.short_run, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(em, "short_run", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted in the start; the best start so far is kept"):
        model = GaussianMixture(3, random_state=0).fit(x)
    assert model.n_iter_ == 0
    assert model.score(x) > GaussianMixture(1).fit(x).score(x) + 0.5
