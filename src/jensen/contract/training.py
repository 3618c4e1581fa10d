"""The records that a network model passes to its training: what it is built from, and how it is trained."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor, nn

from jensen.engines.sgd.plan import Objective, Phase, Trainer

# Names in files that differ from the names here.
FILE_NAMES = {"has_missing": "has_holes"}
# Epochs if max_epochs is None: enough for this many steps, and at least this many passes over the rows.
DEFAULT_STEPS, LEAST_EPOCHS = 5000, 20
# Left out of files by models without classes.
ONLY_WITH_CLASSES = ("prior", "class_weight", "class_length")


@dataclass(frozen=True)
class Facts:
    """What a fit derived from its rows to build the networks; files store it."""

    def record(self) -> dict[str, Any]:
        """The facts by name, for a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            FILE_NAMES.get(name, name): value
            for name, value in values.items()
            if value is not None or name not in ONLY_WITH_CLASSES
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Undo `record`."""
        names = {theirs: ours for ours, theirs in FILE_NAMES.items()}
        return cls(**{names.get(name, name): value for name, value in record.items()})


F = TypeVar("F", bound=Facts)
M = TypeVar("M", bound=nn.Module)


class TrainingArguments(Protocol):
    """The constructor arguments about training."""

    max_epochs: int | None
    batch_size: int
    learning_rate: float
    trainer: Trainer | None
    checkpoint: str | os.PathLike[str] | None


def all_together(module: nn.Module) -> Sequence[Phase]:
    return ()


def itself(module: nn.Module) -> nn.Module:
    return module


@dataclass(frozen=True)
class TrainingSpec(Generic[F, M]):
    """How the networks of a model are trained.

    Args:
        objective: the value of every row that training raises.
        score: the value of every held-out row, which decides about stopping and which weights are kept.
        facts: returns the facts, given the rows that are not held out, as `split` of the training set returns them.
        build: returns the networks with their initial weights; None is the model's `_build`.
        phases: returns the groups of parameters to train in turns; by default all are trained together.
        trained: returns the module whose forward is trained; by default the networks themselves.
        seed: None is the model's own.
        may_keep_start: whether the initial weights compete with those of every round on the held-out rows.
        is_skipped: whether to keep the initial weights without any training.
        n_steps, least_epochs: with max_epochs=None as many epochs as have so many steps, and at least so many; None is
            the number of all models.
    """

    objective: Objective
    score: Objective
    facts: Callable[[Any], F]
    build: Callable[[F], M] | None = None
    phases: Callable[[M], Sequence[Phase]] = all_together
    trained: Callable[[M], nn.Module] = itself
    seed: int | None = None
    may_keep_start: bool = False
    is_skipped: bool = False
    n_steps: int | None = None
    least_epochs: int | None = None

    def n_epochs(self, steps_per_epoch: int) -> int:
        """Epochs of a model with max_epochs=None."""
        return max(self.least_epochs or LEAST_EPOCHS, -(-(self.n_steps or DEFAULT_STEPS) // max(steps_per_epoch, 1)))


def class_frequencies(counts: Tensor) -> list[float]:
    """π (C,) from the weight of the labelled rows of every class; one row is added to each, so that none has π = 0."""
    return ((counts + 1) / (counts + 1).sum()).tolist()
