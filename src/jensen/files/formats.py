"""Tables in formats other than text of separated cells: JSON, Arrow, workbooks and databases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from jensen.files.layout import has_header, numbered_names
from jensen.files.places import file_of
from jensen.files.reading import Reading
from jensen.files.sources import Source, needed

# Rows of a workbook that tell whether the first has names.
MOST_ROWS = 200


@dataclass(frozen=True)
class Raw:
    """A table as its format holds it.

    Args:
        has_header: whether names of columns were found.
        choices: what was chosen in the file, as sentences.
    """

    frame: pd.DataFrame
    has_header: bool = True
    choices: tuple[str, ...] = ()


def read_parquet(source: Source, reading: Reading) -> Raw:
    need_pyarrow(source.path, "Parquet")
    try:
        return Raw(pd.read_parquet(source.file, engine="pyarrow"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{source.path} cannot be read as Parquet: {error}") from None


def read_feather(source: Source, reading: Reading) -> Raw:
    need_pyarrow(source.path, "Feather")
    try:
        return Raw(pd.read_feather(source.file))
    except (ValueError, OSError) as error:
        raise ValueError(f"{source.path} cannot be read as Feather: {error}") from None


def need_pyarrow(path: Any, what: str) -> None:
    needed("pyarrow", f"{path}: {what} files need pyarrow", "scale")


def read_lines(source: Source, reading: Reading) -> Raw:
    """A record of JSON in every line that is not blank."""
    records = []
    for number, line in enumerate(source.file, start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{source.path} has no JSON in line {number}: {error}") from None
    return Raw(frame_of(source, records))


def read_json(source: Source, reading: Reading) -> Raw:
    """A list of records, or a record of columns."""
    try:
        content = json.loads(source.file.read())
    except ValueError as error:
        raise ValueError(f"{source.path} is not JSON: {error}") from None
    if isinstance(content, dict) and content and all(isinstance(column, list) for column in content.values()):
        lengths = {name: len(column) for name, column in content.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(
                f"{source.path} has columns of different lengths: {lengths}; give every row a value or null"
            )
        content = [dict(zip(content, row, strict=True)) for row in zip(*content.values(), strict=True)]
    return Raw(frame_of(source, content))


def frame_of(source: Source, records: Any) -> pd.DataFrame:
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f'{source.path} holds no records; write [{{"a": 1, "b": "x"}}, ...], or one record per line')
    for number, record in enumerate(records):
        for name, value in record.items():
            if isinstance(value, (dict, list)):
                raise ValueError(
                    f"{source.path} holds {json.dumps(value)[:40]} in record {number}, column {name!r}; a table has "
                    "one value per cell: flatten it first, for example by pd.json_normalize"
                )
    return pd.DataFrame(records)


def read_xlsx(source: Source, reading: Reading) -> Raw:
    """A sheet of a workbook, the first one if none is named."""
    needed("openpyxl", f"{source.path}: .xlsx files need openpyxl", "files")
    try:
        book = pd.ExcelFile(source.file, engine="openpyxl")
    except Exception as error:  # openpyxl raises what zip, XML and dictionaries raise
        raise ValueError(f"{source.path} cannot be read as a workbook: {error}") from None
    names = [str(name) for name in book.sheet_names]
    sheet, choices = chosen(source, names, "sheet", takes_first=True)
    codes: dict[str, Any] = {"na_values": ["", *reading.codes]} if reading.missing else {}
    usual = reading.has_usual_codes
    cells = book.parse(sheet, header=None, dtype=object, keep_default_na=usual, **codes)
    cells = cells.dropna(how="all").dropna(axis=1, how="all")
    rows = [["" if pd.isna(cell) else str(cell) for cell in row] for row in cells.head(MOST_ROWS).to_numpy()]
    if not rows:
        raise ValueError(f"{source.path} is empty: the sheet {sheet!r} has no cells")
    found = has_header(rows) if reading.header is None else reading.header
    body = cells.iloc[1:] if found else cells
    named = [name or f"x{j}" for j, name in enumerate(rows[0])] if found else list(numbered_names(len(rows[0])))
    twice = [name for name in named if named.count(name) > 1]
    if twice:
        raise ValueError(
            f"{source.path} has the column name {twice[0]!r} twice in its first row; give every column a name of "
            "its own"
        )
    return Raw(body.set_axis(named, axis=1).reset_index(drop=True).infer_objects(), found, choices)


def read_database(source: Source, reading: Reading) -> Raw:
    """A table of an SQLite or a DuckDB file; .db may be either."""
    file, _ = file_of(source.path)
    with open(file, "rb") as opened:
        head = opened.read(16)
    is_duckdb = head[8:12] == b"DUCK" or (source.suffix == ".duckdb" and not head.startswith(b"SQLite"))
    return read_duckdb(source, file) if is_duckdb else read_sqlite(source, file)


def read_sqlite(source: Source, file: Path) -> Raw:
    listed = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' order by 1"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            names = [str(name) for (name,) in connection.execute(listed)]
            table, choices = chosen(source, names, "table")
            return Raw(pd.read_sql_query(f"select * from {identifier(table)}", connection), choices=choices)
    except sqlite3.Error as error:
        raise ValueError(f"{source.path} cannot be read as an SQLite database: {error}") from None


def read_duckdb(source: Source, file: Path) -> Raw:
    duckdb = needed("duckdb", f"{source.path}: DuckDB files need duckdb", "files")
    try:
        with closing(duckdb.connect(str(file), read_only=True)) as connection:
            names = [str(name) for (name,) in connection.execute("show tables").fetchall()]
            table, choices = chosen(source, names, "table")
            return Raw(connection.execute(f"select * from {identifier(table)}").df(), choices=choices)
    except duckdb.Error as error:
        raise ValueError(f"{source.path} cannot be read as a DuckDB database: {error}") from None


def identifier(name: str) -> str:
    """A name as SQL quotes it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def chosen(source: Source, names: list[str], what: str, takes_first: bool = False) -> tuple[str, tuple[str, ...]]:
    """The part that is named, or the only one, or the first one with a sentence that says so."""
    listed = ", ".join(names)
    if source.part is not None:
        if source.part not in names:
            raise ValueError(f"{source.path} has no {what} {source.part!r}; there are {listed or 'none'}")
        return source.part, ()
    if len(names) == 1:
        return names[0], ()
    if names and takes_first:
        others = f"it has {len(names)} {what}s; this is the first, {names[0]}: {source.path}::{names[1]} for another"
        return names[0], (others,)
    raise ValueError(
        f"{source.path} has the {what}s {listed or '(none)'}; name one, as in {source.path}::{(*names, 'name')[0]}"
    )


READERS: dict[str, Callable[[Source, Reading], Raw]] = {
    ".jsonl": read_lines,
    ".ndjson": read_lines,
    ".json": read_json,
    ".parquet": read_parquet,
    ".feather": read_feather,
    ".arrow": read_feather,
    ".xlsx": read_xlsx,
    ".db": read_database,
    ".sqlite": read_database,
    ".sqlite3": read_database,
    ".duckdb": read_database,
}
