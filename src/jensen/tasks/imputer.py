"""`Imputer`: missing values filled by an average of models, as a transformer of scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from jensen.contract import whole_number
from jensen.contract.capabilities import Capabilities
from jensen.contract.files import write_model
from jensen.data.cells import Cells, check_finite
from jensen.data.codes import Codes
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table, is_frame
from jensen.data.reader import LARGEST, known_names, read_rows
from jensen.tasks.imputation.candidates import EFFORTS
from jensen.tasks.imputation.coding import Coding
from jensen.tasks.imputation.ensemble import Ensemble
from jensen.tasks.imputation.scores import column_table, tried_table
from jensen.tasks.imputation.search import search
from jensen.tasks.opening import empty_columns, learn_table


class Imputer(TransformerMixin, BaseEstimator):
    """Fill missing values of tables of any kind with what several models of the table expect.

    Mixtures of all columns and of few columns, factor analysers and nearest rows are compared on entries that are
    hidden from them, and averaged with weights for each column. `jensen.impute` fits one and reports what it found.

    Args:
        effort: "quick", "normal" or "thorough": how many models are tried, and on how many rows.
        columns: {column: kind} for columns that are not what they look like, as in `Mixture`.
        add_indicator: whether `transform` adds a column per feature that had missing values in `fit`: 1 where missing.
        keep_empty_features: whether columns without any value stay, filled with 0, or are dropped.
        random_state: seed or RandomState.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        columns_: what every column is.
        tried_: the models that were tried, with their errors on hidden entries, and their weights.
        column_errors_: the error of every column on hidden entries.
        theta_: the fitted average.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from jensen import Imputer
        >>> X = load_iris().data.copy()
        >>> X[::7, 2] = np.nan
        >>> filled = Imputer("quick", random_state=0).fit_transform(X)
        >>> bool(np.abs(filled - load_iris().data)[::7, 2].mean() < 0.3)
        True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(missing_in_fit=True, text=True)
    theta_: Ensemble
    _columns: Columns
    _kind: Kind
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "effort": [StrOptions(set(EFFORTS))],
        "columns": [Mapping, None],
        "add_indicator": ["boolean"],
        "keep_empty_features": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        effort: str = "normal",
        *,
        columns: Mapping[str | int, Any] | None = None,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.effort = effort
        self.columns = columns
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None) -> Self:
        """Compare models on hidden entries, and fit the best to all observed ones; y is ignored."""
        self._validate_params()
        cells = read_rows(self, X, reset=True)
        check_finite(cells, LARGEST, known_names(self))
        is_missing = np.isnan(cells.numbers)
        self.empty_features_ = empty_columns(cells)
        self.missing_features_ = np.flatnonzero(is_missing.any(0))
        seed = self._seed()
        self._kind = cells.kind.of_other_rows()
        self._columns = learn_table(cells, self.columns)
        codes = self._columns.codes(cells)
        x = codes.x.numpy()
        n_missing = codes.missing.sum(0).numpy()
        varying = [j for j, kind in enumerate(self._columns.kinds) if kind != "constant"]
        # Without gaps there is nothing to fill here, but perhaps in other rows.
        targets = [j for j in varying if n_missing[j]] or varying
        progress = "impute" if self.verbose else None
        found = search(Coding.of(self._columns, x), x, targets, EFFORTS[self.effort], seed, progress)
        self.theta_ = found.ensemble
        self._tables = {
            "tried": tried_table(found).to_dict("list"),
            "errors": column_table(found, self._columns.names, self._columns.units, n_missing).to_dict("list"),
        }
        return self

    def transform(self, X: Table) -> Any:
        """X with its missing values filled; other cells are returned bit for bit, in the container that came in.

        Numbers are expectations. Data frames get whole numbers where all training values were whole, and levels, truth
        values and dates of the types that came in.
        """
        cells, codes = self._read(X)
        filled = self._restored(X, codes)
        return self._with_features(filled, np.isnan(cells.numbers))

    def impute(self, X: Table) -> Any:
        """X with its missing values filled, and no other change: no indicators, and no column is dropped."""
        return self._restored(X, self._read(X)[1])

    def impute_draws(self, X: Table, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn given the observed ones; the fitted models are taken as known."""
        codes = self._read(X)[1]
        drawn = self.theta_.drawn(codes.x.numpy(), whole_number("n_draws", n_draws), self._seed(random_state))
        return [self._columns.restore(X, torch.from_numpy(one), codes.missing) for one in drawn]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted imputer to one safetensors file; `jensen.load` reads it back."""
        write_model(self, path)

    @property
    def columns_(self) -> Columns:
        """What every column is: kind, levels, range."""
        check_is_fitted(self)
        return self._columns

    @property
    def tried_(self) -> pd.DataFrame:
        """The models that were tried: errors on hidden entries (rmse in standard deviations), seconds, weights."""
        check_is_fitted(self)
        return pd.DataFrame(self._tables["tried"])

    @property
    def column_errors_(self) -> pd.DataFrame:
        """The error of every column on hidden entries, in its own units; dates have a `unit`, days or seconds."""
        check_is_fitted(self)
        return pd.DataFrame(self._tables["errors"])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that `transform` returns."""
        check_is_fitted(self)
        own = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            if own is not None and not np.array_equal(given, own):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise ValueError(f"input_features should have length equal to {self.n_features_in_}, got {len(given)}")
            own = given
        names = [f"x{j}" for j in range(self.n_features_in_)] if own is None else list(own)
        kept = names if self.keep_empty_features else [n for j, n in enumerate(names) if j not in self.empty_features_]
        extra = [f"missingindicator_{names[j]}" for j in self.missing_features_] if self.add_indicator else []
        return np.array([*kept, *extra], dtype=object)

    def _seed(self, random_state: Any = None) -> int:
        state = check_random_state(self.random_state if random_state is None else random_state)
        return int(state.randint(np.iinfo(np.int32).max))

    def _read(self, X: Table) -> tuple[Cells, Codes]:
        check_is_fitted(self)
        cells = read_rows(self, X, reset=False)
        check_finite(cells, LARGEST, known_names(self))
        return cells, self._columns.codes(cells, meaning="an unseen value is treated as missing in its row, and kept")

    def _restored(self, X: Table, codes: Codes) -> Any:
        x = codes.x.numpy()
        values = self.theta_.coding.codes(self.theta_.expected(x))
        return self._columns.restore(X, torch.from_numpy(values), codes.missing)

    def _with_features(self, filled: Any, is_missing: np.ndarray) -> Any:
        """The filled table without empty columns, or with 0 in them, and with indicators."""
        marks = is_missing[:, self.missing_features_].astype(np.float64) if self.add_indicator else None
        empty = self.empty_features_
        if not is_frame(filled):
            is_tensor = isinstance(filled, torch.Tensor)
            array = filled.numpy(force=True) if is_tensor else filled
            if len(empty):
                array = array.copy()
                array[:, empty] = np.where(np.isnan(array[:, empty]), 0, array[:, empty])
                array = array if self.keep_empty_features else np.delete(array, empty, axis=1)
            array = array if marks is None else np.hstack([array, marks.astype(array.dtype)])
            return torch.from_numpy(array).to(filled.device) if is_tensor else array
        frame = nw.from_native(filled, eager_only=True)
        names = [frame.columns[j] for j in empty]
        if names and self.keep_empty_features:
            frame = frame.with_columns(*(nw.lit(0.0).alias(name) for name in names))
        elif names:
            frame = frame.drop(*names)
        if marks is not None:
            titles = self.get_feature_names_out()[len(frame.columns) :]
            own = nw.get_native_namespace(frame)
            new = [nw.new_series(title, mark, backend=own) for title, mark in zip(titles, marks.T, strict=True)]
            frame = nw.from_native(with_marks(frame.to_native(), new), eager_only=True)
        return frame.to_native()

    def _theta_record(self) -> dict[str, Any]:
        return {"ensemble": self.theta_.record(), "columns": self._columns.record(), "tables": self._tables}

    def _theta_from(self, record: dict[str, Any]) -> Ensemble:
        self._columns, self._tables = Columns.from_record(record["columns"]), record["tables"]
        return Ensemble.from_record(record["ensemble"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self.capabilities.write_tags(tags)
        return tags


def with_marks(frame: Any, marks: list[nw.Series[Any]]) -> Any:
    """A data frame with more columns at its end; pandas keeps its index."""
    if hasattr(frame, "iloc"):
        return frame.assign(**{mark.name: mark.to_numpy() for mark in marks})
    return nw.from_native(frame, eager_only=True).with_columns(*marks).to_native()
