"""The methods of every model, however it is fitted."""

from __future__ import annotations

import inspect
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract.answering import mean_over, stream_verbs
from jensen.contract.capabilities import Capabilities
from jensen.contract.files import write_model
from jensen.contract.rows import Rows
from jensen.data.constants import Constants, find_constants, warn_of_constants
from jensen.data.container import Kind, Table, n_entries, n_rows
from jensen.data.labels import UNLABELLED, encode_labels
from jensen.data.reader import (
    beside_model,
    check_columns,
    check_spread,
    check_values,
    column_names,
    known_names,
    read_array,
    read_table,
    read_weights,
)
from jensen.files.scan import Scan
from jensen.formulas.information import entropies
from jensen.runtime.memory import need_memory
from jensen.runtime.messages import levels_inside


def takes_q(model: LatentVariableModel) -> bool:
    """Whether `bound` takes a distribution of z."""
    if "q" not in inspect.signature(model.bound).parameters:
        raise AttributeError(
            f"{type(model).__name__}.bound takes no q: z can neither be enumerated nor is its posterior a Gaussian; "
            "see the terms of bound(X)"
        )
    return True


class LatentVariableModel(BaseEstimator, ABC):
    """A model of rows x with something hidden z: p(x) = ∫ p(x|z) p(z) dz.

    NaN in X is a missing value and need not be filled in first. Scores are nats per row in the units of X. A method
    that a model cannot provide does not exist on it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    theta_: Any
    random_state: Any
    _kind: Kind

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        stream_verbs(cls)

    @abstractmethod
    def _theta_record(self) -> dict[str, Any]:
        """theta_ as named tensors, for a file."""

    @abstractmethod
    def _theta_from(self, record: dict[str, Any]) -> Any:
        """Undo `_theta_record`, refusing values that no fit could have left."""

    @abstractmethod
    def fit(self, X: Table, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn p(x); -1, None or NaN in y means unlabelled."""

    @abstractmethod
    def score_samples(self, X: Table) -> Any:
        """ln p(x) of every row, or the tightest lower bound the model is configured for."""

    @abstractmethod
    def bound(self, X: Table) -> Bound:
        """The evidence lower bound of every row, term by term."""

    @available_if(takes_q)  # type: ignore[untyped-decorator]
    def ecll(self, X: Table, q: Any = None) -> Any:
        """The expected complete log-likelihood E_q[ln p(x, z)] per row: `bound(X, q).total` less the entropy of q.

        An M-step maximises its sum over rows. With one-hot q it is ln p(x, z).

        Args:
            X: rows.
            q: a distribution of z for every row, as `bound` takes it; None is that of `bound(X)`.

        Example:
            >>> import numpy as np
            >>> from jensen import GaussianMixture
            >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
            >>> model = GaussianMixture(2, random_state=0).fit(X)
            >>> model.ecll(X, np.full((4, 2), 0.5)).shape
            (4,)
        """
        total, own = self.bound(X, q).total, self.posterior(X)  # type: ignore[call-arg]
        entropy = entropies(own)
        if isinstance(q, torch.distributions.Distribution):
            entropy = entropies(q)
        elif q is not None:
            share = torch.as_tensor(np.asarray(q.cpu() if isinstance(q, Tensor) else q, dtype=np.float64))
            entropy = entropies(share)
            if isinstance(own, torch.distributions.MixtureSameFamily):
                entropy = entropy + (share * own.component_distribution.entropy()).sum(1)
        return total - (entropy.to(total) if isinstance(total, Tensor) else entropy.numpy().astype(total.dtype))

    @abstractmethod
    def posterior(self, X: Table) -> torch.distributions.Distribution:
        """q(z|x), one distribution per row."""

    @abstractmethod
    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """New rows, and what they came from."""

    @abstractmethod
    def impute(self, X: Table) -> Any:
        """X with every missing entry replaced by its posterior mean; observed entries come back bit for bit."""

    @abstractmethod
    def impute_draws(self, X: Table, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """`n_draws` copies of X with missing entries drawn from their posterior."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; `jensen.load` reads it back."""
        write_model(self, path)

    def _stored_params(self) -> dict[str, Any]:
        """Values that a file can hold in place of arguments of the constructor that it cannot hold."""
        return {}

    @property
    def measure_(self) -> tuple[str, ...]:
        """For each column whether its score is a "density" (of numbers) or a "probability" (of values)."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018 (raises the reason if the model has no scores)
        return with_constants((self.capabilities.measure,) * int(self.n_features_in_), self._kind.constants)

    def find_measure(self, X: Table) -> tuple[str, ...]:
        """`measure_` of a fit to X, without fitting."""
        self.score_samples  # noqa: B018
        constants = self._find_constants(read_array(BaseEstimator(), X, reset=True, sparse=True)[0])
        return with_constants((self.capabilities.measure,) * n_entries(X), constants)

    def can_score(self, X: Table) -> np.ndarray:
        """Which rows (n,) have a score."""
        check_is_fitted(self)
        self.score_samples  # noqa: B018
        return np.ones(n_rows(X), dtype=bool)

    def score(self, X: Table, y: Any = None) -> float:
        """Mean of `score_samples` over the rows; y is ignored."""
        if isinstance(X, Scan):
            return mean_over(self.score_samples(X))
        # In double precision: the sum of scores in single precision may overflow.
        return float(np.asarray(self.score_samples(X), dtype=np.float64).mean())

    def describe_score(self) -> str:
        """Whether `score_samples` is exact or a bound, and what it is estimated from."""
        return self.capabilities.score or "none"

    def _read(self, X: Table) -> tuple[Tensor, Kind]:
        """Rows for a fitted model."""
        check_is_fitted(self)
        return beside_model(self, *read_table(self, X, reset=False), self._kind)

    def _of_block(self, table: Any) -> Any:
        """What the model reads of a block of a scan."""
        return table

    @property
    def _unlabelled(self) -> Any:
        """A value of y that means unlabelled, beside None and NaN; some models have an argument for it."""
        return getattr(self, "unlabelled", UNLABELLED)

    def _read_rows(self, X: Table, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """Rows to train on, with all columns; rows of weight 0 are left out."""
        x, kind = read_table(self, X, reset=reset)
        weight = read_weights(sample_weight, len(x))
        known = None if reset else getattr(self, "classes_", np.array([]))
        kept = None if weight is None else (weight > 0).numpy()
        label, classes = encode_labels(y, len(x), known, kept, self._unlabelled)
        if weight is not None:
            x, weight, label = x[kept], weight[kept], None if label is None else label[kept]
        names = column_names(self)
        if reset:
            check_columns(x.numpy(), names)
            check_spread(x.numpy(), names)
        if self.capabilities.values != "real":
            check_values(x.numpy(), names, type(self).__name__, is_count=self.capabilities.values == "counts")
        return Rows(x, weight, label, classes, kind)

    def _varying(self, rows: Rows, *, is_first: bool) -> Rows:
        """Rows of the columns that vary; in rows after the first ones the others must still be constant."""
        trained = replace(rows.kind, constants=self._constants_of(rows.x)) if is_first else self._kind
        x, kind = beside_model(self, rows.x, rows.kind, trained, may_differ=False)
        return replace(rows, x=x, kind=kind)

    def _constants_of(self, x: Any) -> Constants | None:
        """The constant columns of training rows (n, d); one warning names them."""
        constants = self._find_constants(x)
        if constants is not None:
            names = known_names(self)
            warn_of_constants({names[j]: constants.values[j].item() for j in constants.columns.tolist()})
        return constants

    def _find_constants(self, x: Any) -> Constants | None:
        """The columns of rows (n, d) that are beside the model."""
        return find_constants(x.numpy() if isinstance(x, Tensor) else x)

    @property
    def _n_varying(self) -> int:
        """d less the constant columns."""
        return int(self.n_features_in_) - (0 if self._kind.constants is None else len(self._kind.constants.columns))

    def _column(self, column: int | str) -> int:
        """The number of a feature given by its number or name."""
        check_is_fitted(self)
        names = list(getattr(self, "feature_names_in_", []))
        if column in names:
            return names.index(column)
        if isinstance(column, Integral) and -self.n_features_in_ <= column < self.n_features_in_:
            return int(column) % int(self.n_features_in_)
        raise ValueError(f"column {column!r} is not among {names or f'0..{self.n_features_in_ - 1}'}")

    def _n_samples(self, n_samples: Any) -> int:
        """A number of rows to draw, refused before the allocation if they do not fit into memory."""
        n = whole_number("n_samples", n_samples)
        # The rows, and one copy of them on their way to the user.
        need_memory(16 * n * int(self.n_features_in_), f"n_samples={n}", "draw fewer rows at a time")
        return n

    def _generator(self, random_state: Any = None) -> torch.Generator:
        """One generator per call, seeded from the argument or the model's own random_state."""
        state = check_random_state(self.random_state if random_state is None else random_state)
        return torch.Generator().manual_seed(int(state.randint(np.iinfo(np.int32).max)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        self.capabilities.write_tags(tags)
        return tags


def with_constants(measure: tuple[str, ...], constants: Constants | None) -> tuple[str, ...]:
    """The measure of columns; one with a single value has a probability."""
    if constants is None:
        return measure
    return tuple(
        "probability" if value == value else word for word, value in zip(measure, constants.values, strict=True)
    )


def whole_number(name: str, value: Any) -> int:
    """A number of rows or draws."""
    if not (isinstance(value, Integral) and int(value) >= 1):
        raise ValueError(f"{name}={value!r} must be a whole number, 1 or more")
    return int(value)


def warn_unused(model: BaseEstimator, unused: Mapping[str, str]) -> None:
    """Warn of constructor arguments that differ from their default and that this fit does not use, with the reason."""
    signature = inspect.signature(type(model).__init__).parameters
    for name, reason in unused.items():
        value, default = getattr(model, name), signature[name].default
        is_simple = isinstance(value, str | Real | tuple | None)
        if value is default or (is_simple and value == default):
            continue
        shown = f"{name}={value!r}" if is_simple else name
        warnings.warn(f"{shown} is not used: {reason}", UserWarning, stacklevel=levels_inside())


def not_offered(name: str, reason: str) -> Any:
    """A method of the contract that a model cannot provide: it does not exist, and the error's cause is the reason."""

    def refuse(model: LatentVariableModel) -> bool:
        raise AttributeError(reason)

    def method(self: LatentVariableModel, *arguments: Any, **keywords: Any) -> Any: ...

    method.__name__ = name
    method.__doc__ = f"Not offered: {reason}."
    return available_if(refuse)(method)
