"""Partitions of dask's arrays and data frames as parts of a scan: they stay where they are, and functions go there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from jensen.files.parts import ArrayPart, CallPart
from jensen.runtime.messages import own_filters
from jensen.runtime.workers import Durations, in_workers


@dataclass(frozen=True)
class DaskPart:
    """A partition, by the graph that makes it."""

    delayed: Any
    number: int
    n_rows: int | None = None
    is_fast: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"partition {self.number}"

    def blocks(self, n_rows: int) -> Iterator[Any]:
        """Here, for the first rows; sweeps run where the partition is."""
        yield from HeldTable(self.number, computed(self.delayed)).blocks(n_rows)

    @staticmethod
    def compute_all(
        job: Callable[..., Any], items: Iterable[tuple[Any, ...]], durations: Durations | None = None
    ) -> Iterator[Any]:
        """What a job returns about every partition and its notes: a small fresh graph, results in the parts' order."""
        import dask
        from dask.graph_manipulation import clone

        given = list(items)

        def made(number: int, attempt: int = 0) -> Any:
            part, *notes = given[number]
            # What a partition is made from may wait for the worker that hangs, so another attempt makes it anew.
            delayed = clone(part.delayed) if attempt else part.delayed
            return dask.delayed(partial(about_table, job, part.number, notes), pure=False)(delayed)

        client, tasks = client_of(given[0][0].delayed), [made(number) for number in range(len(given))]
        if client is None:
            yield from dask.compute(*tasks)
            return
        with own_filters():
            # Parameters travel with every task, because scattered ones are lost with their worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            first = client.compute(tasks)

        def submit(number: int, attempt: int) -> Future[Any]:
            return as_local(client.compute(made(number, attempt)) if attempt else first[number])

        # Results stay on their workers until it is their turn.
        for number, own in enumerate(in_workers(submit, range(len(given)), len(given), client, durations)):
            first[number] = None
            yield own.result()


def computed(delayed: Any) -> Any:
    """A value, computed where its data are."""
    client = client_of(delayed)
    return delayed.compute() if client is None else client.compute(delayed).result()


def client_of(delayed: Any) -> Any:
    """The client whose cluster holds a partition, or the current one; None without a cluster."""
    from dask.base import get_scheduler

    try:
        from distributed.client import futures_of
    except ImportError:
        return None
    held = futures_of(delayed)
    if held and held[0].client.status == "closed":
        raise ValueError(
            "X was persisted on a cluster whose client is closed, so its partitions are gone; make it anew, and keep "
            "the client open"
        )
    if held:
        return held[0].client
    found = getattr(get_scheduler(), "__self__", None)
    return found if hasattr(found, "compute") else None


def as_local(future: Any) -> Future[Any]:
    """A future of dask as one of Python's, whose result is dask's own, done or failed."""
    local: Future[Any] = Future()

    def done(own: Any) -> None:
        if local.set_running_or_notify_cancel():
            local.set_result(own)

    def given_up(own: Future[Any]) -> None:
        if own.cancelled() and not future.done():
            future.cancel()

    local.add_done_callback(given_up)
    future.add_done_callback(done)
    return local


@dataclass(frozen=True)
class HeldTable:
    """A partition in memory, on the worker that has it."""

    number: int
    table: Any
    is_fast: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"partition {self.number}"

    @property
    def n_rows(self) -> int:
        return len(self.table)

    def blocks(self, n_rows: int) -> Iterator[Any]:
        if hasattr(self.table, "iloc"):
            return CallPart(lambda _: [self.table], self.name).blocks(n_rows)
        return ArrayPart(self.table, 0, len(self.table)).blocks(n_rows)


def about_table(job: Callable[..., Any], number: int, notes: list[Any], table: Any) -> Any:
    """What a worker computes."""
    return job(0, HeldTable(number, table), *notes) if len(table) else None


def dask_parts(collection: Any) -> list[DaskPart]:
    """The partitions of a data frame, or the blocks of an array, which must have all columns."""
    delayed = collection.to_delayed()
    if hasattr(delayed, "ravel"):
        if delayed.ndim != 2 or delayed.shape[1] != 1:
            raise ValueError(
                f"the dask array has chunks {collection.chunks}, and a block must have all columns of its rows; "
                "rechunk it: X.rechunk({1: -1})"
            )
        delayed = delayed.ravel()
    return [DaskPart(own, number) for number, own in enumerate(delayed)]
