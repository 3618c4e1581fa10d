"""Tasks in workers: results in order, few under way, late ones again, and none left behind."""

import multiprocessing
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import torch

from jensen.runtime import workers
from jensen.runtime.workers import about, in_workers


class Desk:
    """Takes tasks, and does one when the test says so."""

    def __init__(self):
        self.futures = []

    def submit(self, item, attempt):
        self.futures.append((item, attempt, Future()))
        return self.futures[-1][2]

    @property
    def seen(self):
        return [(item, attempt) for item, attempt, _ in self.futures]


def test_results_come_in_order_whoever_is_first():
    desk = Desk()

    def submit(item, attempt):
        future = desk.submit(item, attempt)
        if len(desk.futures) == 5:
            for number, _, own in reversed(desk.futures):
                own.set_result(number * number)
        return future

    assert list(in_workers(submit, range(5), 5)) == [0, 1, 4, 9, 16]


def test_few_tasks_are_under_way():
    desk = Desk()
    results = in_workers(desk.submit, range(100_000), 8)
    threading.Timer(0.1, lambda: desk.futures[0][2].set_result("first")).start()
    assert next(results) == "first"
    # A result that waits for its turn counts, too.
    assert len(desk.futures) == 8
    results.close()
    assert all(future.cancelled() for _, _, future in desk.futures[1:])


def test_a_late_task_is_submitted_again_and_the_first_result_counts(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.05)
    hung = Future()

    def submit(item, attempt):
        future = Future()
        if item == 2 and attempt < 2:
            return hung
        future.set_result((item, attempt))
        return future

    assert list(in_workers(submit, range(4), 4)) == [(0, 0), (1, 0), (2, 2), (3, 0)]
    assert hung.cancelled()


def test_a_slow_task_that_ends_first_counts(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.05)
    desk = Desk()

    def submit(item, attempt):
        future = desk.submit(item, attempt)
        if attempt == 1:
            desk.futures[0][2].set_result("slow")
        elif item:
            future.set_result("fast")
        return future

    assert list(in_workers(submit, range(3), 3)) == ["slow", "fast", "fast"]
    assert desk.seen == [(0, 0), (1, 0), (2, 0), (0, 1)]


def test_a_task_is_late_beside_others_only(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.01)
    desk = Desk()
    threading.Timer(0.2, lambda: desk.futures[0][2].set_result(1)).start()
    assert list(in_workers(desk.submit, range(1), 8)) == [1]
    assert desk.seen == [(0, 0)]


def test_an_error_cancels_the_rest():
    desk = Desk()
    threading.Timer(0.1, lambda: desk.futures[1][2].set_exception(ValueError("row 7"))).start()
    with pytest.raises(ValueError, match="row 7"):
        list(in_workers(desk.submit, range(5), 3))
    assert [future.cancelled() for _, _, future in desk.futures] == [True, False, True]


def used_threads(_=None):
    from threadpoolctl import threadpool_info

    import jensen.runtime.workers  # noqa: F401 (torch's own libraries)

    return torch.get_num_threads(), max((own["num_threads"] for own in threadpool_info()), default=1)


def with_two_threads():
    torch.set_num_threads(2)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_task_uses_one_thread(kind):
    before = torch.get_num_threads()
    if kind == "threads":
        with ThreadPoolExecutor(2, initializer=with_two_threads) as executor:
            found = executor.submit(about, used_threads, 0, None).result()
            assert executor.submit(torch.get_num_threads).result() == 2
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context, initializer=with_two_threads) as executor:
            found = executor.submit(about, used_threads, 0, None).result()
            assert found[1] == 1
    assert found[0] == 1
    assert torch.get_num_threads() == before
