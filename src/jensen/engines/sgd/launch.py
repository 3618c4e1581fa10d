"""A command in several processes on this machine that know each other, as `torchrun` would start them.

The first has the terminal; of the others nothing is heard unless one of them fails alone. Signals reach all of them
through this process, once each: a terminal's Ctrl-C would otherwise come twice, and the second ends a training at once.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

__all__ = ["launch"]

# Seconds that the first process has to say itself what went wrong in another, and that a process has to end.
GRACE = 5.0
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def launch(command: Sequence[str], n_processes: int) -> tuple[int, str]:
    """Run the command in so many processes: 0, or the exit code of one that failed and what it said unheard."""
    meeting = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(n_processes),
        "LOCAL_WORLD_SIZE": str(n_processes),
    }
    usual = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // n_processes)),
        # torch warns of a flag that costs nothing here.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    processes: list[subprocess.Popen[bytes]] = []
    files = [tempfile.TemporaryFile() for _ in range(1, n_processes)]  # noqa: SIM115 (closed when they are read)
    try:
        with forwarded(processes):
            for rank, file in enumerate([None, *files]):
                environment = {**usual, **os.environ, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                processes.append(start(command, environment, file))
            failed = wait(processes)
    finally:
        end(processes)
        unheard = [b""] + [said(file) for file in files]
    if failed is None:
        return 0, ""
    code = processes[failed].returncode
    return code if code > 0 else 128 - code, unheard[failed].decode(errors="replace")


def start(command: Sequence[str], environment: dict[str, str], file: IO[bytes] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=None if file is None else subprocess.DEVNULL,
        stderr=file,
        start_new_session=True,
    )


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Until all are over, or one fails: which one, the first if it fails soon after."""
    while None in (codes := [process.poll() for process in processes]):
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            try:
                processes[0].wait(GRACE)
            except subprocess.TimeoutExpired:
                return failed[0]
            return 0 if processes[0].returncode else failed[0]
        time.sleep(0.05)
    return next((rank for rank, process in enumerate(processes) if process.returncode), None)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def forwarded(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Signals to this process go to all of them."""

    def pass_on(number: int, frame: Any) -> None:
        for process in processes:
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    # As elsewhere, what is ignored stays so.
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def said(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
