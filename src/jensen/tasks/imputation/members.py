"""The models that are averaged: each expects and draws the missing cells of its own columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from jensen.contract.files import fitted_record, restored
from jensen.registry import model_class
from jensen.runtime.messages import own_filters
from jensen.tasks.imputation.coding import Coding

# Draws by which a model without closed probabilities of levels expects them, and EM steps after new row weights.
N_DRAWS, STEPS = 20, 20


@dataclass(frozen=True, eq=False)
class Member:
    """A fitted model of some columns, or the columns' own frequencies.

    Args:
        name: for people.
        columns: numbers of the columns that it models.
        coding: of all columns.
        estimator: fitted to the codes of these columns; None fills every column from its observed values alone.
        values: (n, d) the observed codes, where there is no estimator.
        weight: (n,) of these rows; None for equal ones.
    """

    name: str
    columns: tuple[int, ...]
    coding: Coding
    estimator: Any = None
    values: np.ndarray | None = None
    weight: np.ndarray | None = None

    def expected(self, x: np.ndarray) -> np.ndarray:
        """E[coordinates | observed] (n, D) where cells are missing; NaN in columns that it does not model.

        Numbers stay within the range of the observed ones: a corrupted cell would else be extrapolated to others.
        """
        out = np.full((len(x), self.coding.width), np.nan)
        if self.estimator is None:
            for j in self.columns:
                out[:, self.coding.places[j]] = self.mean(j)
            return out
        own = x[:, list(self.columns)]
        rows = np.flatnonzero(np.isnan(own).any(1))
        if not len(rows):
            return out
        with quietly():
            filled = np.asarray(self.estimator.impute(own[rows]), dtype=np.float64)
            levels = self.probabilities(own[rows])
        for i, j in enumerate(self.columns):
            found = levels[i] if i in levels else self.coding.of_column(self.coding.within(filled[:, i], j), j)
            out[rows, self.coding.places[j]] = found
        return out

    def mean(self, column: int) -> np.ndarray:
        """The mean coordinates (w,) of a column's observed values."""
        assert self.values is not None
        seen = ~np.isnan(self.values[:, column])
        weight = None if self.weight is None else self.weight[seen]
        found: np.ndarray = np.average(self.coding.of_column(self.values[seen, column], column), axis=0, weights=weight)
        return found

    def probabilities(self, own: np.ndarray) -> dict[int, np.ndarray]:
        """Probabilities of levels {place: (n, L)} for the columns that have them."""
        places = [i for i, j in enumerate(self.columns) if self.coding.is_level(j)]
        if not places:
            return {}
        if not hasattr(self.estimator, "parameters_"):
            drawn = self.estimator.impute_draws(own, N_DRAWS, random_state=0)
            return {i: np.mean([self.coding.of_column(one[:, i], self.columns[i]) for one in drawn], 0) for i in places}
        q, found = self.estimator.predict_proba(own), {}
        parameters, names = self.estimator.parameters_, self.estimator.columns_.names
        known = dict(zip(names, self.estimator.columns_.levels, strict=True))
        for i in places:
            shares = parameters[i].get("probabilities")
            if shares is None:
                shares = np.stack([1 - parameters[i]["probability"], parameters[i]["probability"]], 1)
            # A level that was hidden in all rows has no probability.
            found[i] = np.zeros((len(own), self.coding.n_levels[self.columns[i]]))
            found[i][:, [int(level) for level in known[i]]] = q @ shares
        return found

    def drawn(self, x: np.ndarray, n: int, seed: int) -> np.ndarray:
        """n draws (n, rows, d) of the missing cells of its columns given the observed ones, as codes."""
        out = np.repeat(x[None], n, 0)
        rng = np.random.default_rng(seed)
        if self.estimator is None:
            assert self.values is not None
            for j in self.columns:
                donors = np.flatnonzero(~np.isnan(self.values[:, j]))
                share = None if self.weight is None else self.weight[donors] / self.weight[donors].sum()
                gaps = np.flatnonzero(np.isnan(x[:, j]))
                out[:, gaps, j] = self.values[rng.choice(donors, (n, len(gaps)), p=share), j]
            return out
        own = x[:, list(self.columns)]
        rows = np.flatnonzero(np.isnan(own).any(1))
        if len(rows):
            with quietly():
                tables = self.estimator.impute_draws(own[rows], n, random_state=seed)
            for k, table in enumerate(tables):
                out[k, rows[:, None], np.array(self.columns)] = table
        return out

    def refitted(self, x: np.ndarray, weight: np.ndarray | None = None, steps: int | None = None) -> Member:
        """The same model of other entries or row weights, by EM from where it is; networks stay as they are."""
        if self.estimator is None:
            return replace(self, values=x, weight=weight)
        if self.estimator.capabilities.gradients:
            return self
        own = x[:, list(self.columns)]
        with quietly():
            if "warm_start" in self.estimator.get_params(deep=False):
                options = {"warm_start": True} | ({} if steps is None else {"max_iter": steps})
                try:
                    model = copy(self.estimator).set_params(**options).fit(own, sample_weight=weight)
                    return replace(self, estimator=model.set_params(warm_start=False))
                except ValueError:
                    pass  # levels, or columns that vary, which the last fit did not have
            return replace(self, estimator=clone(self.estimator).fit(own, sample_weight=weight))

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "columns": self.columns}
        if self.estimator is None:
            return found | {"values": self.values}
        params = self.estimator.get_params(deep=False)
        return found | {
            "class": type(self.estimator).__name__,
            "params": params,
            "fitted": fitted_record(self.estimator),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], coding: Coding) -> Member:
        name, columns = record["name"], tuple(record["columns"])
        if not all(0 <= j < coding.d for j in columns):
            raise ValueError(f"columns={columns} are not among {coding.d} columns; the file is damaged")
        if "values" in record:
            return cls(name, columns, coding, values=np.asarray(record["values"], dtype=np.float64))
        estimator = restored(model_class(record["class"]), record["params"], dict(record["fitted"]))
        return cls(name, columns, coding, estimator)


def fitted_member(name: str, columns: Sequence[int], coding: Coding, model: Any, x: np.ndarray) -> Member:
    """A model fitted to the codes of some columns."""
    with quietly():
        fitted = model.fit(x[:, list(columns)])
    return Member(name, tuple(columns), coding, fitted)


@contextmanager
def quietly() -> Iterator[None]:
    """Within it nothing warns: what single models report about parts of a table helps nobody."""
    with own_filters():
        warnings.simplefilter("ignore")
        yield
