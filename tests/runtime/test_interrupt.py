"""What becomes of a fit that Ctrl-C ends."""

import pickle
import threading
import warnings

import pytest

from jensen.evaluate import parallel
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
