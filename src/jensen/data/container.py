"""Containers of rows: numpy, torch, pandas, polars, pyarrow and lists, and results in the container that came in.

narwhals reads and writes data frames. The types of pandas have names of their own, which narwhals does not keep: they
are written here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeAlias, Union

import narwhals.stable.v2 as nw
import numpy as np
import torch
from narwhals.stable.v2.typing import IntoDataFrame
from scipy.sparse import sparray, spmatrix
from torch import Tensor
from torch.utils.data import Dataset, Subset

from jensen.data.constants import Constants
from jensen.data.names import name_to_keep
from jensen.data.refuse import check_container, check_no_text

# Rows as a user may give them.
Table: TypeAlias = Union[np.ndarray, Tensor, Sequence[Any], "Dataset[Any]", spmatrix, sparray, IntoDataFrame]

FRAMES = ("pandas", "polars", "pyarrow")
CONTAINERS = ("numpy", "torch", *FRAMES)
ARROW_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}


@dataclass(frozen=True)
class Kind:
    """What the user gave, and so what they get back.

    Args:
        container: "numpy", "torch", "pandas", "polars" or "pyarrow".
        dtype: the name of the floating type, "float32" or "float64".
        index: a pandas index, for results that belong to the same rows.
        columns: the names of a data frame's columns.
        device: where a tensor is.
        constants: the columns that are beside the model, because they have one value; None if all vary.
        beside: these columns (n, c) of the rows, for results that belong to the same rows.
        unseen: which of their entries (n, c) hold another value than the constant.
    """

    container: str
    dtype: str
    index: Any = None
    columns: list[Any] | None = None
    device: str = "cpu"
    constants: Constants | None = None
    beside: Tensor | None = None
    unseen: Tensor | None = None

    @property
    def is_frame(self) -> bool:
        return self.container in FRAMES

    def of_other_rows(self) -> Kind:
        """The same without what belongs to the rows it came with."""
        return replace(self, index=None, beside=None, unseen=None)

    def narrow(self, value: Any, *axes: int) -> Any:
        """The entries of the columns that vary, along these axes of a tensor, an array or a sparse matrix."""
        return value if self.constants is None else self.constants.narrowed(value, *axes)

    def wide(self, tensor: Tensor, *axes: int, fill: float | None = None) -> Tensor:
        """All columns along these axes; a column beside the model has its constant, or `fill`."""
        return tensor if self.constants is None else self.constants.widened(tensor, *axes, fill=fill)

    def scores(self, tensor: Tensor) -> Any:
        """Nats (n,) of the model, and of the columns beside it."""
        if self.constants is not None and self.unseen is not None:
            tensor = tensor + self.constants.log_unseen(self.unseen)
        return self.values(tensor)

    def completed(self, tensor: Tensor) -> Any:
        """The rows that the user gave, whose missing entries the model has filled."""
        if self.constants is None or self.beside is None:
            return self.table(tensor)
        wide = self.wide(tensor, 1).index_copy_(1, self.constants.columns, self.constants.completed(self.beside))
        return replace(self, constants=None).table(wide)

    def values(self, tensor: Tensor) -> Any:
        """One value, or a vector of them, per row: a tensor for tensors, else an array."""
        if tensor.is_floating_point():
            dtype = getattr(torch, self.dtype)
            if torch.finfo(dtype).max < torch.finfo(tensor.dtype).max:
                # A finite number stays finite, such as the score of a row far away: -inf says that it is impossible.
                ends = torch.finfo(dtype)
                tensor = torch.where(tensor.isinf(), tensor, tensor.clamp(ends.min, ends.max))
            tensor = tensor.to(dtype)
        return tensor.to(self.device) if self.container == "torch" else tensor.cpu().numpy()

    def table(self, tensor: Tensor) -> Any:
        """Rows with the features of the input: a data frame for a data frame."""
        values = self.values(self.wide(tensor, 1))
        if self.container == "pandas":
            import pandas as pd

            index = self.index if self.index is not None and len(self.index) == len(values) else None
            return pd.DataFrame(values, columns=self.columns, index=index)
        if self.is_frame:
            names = None if self.columns is None else [str(name) for name in self.columns]
            # narwhals before 2.23 lets polars read a square array that is stored by columns as transposed.
            rows = np.ascontiguousarray(values)
            return nw.from_numpy(rows, schema=names, backend=backend_of(self.container)).to_native()
        return values


def is_frame(X: Any) -> bool:
    return bool(nw.dependencies.is_into_dataframe(X))


def to_take_apart(X: Any) -> Any:
    """A table for pages and comparisons, which take it apart: pandas for pyarrow; what is no table is an error."""
    check_container(X)
    if isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind in "OUS"):
        check_no_text(X, takes_text=True)
    return X.to_pandas() if hasattr(X, "column_names") and hasattr(X, "to_pandas") else X


def names_in(frame: Any) -> list[Any]:
    """The names of a data frame's columns as it has them; those of pandas may be no texts, or not unique."""
    if hasattr(frame, "column_names"):  # narwhals refuses names that occur twice in pyarrow, without saying which
        return list(frame.column_names)
    return list(frame.columns if hasattr(frame, "iloc") else nw.from_native(frame, eager_only=True).columns)


def kind_of_frame(frame: nw.DataFrame[Any], dtype: str) -> Kind:
    container = frame.implementation.value
    columns = [name_to_keep(name) for name in frame.columns]
    return Kind(container if container in FRAMES else "numpy", dtype, nw.maybe_get_index(frame), columns)


def backend_of(container: str) -> Any:
    return nw.Implementation.from_backend(container)  # type: ignore[arg-type]


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def n_entries(X: Any) -> int:
    """How many entries a row has."""
    return math.prod(X.shape[1:] if hasattr(X, "shape") else np.shape(X)[1:])


def take(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, or entries of a vector, of any kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, Dataset):
        return Subset(X, rows.tolist())
    if is_frame(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def as_array(values: Any) -> np.ndarray:
    """A tensor, Dataset, list or data frame as an array; NaN where an array is masked. Memory is shared if possible."""
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
    return places_of_items(dataset, numbers, [0])[0]


def places_of_items(dataset: Any, numbers: np.ndarray, places: Sequence[int]) -> list[np.ndarray]:
    """What stands at some places of the tuples of a torch Dataset, as an array (b, ...) each."""
    wanted = numbers.tolist()
    items = dataset.__getitems__(wanted) if hasattr(dataset, "__getitems__") else [dataset[i] for i in wanted]
    tuples = [item if isinstance(item, (tuple, list)) else (item,) for item in items]
    return [np.stack([np.asarray(own[place]) for own in tuples]) for place in places]


# Missing values filled


def fill_matrix(X: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    """A copy of an array or tensor with the cells where `missing` (n, d) taken from `values`, and all others as is."""
    if isinstance(X, Tensor):
        table, where = X.detach().clone(), torch.from_numpy(missing).to(X.device)
        table[where] = torch.from_numpy(values[missing]).to(X.device, X.dtype)
        return table
    array = np.array(as_array(X))
    array[missing] = values[missing]
    return array


def fill_frame(X: Any, missing: np.ndarray, values: Mapping[int, np.ndarray]) -> Any:
    """The same for a data frame, with {column: values (n,)} of the columns that have missing cells."""
    if hasattr(X, "iloc"):
        copy = X.copy()
        for j, cells in values.items():
            copy.isetitem(j, filled_pandas(X.iloc[:, j], missing[:, j], cells))
        return copy
    frame = nw.from_native(X, eager_only=True)
    return frame.with_columns(*(filled(frame[:, j], missing[:, j], cells) for j, cells in values.items())).to_native()


def completed_frame(X: Any, completed: Any) -> Any:
    """X with its missing cells taken from a table of numbers with the same columns.

    A data frame keeps the types of its columns, unless they cannot hold the numbers; columns without missing cells are
    the same. Other containers have the type of the numbers.
    """
    if not is_frame(X):
        return completed
    frame = nw.from_native(X, eager_only=True)
    missing = np.stack([is_missing(frame[:, j]) for j in range(frame.shape[1])], 1)
    values = nw.from_native(completed, eager_only=True).to_numpy()
    return fill_frame(X, missing, {j: values[:, j] for j in np.flatnonzero(missing.any(0)).tolist()})


def is_missing(column: nw.Series[Any]) -> np.ndarray:
    """Which cells (n,) are null or NaN, which polars and pyarrow tell apart."""
    missing = column.is_null().to_numpy()
    return missing | np.isnan(column.to_numpy()) if column.dtype.is_float() else missing


def filled(column: nw.Series[Any], missing: np.ndarray, values: np.ndarray) -> nw.Series[Any]:
    backend, dtype = column.implementation, column.dtype
    cells = values[missing].tolist()
    is_whole = dtype.is_integer() and all(isinstance(value, int) for value in cells)
    new = nw.new_series(column.name, cells, dtype if is_whole else None, backend=backend)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        new = new.cast(nw.String)
        if isinstance(dtype, nw.Enum) and not {*new} <= {*dtype.categories}:
            column = column.cast(nw.String)
    elif dtype == nw.Unknown or new.dtype == nw.String or (dtype == nw.Boolean and new.dtype != nw.Boolean):
        column = column.cast(new.dtype)
    elif new.dtype.is_float() and not dtype.is_float():
        column = column.cast(nw.Float64)  # a mean of whole numbers is not one
    place = np.zeros(len(values), dtype=np.int64)
    place[missing] = np.arange(len(new))
    return new.cast(column.dtype)[place].zip_with(nw.new_series("missing", missing, backend=backend), column)


def filled_pandas(column: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    import pandas as pd

    types = pd.api.types
    cells: Any = np.array(column) if isinstance(column.dtype, pd.SparseDtype) else column.array.copy()
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = set(column.cat.categories)
        cells = cells.add_categories([value for value in pd.unique(values[missing]).tolist() if value not in known])
    elif values.dtype.kind == "f" and column.dtype == object and types.infer_dtype(column) == "boolean":
        cells = column.astype("boolean").array.astype("Float64")
    elif values.dtype.kind == "f" and (types.is_integer_dtype(column.dtype) or types.is_bool_dtype(column.dtype)):
        # A mean of whole numbers, or of truth values, is not one.
        cells = cells.astype("double[pyarrow]" if isinstance(column.dtype, pd.ArrowDtype) else "Float64")
    elif types.is_numeric_dtype(column.dtype) and values.dtype == object:
        cells = cells.astype(object)
    elif types.is_float_dtype(column.dtype) and values.dtype.kind == "f":
        values = values.astype(numpy_type(str(column.dtype)))  # pandas refuses digits that a type does not hold
    elif values.dtype != object and is_text(column):
        values = values.astype(str)
    try:
        cells[missing] = values[missing]
    except (TypeError, ValueError):  # the type of the column cannot hold such values
        cells = cells.astype(object)
        cells[missing] = values[missing]
    return pd.Series(cells, index=column.index, dtype=cells.dtype)


def is_text(column: Any) -> bool:
    """Whether a column of pandas holds text; before pandas 3 its type is usually object."""
    import pandas as pd

    if column.dtype == object:
        return bool(pd.api.types.infer_dtype(column) == "string")
    return bool(pd.api.types.is_string_dtype(column.dtype))


# Columns of new data frames


def new_column(container: str, name: str, values: np.ndarray, dtype: str, known: tuple[Any, ...]) -> nw.Series[Any]:
    backend = backend_of(container)
    if not known and "Int" not in dtype:
        return nw.new_series(name, values, backend=backend)
    cells = [None if value != value else value for value in values.tolist()]
    chosen = nw.Enum(known) if dtype.startswith("Enum") else getattr(nw, dtype, None)
    if chosen is not None and "Int" in dtype and all(isinstance(value, int | None) for value in cells):
        return nw.new_series(name, cells, chosen, backend=backend)  # arrow guesses int64, which 2⁶³ is beyond
    column = nw.new_series(name, cells, backend=backend)
    return column if chosen is None else column.cast(chosen)


def pandas_type(dtype: str) -> Any:
    """The type of pandas with this name; that of a text in arrow would be pandas' own."""
    import pandas as pd

    if dtype == "string[pyarrow]":
        return pd.ArrowDtype(import_module("pyarrow").string())
    return pd.api.types.pandas_dtype(dtype)


def numpy_type(dtype: str) -> np.dtype[Any] | None:
    """The type of numpy for pandas' Int64, polars' Float32 or arrow's double, which have other names there."""
    name = dtype.lower().removesuffix("[pyarrow]")
    name = ARROW_NAMES.get(name, name) if dtype.endswith("[pyarrow]") else name
    return np.dtype(name) if re.fullmatch(r"(u?int|float)\d+", name) else None


def pandas_column(values: np.ndarray, dtype: str, known: tuple[Any, ...], index: Any) -> Any:
    import pandas as pd

    if "category" in dtype and known:
        return pd.Categorical(values, categories=list(known), ordered=dtype == "ordered category")
    # None would become False.
    lacks = dtype == "bool" and values.dtype != bool
    if not dtype or lacks or not (known or any(word in dtype.lower() for word in ("float", "double", "int"))):
        return values
    try:
        return pd.Series(values, index=index, dtype=pandas_type(dtype))
    except (TypeError, ValueError):  # a whole number or a truth value that is missing
        return values
