"""Tables in files, by suffix: text of separated cells, JSON, Parquet, Feather, workbooks, databases and npy arrays."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jensen.files.formats import READERS, need_pyarrow
from jensen.files.npy import read_npy, write_npy
from jensen.files.places import SEPARATORS, WRITTEN, known_suffix, suffixes_of
from jensen.files.reading import Reading
from jensen.files.replacing import replacing
from jensen.files.sources import Source, needed, open_packed, open_source
from jensen.files.text import read_text
from jensen.files.understand import counts_rows, kind_of, understand
from jensen.files.understood import Reported, TextForm, Understood
from jensen.runtime.messages import levels_inside

Table = pd.DataFrame | np.ndarray

# What a spreadsheet takes for a formula begins so.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
PACKINGS: dict[str, Any] = {"": None, ".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


@dataclass(frozen=True)
class Read:
    """A table, its columns as they are written in the file, and what was understood."""

    table: Table
    cells: Table
    understood: Understood


def read_file(path: str | os.PathLike[str], reading: Reading | None = None) -> Table:
    """The table in a file; empty cells and NA are NaN, and an npy file of one dimension is one column.

    What was understood beyond a plain table is a warning (`Reported`), and `read_understood` returns it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from jensen.files.reading import Reading
        >>> from jensen.files.tables import read_understood
        >>> path = Path(tempfile.mkdtemp(), "prices.csv")
        >>> _ = path.write_text("when;price\\n31.12.2020;1.234,50\\n01.01.2021;?\\n")
        >>> table, understood = read_understood(path)
        >>> table["price"].tolist()
        [1234.5, nan]
        >>> print(*understood.findings, sep="\\n")
        when: dates written day/month/year
        price: numbers with decimal ',' and thousands '.'
        '?' is read as missing in price (1); --missing only,CODES for other codes
    """
    table, understood = read_understood(path, reading)
    report(understood)
    return table


def read_understood(path: str | os.PathLike[str], reading: Reading | None = None) -> tuple[Table, Understood]:
    """The table in a file, and what was understood of it."""
    read = read_with(path, reading or Reading(), None)
    return read.table, read.understood


def read_with(path: str | os.PathLike[str], reading: Reading, choose: Callable[[Table], Sequence[int]] | None) -> Read:
    """A table, and the columns of it that `choose` returns by number, every cell as it is written in the file."""
    with open_source(path) as source:
        if source.suffix == ".npy":
            is_file = Path(path).is_file() and source.path == os.fspath(path) and known_suffix(path) == ".npy"
            array = read_npy(path, file=None if is_file else source.file)
            kinds = {f"x{j}": "number" for j in range(array.shape[1])}
            return Read(array, array, Understood(len(array), kinds, source.path))
        return read_frame(source, reading, choose)


def read_frame(source: Source, reading: Reading, choose: Callable[[Table], Sequence[int]] | None) -> Read:
    if source.suffix not in SEPARATORS:
        held = READERS[source.suffix](source, reading)
        table, found = understand(with_codes(held.frame, reading), reading)
        found = replace(found, has_header=held.has_header or reading.header is False, choices=held.choices)
        cells = table if choose is None else held.frame.iloc[:, list(choose(table))]
        return Read(table, cells, replace(found, path=source.path))
    text = read_text(source, reading)
    layout = text.layout
    table, found = understand(text.frame, reading, layout.separator, text.written)
    found = replace(
        found,
        encoding=layout.encoding,
        separator=layout.separator,
        has_header=layout.has_header or reading.header is False,
        is_doubtful=layout.is_doubtful,
        zeros=zeros_of(table, layout.zeros, reading),
    )
    cells = table if choose is None else text.written([table.columns[number] for number in choose(table)])
    return Read(table, cells, replace(found, path=source.path))


def with_codes(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The same table without the codes of missing values that were given; text files are read without them."""
    codes: set[Any] = {*reading.codes}
    for code in reading.codes:
        try:
            codes.add(float(code))
        except ValueError:
            continue
    return frame.mask(frame.isin(list(codes))) if codes else frame


def zeros_of(table: pd.DataFrame, zeros: Sequence[tuple[int, str]], reading: Reading) -> dict[str, str]:
    """Columns with zeros in front that were read as numbers."""
    names = {str(table.columns[j]): (j, text) for j, text in zeros if reading.hints and j < table.shape[1]}
    unsaid = {*reading.types, *reading.fitted, *reading.aside}
    return {
        name: text
        for name, (j, text) in names.items()
        if kind_of(table.iloc[:, j]) == "number" and name not in unsaid and not counts_rows(table.iloc[:, j])
    }


def report(understood: Understood) -> None:
    """Warn about what was understood, unless the file is plain."""
    if not understood.is_plain:
        warnings.warn(str(understood), Reported, stacklevel=levels_inside())


def write_dataset(
    path: str | os.PathLike[str], table: Any, *, is_safe: bool = False, form: TextForm | None = None
) -> None:
    """Write a data frame or an array; columns without names are called x0, x1, ...

    With `is_safe` no text of a .csv or .tsv file is read as a formula by a spreadsheet. A text file is written in the
    `form` of another, if one is given: .csv files with its separator, all with its encoding.
    """
    suffix, (_, packing) = known_suffix(path, WRITTEN), suffixes_of(path)
    if suffix == ".npy":
        return write_npy(path, np.asarray(table))
    frame = as_frame(table)
    if suffix in (".parquet", ".feather"):
        need_pyarrow(path, suffix[1:].capitalize())
    elif suffix == ".xlsx":
        needed("openpyxl", f"{path}: .xlsx files need openpyxl", "files")
    elif packing == ".zst":
        needed("zstandard", f"{path}: .zst files need zstandard", "files")
    if is_safe and suffix in SEPARATORS:
        frame = without_formulas(frame)
    with replacing(path) as aside:
        if suffix == ".parquet":
            frame.to_parquet(aside, engine="pyarrow")
        elif suffix == ".feather":
            frame.reset_index(drop=True).rename(columns=str).to_feather(aside)
        elif suffix == ".xlsx":
            write_xlsx(aside, frame)
        elif suffix == ".jsonl":
            with open_packed(aside, packing) as file:
                file.writelines(f"{line}\n".encode() for line in json_lines(frame))
        else:
            own = form or TextForm()
            between = own.separator if own.separator and suffix == ".csv" else SEPARATORS[suffix]
            options: dict[str, Any] = {"index": False, "sep": between, "decimal": own.decimal}
            options["compression"] = PACKINGS[packing]
            try:
                frame.to_csv(aside, encoding=own.encoding, **options)
            except UnicodeEncodeError as error:
                letter = error.object[error.start]
                reason = f"{path} is written in UTF-8: the encoding of the file that was read has no {letter!r}"
                warnings.warn(reason, stacklevel=levels_inside())
                frame.to_csv(aside, **options)


def json_lines(frame: pd.DataFrame) -> list[str]:
    """A record of JSON per row; missing values are null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [
        json.dumps({str(name): value for name, value in row.items()}, default=str, ensure_ascii=False) for row in rows
    ]


def write_xlsx(path: Path, frame: pd.DataFrame) -> None:
    """One sheet, in which text is text even if it begins as a formula does; times with a zone are in UTC without it."""
    plain = frame.copy(deep=False)
    for name, column in frame.items():
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            plain[name] = column.dt.tz_convert("UTC").dt.tz_localize(None)
    with pd.ExcelWriter(path, engine="openpyxl") as writer:
        plain.to_excel(writer, index=False)
        for row in writer.sheets["Sheet1"].iter_rows():
            for cell in row:
                cell.data_type = "s" if cell.data_type == "f" else cell.data_type


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
