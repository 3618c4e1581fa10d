"""One thread for small work, all threads for large: within an operation, or each with work of its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import torch

# With fewer numbers per sweep, an operation takes tens of microseconds: threads would mostly wait for each other, and
# on a busy machine this was measured to cost twenty times the work itself.
FEW = 1_000_000


@contextmanager
def threads_for(n_numbers: int) -> Iterator[None]:
    """One torch thread while the work is small; the number of the caller is restored at the end."""
    before = torch.get_num_threads()
    if n_numbers >= FEW or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(call: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of calls in the order of the items, computed by as many threads as torch has, each on its own.

    Threads that share every operation wait for each other at its end; with work of their own they do not. Results do
    not depend on the number of threads. Few of them are computed ahead, since they may be large.
    """
    n_threads, left = torch.get_num_threads(), iter(items)
    first = list(islice(left, 2))
    if n_threads == 1 or len(first) < 2:
        yield from map(call, first)
        yield from map(call, left)
        return
    pool, ahead = workers(n_threads), deque[Future[Result]]()
    try:
        for item in (*first, *islice(left, n_threads - 1)):
            ahead.append(pool.submit(call, item))
        while ahead:
            result = ahead.popleft().result()
            ahead.extend(pool.submit(call, item) for item in islice(left, 1))
            yield result
    finally:
        for future in ahead:
            future.cancel()
        torch.set_num_threads(n_threads)


@lru_cache(maxsize=1)
def workers(n: int) -> ThreadPoolExecutor:
    """Threads in which torch uses one thread."""
    return ThreadPoolExecutor(n, "jensen", initializer=use_one_thread)


def use_one_thread() -> None:
    """One torch thread in this thread, to stay."""
    # A thread takes the number of the process when it first asks, and would forget one that was set before.
    torch.get_num_threads()
    torch.set_num_threads(1)


def after_fork() -> None:
    """A forked process has no threads but its own, and torch would wait for ever for those of its parent."""
    workers.cache_clear()
    torch.set_num_threads(1)


# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


@contextmanager
def at_most(n_jobs: int | None) -> Iterator[None]:
    """No more threads than `n_jobs`, counted as joblib does; None leaves the caller's number."""
    before = torch.get_num_threads()
    if n_jobs is None:
        yield
        return
    from joblib import effective_n_jobs

    torch.set_num_threads(max(1, min(before, effective_n_jobs(n_jobs))))
    try:
        yield
    finally:
        torch.set_num_threads(before)
