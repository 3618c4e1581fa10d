"""A model and the rows of a report, as the model takes them and as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from jensen.data.container import as_array, is_frame, n_rows, names_in, take
from jensen.report.images import scale_of
from jensen.report.quick import Quick


@dataclass(frozen=True, eq=False)
class Subject:
    """
    Args:
        name: of the model, for people.
        model: fitted.
        rows: as the user has them: an array, a data frame, images, or documents: texts or counts, which may be sparse.
        y: a label per row, or None.
        shape: of a row that is an image, (h, w) or (c, h, w); rows may be flattened.
        nats: the score of every row, if it is known already.
        numbers: row numbers for people; the default is 0, 1, ...
        seed: for samples and hidden entries.
        log_cell: for a density of dequantised rows, the logarithm of the size of a cell, which makes it a bound of
            their probability; else None.
        inputs: the rows as the model takes them, if that differs: flattened or dequantised.
    """

    name: str
    model: Any
    rows: Any
    y: Any = None
    shape: tuple[int, ...] | None = None
    nats: np.ndarray | None = None
    numbers: np.ndarray | None = None
    seed: int = 0
    log_cell: float | None = None
    inputs: Any = None

    @property
    def model_rows(self) -> Any:
        """The rows as the model takes them."""
        return self.rows if self.inputs is None else self.inputs

    @property
    def n_rows(self) -> int:
        return n_rows(self.rows)

    @property
    def is_documents(self) -> bool:
        """Whether rows are documents, of which no table is made."""
        can = getattr(self.model, "capabilities", None)
        return bool(issparse(self.rows)) or (can is not None and can.texts)

    @property
    def is_image(self) -> bool:
        return self.shape is not None

    @cached_property
    def quick(self) -> Quick:
        """How many of these rows are scored, and with how many draws."""
        return Quick.of(self.model, self.n_rows)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows as a table with column names."""
        return as_frame(self.rows, self.names)

    @cached_property
    def names(self) -> list[str]:
        """The column names."""
        if hasattr(self.rows, "columns"):
            return [str(name) for name in self.rows.columns]
        known = getattr(self.model, "feature_names_in_", None)
        n = int(np.prod(self.rows.shape[1:]))
        return [str(name) for name in known] if known is not None else [f"x{i}" for i in range(n)]

    @cached_property
    def number_columns(self) -> list[str]:
        """The names of numeric columns."""
        return [name for name in self.names if pd.api.types.is_numeric_dtype(self.frame[name])]

    @cached_property
    def labels(self) -> list[str] | None:
        """A text per row; empty if the label is unknown."""
        if self.y is None:
            return None
        values = pd.Series(as_array(self.y)).astype(object)
        return ["" if pd.isna(value) or value == -1 else str(value) for value in values]

    def number(self, i: int) -> int:
        return int(i if self.numbers is None else self.numbers[i])

    def images(self, rows: Any) -> np.ndarray:
        """Rows as images."""
        assert self.shape is not None
        return as_array(rows).astype(np.float64).reshape(len(rows), *self.shape)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The values shown as black and white."""
        values = as_array(self.rows).astype(np.float64)
        return scale_of(float(np.nanmin(values)), float(np.nanmax(values)))

    def some(self, rows: Sequence[int] | np.ndarray) -> Subject:
        """The same model with some of the rows."""
        index = np.asarray(rows)
        return replace(
            self,
            rows=take(self.rows, index),
            inputs=None if self.inputs is None else take(self.inputs, index),
            y=None if self.y is None else take(self.y, index),
            nats=None if self.nats is None else self.nats[index],
            numbers=index if self.numbers is None else self.numbers[index],
        )

    def call(self, name: str, *rows: Any, **quick: Any) -> Any:
        """Call a method of the model, with those of the options that it takes."""
        method = getattr(self.model, name)
        known = signature(method).parameters
        if "steps" in known:
            quick |= {"steps": min(quick["steps"], self.model.schedule_.n_levels)}
        return method(*rows, **{name: value for name, value in quick.items() if name in known})

    def sample(self, n_samples: int, **quick: Any) -> Any:
        """New rows from the model."""
        return new_rows(self.call("sample", n_samples, random_state=self.seed, **quick))

    def with_few_draws(self) -> Subject:
        """The same with fewer draws per bound: unbiased, but noisier."""
        quick = self.quick
        if quick.option != "importance_samples" or not quick.is_short:
            return self
        return replace(self, model=copy(self.model).set_params(evaluation_samples=quick.n_draws))

    def few(self, most: int) -> Subject:
        """The same with at most this many rows, evenly spaced."""
        if self.n_rows <= most:
            return self
        return self.some(np.linspace(0, self.n_rows - 1, most).round().astype(int))

    def complete(self) -> Subject:
        """The same with only the rows without missing values."""
        whole = ~np.asarray(pd.isna(self.frame)).any(1)
        if not whole.any():
            raise ValueError("every row has missing values")
        return self if whole.all() else self.some(np.flatnonzero(whole))


def new_rows(made: Any) -> Any:
    """The rows from `sample`, which in some libraries returns a tuple."""
    return made[0] if isinstance(made, tuple) else made


def as_frame(rows: Any, names: Sequence[str]) -> pd.DataFrame:
    if is_frame(rows):
        frame = pd.DataFrame({str(name): np.asarray(rows[name]) for name in names_in(rows)})
        # A sample has no columns that the model leaves out.
        return frame[[name for name in names if name in frame]]
    return pd.DataFrame(as_array(rows).reshape(len(rows), -1), columns=list(names))
