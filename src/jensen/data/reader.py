"""Rows, weights and columns as estimators need them: scikit-learn's bookkeeping around the one reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import validate_data
from torch import Tensor

from jensen.data.cells import Cells, cells_of_numbers, check_finite, read_frame
from jensen.data.codes import warn_of_unseen
from jensen.data.columns import Columns
from jensen.data.container import (
    Kind,
    Table,
    as_array,
    is_frame,
    names_in,
)
from jensen.data.names import column_name, shown
from jensen.data.refuse import check_container, check_no_text

# Squares of values outside these, and sums of them, leave the range of float64.
SMALLEST, LARGEST = 1e-150, 1e153
# Weights between this and its inverse survive single precision; lighter rows than the heaviest by this count as 0.
HEAVIEST = 1e30


def read_table(estimator: BaseEstimator, X: Table, *, reset: bool, largest: float = LARGEST) -> tuple[Tensor, Kind]:
    """Rows (n, d) as float64, NaN where missing, and their kind; checked against what the estimator was fitted on.

    The tensor may share memory with X: it is not for writing.
    """
    array, kind = read_array(estimator, X, reset=reset, largest=largest)
    # A read-only memory map would make torch warn about writes that never come.
    return torch.from_numpy(array.astype(np.float64, copy=not array.flags.writeable)), kind


def read_array(
    estimator: BaseEstimator, X: Table, *, reset: bool, sparse: bool = False, largest: float = LARGEST
) -> tuple[Any, Kind]:
    """The same rows in their own floating type, as an array, or where `sparse` allows it as a CSR matrix.

    Values above the largest are refused, as infinity always is.
    """
    other = "" if is_regressor(estimator) else "NaiveBayes" if is_classifier(estimator) else "Mixture"
    or_else = f"; or fit a {other}, whose columns may hold text" if other else ""
    cells = read_rows(estimator, X, reset=reset, sparse=sparse).with_numbers_only(or_else)
    check_finite(cells, largest, known_names(estimator))
    return cells.numbers, cells.kind


def read_rows(estimator: BaseEstimator, X: Table, *, reset: bool, sparse: bool = False) -> Cells:
    """Rows (n, d) as `Cells`, whose values are not checked yet; the estimator gets or compares its columns' names."""
    if is_frame(X) and not has_sparse_columns(X):
        X = X if reset else with_columns_left_out(estimator, X)
        cells = read_frame(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if not len(cells.numbers):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={cells.numbers.shape}) while a minimum of 1 is required."
            )
        return cells
    check_container(X)
    check_shape(X)
    if isinstance(X, Tensor):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        dtype = torch.float32 if X.dtype == torch.float32 else torch.float64
        # Sums need float64, which not every device has: the work is done on the CPU, results go back to the device.
        values = X.detach().to("cpu", dtype).numpy()
        return cells_of_numbers(values, Kind("torch", values.dtype.name, device=str(X.device)))
    if isinstance(X, np.ma.MaskedArray):
        X = as_array(X)
    takes_text = bool(estimator.__sklearn_tags__().input_tags.string)
    if isinstance(X, np.ndarray) and X.dtype.kind in "US":
        check_no_text(X, takes_text)
    try:
        array: Any = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_sparse="csr" if sparse else False,
        )
    except (TypeError, ValueError):
        check_no_text(X, takes_text)
        raise
    is_matrix: bool = issparse(array)
    if is_matrix and not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    # torch knows no negative strides, which a reversed view has.
    is_reversed = isinstance(array, np.ndarray) and min(array.strides) < 0
    return cells_of_numbers(array.copy() if is_reversed else array, Kind("numpy", array.dtype.name))


def with_columns_left_out(estimator: BaseEstimator, frame: Any) -> Any:
    """A data frame with the columns that the model leaves out, such as identifiers: empty, where the frame lacks them.

    A sample has none of them, for example. Frames with other columns than the model's stay as they are.
    """
    columns = getattr(estimator, "columns_", None)
    given = {column_name(name) for name in names_in(frame)}
    absent = [name for name in getattr(columns, "left_out", ()) if name not in given]
    if columns is None or not absent or len(given) + len(absent) != len(columns.table_names):
        return frame
    return with_empty_columns(frame, {columns.table_names.index(name): name for name in absent})


def with_empty_columns(frame: Any, names: Mapping[int, Any]) -> Any:
    """A data frame with columns of missing numbers at these places, in rising order."""
    if hasattr(frame, "iloc"):
        copy = frame.copy(deep=False)
        for place, name in names.items():
            copy.insert(place, name, np.nan)
        return copy
    order = names_in(frame)
    for place, name in names.items():
        order.insert(place, name)
    empty = [nw.lit(None, nw.Float64).alias(name) for name in names.values()]
    return nw.from_native(frame, eager_only=True).with_columns(*empty).select(order).to_native()


def has_sparse_columns(frame: Any) -> bool:
    """Whether all columns of a pandas frame are sparse, which scikit-learn reads as a sparse matrix."""
    types = {str(dtype).partition("[")[0] for dtype in frame.dtypes} if hasattr(frame, "sparse") else set()
    return types == {"Sparse"}


def check_shape(X: Any) -> None:
    """An error for images and other shapes than (n, d); scikit-learn reports what is left."""
    shape = tuple(X.shape) if hasattr(X, "shape") else np.shape(X) if isinstance(X, list) else None
    if shape is not None and len(shape) > 2:
        raise ValueError(
            f"X has shape {shape}, and this model takes rows and features (n, d); images become rows by "
            "X.reshape(len(X), -1)"
        )
    if isinstance(X, Tensor) and X.ndim != 2:
        raise ValueError(f"X has shape {shape}; expected rows and features (n, d): reshape it")


def beside_model(
    estimator: BaseEstimator, x: Any, kind: Kind, trained: Kind, *, may_differ: bool = True
) -> tuple[Any, Kind]:
    """Rows of the columns that vary in the `trained` kind of table, and a kind that has the others beside them.

    Another value in a constant column is a warning, or an error unless it `may_differ`.
    """
    constants = trained.constants
    if constants is None:
        return x, kind
    x, given, names = constants.narrowed(x, 1), x, known_names(estimator)
    # Of a sparse matrix, which may have thousands of empty columns, those that have anything to tell.
    used = constants.differing(given) if issparse(given) else constants
    if used is None:
        return x, replace(kind, constants=constants)
    constants, beside = used, used.beside(given)
    unseen = constants.unseen(beside, is_single="float32" in (kind.dtype, trained.dtype))
    if not may_differ:
        constants.refuse(beside, unseen, column_names(estimator))
    own = [names[j] for j in constants.columns.tolist()]
    warn_of_unseen(cells_of_numbers(beside.numpy(), kind), range(len(own)), own, unseen.numpy())
    return x, replace(kind, constants=constants, beside=beside, unseen=unseen)


def known_names(estimator: BaseEstimator) -> Sequence[Any]:
    """The names of the data frame that the estimator was fitted on, or the columns' numbers."""
    names: Sequence[Any] = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    return names


def column_names(estimator: BaseEstimator) -> list[str]:
    """The same as messages show them."""
    return [shown(name) for name in known_names(estimator)]


def read_weights(sample_weight: Any, n_rows: int) -> Tensor | None:
    """Row weights (n,), or None when all are 1."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        weight = torch.full((n_rows,), float(sample_weight), dtype=torch.float64)
    else:
        try:
            given = sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight
            weight = torch.as_tensor(np.array(given.numpy() if isinstance(given, Tensor) else given, dtype=np.float64))
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


def check_columns(values: np.ndarray, names: list[str]) -> None:
    """An error for a column without observed values."""
    # An empty column is empty in the first row.
    suspects = np.flatnonzero(np.isnan(values[0]))
    empty = [names[column] for column in suspects if np.isnan(values[:, column]).all()]
    if empty:
        raise ValueError(
            f"X has no observed value in column {', '.join(empty)}; drop it: there is nothing to learn from"
        )


def check_spread(values: np.ndarray, names: list[str]) -> None:
    """An error for a column that varies by too little to be squared."""
    # A column that varies by so little is near 0 in every row, the first included: floats are not as fine elsewhere.
    near = np.flatnonzero(~(np.abs(values[0]) > SMALLEST / np.finfo(np.float64).eps))
    # A pass over all columns is faster than one over each of many.
    some = values if 2 * len(near) > values.shape[1] else values[:, near]
    spreads = np.fmax.reduce(some) - np.fmin.reduce(some)
    for column, spread in zip(near, spreads[near] if some is values else spreads, strict=True):
        if 0 < spread < SMALLEST:
            raise ValueError(
                f"X varies by {spread:g} in column {names[column]}, too small to square; rescale it, such as "
                f"X / {spread:.0e}"
            )


def check_spread_of(columns: Columns, codes: Tensor) -> None:
    """The same for the numbers among columns with these codes (n, d)."""
    numbers = (~columns.has_levels).nonzero().flatten().tolist()
    if codes.layout == torch.strided and numbers:
        check_spread(codes[:, numbers].numpy(), [shown(columns.names[j]) for j in numbers])


def check_values(values: np.ndarray, names: Sequence[str], model: str, *, is_count: bool) -> None:
    """An error for negative numbers and, of counts, for fractions."""
    for wrong, what, wanted in (
        (values < 0, "Negative values in data passed to", "numbers of 0 or more"),
        (
            is_count & (values != np.rint(values)) & ~np.isnan(values),
            "Fractions in data passed to",
            "counts 0, 1, 2, ...",
        ),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"{what} {model}: X holds {values[row, column]:g} in row {row}, column {names[column]}, but it is for "
                f"{wanted}; drop the column, or choose another model"
            )
