"""Parameters of a fitted model: as attributes that are read from theta_, and as values that come from a file or a user.

A model declares its attributes with `Fitted`, and what its file must hold with `Values`:

    means_ = Fitted[np.ndarray](lambda model: model.theta_.means)
    schema = {"weights": Values("K", check=probabilities), "means": Values("K", "d")}
    read_values(record, schema, d=model.n_features_in_)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

T = TypeVar("T")


class Fitted(Generic[T]):
    """An attribute read from `theta_`: a tensor becomes an array, or one number, in the dtype of the training rows.

    `Fitted[np.ndarray]` names the type that type checkers and editors show.

    Args:
        read: takes the model to a tensor, or to another value that is returned as it is.
        write: takes the model and a new value to the theta that has it; None makes the attribute read-only.
        dtype: the dtype of the array; None is that of the training rows. Whole numbers keep theirs.
        columns: the axes along which the tensor has an entry for every column of X, or a function of the model to them.
            A column with one value in the training rows is not in `theta_`, but in the array.
        constant: what the array has for it; None is its value.
    """

    def __init__(
        self,
        read: Callable[[Any], Any],
        write: Callable[[Any, Any], Any] | None = None,
        *,
        dtype: str | None = None,
        columns: tuple[int, ...] | Callable[[Any], tuple[int, ...]] = (),
        constant: float | None = 0.0,
    ) -> None:
        self.read, self.write, self.dtype = read, write, dtype
        self.columns, self.constant = columns, constant

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, model: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, model: Any, owner: type | None = None) -> T: ...

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        check_is_fitted(model)
        value = self.read(model)
        if not isinstance(value, Tensor):
            return value
        value = model._kind.wide(value, *self.axes(model), fill=self.constant)
        dtype = (self.dtype or model._kind.dtype) if value.is_floating_point() else None
        array = np.array(value.cpu().numpy(), dtype=dtype)
        # A change of this copy would not reach the model, so it is an error.
        array.flags.writeable = False
        return array[()]

    def narrow(self, model: Any, value: Any) -> Any:
        """A new value for the columns that vary; what it has for the others cannot change."""
        axes = self.axes(model)
        if model._kind.constants is None or not axes:
            return value
        given = torch.as_tensor(np.array(value, dtype=np.float64))
        shape = np.shape(getattr(model, self.name))
        if given.shape != shape:
            raise ValueError(f"{self.name} has shape {tuple(given.shape)}, but {shape} is needed for this model")
        narrow = model._kind.narrow(given, *axes)
        if not torch.equal(model._kind.wide(narrow, *axes, fill=self.constant), given):
            names = ", ".join(str(j) for j in model._kind.constants.columns.tolist())
            raise ValueError(
                f"{self.name} cannot change in column {names}, which had one value in the training rows; leave it as "
                "it is there"
            )
        return narrow

    def axes(self, model: Any) -> tuple[int, ...]:
        return self.columns(model) if callable(self.columns) else self.columns

    def __set__(self, model: Any, value: Any) -> None:
        if self.write is None:
            raise AttributeError(f"{self.name} is read from theta_ and cannot be set; fit the model again")
        if not hasattr(model, "theta_"):
            name = type(model).__name__
            instead = (
                f"build one with {name}.from_parameters" if hasattr(model, "from_parameters") else "call fit first"
            )
            raise AttributeError(f"{self.name} can only be set on a fitted {name}; {instead}")
        model.theta_ = self.write(model, self.narrow(model, value))
        # The running statistics of partial_fit belong to the old theta.
        model._stream = None


Check = Callable[[str, Tensor], Tensor]


class Values:
    """What a parameter must be: its shape and its range. Its values become float64, or int64 if they are whole.

    Args:
        shape: a size per axis, as a number or as a symbol. A symbol without a given size takes the size, 1 or more,
            that it has in the first parameter that uses it.
        check: takes the parameter's name and values, and returns the values or raises an error.
        allows_nan: whether NaN is allowed, for values that may be unknown.
        is_whole: whether the values must be whole numbers.
    """

    def __init__(
        self, *shape: int | str, check: Check | None = None, allows_nan: bool = False, is_whole: bool = False
    ) -> None:
        self.shape, self.check, self.allows_nan, self.is_whole = shape, check, allows_nan, is_whole

    def read(self, name: str, value: Any, **sizes: int) -> Tensor:
        """A copy of the value as a tensor; an error names the parameter that does not fit."""
        given = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
        if self.is_whole and given.dtype.kind not in "iu":
            raise ValueError(f"{name} must be whole numbers, got {given.dtype}")
        tensor = torch.from_numpy(given.astype(np.int64 if self.is_whole else np.float64))
        expected = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in self.shape)
        axes = zip(tensor.shape, expected, strict=False)
        fits = (have == need or (isinstance(need, str) and (have > 0 or 0 in expected)) for have, need in axes)
        if tensor.ndim != len(expected) or not all(fits):
            shown = f"({', '.join(map(str, expected))}{',' if len(expected) == 1 else ''})"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but {shown} is needed for this model and data")
        if not (tensor.isfinite() | (tensor.isnan() & self.allows_nan)).all():
            raise ValueError(f"{name} holds NaN or infinity; give finite values")
        return tensor if self.check is None else self.check(name, tensor)


def read_values(record: Mapping[str, Any], schema: Mapping[str, Values], **sizes: int) -> dict[str, Tensor]:
    """The parameters of a schema from a record; an error names the first that no fit could have left."""
    found: dict[str, Tensor] = {}
    for name, values in schema.items():
        found[name] = values.read(name, record[name], **sizes)
        symbols = zip(values.shape, found[name].shape, strict=True)
        sizes |= {symbol: size for symbol, size in symbols if isinstance(symbol, str)}
    return found


def positive(name: str, values: Tensor) -> Tensor:
    if not (values > 0).all():
        raise ValueError(f"{name} must be positive, got {float(values.min())}")
    return values


def not_negative(name: str, values: Tensor) -> Tensor:
    if (values < 0).any():
        raise ValueError(f"{name} has a negative entry, {float(values.min())}; give values of 0 or more")
    return values


def probabilities(name: str, values: Tensor) -> Tensor:
    """Values that sum to 1."""
    total = float(values.sum())
    # One part in 10⁶ leaves room for values that were stored as float32.
    if bool((values < 0).any()) or abs(total - 1) > 1e-6:
        raise ValueError(f"{name} must be 0 or more and sum to 1, got {values.tolist()} with sum {total}")
    # The weights of a fit are kept bit for bit.
    return values if abs(total - 1) < 1e-12 else values / total
