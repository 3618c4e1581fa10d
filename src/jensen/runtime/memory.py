"""The memory that is available, and an error before more is allocated."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


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
