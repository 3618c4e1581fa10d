"""Python's warning filters for a while, by one thread at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["own_filters", "recorded_warnings"]

# The filters belong to the whole process, and leaving `catch_warnings` puts back the list found on entering it: of two
# threads inside, the one that leaves last would put back the other's.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def own_filters() -> Iterator[None]:
    """Filters changed inside are restored at the end; other threads that enter wait."""
    with ONE_AT_A_TIME, warnings.catch_warnings():
        yield


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """The same, and warnings are kept in a list instead of shown."""
    with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as heard:
        yield heard
