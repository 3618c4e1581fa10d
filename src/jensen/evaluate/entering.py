"""The models that enter a comparison, by name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pandas as pd
from sklearn.base import is_regressor

from jensen.data.container import as_array
from jensen.evaluate.candidates import Entrants
from jensen.evaluate.select import configured
from jensen.registry import model_class


def count_classes(y: Any) -> int:
    if y is None:
        return 0
    labels = pd.Series(as_array(y)).dropna()
    return int(labels[(labels.astype(str) != "-1") & (labels != -1)].nunique())


def named(models: Any, auto: Entrants, seed: int) -> dict[str, Any]:
    """The estimators to compare, by name; "auto" enters all of `auto`."""
    if isinstance(models, str) and models == "auto":
        return dict(auto)
    if isinstance(models, Mapping):
        given = [(str(name), model) for name, model in models.items()]
    else:
        given = [(model if isinstance(model, str) else type(model).__name__, model) for model in listed(models)]
    if not given:
        raise ValueError("models is empty; give at least one model, or 'auto'")
    out: dict[str, Any] = {}
    taken = {name for name, _ in given}
    for name, model in given:
        if isinstance(model, type):
            raise TypeError(f"{model.__name__} is a class; give an estimator, {model.__name__}()")
        estimator = configured(named_model(model, auto) if isinstance(model, str) else model, {}, seed)
        if is_regressor(estimator):
            raise TypeError(f"{name} is a regression, but compare needs models of rows")
        numbered = (f"{name} {k}" for k in itertools.count(2))
        own = name if name not in out else next(other for other in numbered if other not in taken)
        taken.add(own)
        out[own] = estimator
    return out


def named_model(name: str, auto: Entrants) -> Any:
    """The model that "auto" enters under this name of the command line, or one with its default arguments."""
    cls = model_class(name)
    return auto[auto.names[name]] if auto.names.get(name) in auto else cls()


def listed(models: Any) -> list[Any]:
    if isinstance(models, str) or hasattr(models, "get_params"):
        models = [models]
    return [model.strip() if isinstance(model, str) else model for model in models]


def is_sized(models: Any) -> bool:
    """Whether an effort sizes the models: "auto", or some that are given by name."""
    given = models.values() if isinstance(models, Mapping) else listed(models)
    return any(isinstance(model, str) for model in given)
