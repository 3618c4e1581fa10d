"""Small work runs on one thread, and the caller's number comes back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from jensen.runtime.threads import FEW, in_threads, threads_for, use_one_thread


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_small_work_runs_on_one_thread():
    with threads_for(FEW - 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_large_work_keeps_all_threads():
    with threads_for(FEW):
        assert torch.get_num_threads() == 2


def test_an_error_gives_the_threads_back():
    with pytest.raises(ZeroDivisionError), threads_for(1):
        _ = 1 / 0
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_come_in_order_and_threads_use_one_each(n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        found = list(in_threads(lambda i: (i * i, torch.get_num_threads()), range(20)))
        assert [square for square, _ in found] == [i * i for i in range(20)]
        assert {own for _, own in found} == {1}
        assert torch.get_num_threads() == n_threads
        assert list(in_threads(abs, [-1])) == [1]
        assert list(in_threads(abs, [])) == []
    finally:
        torch.set_num_threads(before)


def test_an_error_in_a_thread_is_raised():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            list(in_threads(lambda i: 1 / (i - 3), range(9)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_thread_keeps_its_one_thread_when_the_process_gets_more():
    """torch lets a thread take the number of the process when it first asks for it."""
    is_ready, is_set = threading.Event(), threading.Event()

    def ask():
        is_ready.set()
        is_set.wait()
        return torch.get_num_threads()

    with ThreadPoolExecutor(1, initializer=use_one_thread) as pool:
        asked = pool.submit(ask)
        is_ready.wait()
        torch.set_num_threads(2)
        is_set.set()
        assert asked.result() == 1
