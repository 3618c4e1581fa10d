"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Packages between a user and a fit: our own, and those whose wrappers call us.
INSIDE = ("jensen.", "sklearn.", "joblib.", "torch.", "contextlib")


def levels_inside() -> int:
    """The `stacklevel` with which a warning points at the first caller outside of these packages."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    return level


# What was said about the blocks of a scan so far, by category; None about rows in memory.
SAID: ContextVar[set[type[Warning]] | None] = ContextVar("said", default=None)


@contextmanager
def saying_once(said: set[type[Warning]]) -> Iterator[None]:
    """What `warn_of_rows` says about blocks is said about the first of them, as about a table in memory."""
    token = SAID.set(said)
    try:
        yield
    finally:
        SAID.reset(token)


def warn_of_rows(message: str, category: type[Warning]) -> None:
    """A warning that depends on rows, of which every block of a scan may have some."""
    said = SAID.get()
    if said is not None:
        if category in said:
            return
        said.add(category)
        message = f"{message} (said of the first block with such rows; later ones may have more)"
    warnings.warn(message, category, stacklevel=levels_inside())


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
