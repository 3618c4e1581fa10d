"""Progress of long loops: a bar on a terminal, and for a command without one a line from time to time.

A loop shows its progress when its model is `verbose`, or inside `shown_progress`, which the command line opens for
every command. Loops may be nested; a line names all of them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from jensen.runtime.messages import own_filters
from jensen.runtime.watching import end_if_stopped, measured

Item = TypeVar("Item")

# Seconds before a bar appears, between two refreshes, and between two lines where there is no terminal.
DELAY, TICK, EVERY = 2.0, 1.0, 30.0


@dataclass
class Display:
    """Where a command shows progress: as bars on a terminal, else as lines passed to `write`."""

    write: Callable[[str], None]
    has_terminal: bool
    began: float
    written: float
    running: list[Bar] = field(default_factory=list)

    def beat(self) -> None:
        """Refresh the innermost bar, or print a line if the last one was printed long enough ago."""
        now = time.monotonic()
        if now - self.written < (TICK if self.has_terminal else EVERY):
            return
        self.written = now
        if not self.has_terminal:
            self.write(
                f"after {now - self.began:.0f} s: " + ("; ".join(bar.line() for bar in self.running) or "working")
            )
        elif self.running:
            self.running[-1].refresh()


DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def shown_progress(write: Callable[[str], None]) -> Iterator[None]:
    """Show the progress of all loops inside, whether their models are verbose or not."""
    now = time.monotonic()
    token = DISPLAY.set(Display(write, sys.stderr.isatty(), now, now))
    try:
        yield
    finally:
        DISPLAY.reset(token)


def hide_progress() -> None:
    """Show nothing more until `shown_progress` ends."""
    DISPLAY.set(None)


class Bar:
    """The progress of one loop.

    Args:
        name: what the loop does; None shows no bar, but refreshes those of the loops around it.
        total: the number of steps, if it is known.
        unit: what a step is, in one word.
        initial: the number of steps already done.
        leave: whether the bar stays after the loop.
    """

    def __init__(
        self, name: str | None, total: int | None = None, *, unit: str = "block", initial: int = 0, leave: bool = False
    ) -> None:
        self.name, self.total, self.unit, self.done, self.text = name, total, unit, initial, ""
        self.left = ""
        self.display, self.began = DISPLAY.get(), time.monotonic()
        self.bar: Any = None
        if name is None:
            return
        if self.display is not None:
            self.display.running.append(self)
        if self.display is None or self.display.has_terminal:
            tqdm = tqdm_of_here()
            # disable=None: no bar where there is no terminal.
            self.bar = tqdm(desc=name, total=total, initial=initial, unit=unit, leave=leave, disable=None, delay=DELAY)

    def expect(self, total: int) -> None:
        """Set the number of steps, where it is known only later."""
        self.total = total
        if self.bar is not None:
            self.bar.total = total

    def update(self, n: int = 1) -> None:
        """Count n more steps."""
        self.done += n
        if self.bar is not None:
            self.bar.update(n)
        self.beat()

    def beat(self) -> None:
        """Refresh the display within a step; here a fit ends that somebody has stopped."""
        end_if_stopped()
        if self.display is not None:
            self.display.beat()

    def refresh(self) -> None:
        if self.bar is not None and time.monotonic() - self.began >= DELAY:
            self.bar.refresh()

    def note(self, text: str, values: Mapping[str, Any] | None = None) -> None:
        """Show a short text beside the bar; `values` of this step are kept for somebody who watches."""
        self.text = text
        if values is not None:
            measured(self.name, self.done + 1, self.total, values)
        if self.bar is not None:
            self.bar.set_postfix_str(", ".join(filter(None, (self.left, text))))

    def expect_end(self, seconds: float) -> None:
        """Show how long the rest takes, where one knows more than the number of steps."""
        self.left = f"about {duration(seconds)} left"
        self.note(self.text)

    @property
    def is_shown(self) -> bool:
        """Whether somebody sees the bar or its lines."""
        return self.bar is not None or (self.name is not None and self.display is not None)

    def say(self, text: str) -> None:
        """Print a line to standard error, above the bar."""
        if self.display is not None and not self.display.has_terminal:
            self.display.write(text)
        else:
            tqdm_of_here().write(text, file=sys.stderr)

    def line(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return ", ".join(filter(None, (f"{self.name}, {self.unit} {self.done}{of}", self.left, self.text)))

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        if self.display is not None and self in self.display.running:
            self.display.running.remove(self)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def duration(seconds: float) -> str:
    """A time as people say it: 90 is 2 min."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return (
                f"{seconds / size:.1f} {unit}"
                if unit == "h" and seconds < 10 * size
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds:.0f} s"


def progress(
    steps: Iterable[Item], name: str, is_shown: bool = False, n_steps: int | None = None, unit: str = "block"
) -> Iterable[Item]:
    """The steps, with their progress: inside `shown_progress`, and where it `is_shown`."""
    if not is_shown and DISPLAY.get() is None:
        return steps
    total = len(steps) if n_steps is None and isinstance(steps, Sized) else n_steps
    return counted(steps, Bar(name, total, unit=unit))


def counted(steps: Iterable[Item], bar: Bar) -> Iterator[Item]:
    with bar:
        for step in steps:
            yield step
            bar.update()


def tqdm_of_here() -> Any:
    """The bars of tqdm: widgets in a notebook that can show them, else text, without a warning about widgets."""
    from tqdm import TqdmWarning

    with own_filters():
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    return tqdm
