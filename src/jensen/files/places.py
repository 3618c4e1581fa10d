"""Names of data, checked before any library is loaded: files by suffix, folders, and data that scikit-learn ships."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

# Data that scikit-learn ships; a file or folder of that name comes first.
EMBEDDED = ("digits", "iris", "wine")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet", ".npy")


def check_data(path: str | os.PathLike[str]) -> None:
    """An error where nothing of this name can be read."""
    if not (Path(path).is_dir() or is_embedded(path)):
        check_exists(path)
        known_suffix(path)


def check_exists(path: str | os.PathLike[str]) -> None:
    if not Path(path).is_file():
        others = "" if Path(path).suffix else f", and none of the data {', '.join(EMBEDDED)} has this name"
        raise FileNotFoundError(f"there is no file {path}{others}")


def is_embedded(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) in EMBEDDED and not Path(path).exists()


def known_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix, or an error if no table has it."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} has the suffix {suffix!r}; give a file that ends in {', '.join(SUFFIXES)}")
    return suffix


def check_holds_text(path: str | os.PathLike[str]) -> None:
    """An error where a table with words cannot go to this file: before it is made, which may take long."""
    if known_suffix(path) == ".npy":
        raise ValueError(f"{path} cannot hold text, npy is for numbers; write a .csv, .tsv or .parquet file")


def check_columns(path: str | os.PathLike[str], columns: Sequence[str], or_files: Sequence[str | None] = ()) -> None:
    """An error for a column that the header line of a text file does not name.

    Args:
        columns: names, or several in one word: a,b.
        or_files: names of columns or of files.
    """
    names = header_of(path) if columns or any(or_files) else None
    if names is None:
        return
    wanted = [part for word in columns for part in ([word] if word in names else word.split(","))]
    wanted += [name for name in or_files if name is not None and not Path(name).is_file()]
    for name in wanted:
        if name not in names:
            raise no_column(name, names)


def header_of(path: str | os.PathLike[str]) -> list[str] | None:
    """The column names of a text file; None where they are not simply its first line."""
    separator = SEPARATORS.get(Path(path).suffix.lower())
    if separator is None or not Path(path).is_file():
        return None
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline(100_000)
        names = next(csv.reader([line], delimiter=separator_in(line, separator)), [])
    # A name on two lines, names that are missing or occur twice: pandas has rules for them.
    is_simple = line.endswith("\n") and line.count('"') % 2 == 0 and all(names) and len({*names}) == len(names) > 0
    return names if is_simple else None


def separator_in(header: str, usual: str) -> str:
    """The separator of cells: a semicolon if the first line of a .csv has no comma, but some of these."""
    return ";" if usual == "," and "," not in header and ";" in header else usual


def no_column(name: str, names: Sequence[str], also: str = "") -> ValueError:
    return ValueError(f"there is no column {name!r}; there are {', '.join(names)}{also}")
