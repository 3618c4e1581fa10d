"""How a network is trained, the position of a run, and its result: the records around the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

from sklearn.base import BaseEstimator
from torch import Tensor, nn


class Trainer(BaseEstimator):
    """Options of the training loop: decay, warm-up, gradient clipping, weight averaging, early stopping.

    Args:
        weight_decay: weight decay of AdamW; 0 is Adam.
        warm_up: number of steps over which the learning rate rises linearly from 0.
        decay: "cosine" lowers the learning rate to 0 at the last step; None keeps it constant.
        clip: largest norm of the gradient; longer gradients are scaled down to it. None does not clip.
        averaging: decay of the exponential moving average of the weights (EMA), which scores and samples use. At step t
            the decay is at most (1 + t) / (10 + t), so that the initial weights soon lose their influence. None uses
            the weights of the last step.
        validation_fraction: fraction of the rows held out for early stopping; 0 trains on all rows and keeps the last
            weights.
        patience: number of rounds without a better held-out bound after which training stops; the best weights are
            kept. A round is the smallest number of epochs with 50 steps or more.
        checkpoint_every: seconds between checkpoints, if the model has a `checkpoint`.
        accumulate: number of pieces in which the gradient of a batch is computed and added up: one after the other they
            need less memory. The step is that of the whole batch, up to rounding; random draws differ, and layers of
            batch normalisation see pieces.
        shuffle_rows: rows of a `jensen.scan` in memory, from which batches are drawn at random while files are read.
            Rows of one batch come from about so many rows, so more of them mix files that are sorted better. None is
            262 144 rows, or as many as have 256 MB. A scan with fewer rows is read once and held.
        max_seconds: training ends after so many seconds, those before an interruption included, if it has not ended
            before; the learning rate reaches 0 then. The weights depend on the speed of the machine. None is no limit.

    Example:
        >>> from jensen import Trainer
        >>> Trainer(clip=1.0).clip
        1.0
        >>> Trainer(accumulate=4, shuffle_rows=100_000)  # a quarter of the memory per step; rows of files in a buffer
        Trainer(accumulate=4, shuffle_rows=100000)
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
        accumulate: int = 1,
        shuffle_rows: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self.weight_decay = weight_decay
        self.warm_up = warm_up
        self.decay = decay
        self.clip = clip
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint_every = checkpoint_every
        self.accumulate = accumulate
        self.shuffle_rows = shuffle_rows
        self.max_seconds = max_seconds

    def check(self) -> None:
        """Raise an error for invalid values; the constructor only stores them."""
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
        if self.max_seconds is not None and not (is_number(self.max_seconds) and self.max_seconds > 0):
            raise ValueError(f"Trainer(max_seconds={self.max_seconds!r}) must be a number above 0, or None")
        for name, count in {"accumulate": self.accumulate, "shuffle_rows": self.shuffle_rows or 1}.items():
            if not (is_whole(count) and count >= 1) or getattr(self, name) == 0:
                raise ValueError(f"Trainer({name}={getattr(self, name)!r}) must be a whole number, 1 or more")

    def rate(self, step: int, done: float) -> float:
        """The learning rate of a step, when this fraction of the training is done, as a fraction of the largest."""
        rising = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        falling = 0.5 * (1 + math.cos(math.pi * min(done, 1.0))) if self.decay == "cosine" else 1.0
        return rising * falling


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


Terms = Mapping[str, Tensor]
# A round of the training: the epoch, the phase, the objective, the terms and more by name.
HistoryRow = dict[str, float | str]
# From the terms and the fraction of the training that is done, the value of every row to raise.
Objective = Callable[[Terms, float], Tensor]


@dataclass(frozen=True)
class Phase:
    """A round in which only these parameters are trained."""

    name: str
    parameters: Sequence[nn.Parameter]


@dataclass(frozen=True)
class Plan:
    """How a module is trained.

    Args:
        max_epochs: passes over the rows, at most.
        batch_size: rows per step, over all processes.
        learning_rate: the largest one.
        trainer: the other options that a user may choose.
        seed: determines the order of the rows.
        phases: taken in turns, one round each; without any, all parameters are trained in every round.
        checkpoint: file to resume from and to write to, or None.
        identity: what a checkpoint must agree with so that the fit can resume from it.
        progress: title of the progress bar, or None for no bar.
        may_keep_start: whether the initial weights count as a round, which is kept if no other scores better.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    trainer: Trainer
    seed: int
    phases: Sequence[Phase] = ()
    checkpoint: str | None = None
    identity: Mapping[str, object] = field(default_factory=dict)
    progress: str | None = None
    may_keep_start: bool = False


@dataclass
class Position:
    """The position of a run; with weights and random state it determines how the run continues.

    Args:
        epoch, step: number of finished epochs, and of finished steps in the current one.
        sums, mass: weighted sum of every column of the history in the current round, and the sum of the weights.
        history: the finished rounds.
        best, best_round: the best score of a round, and the number of that round, -1 for none.
        seconds: training time so far.
        is_done: whether early stopping has ended the training.
    """

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    mass: float = 0.0
    history: list[HistoryRow] = field(default_factory=list)
    best: float = -math.inf
    best_round: int = -1
    seconds: float = 0.0
    is_done: bool = False

    def n_steps(self, per_epoch: int) -> int:
        """The number of steps so far."""
        return self.epoch * per_epoch + self.step

    def check(self) -> None:
        """Raise an error unless this is a possible position of a run."""
        whole = all(type(number) is int for number in (self.epoch, self.step, self.best_round))
        real = all(type(number) is float for number in (self.mass, self.best, self.seconds, *self.sums.values()))
        rows = all(type(row) is dict and type(row["objective"]) is float for row in self.history)
        if not (whole and real and rows and type(self.is_done) is bool):
            raise TypeError(f"{self} does not have the types of a position")
        if min(self.epoch, self.step) < 0 or self.best_round not in range(-1, len(self.history)):
            raise ValueError(f"{self} is not a possible position")


@dataclass(frozen=True)
class Run:
    """The result of a training; the module holds the weights that were kept.

    Args:
        history: a row per round.
        n_epochs: number of finished epochs.
        objective: mean objective per row in the round whose weights were kept.
        is_interrupted: whether Ctrl-C ended the training.
    """

    history: list[HistoryRow]
    n_epochs: int
    objective: float
    is_interrupted: bool = False
