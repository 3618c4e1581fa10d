"""Files that are replaced atomically: written beside the old file, then renamed. An error leaves the old file."""

from __future__ import annotations

import glob
import os
import platform
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

# Names of temporary files start with this, followed by their target, the machine and the process.
PREFIX = ".jensen"
# A temporary file older than this many seconds is a leftover.
DAY = 86_400
NUMBERS = count()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path`, with the same suffix, that replaces `path` at the end.

    After an error it is removed and the old file stays. Temporary files that a killed process has left for this path
    are removed first. A device or a pipe is written to directly.
    """
    # A link stays a link; its target is replaced.
    target = Path(os.path.realpath(path))
    # These two ask without errors of their own, which would not name the file: its name may be too long.
    if os.path.isdir(target):
        raise IsADirectoryError(f"{path} cannot be written: it is a folder; give the name of a file")
    if not os.path.isdir(target.parent):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}")
    with named_errors(path):
        if target.exists() and not target.is_file():
            yield target
            return
        clear_leftovers(target)
        aside = target.with_name(f"{mark_of(target)}-{os.getpid()}-{next(NUMBERS)}{target.suffix}")
        try:
            # The umask applies to these permissions; a replaced file keeps its own.
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield aside
            if target.exists():
                aside.chmod(target.stat().st_mode & 0o777)
            os.replace(aside, target)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with replacing(path) as aside:
        # In the C locale, names of files hold their bytes as surrogates; they are written as those bytes.
        aside.write_text(text, encoding="utf-8", errors="surrogateescape")


@contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system name the file, not the temporary one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        named = type(error)(f"{path} cannot be written: {reason}; an existing file is unchanged")
        named.errno = error.errno
        raise named from error


def mark_of(target: Path) -> str:
    return f"{PREFIX}-{zlib.crc32(target.name.encode(errors='replace')):08x}-{here()}"


def here() -> str:
    """The machine, because process numbers are valid on one machine only."""
    return f"{zlib.crc32(platform.node().encode(errors='replace')):08x}"


def clear_leftovers(target: Path) -> None:
    """Remove temporary files of this target whose process has ended, or which are a day old."""
    for_target = mark_of(target).removesuffix(here())
    for found in target.parent.glob(f"{glob.escape(for_target)}*{glob.escape(target.suffix)}"):
        with suppress(OSError, ValueError):
            machine, process = found.name.removeprefix(for_target).split("-")[:2]
            is_gone = machine == here() and not is_running(int(process))
            if is_gone or time.time() - found.stat().st_mtime > DAY:
                found.unlink()


def is_running(process: int) -> bool:
    """Whether a process is running; assumed to be true on systems without a safe way to find out."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # The process belongs to another user.
        return True
    return True
