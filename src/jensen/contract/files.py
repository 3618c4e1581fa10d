"""A fitted model as a file, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.data.constants import Constants
from jensen.data.container import CONTAINERS, Kind
from jensen.files.records import write_record


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: its constructor's arguments, its parameters and its other fitted attributes."""
    stored: dict[str, Any] = getattr(model, "_stored_params", dict)()
    params = model.get_params(deep=False) | stored
    write_record(path, {"class": type(model).__name__, "params": params, "fitted": fitted_record(model)})


def fitted_record(model: Any) -> dict[str, Any]:
    """What a file keeps of a fit, beside the constructor's arguments; `restore` reads it."""
    check_is_fitted(model)
    attributes = {name: value for name, value in vars(model).items() if is_attribute(name) and name != "theta_"}
    kind = {"container": model._kind.container, "dtype": model._kind.dtype, "columns": model._kind.columns}
    if model._kind.constants is not None:
        kind["constants"] = model._kind.constants.record()
    return {"theta": model._theta_record(), "kind": kind, "attributes": attributes}


def restored(cls: type[Any], params: Mapping[str, Any], fitted: dict[str, Any]) -> Any:
    """The fitted model that a file describes by its constructor's arguments and by what `save` wrote of the fit."""
    return restore(cls(**params), fitted)


def restore(model: Any, fitted: dict[str, Any]) -> Any:
    """Give an unfitted model what `save` wrote of a fit."""
    model._validate_params()
    for name, value in fitted["attributes"].items():
        if not is_attribute(name):
            raise ValueError(f"the file sets {name!r}, which is not a fitted attribute")
        setattr(model, name, value)
    check_features(model)
    model._kind = kind_from(fitted["kind"], model.n_features_in_)
    model.theta_ = model._theta_from(fitted["theta"])
    check_same_kind(fitted["theta"], model._theta_record())
    return model


def check_features(model: Any) -> None:
    """Check the columns of X in a file, on which all later checks rely."""
    d, names = model.n_features_in_, getattr(model, "feature_names_in_", None)
    if isinstance(d, bool) or not isinstance(d, Integral) or d < 1:
        raise ValueError(f"n_features_in_={d!r} is no number of columns; the file is damaged")
    if names is not None and not (isinstance(names, np.ndarray) and names.shape == (d,)):
        raise ValueError(f"feature_names_in_ are not {d} names, one for every column; the file is damaged")


def kind_from(record: dict[str, Any], n_features: int) -> Kind:
    """The kind of table that the model in a file was fitted on."""
    given = record.get("constants")
    kind = Kind(**record | {"constants": None if given is None else Constants.from_record(given, n_features)})
    columns = kind.columns is None or (isinstance(kind.columns, list) and len(kind.columns) == n_features)
    if not (columns and kind.container in CONTAINERS and kind.dtype in ("float32", "float64")):
        raise ValueError(f"{kind} is no kind of table; the file is damaged")
    return kind


def check_same_kind(given: dict[str, Any], restored: dict[str, Any]) -> None:
    """An error if a parameter has another type or shape in the file than in a fit."""
    for name, value in given.items():
        own = restored[name]
        if isinstance(own, Tensor) and (value.dtype, value.shape) != (own.dtype, own.shape):
            raise ValueError(
                f"{name} is {value.dtype} of shape {tuple(value.shape)} in the file, but {own.dtype} of shape "
                f"{tuple(own.shape)} in a fit; the file is damaged"
            )


def is_attribute(name: str) -> bool:
    """Whether a name is that of a fitted attribute: public, with an underscore at the end."""
    return name.endswith("_") and not name.startswith("_")
