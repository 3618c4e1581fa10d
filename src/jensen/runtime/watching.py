"""What loops measure while they run, for somebody who watches.

A loop calls `measured` after each step. Inside `watched` the numbers are kept in a list that another thread may read;
otherwise nothing happens, so that a fit that nobody watches costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


class StoppedFit(BaseException):
    """Somebody who watched a fit has ended it, and nothing is kept."""


@dataclass
class Watch:
    """The steps of the loops so far.

    Args:
        title: what is fitted.
        steps: for each step its loop, its number, how many there may be at most, and what was measured.
        end: how it ended; None while it runs.
        is_stopped: whether the next step is to raise `StoppedFit`.
    """

    title: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    end: str | None = None
    is_stopped: bool = False
    # How often somebody read, and whether the end was read.
    n_reads: int = 0
    is_end_read: bool = False

    def since(self, seen: Any) -> dict[str, Any]:
        """The steps after the first `seen` ones."""
        if isinstance(seen, bool) or not isinstance(seen, int) or seen < 0:
            raise ValueError(f"seen={seen!r} must be a whole number, 0 or more")
        end = self.end  # before the steps, so that a reader who sees the end has all of them
        found = {"title": self.title, "steps": self.steps[seen:], "end": end}
        self.n_reads += 1
        self.is_end_read = self.is_end_read or end is not None
        return found

    def wait_for_reader(self, seconds: float) -> None:
        """Let somebody who reads read the end."""
        until = time.monotonic() + seconds
        while self.n_reads and not self.is_end_read and time.monotonic() < until:
            time.sleep(0.02)


WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[Watch]:
    """Keep what the loops inside measure.

    Example:
        >>> from jensen.runtime.watching import Watch, measured, watched
        >>> with watched(Watch("a fit")) as watch:
        ...     measured("EM", 1, 100, {"objective": -2.5})
        >>> watch.since(0)["steps"]
        [{'loop': 'EM', 'step': 1, 'total': 100, 'objective': -2.5}]
    """
    token = WATCH.set(watch)
    try:
        yield watch
    finally:
        WATCH.reset(token)


def measured(loop: str | None, step: int, total: int | None, values: Mapping[str, Any]) -> None:
    """Keep the numbers of a step; loops without a name, such as short runs from several starts, are not kept."""
    watch = WATCH.get()
    if watch is not None and loop is not None:
        watch.steps.append({"loop": loop, "step": step, "total": total, **values})


def end_if_stopped() -> None:
    """Raise `StoppedFit` if somebody who watches has ended the fit; loops call it within each step."""
    watch = WATCH.get()
    if watch is not None and watch.is_stopped:
        raise StoppedFit(watch.title)
