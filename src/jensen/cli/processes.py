"""`jensen fit --processes`: the same command in several processes on this machine, started and watched by torch.

This is the part of `torchrun` that starts processes. `torchrun` itself does not fit: after a signal it always fails, so
that Ctrl-C could not end a training with exit code 0, and it reports an error in about twenty lines.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import typer

from jensen.cli.output import show_message

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# Seconds that a process beside the first waits before it reports a failure. torch ends all processes as soon as one has
# failed; this leaves the first the time to print the same error on the terminal.
GRACE = 1.0


def is_one_of_several() -> bool:
    return os.environ.get("WORLD_SIZE", "1") != "1"


def is_first_process() -> bool:
    """Whether this process prints and writes files; the others only train."""
    return os.environ.get("RANK", "0") == "0" or not is_one_of_several()


def run_together(words: Sequence[str], processes: int) -> None:
    """Run the command of these words in several processes; exit as they do if one of them fails."""
    if find_spec("accelerate") is None:
        raise ImportError(f"--processes {processes} needs accelerate: pip install 'jensen[scale]'")
    code, hidden = launch([sys.executable, "-c", "from jensen.cli import main; main()", *words], processes)
    if code:
        for line in hidden.splitlines()[-1:]:
            show_message(line if line.startswith("error: ") else f"in another process: {line}")
        raise typer.Exit(code)


def launch(command: Sequence[str], n_processes: int) -> tuple[int, str]:
    """Run a command in several processes that can find each other.

    The first has the terminal. This process passes signals on to all of them.

    Returns:
        0, or the exit code of a process that failed, and what this process wrote to its standard error if it is not the
        first.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, PContext, Std, start_processes
    from torch.distributed.elastic.utils.distributed import get_free_port

    started: list[PContext] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for pid in (pid for running in started for pid in running.pids().values()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)
    # Handlers of torch's own raise an exception, which a second signal could interrupt.
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ""
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    # A signal that is ignored, as under nohup, stays ignored.
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    ranks = range(n_processes)
    port, n_threads = get_free_port(), max(1, (os.cpu_count() or 1) // n_processes)
    with tempfile.TemporaryDirectory() as folder:
        try:
            running = start_processes(
                name="jensen",
                entrypoint=command[0],
                args=dict.fromkeys(ranks, tuple(command[1:])),
                envs={rank: environment(rank, n_processes, port, n_threads) for rank in ranks},
                logs_specs=DefaultLogsSpecs(folder, redirects=dict.fromkeys(ranks[1:], Std.ALL)),
            )
            started.append(running)
            ended = running.wait(period=0.05)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for running in started:
                running.close()
        assert ended is not None  # without a timeout
        if not ended.failures:
            return 0, ""
        # torch ends the others by SIGTERM.
        failed = min(ended.failures.values(), key=lambda one: (one.exitcode == -signal.SIGTERM, one.local_rank))
        file = ended.stderrs[failed.local_rank]
        hidden = Path(file).read_text(encoding="utf-8", errors="replace") if file else ""
    return failed.exitcode if failed.exitcode > 0 else 128 - failed.exitcode, hidden


def environment(rank: int, n_processes: int, port: int, n_threads: int) -> dict[str, str]:
    """What torch and accelerate read to find the other processes; settings of the user's own come first."""
    usual = {"OMP_NUM_THREADS": str(n_threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return {name: os.environ.get(name, value) for name, value in usual.items()} | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(n_processes),
        "LOCAL_WORLD_SIZE": str(n_processes),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }
