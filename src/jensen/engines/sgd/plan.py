"""How a network is to be trained, where a training stands, and what it came to: the values around a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import BaseEstimator
from torch import Tensor, nn

__all__ = [
    "Objective",
    "Phase",
    "Plan",
    "Position",
    "Run",
    "Terms",
    "Trainer",
]


class Trainer(BaseEstimator):
    """What the training path does besides plain steps of Adam.

    Args:
        weight_decay: of AdamW; 0 is Adam.
        warm_up: steps over which the learning rate rises from 0.
        decay: "cosine" lets the learning rate fall to 0 at the last step, None keeps it.
        clip: the norm to which gradients are cut, or None.
        averaging: decay of the moving average of the weights that scores and samples use, or None for the weights
            themselves; the average forgets its start quickly, by (1 + t) / (10 + t) at step t.
        validation_fraction: share of the rows held out for early stopping; 0 trains on all and keeps the last weights.
        patience: rounds without a better held-out bound after which training stops; the best weights are kept.
        checkpoint_every: seconds between checkpoints, where the model has a `checkpoint`.

    Example:
        >>> from jensen import Trainer
        >>> Trainer(clip=1.0).clip
        1.0
    """

    def __init__(
        self,
        *,
        weight_decay: float = 0.0,
        warm_up: int = 100,
        decay: str | None = "cosine",
        clip: float | None = 10.0,
        averaging: float | None = 0.999,
        validation_fraction: float = 0.1,
        patience: int = 20,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.weight_decay = weight_decay
        self.warm_up = warm_up
        self.decay = decay
        self.clip = clip
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint_every = checkpoint_every

    def check(self) -> None:
        """Refuse values that cannot be meant; constructors only store them."""
        at_least_zero = {name: getattr(self, name) for name in ("weight_decay", "warm_up", "checkpoint_every")}
        for name, value in at_least_zero.items():
            if not is_number(value) or value < 0:
                raise ValueError(f"Trainer({name}={value!r}) must be a number, 0 or more")
        if self.decay not in ("cosine", None):
            raise ValueError(f"Trainer(decay={self.decay!r}) must be 'cosine' or None")
        if self.clip is not None and not (is_number(self.clip) and self.clip > 0):
            raise ValueError(f"Trainer(clip={self.clip!r}) must be a number above 0, or None")
        if self.averaging is not None and not (is_number(self.averaging) and 0 < self.averaging < 1):
            raise ValueError(f"Trainer(averaging={self.averaging!r}) must lie between 0 and 1, or be None")
        if not (is_number(self.validation_fraction) and 0 <= self.validation_fraction < 1):
            raise ValueError(f"Trainer(validation_fraction={self.validation_fraction!r}) must be 0 or more and below 1")
        if not (is_number(self.patience) and self.patience >= 1):
            raise ValueError(f"Trainer(patience={self.patience!r}) must be 1 or more")

    def rate(self, step: int, n_steps: int) -> float:
        """The learning rate of a step, as a share of the largest."""
        rising = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        falling = 0.5 * (1 + math.cos(math.pi * min(step / n_steps, 1.0))) if self.decay == "cosine" else 1.0
        return rising * falling


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


Terms = Mapping[str, Tensor]
# Of the terms and the share of the training that is done, the value of every row to raise.
Objective = Callable[[Terms, float], Tensor]


@dataclass(frozen=True)
class Phase:
    """A round in which only these parameters move."""

    name: str
    parameters: Sequence[nn.Parameter]


@dataclass(frozen=True)
class Plan:
    """How a module is to be trained.

    Args:
        max_epochs: passes over the rows at most.
        batch_size: rows per step, over all processes.
        learning_rate: the largest.
        trainer: everything else that a user may choose.
        seed: of the order of rows.
        phases: taken in turns, a round each; none moves all parameters in every round.
        checkpoint: file to go on from and to write to, or None.
        identity: what a checkpoint must agree with to be gone on from.
        progress: the name of the bar on a terminal, or None for no bar.
        judges_start: whether the weights before the first step are a round, which held-out rows may prefer to all.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    trainer: Trainer
    seed: int
    phases: Sequence[Phase] = ()
    checkpoint: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    progress: str | None = None
    judges_start: bool = False


@dataclass
class Position:
    """Where a run stands; with the weights and the random state it is all that a run is.

    Args:
        epoch, step: how many epochs are over, and how many steps of the next.
        sums, mass: of the round so far, the weighted sum of every column of the history, and of the weights.
        history: the rounds that are over.
        best, best_round: the best value of a round, and which it was, -1 for none.
        seconds: of training.
        is_done: whether held-out rows have ended the training.
    """

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    mass: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: float = -math.inf
    best_round: int = -1
    seconds: float = 0.0
    is_done: bool = False

    def check(self) -> None:
        """An error unless a run can stand here."""
        whole = all(type(number) is int for number in (self.epoch, self.step, self.best_round))
        real = all(type(number) is float for number in (self.mass, self.best, self.seconds, *self.sums.values()))
        rows = all(type(row) is dict and type(row["objective"]) is float for row in self.history)
        if not (whole and real and rows and type(self.is_done) is bool):
            raise TypeError(f"{self} is of other types than a run")
        if min(self.epoch, self.step) < 0 or self.best_round not in range(-1, len(self.history)):
            raise ValueError(f"{self} is no place in a run")


@dataclass(frozen=True)
class Run:
    """What a training came to; the module holds the weights that were kept.

    Args:
        history: a row per round.
        n_epochs: epochs that were finished.
        objective: its mean per row in the round whose weights were kept.
        is_interrupted: whether Ctrl-C ended it.
    """

    history: list[dict[str, Any]]
    n_epochs: int
    objective: float
    is_interrupted: bool = False
