"""Models whose bound is the forward pass of a network, trained by stochastic gradients."""

from __future__ import annotations

import copy
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from jensen.contract.capabilities import Capabilities
from jensen.contract.measured import ColumnsModel
from jensen.contract.model import warn_unused
from jensen.data.columns import Columns
from jensen.data.container import Kind, as_array
from jensen.data.rows import Events, image_shape, read_events
from jensen.engines.sgd.checkpoint import seed_in
from jensen.engines.sgd.feeds import Feed, ReadFeed, TensorFeed
from jensen.engines.sgd.loop import Objective, Phase, Plan, fit_sgd
from jensen.engines.sgd.plan import Trainer
from jensen.engines.sgd.processes import World, choose_device
from jensen.nets.allowance import Allowance, check_weights
from jensen.runtime.memory import allocating
from jensen.runtime.randomness import seeded
from jensen.runtime.threads import threads_for

__all__ = ["MOST_ROWS", "GradientEstimator", "Lesson", "blocks", "has_classes"]

# Without a number of epochs: enough for so many steps, and at least so many passes.
USUAL_STEPS, LEAST_EPOCHS = 5000, 20
# Below this many rows none are held out: what is left would say nothing.
LEAST_ROWS = 40
# Products a step of a network must have for a second thread to pay: a step of a small one takes a millisecond.
FEW_PRODUCTS = 20
# Entries of the tensors that answer a call at a time: they stay in the caches, which doubles the speed of scoring.
ROOM = 2**22
# Rows that go through a network together at most: its hidden layers may be far wider than the rows.
MOST_ROWS = 2**14


@dataclass(frozen=True)
class Lesson:
    """What there is to learn from: rows, the class numbers or other tensors that go with them, and weights."""

    events: Events
    extra: tuple[Tensor | None, ...] = ()
    weight: Tensor | None = None

    @cached_property
    def x(self) -> Tensor:
        """All rows, encoded once."""
        return self.events.all()

    def has_holes(self) -> bool:
        """Whether some entry is missing; of rows on disk it is not known and so possible, unless they are integers."""
        if not self.events.can_have_missing:
            return False
        return not self.events.is_in_memory or bool(self.x.isnan().any())

    def some_rows(self, rows: np.ndarray) -> Tensor:
        """Of the rows with these numbers, enough to learn frequencies from."""
        some = rows[:: max(1, len(rows) // 20_000)]
        return self.x[torch.from_numpy(some)] if self.events.is_in_memory else self.events.read(some)

    def feed(self, rows: np.ndarray, device: torch.device) -> Feed:
        """These rows, in memory where they fit; their weights have mean 1."""
        index = torch.from_numpy(rows)
        extra = tuple(None if tensor is None else tensor[index].to(device) for tensor in self.extra)
        weight = None if self.weight is None else self.weight[index].float().to(device)
        if weight is not None:
            weight = weight / weight.mean()
        if not self.events.is_in_memory:
            return ReadFeed(lambda numbers: self.events.read(rows[numbers]), np.arange(len(rows)), extra, weight)
        x = self.x if len(rows) == self.events.n_rows else self.x[index]
        return TensorFeed((x.to(device), *extra), weight)


class GradientEstimator(ColumnsModel):
    """A model with a `module_`, whose forward names the terms of its bound."""

    capabilities = Capabilities(missing_in_fit=True, text=True, images=True, weights=True, gradients=True)
    theta_: nn.Module
    max_epochs: int | None
    batch_size: int
    learning_rate: float
    trainer: Trainer | None
    checkpoint: str | os.PathLike[str] | None
    device: str
    verbose: int

    _training_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "trainer": [Trainer, None],
        "checkpoint": [str, os.PathLike, None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _build(self, facts: dict[str, Any]) -> nn.Module:
        """A module with new weights for rows of `_columns` and `_shape`; facts are what else a fit has decided."""

    @property
    def module_(self) -> nn.Module:
        """The network."""
        check_is_fitted(self)
        return self.theta_

    @property
    def history_(self) -> Any:
        """One row per round of the training, a data frame with a `plot()`."""
        check_is_fitted(self)
        from jensen.engines.sgd.history import History

        return History(self._history)

    def _train(
        self,
        lesson: Lesson,
        facts: dict[str, Any],
        objective: Objective,
        score: Objective,
        phases: Callable[[Any], Sequence[Phase]] = lambda module: (),
        feed: Callable[[Lesson, np.ndarray, torch.device], Feed] = Lesson.feed,
        start: nn.Module | None = None,
        wrap: Callable[[Any], nn.Module] = lambda module: module,
        found: Callable[[np.ndarray], dict[str, Any]] = lambda rows: {},
        seed: int | None = None,
        judges_start: bool = False,
        keeps_start: bool = False,
    ) -> bool:
        """Build a module, or start from one, and raise the objective of it or of what `wrap` makes of it.

        True says that Ctrl-C has ended it. With `keeps_start` there is no training.

        `found` gives the facts that are learnt from rows, from those alone that are not held out: which these are
        follows from the seed. With `judges_start` held-out rows may prefer the start to every round after it.
        """
        given = self._training_arguments()
        trainer = given.trainer or Trainer()
        trainer.check()
        if not trainer.validation_fraction:
            warn_unused(trainer, {"patience": "validation_fraction=0 holds out no rows to stop by"})
        if given.checkpoint is None:
            warn_unused(trainer, {"checkpoint_every": "the model has no checkpoint to write"})
        world = World.of_environment(self.device)
        self._columns, self._shape = lesson.events.columns, lesson.events.shape
        self._kind = lesson.events.kind.of_other_rows()
        seed = world.agree(self._seed() if seed is None else seed)
        order = np.random.default_rng(seed).permutation(lesson.events.n_rows)
        n_held_out = round(trainer.validation_fraction * len(order)) if len(order) >= LEAST_ROWS else 0
        rows, held_out = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
        facts = self._facts = facts | found(rows)
        n_steps = max(len(rows) // given.batch_size, 1)
        plan_epochs = given.max_epochs or max(LEAST_EPOCHS, -(-USUAL_STEPS // n_steps))
        with seeded(seed, world.device):
            with allocating(f"the network of {type(self).__name__}", "choose a smaller one"):
                module = (self._build(facts) if start is None else copy.deepcopy(start)).to(world.device)
            if world.rank:
                torch.manual_seed(seed + world.rank)
            plan = Plan(
                max_epochs=plan_epochs,
                batch_size=given.batch_size,
                learning_rate=given.learning_rate,
                trainer=trainer,
                seed=seed,
                phases=phases(module),
                checkpoint=None if given.checkpoint is None else os.fspath(given.checkpoint),
                identity=self._identity(lesson),
                progress=type(self).__name__ if self.verbose else None,
                judges_start=judges_start,
            )
            n_products = sum(p.numel() for p in module.parameters()) * min(given.batch_size, len(rows))
            if keeps_start or not any(p.requires_grad for p in module.parameters()):
                # Networks that are known and not learnt are taken as they are.
                wrap(module)
                self.theta_, self._history, self.n_iter_, self.lower_bound_ = module.eval(), [], 0, math.nan
                return False
            with threads_for(n_products // FEW_PRODUCTS):
                run = fit_sgd(
                    wrap(module),
                    feed(lesson, rows, world.device),
                    objective,
                    plan,
                    held_out=lesson.feed(held_out, world.device) if n_held_out else None,
                    score=score,
                    world=world,
                )
        self.theta_, self._history, self.n_iter_ = module.eval(), run.history, run.n_epochs
        self.lower_bound_ = run.objective
        return run.is_interrupted

    def _training_arguments(self) -> GradientEstimator:
        """Whose arguments about training count: those of a model of several parts may be a part's."""
        return self

    def _seed(self) -> int:
        """Of everything random in a fit; one without a seed goes on with that of its checkpoint."""
        if self.random_state is None:
            for checkpoint in self._checkpoints():
                if checkpoint is not None and (found := seed_in(os.fspath(checkpoint))) is not None:
                    return found
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _checkpoints(self) -> list[str | os.PathLike[str] | None]:
        """Files that a fit goes on from: those of a model of several parts may be several."""
        return [self._training_arguments().checkpoint]

    def _identity(self, lesson: Lesson) -> dict[str, Any]:
        """What a checkpoint must share with a fit to go on: everything that decides about the weights."""
        ignored = ("checkpoint", "device", "verbose", "max_epochs", "random_state")
        arguments = {
            name: type(value).__name__ if isinstance(value, BaseEstimator) else repr(value)
            for name, value in self.get_params().items()
            if name.split("__")[-1] not in ignored
        }
        first = lesson.events.read(np.arange(min(lesson.events.n_rows, 8))).nan_to_num(-1.0).double()
        return {
            "model": type(self).__name__,
            **arguments,
            "rows of X": lesson.events.n_rows,
            "shape of a row": list(lesson.events.shape),
            "the sum of the first rows": float(first.sum()),
            "the sum of the weights": None if lesson.weight is None else float(lesson.weight.sum()),
            "the sum of the labels": [float(tensor.double().sum()) for tensor in lesson.extra if tensor is not None],
        }

    def _read_events(self, X: Any) -> tuple[Tensor, Kind]:
        """Rows to answer about (n, d), in the units of the network."""
        check_is_fitted(self)
        events = read_events(self, X, self._columns, self._shape)
        return events.all(), events.kind

    def _present(self, values: Tensor, kind: Kind) -> Any:
        """Rows of the network's units (n, d), as the user has theirs."""
        if kind.is_frame:
            return self._columns.frame(values.double(), index=kind.index, container=kind.container)
        return kind.values(self._decoded_matrix(values))

    def _decoded_matrix(self, values: Tensor) -> Tensor:
        """Rows of the network's units (n, d) as numbers of the user's shape; a binary value stays a probability."""
        matrix = torch.from_numpy(self._columns.matrix(values.double().cpu().numpy()))
        return matrix.reshape(len(matrix), *self._shape)

    def _restored(self, X: Any, holes: Tensor, filled: Tensor, kind: Kind) -> Any:
        """X with its holes (n, d) from `filled`, in the network's units; all else bit for bit."""
        if kind.is_frame:
            return self._columns.restore(X, filled.double(), holes)
        values = self._decoded_matrix(filled)
        given = torch.as_tensor(as_array(X).astype(kind.dtype))
        return kind.values(torch.where(holes.reshape(given.shape), values.to(given), given))

    @contextmanager
    def _answering(self) -> Iterator[tuple[Any, torch.device]]:
        """The module where it is to compute, with nothing recorded for gradients."""
        device = choose_device(self.device)
        module = self.theta_.to(device)
        with torch.inference_mode():
            yield module.eval(), device

    @property
    def _image_shape(self) -> tuple[int, ...]:
        return image_shape(self._shape)

    def _theta_record(self) -> Any:
        return {
            "columns": self._columns.record(),
            "shape": list(self._shape),
            "facts": self._facts,
            "history": self._history,
            "weights": self.theta_.state_dict(),
        }

    def _theta_from(self, record: Any) -> nn.Module:
        self._columns = Columns.from_record(record["columns"])
        self._shape, self._facts, self._history = tuple(record["shape"]), record["facts"], record["history"]
        d, weights = len(self._columns.names), record["weights"]
        if not all(isinstance(size, int) for size in self._shape) or not math.prod(self._shape) == d:
            raise ValueError(f"shape={self._shape} is not that of {d} columns; the file is damaged")
        if self.n_features_in_ != d:
            raise ValueError(f"n_features_in_={self.n_features_in_}, but there are {d} columns; the file is damaged")
        with seeded(0, torch.device("cpu")), Allowance(weights, self._facts, d * max(self._columns.n_levels)):
            module = self._build(self._facts)
        try:
            check_weights(weights, module.state_dict())
        except ValueError as error:
            raise ValueError(f"the weights do not fit the model's networks: {error}; the file is damaged") from None
        for name, weight in weights.items():
            if not weight.isfinite().all():
                raise ValueError(f"the weights hold NaN or infinity in {name}; the file is damaged")
        module.load_state_dict(weights)
        return module.eval()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def has_classes(model: GradientEstimator) -> bool:
    """Whether there are classes to predict; before a fit there may be."""
    if not hasattr(model, "theta_") or hasattr(model, "classes_"):
        return True
    raise AttributeError("the model was fitted without labels and knows no classes; fit(X, y) with some labels in y")


def blocks(n_rows: int, entries_per_row: int, most_rows: int | None = None) -> Iterator[slice]:
    """Slices of rows whose tensors have about ROOM entries, and not more rows than given."""
    size = max(1, ROOM // max(entries_per_row, 1))
    size = size if most_rows is None else min(size, most_rows)
    return (slice(i, i + size) for i in range(0, n_rows, size))
