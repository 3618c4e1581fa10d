"""Small work runs on one thread, and the caller's number comes back."""

import pytest
import torch

from jensen.runtime.threads import FEW, threads_for


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
