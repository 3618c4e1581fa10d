"""How far a training is: the fraction that is done, the seconds that are left, and what is shown of both."""

from __future__ import annotations

import time
import warnings

from jensen.engines.sgd.plan import HistoryRow
from jensen.engines.sgd.processes import World
from jensen.runtime.messages import levels_inside
from jensen.runtime.progress import Bar, duration

# The time that is left is known after so many steps and seconds. It is said once if the whole takes long, and a fit
# that shows no progress warns if it takes very long.
FEW_STEPS, FEW_SECONDS, LONG, VERY_LONG = 5, 10.0, 300.0, 1800.0


class Pace:
    """
    Args:
        n_steps: of the whole training.
        max_seconds: limit of its time, or None.
        world: the processes, which take the same time, and so the same learning rate, if there is a limit.
    """

    def __init__(self, n_steps: int, max_seconds: float | None, world: World) -> None:
        self.n_steps, self.max_seconds, self.world = n_steps, max_seconds, world
        self.first: tuple[int, float] | None = None
        self.is_said, self.shown = False, 0.0

    def since(self, began: float) -> float:
        """The seconds since this time."""
        seconds = time.monotonic() - began
        return seconds if self.max_seconds is None else self.world.mean([seconds])[0]

    def done(self, step: int, seconds: float) -> float:
        """The fraction of the training that is done after so many steps and seconds."""
        by_time = seconds / self.max_seconds if self.max_seconds is not None else 0.0
        return max(step / self.n_steps, min(by_time, 1.0))

    def is_over(self, seconds: float) -> bool:
        """Whether the time has run out."""
        return self.max_seconds is not None and seconds >= self.max_seconds

    def left(self, step: int, seconds: float) -> float | None:
        """The seconds that are left, from the steps since the first call; None while these are few."""
        if self.first is None:
            self.first = (step, seconds)
        n, took = step - self.first[0], seconds - self.first[1]
        if n < FEW_STEPS or took < FEW_SECONDS:
            return None
        left = took / n * (self.n_steps - step)
        return left if self.max_seconds is None else min(left, max(self.max_seconds - seconds, 0.0))

    def show(self, bar: Bar, step: int, seconds: float) -> None:
        """Show the time that is left beside the bar, and say the time of the whole once if it is long."""
        left, now = self.left(step, seconds), time.monotonic()
        if left is None or now - self.shown < 1:
            return
        self.shown = now
        bar.expect_end(left)
        whole = seconds + left
        if self.is_said or whole < (LONG if bar.is_shown else VERY_LONG):
            return
        self.is_said = True
        text = (
            f"training takes about {duration(whole)} ({self.n_steps} steps), or less if the held-out score stops "
            "rising. Ctrl-C keeps the best weights so far; max_epochs or Trainer(max_seconds=...) limits it"
        )
        if bar.is_shown:
            bar.say(text)
        else:
            warnings.warn(text, UserWarning, stacklevel=levels_inside())


def line_of(row: HistoryRow) -> str:
    """A round as a line of text."""
    shown = [(name, value) for name, value in row.items() if name not in ("epoch", "learning_rate", "seconds")]
    return ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else str(value) for name, value in shown)
