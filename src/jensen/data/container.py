"""Tables in, tables out: numpy, pandas, polars, torch and lists become one tensor, and results go back in kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor
from torch.utils.data import Dataset, Subset

__all__ = [
    "CONTAINERS",
    "Kind",
    "as_array",
    "check_columns",
    "check_finite",
    "check_names",
    "check_spread",
    "column_name",
    "column_names",
    "n_rows",
    "read_array",
    "read_items",
    "read_table",
    "read_weights",
    "shown",
    "take",
]


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, or entries of a vector, of any kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, Dataset):
        return Subset(X, rows.tolist())
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def as_array(values: Any) -> np.ndarray:
    """Of a tensor, a Dataset, a list or a frame; NaN where an array is masked. Memory is shared where it can be."""
    if isinstance(values, Dataset):
        return read_items(values, np.arange(len(values)))  # type: ignore[arg-type]
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)  # numpy has no such type
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.result_type(values.dtype, np.float32)), np.nan))
    return np.asarray(values)


def read_items(dataset: Any, numbers: np.ndarray) -> np.ndarray:
    """Items of a torch Dataset (b, ...); an item is x, or a tuple that begins with it."""
    wanted = numbers.tolist()
    items = dataset.__getitems__(wanted) if hasattr(dataset, "__getitems__") else [dataset[i] for i in wanted]
    values = [item[0] if isinstance(item, (tuple, list)) else item for item in items]
    return np.stack([np.asarray(value) for value in values])


# Squares of values outside these, and sums of them, leave the range of float64.
SMALLEST, LARGEST = 1e-150, 1e153
# Weights between this and its inverse survive single precision; lighter rows than the heaviest by this count as 0.
HEAVIEST = 1e30
CONTAINERS = ("numpy", "torch", "pandas", "polars")


@dataclass(frozen=True)
class Kind:
    """What the user gave, and so what they get back.

    Args:
        container: "numpy", "pandas", "polars" or "torch".
        dtype: the name of the floating type, "float32" or "float64".
        index: a pandas index, to stand beside results of the same rows.
        columns: the names of a data frame's columns.
        device: of a tensor.
    """

    container: str
    dtype: str
    index: Any = None
    columns: list[Any] | None = None
    device: str = "cpu"

    def of_other_rows(self) -> Kind:
        """The same without the index, which belongs to the rows it came with."""
        return replace(self, index=None)

    def values(self, tensor: Tensor) -> Any:
        """One value, or a vector of them, per row: a tensor for tensors, else an array."""
        if tensor.is_floating_point():
            tensor = tensor.to(getattr(torch, self.dtype))
        return tensor.to(self.device) if self.container == "torch" else tensor.cpu().numpy()

    def table(self, tensor: Tensor) -> Any:
        """Rows with the features of the input: a data frame for a data frame."""
        values = self.values(tensor)
        if self.container == "pandas":
            import pandas as pd

            index = self.index if self.index is not None and len(self.index) == len(values) else None
            return pd.DataFrame(values, columns=self.columns, index=index)
        if self.container == "polars":
            import polars as pl

            # Left to guess, polars takes the rows of a square table for its columns.
            names = None if self.columns is None else [str(name) for name in self.columns]
            return pl.DataFrame(values, schema=names, orient="row")
        return values


def read_table(estimator: BaseEstimator, X: Any, *, reset: bool, largest: float = LARGEST) -> tuple[Tensor, Kind]:
    """Rows (n, d) as float64, NaN where missing, and their kind; checked against what the estimator was fitted on.

    The tensor may share memory with X: it is not for writing.
    """
    array, kind = read_array(estimator, X, reset=reset, largest=largest)
    # A read-only memory map would make torch warn about writes that never come.
    return torch.from_numpy(array.astype(np.float64, copy=not array.flags.writeable)), kind


def read_array(
    estimator: BaseEstimator, X: Any, *, reset: bool, sparse: bool = False, largest: float = LARGEST
) -> tuple[Any, Kind]:
    """The same rows in their own floating type, as an array, or where `sparse` allows it as a CSR matrix.

    Values above the largest are refused, as infinity always is.
    """
    check_table(X)
    if isinstance(X, Tensor):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        dtype = torch.float32 if X.dtype == torch.float32 else torch.float64
        # Sums need float64, which not every device has: the work is done on the CPU, answers go back to the device.
        array = X.detach().to("cpu", dtype).numpy()
        kind = Kind("torch", array.dtype.name, device=str(X.device))
    else:
        if isinstance(X, np.ma.MaskedArray):
            X = as_array(X)
        texts = X if isinstance(X, np.ndarray) and X.dtype.kind in "US" else None
        if texts is not None:
            raise ValueError(f"X holds text, such as {str(texts.flat[0])!r}, and no numbers; encode it as numbers")
        container = type(X).__module__.split(".")[0] if hasattr(X, "columns") else "numpy"
        if container in ("pandas", "polars"):
            check_names(X)
            check_numeric(X)
        array = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_sparse="csr" if sparse else False,
        )
        columns = [name_to_keep(name) for name in X.columns] if container in ("pandas", "polars") else None
        kind = Kind(container, array.dtype.name, getattr(X, "index", None), columns)
    check_finite(array, column_names(estimator), largest)
    # torch knows no negative strides, which a reversed view has.
    is_reversed = isinstance(array, np.ndarray) and min(array.strides) < 0
    return array.copy() if is_reversed else array, kind


def read_weights(sample_weight: Any, n_rows: int) -> Tensor | None:
    """Row weights (n,), or None when all are 1."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        weight = torch.full((n_rows,), float(sample_weight), dtype=torch.float64)
    else:
        try:
            weight = torch.as_tensor(np.array(sample_weight, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(f"sample_weight must hold numbers, one per row: {error}") from None
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {tuple(weight.shape)}, but X has {n_rows} rows; give one weight per row"
        )
    if not weight.isfinite().all():
        raise ValueError("sample_weight holds NaN or infinity; give finite weights, 0 to leave a row out")
    if (weight < 0).any():
        raise ValueError(f"sample_weight has a negative entry, {float(weight.min())}; weights are counts, 0 or more")
    heaviest = float(weight.max())
    if not heaviest:
        raise ValueError("sample_weight is zero for all rows; at least one row must count")
    if not 1 / HEAVIEST <= heaviest <= HEAVIEST:
        raise ValueError(
            f"sample_weight reaches {heaviest}; weights are counts, and the largest must be between {1 / HEAVIEST:g} "
            f"and {HEAVIEST:g}: rescale them, such as sample_weight / max(sample_weight)"
        )
    # Beside the heaviest row, a row of so little weight changes no digit of any sum.
    weight = torch.where(weight < heaviest / HEAVIEST, 0.0, weight)
    return None if bool((weight == 1).all()) else weight


def check_table(X: Any) -> None:
    """An error for images and other shapes than (n, d); scikit-learn reports what is left."""
    shape = tuple(X.shape) if hasattr(X, "shape") else np.shape(X) if isinstance(X, list) else None
    if shape is not None and len(shape) > 2:
        raise ValueError(
            f"X has shape {shape}, and this model takes rows and features (n, d); images become rows by "
            "X.reshape(len(X), -1)"
        )
    if isinstance(X, Tensor) and X.ndim != 2:
        raise ValueError(f"X has shape {shape}; expected rows and features (n, d): reshape it")


def check_names(frame: Any) -> None:
    """A data frame must have columns, each with a name of its own."""
    if not frame.shape[1]:
        raise ValueError(f"X has {frame.shape[0]} rows and 0 columns; give at least one of each")
    twice = [name for name, count in Counter(map(column_name, frame.columns)).items() if count > 1]
    if twice:
        raise ValueError(f"X has more than one column of the name {', '.join(map(shown, twice))}; rename them")


def column_name(name: Any) -> str | int:
    return int(name) if isinstance(name, Integral) else str(name)


def name_to_keep(name: Any) -> Any:
    """A name as a frame has it, where a file can hold that."""
    kept = isinstance(name, (float, bytes, date)) and name == name
    return tuple(map(name_to_keep, name)) if isinstance(name, tuple) else name if kept else column_name(name)


def shown(name: str | int) -> str:
    """A column's name in a message: quoted, or its number."""
    return repr(name) if isinstance(name, str) else str(name)


def column_names(estimator: BaseEstimator) -> list[str]:
    """Names for messages: the data frame's, or the column's number."""
    names = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    return [repr(str(name)) if isinstance(name, str) else str(name) for name in names]


def check_numeric(frame: Any) -> None:
    """Every column must be a number; polars and pandas both name their types."""
    bad = []
    for number, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        kind = str(dtype).lower()
        # Dates convert to numbers without a word, nanoseconds that nobody means.
        usable = not any(word in kind for word in ("date", "time", "duration"))
        if usable and not any(word in kind for word in ("int", "float", "bool", "decimal")):
            try:
                np.asarray(frame.iloc[:, number] if hasattr(frame, "iloc") else frame[:, number], dtype=np.float64)
            except (TypeError, ValueError):
                usable = False
        if not usable:
            cell = first_text(frame.iloc[:, number]) if hasattr(frame, "iloc") else ""
            bad.append(f"{str(name)!r} ({dtype}{cell})")
    if bad:
        raise ValueError(
            f"X has columns that are not numbers: {', '.join(bad)}; encode them as numbers, leave cells empty where "
            "they are missing, or drop the column"
        )


def first_text(column: Any) -> str:
    """The first cell that is not a number, where most are."""
    import pandas as pd

    rows = np.flatnonzero(pd.to_numeric(column, errors="coerce").isna() & column.notna())
    return f", first {column.iloc[rows[0]]!r} in row {rows[0]}" if 0 < len(rows) < len(column) else ""


def check_finite(array: Any, names: list[str], largest: float = np.inf) -> None:
    """An error for infinity and for values beyond `largest`, the most that a model can square."""
    is_sparse = issparse(array)
    values: np.ndarray = array.data if is_sparse else array
    # One product tells in one pass that all is well; NaN or a sum that overflows asks for a closer look.
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(flat, flat)):
            return
        beyond = np.abs(values) > largest if largest < np.inf else np.isinf(values)
    if beyond.any():
        where = int(np.flatnonzero(beyond)[0])
        row, column = divmod(where, array.shape[1])
        if is_sparse:
            row, column = int(np.searchsorted(array.indptr, where, side="right")) - 1, int(array.indices[where])
        value, place = values.flat[where], f"row {row}, column {names[column]}"
        if np.isinf(value):
            raise ValueError(
                f"X contains infinity, first in {place}; replace it by NaN to treat it as missing, or drop the row"
            )
        raise ValueError(
            f"X contains {value:g} in {place}, too large to square; rescale it, or replace it by NaN if it is a mistake"
        )


def check_columns(values: np.ndarray, names: list[str]) -> None:
    """Every column must have something to learn from."""
    # An empty column is empty in the first row: all others need no second look.
    suspects = np.flatnonzero(np.isnan(values[0]))
    empty = [names[column] for column in suspects if np.isnan(values[:, column]).all()]
    if empty:
        raise ValueError(f"X has no observed value in column {', '.join(empty)}; drop it: nothing can be learnt of it")


def check_spread(values: np.ndarray, names: list[str]) -> None:
    """An error for a column that varies by too little to be squared."""
    # A column that varies by so little is near 0 in every row, the first included: floats are not as fine elsewhere.
    for column in np.flatnonzero(~(np.abs(values[0]) > SMALLEST / np.finfo(np.float64).eps)):
        spread = np.fmax.reduce(values[:, column]) - np.fmin.reduce(values[:, column])
        if 0 < spread < SMALLEST:
            raise ValueError(
                f"X varies by {spread:g} in column {names[column]}, too small to square; rescale it, such as "
                f"X / {spread:.0e}"
            )
