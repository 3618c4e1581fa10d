"""Data by name: files of tables, .npy, folders of images, data sets of scikit-learn.

Tables become a data frame, npy files and images an array; missing values are NaN.
Labels that are not a column (subfolders of images, targets of scikit-learn) are attached to the table.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jensen.files.images import read_folder
from jensen.files.npy import read_npy
from jensen.files.places import SEPARATORS, check_exists, is_embedded, no_column
from jensen.files.reading import Reading
from jensen.files.styles import PlainStyle, Style
from jensen.files.tables import Read, Table, read_file, read_with, report
from jensen.files.text import EXACT
from jensen.files.understood import Understood

# The key of `attrs` for labels that are attached to a table.
LABELS = "jensen.labels"


class Images(np.ndarray):
    """An array with `attrs`, like a data frame."""

    attrs: dict[str, Any]


def read_dataset(path: str | os.PathLike[str], *, images: bool = False, reading: Reading | None = None) -> Table:
    """Read a table as `read_file` does: empty cells and NA are NaN, and an npy file of one dimension is one column.

    With `images`, it may also be a folder of images, or an npy file of shape (n, h, w) or (n, c, h, w). The names
    digits, iris and wine are data sets of scikit-learn. Images in subfolders have the label "folder", data sets of
    scikit-learn the label "target".

    Example:
        >>> import tempfile, numpy as np
        >>> from jensen.files.datasets import read_dataset
        >>> from jensen.files.tables import write_dataset
        >>> path = tempfile.mkdtemp() + "/x.csv"
        >>> write_dataset(path, np.array([[1.0, np.nan]]))
        >>> read_dataset(path).columns.tolist()
        ['x0', 'x1']
    """
    table = read_rows(path, reading)
    check_rows(path, table)
    if not images:
        need_table(path, table)
    return table


def read_with_cells(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, reading: Reading | None = None
) -> Read:
    """A table or images, and the same rows with every cell of a file as it is written there.

    Args:
        columns: the columns of the second table, which must be one; all of them if not given.
        reading: how to read the file.
    """

    def choose(table: Table) -> list[int]:
        if columns is None:
            return [*range(table.shape[1])] if table.ndim == 2 else []
        need_table(path, table)
        return column_numbers(table, columns)

    if not (Path(path).is_dir() or is_embedded(path)):
        check_exists(path)
        read = read_with(path, reading or Reading(), choose)
        table: Table = read.table
        check_rows(path, read.table)
        report(read.understood)
        if not isinstance(read.table, np.ndarray):
            return read
    else:
        table = read_dataset(path, images=True)
    numbers = choose(table)
    cells = table if columns is None else pd.DataFrame(table).iloc[:, numbers]
    return Read(table, cells, Understood(len(table), {}, os.fspath(path)))


def read_rows(path: str | os.PathLike[str], reading: Reading | None = None) -> Table:
    if Path(path).is_dir():
        pixels, classes = read_folder(path)
        return pixels if classes is None else with_labels(pixels, "folder", classes)
    if is_embedded(path):
        return read_embedded(str(path))
    check_exists(path)
    return read_file(path, reading)


def check_rows(path: str | os.PathLike[str], table: Table) -> None:
    if not table.size:
        raise ValueError(f"{path} is empty: it has {len(table)} rows and {table.shape[1]} columns")


def read_embedded(name: str) -> Table:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    table = found.images if name == "digits" else pd.DataFrame(found.data, columns=found.feature_names)
    return with_labels(table, "target", found.target_names[found.target].tolist())


def with_labels(table: Table, name: str, labels: list[Any]) -> Table:
    """The same rows with labels attached."""
    out = table.view(Images) if isinstance(table, np.ndarray) else table
    # A list, because pandas compares `attrs` when it concatenates tables.
    out.attrs = {LABELS: {name: labels}}
    return out


def labels_with(table: Table) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = getattr(table, "attrs", {}).get(LABELS, {})
    return found


def split_columns(
    table: Table,
    *,
    label: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    label_is_number: bool = False,
) -> tuple[Table, np.ndarray | None, np.ndarray | None]:
    """X, y and sample_weight of a table or images. Columns are given by name, those of an array by number.

    Label and weight may also be files with one value per row, and the label may be attached to the table. A label is a
    class, or with `label_is_number` the target of a regression.
    """
    y = weights = None
    if label is not None:
        column, source = find_column(table, label)
        y = numbers_of(column, source, "numbers to predict") if label_is_number else labels_of(column, source)
    if weight is not None:
        weights = numbers_of(*find_column(table, weight), "weights")
    taken = column_numbers(table, drop)
    taken += [column_number(table, name) for name in (label, weight) if name in column_texts(table)]
    kept = [i for i in range(table.shape[1]) if i not in taken]
    if not isinstance(table, pd.DataFrame):
        rows = np.asarray(table)
        return rows[:, kept] if taken else rows, y, weights
    frame = table.iloc[:, kept]
    frame.attrs = {}
    return frame, y, weights


def column_numbers(table: Table, words: Sequence[str]) -> list[int]:
    """The numbers of columns given by name, or in an array by number. A word may hold several: a,b."""
    known = column_texts(table)
    names = [part for word in words for part in ([word] if word in known else word.split(","))]
    return [column_number(table, name) for name in names]


def find_column(table: Table, name: str) -> tuple[pd.Series[Any], str]:
    """A value per row from a column, from attached labels or from a file, and a name for messages."""
    if name not in column_texts(table) and name in labels_with(table):
        return pd.Series(labels_with(table)[name]), f"label {name!r}"
    if name in column_texts(table) or not Path(name).is_file():
        number = column_number(table, name)
        return pd.DataFrame(table).iloc[:, number], f"column {name!r}"
    values = read_column(name)
    if len(values) != len(table):
        has_header = Path(name).suffix.lower() in {*SEPARATORS} - {".txt"}
        hint = f" below a first line with a name (its own is {values.name!r})" if has_header else ""
        raise ValueError(
            f"{name} has {len(values)} values, but there are {len(table)} rows; give one value for each row{hint}"
        )
    return values, name


def read_column(path: str | os.PathLike[str]) -> pd.Series[Any]:
    """The only column of a file: a table with one column, or a .txt file with one value per line and no header."""
    suffix = Path(path).suffix.lower()
    frame: pd.DataFrame
    if suffix == ".txt":
        # The column gets a name, because the first line may be empty; no line contains the separator.
        options: dict[str, Any] = dict(sep="\0", names=["label"], skip_blank_lines=False, **EXACT)
        frame = pd.read_csv(path, **options)
    else:
        # Texts cannot be rows of a model, but may be labels.
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
    if column in names:
        return names.index(column)
    others = "".join(f"; there is also the label {name!r}" for name in labels_with(table))
    if table.ndim > 2:
        raise ValueError(
            f"there is no column {column!r}: images of shape {table.shape[1:]} have no columns; labels and weights may "
            f"be files with one value per image, and there is no such file{others}"
        )
    raise no_column(column, names, others)


def labels_of(values: pd.Series[Any], source: str) -> np.ndarray:
    """Labels for `fit`; integers that became floats because of empty cells become integers again."""
    if (values.isna() | (values == -1)).all():
        raise ValueError(f"{source} has no label in any row; leave --label out to fit without labels")
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        if not (values == -1).any():
            # The -1 comes from here, so the warning about a class -1 does not apply.
            warnings.filterwarnings("ignore", message="y holds only -1 and 1")
        values = values.fillna(-1).astype(np.int64)
    return values.to_numpy()


def numbers_of(values: pd.Series[Any], source: str, what: str) -> np.ndarray:
    try:
        return values.to_numpy(dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source} does not hold {what}: {error}") from None


def select_features(estimator: Any, table: Table) -> Table:
    """The columns that an estimator was fitted on, in its order; without names their number must be the same.

    Columns that the model leaves out, such as identifiers, may be absent.
    """
    names, shape = getattr(estimator, "feature_names_in_", None), getattr(estimator, "row_shape_", ())
    if len(shape) > 1 and (table.shape == shape or (table.ndim == 2 and table.shape[1] != math.prod(shape))):
        is_one = table.shape == shape
        found = (
            f"one image of shape {shape} has no axis of rows"
            if is_one
            else f"rows of shape {table.shape} are not images"
        )
        wanted = f"{('n', *shape)}".replace("'", "")
        raise ValueError(f"{found}; save images as {wanted}, one as x[None]")
    if table.ndim > 2:
        # The model itself reports a wrong shape.
        return table
    if names is not None and isinstance(table, pd.DataFrame):
        optional = getattr(getattr(estimator, "columns_", None), "left_out", ())
        absent = [repr(name) for name in names if name not in table.columns and name not in optional]
        if absent:
            found = ", ".join(map(str, table.columns))
            raise ValueError(
                f"there is no column {', '.join(absent)}, which the model was fitted on; there are {found}"
            )
        return table[[name for name in names if name in table.columns]]
    if table.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"there are {table.shape[1]} columns, but the model was fitted on {estimator.n_features_in_}; "
            "columns without names must be the same ones"
        )
    return np.asarray(table) if names is None else pd.DataFrame(table, columns=names)


def fill_cells(
    cells: Table, X: Table, is_missing: np.ndarray, filled: Any, styles: Mapping[str, Style] | None = None
) -> Any:
    """A copy of `cells`, as of `read_with_cells`, in which only the missing values of X come from `filled`.

    Args:
        styles: how columns of the file write numbers and dates, if not in the usual way.
    """
    if not isinstance(cells, pd.DataFrame):
        return filled
    result = cells.copy()
    names = X.columns if isinstance(X, pd.DataFrame) else cells.columns
    values = filled if isinstance(filled, pd.DataFrame) else pd.DataFrame(filled, columns=names)
    values = values.set_axis(cells.index)
    for name, missing in zip(names, is_missing.T, strict=True):
        if missing.any():
            is_written = pd.api.types.is_string_dtype(cells[name])
            style = (styles or {}).get(str(name)) or (
                plain_style(cells[name][~missing], values[name]) if is_written else None
            )
            texts = values[name].astype(str) if style is None else values[name].map(style.write)
            result[name] = cells[name].mask(missing, texts) if is_written else values[name]
    return result


def as_written(table: pd.DataFrame, styles: Mapping[str, Style]) -> pd.DataFrame:
    """The same table with numbers and dates as text, in the styles of the columns of a file; missing cells stay."""
    out = table.copy(deep=False)
    for name in out:
        if (style := styles.get(str(name))) is not None:
            out[name] = out[name].astype(object).map(style.write, na_action="ignore")
    return out


def plain_style(written: pd.Series[Any], values: pd.Series[Any]) -> PlainStyle | None:
    """How a column of a text file writes its usual numbers, if the values that fill it are numbers."""
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    return PlainStyle.of(written.unique().tolist()) if is_number else None


def need_table(path: str | os.PathLike[str], table: Table) -> None:
    """An error if a model of tables gets images."""
    if table.ndim > 2:
        n, *shape = table.shape
        raise ValueError(
            f"{path} holds images of shape {tuple(shape)}, and the model takes tables; save rows and features, "
            f"x.reshape({n}, {math.prod(shape)}), or use a model of images (see `jensen models`)"
        )
