"""Tasks in an executor's workers, some of which may hang: results come in the order of the items.

A task is a pure function of its item, so it may be computed twice. A task that takes far longer than the others is
submitted again, and the first result counts. Who computes a result does not change it.
"""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Generic, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
# A task is late when it was submitted longer ago than this many seconds, and than so many times the median of others.
# An attempt may end on the same worker, so there are several; each waits twice as long as the one before.
PATIENCE, FACTOR, ATTEMPTS = 30.0, 5.0, 4
# Looks for late tasks while patience lasts, and tasks whose durations are compared with.
LOOKS, REMEMBERED = 30, 1000
# Seconds that a cluster may be without any worker.
NOBODY = 120.0
# Tasks under way: some per worker, so that none waits for work, and few, as their results may be large.
PER_WORKER, FEWEST = 4, 16


# Seconds that tasks took, waiting included.
Durations = deque[float]


def new_durations() -> Durations:
    return deque(maxlen=REMEMBERED)


@dataclass
class Task(Generic[Item]):
    """A task under way: its item, when it was submitted, and the futures of its attempts."""

    item: Item
    since: float
    futures: list[Future[Any]] = field(default_factory=list)

    def is_late(self, now: float, patience: float) -> bool:
        return len(self.futures) < ATTEMPTS and now >= self.since + (2 ** len(self.futures) - 1) * patience


def in_workers(
    submit: Callable[[Item, int], Future[Result]],
    items: Iterable[Item],
    n_at_once: int,
    client: Any = None,
    durations: Durations | None = None,
) -> Iterator[Result]:
    """The results of tasks in the order of the items, at most so many of them computed ahead.

    Args:
        submit: takes an item and the number of the attempt, from 0, to a future.
        items: what the tasks are about.
        n_at_once: tasks under way, and results that wait for their turn.
        client: of dask, which would wait for workers forever.
        durations: of such tasks before, to which those of these are added; without them nothing is late before one of
            these is done.
    """
    watch = None if client is None else Watch(client)
    left, n_submitted, turn = enumerate(items), 0, 0
    waiting: dict[int, Task[Item]] = {}
    made: dict[int, Result] = {}
    arrived: queue.SimpleQueue[tuple[int, Future[Result]]] = queue.SimpleQueue()
    durations = new_durations() if durations is None else durations
    looked = time.monotonic()

    def send(number: int, task: Task[Item]) -> None:
        future = submit(task.item, len(task.futures))
        task.futures.append(future)
        future.add_done_callback(lambda own: arrived.put((number, own)))

    try:
        while True:
            while n_submitted - turn < n_at_once and (following := next(left, None)) is not None:
                number, item = following
                waiting[number] = Task(item, time.monotonic())
                n_submitted += 1
                send(number, waiting[number])
            if turn in made:
                yield made.pop(turn)
                turn += 1
                continue
            if not waiting:
                return
            try:
                number, future = arrived.get(timeout=PATIENCE / LOOKS)
            except queue.Empty:
                if watch is not None:
                    watch.look()
            else:
                if number in waiting:  # else another attempt was the first
                    made[number] = future.result()
                    task = waiting.pop(number)
                    durations.append(time.monotonic() - task.since)
                    for other in task.futures:
                        other.cancel()
            now = time.monotonic()
            if durations and now - looked >= PATIENCE / LOOKS:
                looked, patience = now, max(PATIENCE, FACTOR * median(durations))
                for number, task in waiting.items():
                    if task.is_late(now, patience):
                        send(number, task)
    finally:
        # After Ctrl-C or an error nobody waits for the rest.
        for task in waiting.values():
            for future in task.futures:
                future.cancel()


class NoWorkersError(RuntimeError):
    """A cluster without workers."""


@dataclass
class Watch:
    """Ends the wait for a cluster that has had no worker for long."""

    client: Any
    since: float | None = None

    def look(self) -> None:
        now = time.monotonic()
        if n_threads_of(self.client):
            self.since = None
        elif self.since is None:
            self.since = now
        elif now - self.since >= NOBODY:
            raise NoWorkersError(f"the cluster has had no worker for {NOBODY:g} seconds")


def n_threads_of(client: Any) -> int:
    """Threads of all workers of a cluster; 0 if its scheduler is gone."""
    try:
        return sum(client.nthreads().values())
    except (AttributeError, OSError):  # what dask raises of a closed client, or of a scheduler that does not answer
        return 0


def client_of(executor: Any) -> Any:
    """The client of an executor of dask, None of others."""
    client: Any = getattr(executor, "_client", None)
    return client if hasattr(client, "nthreads") else None


def n_at_once(executor: Any) -> int:
    """How many tasks an executor should have under way."""
    n_workers, client = getattr(executor, "_max_workers", None), client_of(executor)
    if n_workers is None and client is not None:
        n_workers = n_threads_of(client)
    return max(FEWEST, PER_WORKER * (n_workers or FEWEST))


def about(job: Callable[..., Result], attempt: int, *arguments: Any) -> Result:
    """What a worker computes, in one thread: the others belong to other tasks.

    The number of the attempt makes dask take a second one for another task.
    """
    with one_thread():
        return job(*arguments)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch here, and one of every other library in a process of an executor's own."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Torch counts for every thread of Python; the limits of the others are the whole process's, also the user's.
    is_own = multiprocessing.parent_process() is not None
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1) if is_own else nullcontext():
            yield
    finally:
        torch.set_num_threads(before)
