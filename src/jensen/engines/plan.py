"""How a network is to be trained, where a training stands, and what it came to: the values around a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from jensen.engines.trainer import Trainer

__all__ = ["Objective", "Phase", "Plan", "Position", "Run", "Terms"]

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
