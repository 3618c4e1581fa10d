"""Names of data, checked before any library is loaded: files by suffix, folders, and data that scikit-learn ships."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["EMBEDDED", "SEPARATORS", "check_data", "check_exists", "check_holds_text", "is_embedded", "known_suffix"]

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
