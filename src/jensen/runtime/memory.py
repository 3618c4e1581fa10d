"""The memory that is available, an error before more is allocated, and memory that is kept between equal steps."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

MEMINFO = Path("/proc/meminfo")
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
# Parameters of glibc's mallopt: the size of the free top of the heap above which it is given back, the size from which
# an allocation gets pages of its own, and how many such allocations there may be.
TRIM, MAPPED_SIZE, MAPPED_COUNT = -1, -3, -4
NEVER = 2**31 - 1
# What glibc itself comes to after a large allocation is freed (64 bits), and its number of mapped allocations.
USUAL_TRIM, USUAL_SIZE, USUAL_COUNT = 64 * 2**20, 32 * 2**20, 65536


def need_memory(n_bytes: int, what: str, way_out: str) -> None:
    """An error if n_bytes are not available; no error where the system does not report its memory."""
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise ValueError(f"{what} takes {in_units(n_bytes)} of memory, and {in_units(free)} are available; {way_out}")


@contextmanager
def allocating(what: str, way_out: str) -> Iterator[None]:
    """Turn a failed allocation of unknown size into an error with a way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        size = re.search(r"allocate (\d+) bytes", str(error))
        if size is None and not isinstance(error, MemoryError):
            raise
        of_size = f", {in_units(int(size[1]))} at once" if size else ""
        raise ValueError(f"{what} takes more memory than there is{of_size}; {way_out}") from None


@contextmanager
def keeping_memory() -> Iterator[None]:
    """Keep freed memory for the next allocations, and give it back at the end; glibc only, elsewhere nothing changes.

    A training step frees as much memory as the next one allocates. Given back to the system in between, every page must
    be cleared and mapped again when it is touched: a tenth of the time of a step.
    """
    libc = glibc()
    if libc is None:
        yield
        return
    with KEEPING.lock:
        KEEPING.depth += 1
        libc.mallopt(MAPPED_COUNT, 0)
        libc.mallopt(TRIM, NEVER)
    try:
        yield
    finally:
        with KEEPING.lock:
            KEEPING.depth -= 1
            if not KEEPING.depth:
                libc.mallopt(MAPPED_COUNT, USUAL_COUNT)
                libc.mallopt(MAPPED_SIZE, USUAL_SIZE)
                libc.mallopt(TRIM, USUAL_TRIM)
                libc.malloc_trim(0)


class Keeping:
    """How many callers keep memory at present: the setting is one for the whole process."""

    def __init__(self) -> None:
        self.lock, self.depth = Lock(), 0


KEEPING = Keeping()


@cache
def glibc() -> Any:
    """The C library if it is glibc on 64 bits, else None."""
    if platform.libc_ver()[0] != "glibc" or ctypes.sizeof(ctypes.c_void_p) < 8:
        return None
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except OSError:
        return None


def available_bytes() -> int | None:
    """The memory that a process can still allocate, swap included, or None where the system does not report it."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text(encoding="utf-8").splitlines())
        return sum(1024 * int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def in_units(n_bytes: int) -> str:
    """A size as people write it: 2048 is 2 KiB."""
    size, unit = float(n_bytes), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {UNITS[unit]}"
