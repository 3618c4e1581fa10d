"""Models whose bound is the forward pass of a network, trained by stochastic gradients."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract.capabilities import Capabilities
from jensen.contract.model import LatentVariableModel, warn_unused
from jensen.contract.scanning import as_scan
from jensen.contract.streaming import survey_rows
from jensen.contract.training import F, M, TrainingArguments, TrainingSpec
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table
from jensen.data.labels import decode_labels, encode_labels
from jensen.data.network_columns import NetworkColumns
from jensen.data.rows import (
    ColumnRules,
    FittedRows,
    image_shape,
    known_rows,
    learn_events,
    presented,
    read_fitted,
    restored,
)
from jensen.engines.sgd.checkpoint import MAY_CHANGE, seed_in
from jensen.engines.sgd.loop import fit_sgd
from jensen.engines.sgd.plan import HistoryRow, Plan, Run, Trainer
from jensen.engines.sgd.processes import World, choose_device
from jensen.engines.sgd.streams import StreamedSet, TrainingData
from jensen.engines.sgd.training_set import TrainingSet
from jensen.files.scan import Scan
from jensen.nets.allowance import Allowance, check_finite, check_weights
from jensen.runtime.memory import allocating, keeping_memory
from jensen.runtime.randomness import seeded
from jensen.runtime.row_draws import RowDraws
from jensen.runtime.threads import threads_for

if TYPE_CHECKING:
    from jensen.engines.sgd.history import History

# A second thread pays off only above a number of products per step: a step of a small network takes a millisecond.
FEW_PRODUCTS = 20
# Entries of the tensors that are computed at a time: they stay in the caches, which doubles the speed of scoring.
ROOM = 2**22
# Rows that go through a network at a time, at most: its hidden layers may be far wider than the rows.
MOST_ROWS = 2**14


class GradientEstimator(LatentVariableModel, Generic[F, M]):
    """A model with networks `module_`, whose forward returns the terms of its bound by name.

    Columns may be of any kind: a number has a density, a level a probability.
    """

    capabilities = Capabilities(missing_in_fit=True, text=True, images=True, weights=True, gradients=True)
    theta_: M
    classes_: np.ndarray
    max_epochs: int | None
    batch_size: int
    learning_rate: float
    trainer: Trainer | None
    checkpoint: str | os.PathLike[str] | None
    device: str
    verbose: int
    _columns: Columns
    _shape: tuple[int, ...]
    _facts: F
    _history: list[HistoryRow]

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
    def _column_rules(self) -> ColumnRules:
        """How the model finds out what its columns are."""

    @abstractmethod
    def _build(self, facts: F) -> M:
        """Networks with new weights for rows of `_columns` and `_shape`."""

    @abstractmethod
    def _facts_from(self, record: dict[str, Any]) -> F:
        """The facts that a file stores."""

    @property
    def module_(self) -> M:
        """The network."""
        check_is_fitted(self)
        return self.theta_

    @property
    def history_(self) -> History:
        """A data frame with one row per round of the training, and a `plot()`."""
        check_is_fitted(self)
        from jensen.engines.sgd.history import History

        return History(self._history)

    @property
    def columns_(self) -> Columns:
        """Kind, levels and scaling of every column."""
        check_is_fitted(self)
        return self._columns

    @property
    def row_shape_(self) -> tuple[int, ...]:
        """The shape of a row: (d,) in a table, (h, w) or (c, h, w) in images."""
        check_is_fitted(self)
        return self._shape

    @property
    def measure_(self) -> tuple[str, ...]:
        """For every column, whether scores are a "density" of its numbers or a "probability" of its values."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018 (raises if the model has no scores, with the reason as cause)
        return self._measured(self._columns)

    def _measured(self, columns: Columns) -> tuple[str, ...]:
        return columns.measure

    @property
    def _parts(self) -> NetworkColumns:
        """The columns of the table as those that the networks model."""
        return NetworkColumns.of(self._columns)

    def find_measure(self, X: Table) -> tuple[str, ...]:
        """`measure_` of a fit to X, found without fitting."""
        self.score_samples  # noqa: B018
        return self._measured(learn_events(clone(self), X, self._column_rules())[0].table)

    def can_score(self, X: Table) -> np.ndarray:
        """Which rows (n,) have a score: all, but for images with a level that was not in the training data."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018
        return known_rows(self, X, self._columns, self._shape)

    def _training_set(self, X: Table, y: Any, sample_weight: Any) -> TrainingData:
        """Rows, labels and weights to train on; sets `classes_` if there are labels."""
        rows = as_scan(X, y, sample_weight, None)
        if isinstance(rows, Scan):
            return self._streamed_set(rows if self.capabilities.labels else rows.without_labels())
        events, weight, kept = learn_events(self, X, self._column_rules(), sample_weight)
        label, classes = encode_labels(y, len(kept), None, kept)
        self.__dict__.pop("classes_", None)
        if label is None:
            return TrainingSet(events, None, weight)
        self.classes_ = classes
        return TrainingSet(events, label[torch.from_numpy(kept)], weight)

    def _streamed_set(self, scan: Scan) -> StreamedSet:
        """The rows of a scan, after a sweep over them."""
        world = World.of_environment(self.device)
        data, classes = survey_rows(self, scan, self._column_rules(), world, self._checked_trainer().shuffle_rows)
        self.__dict__.pop("classes_", None)
        if classes is not None:
            self.classes_ = classes
        return data

    def _train(self, data: TrainingData, spec: TrainingSpec[F, M]) -> Run:
        """Build the networks, train them and set the fitted attributes."""
        given, trainer = self._training_arguments(), self._checked_trainer()
        world = World.of_environment(self.device)
        seed = world.agree(self._seed() if spec.seed is None else spec.seed)
        rows, held_out = cast(tuple[Any, Any], data.split(trainer.validation_fraction, seed))
        self._columns, self._shape = data.events.table, data.events.shape
        self._kind = data.events.kind.of_other_rows()
        self._facts = spec.facts(rows)
        with seeded(seed, world.device):
            with allocating(f"the network of {type(self).__name__}", "choose a smaller one"):
                module = (spec.build or self._build)(self._facts).to(world.device)
            if world.rank:
                torch.manual_seed(seed + world.rank)
            plan = Plan(
                max_epochs=given.max_epochs or spec.n_epochs(len(rows) // given.batch_size),
                batch_size=given.batch_size,
                learning_rate=given.learning_rate,
                trainer=trainer,
                seed=seed,
                phases=spec.phases(module),
                checkpoint=None if given.checkpoint is None else os.fspath(given.checkpoint),
                identity=self._identity(data),
                progress=type(self).__name__ if self.verbose else None,
                may_keep_start=spec.may_keep_start,
            )
            # Networks without trainable weights are used as they are.
            run = Run([], 0, math.nan)
            if not spec.is_skipped and any(p.requires_grad for p in module.parameters()):
                n_products = sum(p.numel() for p in module.parameters()) * min(given.batch_size, len(rows))
                with threads_for(n_products // FEW_PRODUCTS), keeping_memory():
                    run = fit_sgd(
                        spec.trained(module),
                        data.training_feed(rows, world.device),
                        spec.objective,
                        plan,
                        held_out=data.feed(held_out, world.device) if len(held_out) else None,
                        score=spec.score,
                        world=world,
                    )
        self.theta_, self._history = module.eval(), run.history
        self.n_iter_, self.lower_bound_ = run.n_epochs, run.objective
        return run

    def _training_arguments(self) -> TrainingArguments:
        """The arguments about training: the model's own, or those of one of its parts."""
        return self

    def _checked_trainer(self) -> Trainer:
        given = self._training_arguments()
        trainer = given.trainer or Trainer()
        trainer.check()
        if not trainer.validation_fraction:
            warn_unused(trainer, {"patience": "validation_fraction=0 holds out no rows to stop by"})
        if given.checkpoint is None:
            warn_unused(trainer, {"checkpoint_every": "the model has no checkpoint to write"})
        return trainer

    def _seed(self) -> int:
        """The seed of a fit; with random_state=None that of the checkpoint it resumes, if there is one."""
        if self.random_state is None:
            for checkpoint in self._checkpoints():
                if checkpoint is not None and (found := seed_in(os.fspath(checkpoint))) is not None:
                    return found
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _checkpoints(self) -> list[str | os.PathLike[str] | None]:
        """The files that a fit may resume from."""
        return [self._training_arguments().checkpoint]

    def _identity(self, data: TrainingData) -> dict[str, object]:
        """What a fit must share with a checkpoint to resume from it: everything that determines the weights."""
        arguments = {
            name: type(value).__name__ if isinstance(value, BaseEstimator) else repr(value)
            for name, value in self.get_params().items()
            if name.split("__")[-1] not in MAY_CHANGE
        }
        return {"model": type(self).__name__, **arguments, **data.identity()}

    def _read_fitted(self, X: Table) -> FittedRows:
        """Rows of a fitted model, with what they lack."""
        check_is_fitted(self)
        return read_fitted(self, X, self._columns, self._shape)

    def _read_events(self, X: Table) -> tuple[Tensor, Kind]:
        """Rows (n, D) of a fitted model in the units of the network."""
        rows = self._read_fitted(X)
        return rows.x, rows.kind

    def _present(self, values: Tensor, kind: Kind, *, is_expected: bool = False) -> Any:
        """Rows (n, D) of the network, drawn or expected, as the kind of table that the user gave."""
        return presented(self._columns, self._shape, self._parts.join(values, is_expected=is_expected), kind)

    def _draws(self, x: Tensor) -> RowDraws:
        """Random numbers for encoded rows (n, D), from the random state and the content of each row alone."""
        return RowDraws.of(x, self._generator().initial_seed())

    def _with_rows(self, X: Table, rows: FittedRows, filled: Tensor) -> Any:
        """X with its missing values from encoded rows (n, d), or from the incomplete ones of them alone."""
        x = torch.zeros(rows.missing.shape, dtype=torch.float64)
        x[rows.missing.any(1) if len(filled) < len(x) else slice(None)] = filled.double()
        return restored(self._columns, self._shape, X, rows, x)

    def _decided(self, proba: Any) -> Any:
        """The most probable class of every row, from probabilities (n, C)."""
        labels = decode_labels(np.asarray(proba).argmax(1), self.classes_)
        return torch.as_tensor(labels) if isinstance(proba, Tensor) and labels.dtype.kind in "iufb" else labels

    @contextmanager
    def _inference(self) -> Iterator[tuple[M, torch.device]]:
        """The networks on the device that computes, without gradients."""
        device = choose_device(self.device)
        module = self.theta_.to(device)
        with torch.inference_mode(), keeping_memory():
            yield module.eval(), device

    @property
    def _image_shape(self) -> tuple[int, ...]:
        return image_shape(self._shape)

    def _theta_record(self) -> dict[str, Any]:
        return {
            "columns": self._columns.record(),
            "shape": list(self._shape),
            "facts": self._facts.record(),
            "history": self._history,
            "weights": self.theta_.state_dict(),
        }

    def _theta_from(self, record: dict[str, Any]) -> M:
        self._columns = Columns.from_record(record["columns"])
        self._shape, self._history = tuple(record["shape"]), record["history"]
        self._facts = self._facts_from(record["facts"])
        d, weights, inner = len(self._columns.table_names), record["weights"], self._parts.inner
        if not all(isinstance(size, int) for size in self._shape) or not math.prod(self._shape) == d:
            raise ValueError(f"shape={self._shape} is not that of {d} columns; the file is damaged")
        if self.n_features_in_ != d:
            raise ValueError(f"n_features_in_={self.n_features_in_}, but there are {d} columns; the file is damaged")
        allowance = Allowance(weights, record["facts"], len(inner.names) * max(inner.n_levels))
        with seeded(0, torch.device("cpu")), allowance:
            module = self._build(self._facts)
        try:
            check_weights(weights, module.state_dict())
        except ValueError as error:
            raise ValueError(f"the weights do not fit the model's networks: {error}; the file is damaged") from None
        check_finite(weights)
        module.load_state_dict(weights)
        return module.eval()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def has_classes(model: object) -> bool:
    """Whether a model has classes to predict; before a fit it may get some."""
    if not hasattr(model, "theta_") or hasattr(model, "classes_"):
        return True
    raise AttributeError("the model was fitted without labels and has no classes; call fit(X, y) with some labels in y")


def blocks(n_rows: int, entries_per_row: int, most_rows: int | None = None) -> Iterator[slice]:
    """Slices of rows whose tensors have about ROOM entries, and at most `most_rows` rows."""
    size = min(max(1, ROOM // max(entries_per_row, 1)), most_rows or ROOM)
    return (slice(i, i + size) for i in range(0, n_rows, size))
