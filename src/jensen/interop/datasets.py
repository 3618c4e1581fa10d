"""Tables in files, by suffix: .csv and .tsv with a header line, .parquet, .npy.

Text and Parquet give a data frame, npy an array; what is missing is NaN.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "as_frame",
    "fill_cells",
    "is_text",
    "known_suffix",
    "need_table",
    "read_cells",
    "read_dataset",
    "select_features",
    "split_columns",
    "write_dataset",
]

Table = pd.DataFrame | np.ndarray

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet", ".npy")
# Before pandas 3.1 the usual parser of numbers may be off by a bit, and imputed files would differ from the read ones.
EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


def read_dataset(path: str | os.PathLike[str], *, images: bool = False) -> Table:
    """The table in a file: empty cells and NA are NaN, and an npy file of one dimension is one column.

    With `images` an npy file may also hold (n, h, w) or (n, c, h, w).

    Example:
        >>> import tempfile, numpy as np
        >>> from jensen.interop.datasets import read_dataset, write_dataset
        >>> path = tempfile.mkdtemp() + "/x.csv"
        >>> write_dataset(path, np.array([[1.0, np.nan]]))
        >>> read_dataset(path).columns.tolist()
        ['x0', 'x1']
    """
    table: Table
    suffix = existing(path)
    if suffix == ".npy":
        table = read_npy(path)
        if not images:
            need_table(path, table)
    elif suffix == ".parquet":
        table = read_parquet(path)
    else:
        table = read_text(path)
        check_header(path, table)
    if not table.size:
        raise ValueError(f"{path} is empty: it has {len(table)} rows and {table.shape[1]} columns")
    return table


def read_cells(path: str | os.PathLike[str]) -> Table:
    """The same rows and columns, but every cell of a text file as it is written there."""
    existing(path)
    return read_text(path, dtype=str, na_filter=False) if is_text(path) else read_dataset(path, images=True)


def write_dataset(path: str | os.PathLike[str], table: Any) -> None:
    """Write a data frame or an array; columns without names are called x0, x1, ..."""
    suffix = known_suffix(path)
    if suffix == ".npy":
        write_npy(path, np.asarray(table))
    elif suffix == ".parquet":
        need_pyarrow(path)
        as_frame(table).to_parquet(path, engine="pyarrow")
    else:
        as_frame(table).to_csv(path, index=False, sep=SEPARATORS[suffix])


def as_frame(table: Any) -> pd.DataFrame:
    """A data frame of a data frame or an array."""
    if isinstance(table, pd.DataFrame):
        return table
    if table.ndim > 2:
        raise ValueError(f"rows of shape {table.shape[1:]} are no table; write them to an .npy file with --output")
    return pd.DataFrame(table, columns=[f"x{i}" for i in range(table.shape[1])])


def split_columns(
    table: Table,
    *,
    label: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    label_is_number: bool = False,
) -> tuple[Table, np.ndarray | None, np.ndarray | None]:
    """X, y and sample_weight of a table or images; columns are given by name, those of an array by number.

    Label and weight may also be files with one value per row. A label is a class, or where `label_is_number` a target
    of a regression.
    """
    y = weights = None
    if label is not None:
        column, source = find_column(table, label)
        y = numbers_of(column, source, "numbers to predict") if label_is_number else labels_of(column, source)
    if weight is not None:
        weights = numbers_of(*find_column(table, weight), "weights")
    taken = [column_number(table, name) for name in drop]
    taken += [column_number(table, name) for name in (label, weight) if name is not None and not is_file(table, name)]
    if not taken:
        return table, y, weights
    kept = [i for i in range(table.shape[1]) if i not in taken]
    return table.iloc[:, kept] if isinstance(table, pd.DataFrame) else table[:, kept], y, weights


def is_file(table: Table, name: str) -> bool:
    """Whether a name is that of a file rather than of a column, which comes first."""
    return name not in column_texts(table) and Path(name).is_file()


def find_column(table: Table, name: str) -> tuple[pd.Series[Any], str]:
    """A value per row, from a column of the table or a file beside it, and what to call it."""
    if not is_file(table, name):
        number = column_number(table, name)
        return pd.DataFrame(table).iloc[:, number], f"column {name!r}"
    values = read_column(name)
    if len(values) != len(table):
        has_header = Path(name).suffix.lower() in SEPARATORS
        hint = f" below a first line with a name (its own is {values.name!r})" if has_header else ""
        raise ValueError(
            f"{name} has {len(values)} values, but there are {len(table)} rows; give one value for each row{hint}"
        )
    return values, name


def read_column(path: str | os.PathLike[str]) -> pd.Series[Any]:
    """The only column of a file: a table of one, or where the name ends in .txt one value per line and no name."""
    suffix = Path(path).suffix.lower()
    frame: pd.DataFrame
    if suffix == ".txt":
        # A name of our own, as the first line may be empty; no line has the separator.
        options: dict[str, Any] = dict(sep="\0", names=["label"], skip_blank_lines=False, **EXACT)
        frame = pd.read_csv(path, **options)
    else:
        # Texts are no rows of a model, but may be labels.
        frame = pd.DataFrame(read_npy(path, kinds="biufU") if suffix == ".npy" else read_dataset(path))
    if frame.shape[1] != 1:
        raise ValueError(f"{path} has {frame.shape[1]} columns; give a file of one column, with one value for each row")
    return frame[frame.columns[0]]


def column_texts(table: Table) -> list[str]:
    if table.ndim > 2:
        return []
    return [str(name) for name in (table.columns if isinstance(table, pd.DataFrame) else range(table.shape[1]))]


def column_number(table: Table, column: str) -> int:
    names = column_texts(table)
    if table.ndim > 2:
        raise ValueError(
            f"there is no column {column!r}: images of shape {table.shape[1:]} have no columns; labels and weights may "
            "be files of one value per image, and this one is not there"
        )
    if column not in names:
        raise ValueError(f"there is no column {column!r}; there are {', '.join(names)}")
    return names.index(column)


def labels_of(values: pd.Series[Any], source: str) -> np.ndarray:
    """Labels for `fit`; whole numbers stay whole where empty cells have made them floats."""
    if (values.isna() | (values == -1)).all():
        raise ValueError(f"{source} has no label in any row; leave the label out to fit without")
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        if not (values == -1).any():
            # The -1 is ours: there is no class for the library to warn about.
            warnings.filterwarnings("ignore", message="y holds only -1 and 1")
        values = values.fillna(-1).astype(np.int64)
    return values.to_numpy()


def numbers_of(values: pd.Series[Any], source: str, what: str) -> np.ndarray:
    try:
        return values.to_numpy(dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source} does not hold {what}: {error}") from None


def select_features(estimator: Any, table: Table) -> Table:
    """The columns that a fitted estimator knows, in its order; without names there must be as many as it has."""
    names = getattr(estimator, "feature_names_in_", None)
    if table.ndim > 2:
        # Which shape it knows the model says itself.
        return table
    if names is not None and isinstance(table, pd.DataFrame):
        absent = [repr(name) for name in names if name not in table.columns]
        if absent:
            found = ", ".join(map(str, table.columns))
            raise ValueError(
                f"there is no column {', '.join(absent)}, which the model was fitted on; there are {found}"
            )
        return table[list(names)]
    if table.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"there are {table.shape[1]} columns, but the model was fitted on {estimator.n_features_in_}; "
            "columns without names must be the same ones"
        )
    return np.asarray(table) if names is None else pd.DataFrame(table, columns=names)


def fill_cells(cells: Table, X: Table, filled: Any) -> Any:
    """A copy of `cells`, as of `read_cells`, where only what is missing in X is taken from `filled`."""
    if not isinstance(cells, pd.DataFrame):
        return filled
    result = cells.copy()
    names = X.columns if isinstance(X, pd.DataFrame) else cells.columns
    values = filled if isinstance(filled, pd.DataFrame) else pd.DataFrame(filled, columns=names)
    values = values.set_axis(cells.index)
    holes = pd.DataFrame(np.asarray(pd.isna(X)), columns=names, index=cells.index)
    for name in names[holes.any()]:
        is_written = pd.api.types.is_string_dtype(cells[name])
        result[name] = cells[name].where(~holes[name], values[name].astype(str)) if is_written else values[name]
    return result


def is_text(path: str | os.PathLike[str]) -> bool:
    return known_suffix(path) in SEPARATORS


def known_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix, or an error if no table has it."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} has the suffix {suffix!r}; give a file that ends in {', '.join(SUFFIXES)}")
    return suffix


def existing(path: str | os.PathLike[str]) -> str:
    """The suffix of a file that is there."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return known_suffix(path)


def separator_of(path: str | os.PathLike[str]) -> str:
    """What stands between cells: a semicolon where the first line of a .csv has no comma but some of these."""
    usual = SEPARATORS[known_suffix(path)]
    with open(path, encoding="utf-8", errors="replace") as file:
        header = file.readline()
    return ";" if usual == "," and "," not in header and ";" in header else usual


def read_text(path: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
    options = dict(sep=separator_of(path), index_col=False, low_memory=False, **EXACT, **options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame: pd.DataFrame = pd.read_csv(path, **options)
            if frame.shape[1] == 1:
                # In a file of one column a blank line is an empty cell.
                frame = pd.read_csv(path, skip_blank_lines=False, **options)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty: it has no header line") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{path} has more cells in a row than names in its first line; name every column") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    return frame


def check_header(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Column names that are numbers may be a row of data, unless they just count."""
    names = [str(name) for name in frame.columns]
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return
    if numbers != [*range(len(names))]:
        warnings.warn(
            f"the first line of {path} is taken as column names, but holds only numbers ({', '.join(names[:3])}, ...); "
            "add a line of names if it is data",
            UserWarning,
            stacklevel=3,
        )


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    need_pyarrow(path)
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def need_pyarrow(path: str | os.PathLike[str]) -> None:
    try:
        import_module("pyarrow")
    except ImportError:
        raise ImportError(f"{path}: Parquet files need pyarrow: pip install jensen[scale]") from None


def read_npy(path: str | os.PathLike[str], kinds: str = "biuf") -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} is an npz archive; save one array with numpy.save")
    if array.dtype.kind not in kinds:
        raise ValueError(f"{path} holds {array.dtype} values, which are not real numbers; save it as floats")
    if array.ndim not in (1, 2, 3, 4):
        raise ValueError(f"{path} has shape {array.shape}; save rows and features (n, d), or one column (n,)")
    return array[:, None] if array.ndim == 1 else array


def need_table(path: str | os.PathLike[str], table: Table) -> None:
    """An error where images are given to a model of tables."""
    if table.ndim > 2:
        raise ValueError(f"{path} has shape {table.shape}; save rows and features (n, d), or one column (n,)")


def write_npy(path: str | os.PathLike[str], values: np.ndarray) -> None:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} cannot hold text, npy is for numbers; write a .csv, .tsv or .parquet file")
    # A name would get a second suffix when its own is in capitals; an open file keeps it.
    with open(path, "wb") as file:
        np.save(file, values, allow_pickle=False)
