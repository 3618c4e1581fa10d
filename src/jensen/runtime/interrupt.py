"""Ctrl-C: a training loop looks at it between two steps, and a fit that it ends keeps its best result.

An engine that is stopped wraps what it has in `Interrupted`. In a fit that the user calls, `kept` returns this and
warns; inside `propagating_interrupts`, where many fits make one result, it raises and ends them all.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from jensen.runtime.messages import levels_inside

Best = TypeVar("Best")

_PROPAGATES: ContextVar[bool] = ContextVar("propagates", default=False)


class InterruptedFitWarning(RuntimeWarning):
    """Ctrl-C has ended a fit, and the best parameters so far are kept."""


class Interrupted(KeyboardInterrupt, Generic[Best]):
    """Ctrl-C has ended a fit.

    Args:
        message: what was interrupted, when, and what is kept.
        best: the engine's result so far.
    """

    def __init__(self, message: str, best: Best) -> None:
        super().__init__(message)
        self.best = best

    def kept(self, *, warns: bool = True) -> Best:
        """The best result so far, with a warning; inside `propagating_interrupts` the interrupt itself is raised."""
        if _PROPAGATES.get():
            self.args = (f"{str(self).partition(';')[0]}; nothing is kept",)
            raise self
        if warns:
            warnings.warn(str(self), InterruptedFitWarning, stacklevel=levels_inside())
        return self.best

    def __reduce__(self) -> tuple[Any, ...]:
        # The result stays in the process that found it.
        return type(self), (str(self), None)


@contextmanager
def propagating_interrupts() -> Iterator[None]:
    """Within it Ctrl-C ends the whole search or comparison: an interrupted fit raises and keeps nothing."""
    before = _PROPAGATES.set(True)
    try:
        yield
    finally:
        _PROPAGATES.reset(before)


class Interrupt:
    """Within it the first Ctrl-C only sets `is_set`; the second raises KeyboardInterrupt as usual."""

    def __init__(self) -> None:
        self.is_set = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        # Only the main thread may listen to signals; a background job that ignores Ctrl-C continues to ignore it, and a
        # handler that is not Python's (None) could not be restored.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
