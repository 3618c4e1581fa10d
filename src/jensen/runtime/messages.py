"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Packages between a user and a fit: our own, and those whose wrappers call us.
INSIDE = ("jensen.", "sklearn.", "joblib.", "torch.", "contextlib")


def levels_inside() -> int:
    """The `stacklevel` with which a warning points at the first caller outside of these packages."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    return level


# The filters belong to the whole process, and `catch_warnings` restores the list that it found on entry: of two threads
# inside, the one that leaves last would restore the filters of the other.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def own_filters() -> Iterator[None]:
    """Filters changed inside are restored at the end; other threads that enter wait."""
    with ONE_AT_A_TIME, warnings.catch_warnings():
        yield


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """The same, and warnings are collected in a list instead of shown."""
    with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as heard:
        yield heard
