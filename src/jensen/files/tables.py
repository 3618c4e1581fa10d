"""Tables in files, by suffix: .csv and .tsv with a header line, .parquet and .npy."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from jensen.files.places import SEPARATORS, check_holds_text, known_suffix, separator_in
from jensen.files.replacing import replacing
from jensen.runtime.memory import in_units, need_memory
from jensen.runtime.messages import levels_inside, own_filters

Table = pd.DataFrame | np.ndarray

# Before pandas 3.1 the usual parser of numbers may be off by a bit, and imputed files would differ from the read ones.
EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
# What a spreadsheet takes for a formula begins so.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
MAGIC = b"\x93NUMPY"
SAVED_AS = "save numbers, such as x.astype(float), or a table with text as .csv or .parquet"


def read_file(path: str | os.PathLike[str]) -> Table:
    """The table in a file that is there; empty cells and NA are NaN, and an npy file of one dimension is one column."""
    suffix = known_suffix(path)
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".parquet":
        return read_parquet(path)
    table = read_text(path)
    check_header(path, table)
    return table


def write_dataset(path: str | os.PathLike[str], table: Any, *, is_safe: bool = False) -> None:
    """Write a data frame or an array; columns without names are called x0, x1, ...

    With `is_safe` no text of a .csv or .tsv file is read as a formula by a spreadsheet.
    """
    suffix = known_suffix(path)
    if suffix == ".npy":
        return write_npy(path, np.asarray(table))
    frame = as_frame(table)
    if suffix == ".parquet":
        need_pyarrow(path)
    elif is_safe:
        frame = without_formulas(frame)
    with replacing(path) as aside:
        if suffix == ".parquet":
            frame.to_parquet(aside, engine="pyarrow")
        else:
            frame.to_csv(aside, index=False, sep=SEPARATORS[suffix])


def as_frame(table: Any) -> pd.DataFrame:
    """A data frame of a data frame or an array."""
    if isinstance(table, pd.DataFrame):
        return table
    if table.ndim > 2:
        raise ValueError(f"rows of shape {table.shape[1:]} are no table; write them to an .npy file with --output")
    return pd.DataFrame(table, columns=[f"x{i}" for i in range(table.shape[1])])


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy in which names and texts that a spreadsheet would compute begin with a quote; numbers stay."""
    columns = [column.astype(object).map(quoted) if may_hold_text(column) else column for _, column in frame.items()]
    safe = pd.concat(columns, axis=1) if columns else frame.copy()
    return safe.set_axis([quoted(name) for name in frame.columns], axis=1)


def may_hold_text(column: Any) -> bool:
    return column.dtype.kind == "O" or isinstance(column.dtype, (pd.StringDtype, pd.CategoricalDtype))


def quoted(value: Any) -> Any:
    """A text that begins as a formula does, and is no number, behind a quote."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def is_text(path: str | os.PathLike[str]) -> bool:
    return known_suffix(path) in SEPARATORS


def read_text(path: str | os.PathLike[str]) -> pd.DataFrame:
    with open(path, "rb") as file:
        return parse_text(path, file)


def read_text_with_cells(
    path: str | os.PathLike[str], choose: Callable[[pd.DataFrame], Sequence[int]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table, and the columns of it that `choose` returns by number, every cell as it is written in the file."""
    with open(path, "rb") as file:
        table = parse_text(path, file)
        numbers = choose(table)
        as_written = {"dtype": str, "na_filter": False, "skip_blank_lines": table.shape[1] > 1}
        cells = parse_text(path, file, usecols=sorted(set(numbers)), **as_written)
    return table, cells[[table.columns[number] for number in numbers]]


def parse_text(path: str | os.PathLike[str], file: BinaryIO, **options: Any) -> pd.DataFrame:
    def parse(**more: Any) -> pd.DataFrame:
        file.seek(0)
        frame: pd.DataFrame = pd.read_csv(file, **options, **more)
        return frame

    file.seek(0)
    separator = separator_in(file.readline().decode(errors="replace"), SEPARATORS[known_suffix(path)])
    options = dict(sep=separator, index_col=False, low_memory=False, **EXACT, **options)
    try:
        with own_filters():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            check_distinct_names(file, separator)
            frame = parse()
            # In a file of one column a blank line is an empty cell.
            is_whole = frame.shape[1] > 1 or "skip_blank_lines" in options
            return frame if is_whole else parse(skip_blank_lines=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty: it has no header line") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{path} has more cells in a row than names in its first line; name every column") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None


def check_distinct_names(file: BinaryIO, separator: str) -> None:
    """An error for a header line with a name twice, of which pandas would make another name."""
    file.seek(0)
    first = pd.read_csv(file, sep=separator, header=None, nrows=1, dtype=str, na_filter=False, index_col=False)
    twice = [name for name, count in Counter(first.iloc[0]).items() if count > 1 and name]
    if twice:
        raise ValueError(f"its first line has the column name {twice[0]!r} twice; give every column a name of its own")


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
            stacklevel=levels_inside(),
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
        check_size(path)
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an npy file of numbers: {error}; {SAVED_AS}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} is an npz archive; save one array with numpy.save")
    if array.dtype.kind not in kinds:
        what = "text" if array.dtype.kind in "SUT" else f"{array.dtype} values"
        raise ValueError(f"{path} holds {what}, and rows of an npy file are real numbers; {SAVED_AS}")
    if array.ndim not in (1, 2, 3, 4):
        raise ValueError(
            f"{path} has shape {array.shape}; save rows and features (n, d), one column (n,), or images (n, h, w) or "
            "(n, c, h, w)"
        )
    return array[:, None] if array.ndim == 1 else array


def check_size(path: str | os.PathLike[str]) -> None:
    """An npy file must hold the numbers that its header claims, and these must fit into memory."""
    first, second = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    # Version 3 differs in the encoding of field names only.
    readers = {(1, 0): first, (2, 0): second, (3, 0): second}
    with open(path, "rb") as file:
        is_npy = file.read(len(MAGIC)) == MAGIC
        file.seek(0)
        reader = readers.get(np.lib.format.read_magic(file)) if is_npy else None
        if reader is None:
            return  # numpy knows what it is
        shape, _, dtype = reader(file)
        held = os.fstat(file.fileno()).st_size - file.tell()
    claimed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and claimed > held:
        raise ValueError(
            f"its header claims the shape {shape}, {in_units(claimed)} of numbers, and it holds {in_units(held)}; "
            "it is damaged or was cut off"
        )
    need_memory(claimed, f"an array of shape {shape}", "read a part of it: np.load(path, mmap_mode='r')[:n]")


def write_npy(path: str | os.PathLike[str], values: np.ndarray) -> None:
    if values.dtype.kind not in "biuf":
        check_holds_text(path)
    # A name would get a second suffix when its own is in capitals; an open file keeps it.
    with replacing(path) as aside, open(aside, "wb") as file:
        np.save(file, values, allow_pickle=False)
