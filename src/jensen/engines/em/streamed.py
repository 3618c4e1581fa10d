"""A source whose rows are read block by block, and sweeps over it: in threads, in an executor's workers, or in dask's.

Sums are taken part by part and added in the order of the parts, wherever they are computed, so the result does not
depend on who computes them, nor on who is done first. A part that takes far longer than the others is computed once
more elsewhere (`runtime.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from threading import Lock
from typing import Any, TypeVar

from jensen.engines.em.batch import Batch
from jensen.engines.em.sampling import RowSample
from jensen.engines.em.spool import Spool
from jensen.files.parts import ChangedError, Part
from jensen.files.scan import Block, Scan
from jensen.runtime.ahead import ahead
from jensen.runtime.progress import DISPLAY, Bar
from jensen.runtime.threads import in_threads
from jensen.runtime.workers import Durations, about, client_of, in_workers, n_at_once, new_durations

Result = TypeVar("Result")
Count = Callable[[int], None]
# By which rounding may change a total weight, of itself.
MOSTLY = 1e-9
# Errors of concurrent.futures and of dask that say that nobody is left to compute.
LOSSES = frozenset(
    (
        "BrokenExecutor",
        "BrokenProcessPool",
        "CancelledError",
        "ClosedClientError",
        "CommClosedError",
        "FutureCancelledError",
        "KilledWorker",
        "NoWorkersError",
    )
)


class WorkersLostError(RuntimeError):
    """A sweep whose workers are gone."""


@dataclass(frozen=True)
class PartSum:
    """Σ over the blocks of a part of what a function returns about each; what a worker computes.

    Args:
        scan: how blocks are read, without its parts.
        function: takes a block to something that adds.
        count: is told the rows of every block; None in another process.
    """

    scan: Scan
    function: Callable[[Block], Any]
    count: Count | None = None

    def __call__(self, part: Part) -> Any:
        total = None
        for block in ahead(self.scan.counted_blocks(part)):
            try:
                own = self.function(block)
            except ValueError as error:
                raise located(error, part, block) from error
            if own is not None:
                total = own if total is None else total + own
            if self.count is not None:
                self.count(block.n_rows)
        return total


def located(error: ValueError, part: Part, block: Block) -> ValueError:
    """The same error with the place of the block in front."""
    if getattr(error, "is_located", False):
        return error
    rows = f"rows {block.first} to {block.first + block.n_rows - 1} of it"
    found = type(error)(f"{part.name} ({rows}): {error}") if type(error) is ValueError else error
    found.is_located = True  # type: ignore[attr-defined]
    return found


@dataclass(frozen=True)
class Shown:
    """How a sweep shows its progress.

    Args:
        name: of the bar.
        is_shown: whether it appears; in a command it always does.
        n_rows: of the sweep, if they are known.
    """

    name: str = "rows"
    is_shown: bool = False
    n_rows: int | None = None

    def bar(self, scan: Scan) -> Bar:
        """A bar of rows, or of the parts that workers have done."""
        name = self.name if self.is_shown or DISPLAY.get() is not None else None
        if scan.is_elsewhere:
            return Bar(name, len(scan.parts), unit="part")
        return Bar(name, self.n_rows if scan.n_rows is None else scan.n_rows, unit="row")


def sum_over(
    scan: Scan,
    function: Callable[[Block], Result | None],
    shown: Shown | None = None,
    durations: Durations | None = None,
) -> Result:
    """Σ_blocks function(block) of what adds, with one task per part; None adds nothing."""

    def job(count: Count | None) -> PartSum:
        return PartSum(replace(scan, parts=(), executor=None), function, count)

    total: Result = shown_sum(scan, job, shown or Shown(), durations)
    return total


def shown_sum(
    scan: Scan, job: Callable[[Count | None], Callable[[Part], Any]], shown: Shown, durations: Durations | None = None
) -> Any:
    """The sum of what a job returns about every part, in their order; it is told whom to report its rows to."""
    lock, elsewhere = Lock(), scan.is_elsewhere
    with shown.bar(scan) as bar:

        def count(n: int) -> None:
            with lock:  # threads share the bar
                bar.update(n)

        def results() -> Iterator[Any]:
            for own in run(job(None if elsewhere else count), scan.parts, scan.executor, durations=durations):
                yield own
                if elsewhere:
                    bar.update()

        return added(results())


def added(results: Iterable[Result | None]) -> Result:
    """Their sum, in their order; None adds nothing."""
    total: Any = None
    for own in results:
        if own is not None:
            total = own if total is None else total + own
    if total is None:
        raise ValueError("the scan has no rows; give files with at least one")
    return total  # type: ignore[no-any-return]


def run(
    job: Callable[..., Result],
    parts: Iterable[Part],
    executor: Any = None,
    note: Callable[[int], Any] | None = None,
    durations: Durations | None = None,
) -> Iterator[Result]:
    """What a job returns about every part, in the order of the parts.

    Args:
        job: takes a part, and a note if there are notes.
        parts: that it is about.
        executor: where it runs; None is this process.
        note: takes the number of a part to what the job has to know about it beside theta.
        durations: of such jobs before, by which one that hangs is known.
    """
    parts = list(parts)
    items = ((part,) if note is None else (part, note(number)) for number, part in enumerate(parts))
    together = getattr(parts[0], "compute_all", None)
    if together is not None:
        return with_losses_named(together(partial(about, job), items, durations))
    if executor is None:
        return in_threads(lambda item: job(*item), items)

    def submit(item: tuple[Any, ...], attempt: int) -> Any:
        return executor.submit(about, job, attempt, *item)

    return with_losses_named(in_workers(submit, items, n_at_once(executor), client_of(executor), durations))


def with_losses_named(results: Iterable[Result]) -> Iterator[Result]:
    """Results of workers; if these are gone, an error that says what to do."""
    try:
        yield from results
    except Exception as error:
        kind = type(error)
        if kind.__name__ not in LOSSES:
            raise
        raise WorkersLostError(
            f"the executor lost its workers ({kind.__name__}: {error}); start others and fit again: with "
            "checkpoint=path the fit resumes from its last step"
        ) from error


@dataclass(frozen=True)
class BlockSum:
    """Σ over the batches of a block."""

    batches_of: Callable[[Block], Iterable[Batch]]
    function: Callable[[Batch], Any]

    def __call__(self, block: Block) -> Any:
        return sum_of(self.function, self.batches_of(block))


def sum_of(function: Callable[[Batch], Any], batches: Iterable[Batch]) -> Any:
    found = in_threads(function, batches)
    first = next(found, None)
    return None if first is None else reduce(add, found, first)


def n_rows_of(batch: Batch) -> int:
    """The rows of a batch, without padding."""
    return batch.rows.numel() if batch.weight is None else int((batch.weight != 0).sum())


@dataclass(frozen=True)
class SpooledSum:
    """The same over the blocks of a part, which are read once, and then from the spool."""

    spool: Spool
    scan: Scan
    batches_of: Callable[[Block], Iterable[Batch]]
    function: Callable[[Batch], Any]
    count: Count | None = None

    def __call__(self, part: Part) -> Any:
        kept = self.spool.found(part.name)
        blocks = self.spool.through(part.name, self.read(part)) if kept is None else ahead(kept)
        total = None
        for batches in blocks:
            own = sum_of(self.function, batches)
            if own is not None:
                total = own if total is None else total + own
            if self.count is not None:
                self.count(sum(map(n_rows_of, batches)))
        return total

    def read(self, part: Part) -> Iterator[tuple[int, list[Batch]]]:
        for block in ahead(self.scan.counted_blocks(part)):
            try:
                yield block.n_rows, list(self.batches_of(block))
            except ValueError as error:
                raise located(error, part, block) from error


@dataclass(frozen=True)
class StreamedSource:
    """Rows of a scan.

    Args:
        scan: where they are.
        batches_of: the batches of a block, in the engine's coordinates.
        n_rows: their number.
        n_numbers: those of a sweep.
        checksum: of what is known of the rows.
        drawn: a sample of distinct rows in the engine's coordinates; takes n and limit, as `sample` does.
        spool: holds the batches after the first sweep; None where blocks are read again in every sweep.
        mass: the total weight of the rows in the first sweep, by which others are known to be of the same rows.
        is_shown: whether a long sweep shows a bar.
        durations: of the parts in earlier sweeps, where workers compute.
    """

    scan: Scan
    batches_of: Callable[[Block], Iterable[Batch]]
    n_rows: int
    n_numbers: int
    drawn: Callable[[int, int], RowSample]
    checksum: str = ""
    spool: Spool | None = None
    mass: float | None = None
    is_shown: bool = False
    durations: Durations = field(default_factory=new_durations)

    def __iter__(self) -> Iterator[Batch]:
        for block in ahead(self.scan):
            if block.counts:
                yield from self.batches_of(block)

    def total(self, function: Callable[[Batch], Any]) -> Any:
        """Σ function(batch) over all batches."""
        shown = Shown(is_shown=self.is_shown, n_rows=self.n_rows)
        if self.spool is None:
            found = sum_over(self.scan, BlockSum(self.batches_of, function), shown, self.durations)
        else:
            scan, spool = replace(self.scan, parts=(), executor=None), self.spool

            def job(count: Count | None) -> SpooledSum:
                return SpooledSum(spool, scan, self.batches_of, function, count)

            found = shown_sum(self.scan, job, shown, self.durations)
        weight = getattr(found, "weight", None)
        if weight is not None and self.mass is not None and abs(float(weight) - self.mass) > MOSTLY * self.mass:
            raise ChangedError(
                f"the rows are not those of the first sweep: their total weight was {self.mass:.10g} and is "
                f"{float(weight):.10g}; a function or a query must return the same rows every time"
            )
        return found

    def fingerprint(self) -> str:
        return self.checksum

    def sample(self, n: int, limit: int) -> RowSample:
        return self.drawn(n, limit)
