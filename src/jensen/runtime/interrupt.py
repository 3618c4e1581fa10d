"""Ctrl-C as a question asked between two steps, so that no step is left half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interrupt", "InterruptedFitWarning"]


class InterruptedFitWarning(RuntimeWarning):
    """Ctrl-C has ended a fit, and the best parameters so far are kept."""


class Interrupt:
    """Within it the first Ctrl-C only sets `is_set`; the second is Python's own KeyboardInterrupt."""

    def __init__(self) -> None:
        self.is_set = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        # Only the main thread may listen to signals, and a job in the background that ignores Ctrl-C goes on doing so;
        # a handler that is not Python's (None) could not be put back.
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
