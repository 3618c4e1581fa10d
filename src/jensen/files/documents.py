"""Documents on disk: texts in a folder, in lines or in a column of a table, and sparse counts of words in npz files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, load_npz, save_npz

from jensen.files.places import no_column, suffixes_of
from jensen.files.replacing import replacing

TEXT, COUNTS = ".txt", ".npz"
# Marks at the beginning of a file, and its encoding.
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# A column is free text if a value has this many words in the mean, and most values are different.
FEW_WORDS, MOST_DIFFERENT = 3.0, 0.5


def is_counts(path: str | os.PathLike[str]) -> bool:
    return suffixes_of(path)[0] == COUNTS and not Path(path).is_dir()


def is_lines(path: str | os.PathLike[str]) -> bool:
    return suffixes_of(path) == (TEXT, "") and not Path(path).is_dir()


def read_counts(path: str | os.PathLike[str]) -> csr_array:
    """Sparse counts (n, V) that scipy.sparse.save_npz wrote."""
    try:
        matrix = csr_array(load_npz(path))
        # A wrong index would read memory that is not the matrix's.
        matrix.check_format(full_check=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        what = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as a sparse matrix: {what.rstrip('.')}; write it with scipy.sparse.save_npz"
        ) from None
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise ValueError(
            f"{path} holds {matrix.dtype} values of shape {matrix.shape}; save numbers with a row for every document"
        )
    if not matrix.shape[0] or not matrix.shape[1]:
        raise ValueError(f"{path} is empty: it has {matrix.shape[0]} rows and {matrix.shape[1]} columns")
    return matrix.astype(np.float64)


def write_counts(path: str | os.PathLike[str], rows: Any) -> None:
    """Counts (n, V), sparse or dense, as an npz file of scipy."""
    with replacing(path) as aside, open(aside, "wb") as file:
        save_npz(file, csr_array(rows))


def read_text_folder(folder: str | os.PathLike[str]) -> tuple[list[str], list[str], list[str | None] | None]:
    """The text of every .txt file, its name within the folder, and its first subfolder; no list if there are none."""
    place = Path(folder)
    found = sorted(path.relative_to(place) for path in place.rglob("*") if path.suffix.lower() == TEXT)
    names = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    if not names:
        raise ValueError(f"{folder} holds no texts; give a folder of .txt files, one for every document")
    classes = [path.parts[0] if len(path.parts) > 1 else None for path in names]
    return (
        [read_text(place / name) for name in names],
        [path.as_posix() for path in names],
        classes if any(classes) else None,
    )


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a file, one document in each; empty lines at the end are none."""
    lines = [line.rstrip("\r") for line in read_text(path).rstrip("\r\n").split("\n")]
    if not any(line.strip() for line in lines):
        raise ValueError(f"{path} is empty: it has no line with a word")
    return lines


def read_text(path: str | os.PathLike[str]) -> str:
    """A text in UTF-8, or in UTF-16 with a mark; one that is no UTF-8 is read as Windows-1252 or Latin-1.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_bytes("Käse".encode("cp1252"))
        >>> read_text(path)
        'Käse'
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    marked = next((encoding for mark, encoding in MARKS.items() if content.startswith(mark)), None)
    if marked is None and b"\0" in content:
        raise ValueError(f"{path} is no text: it holds bytes of 0; save it as text in UTF-8, or leave it out")
    for encoding in [marked] if marked else ["utf-8", "cp1252", "latin-1"]:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            reason = error
    raise ValueError(f"{path} is no text in {marked}: {reason}; save it in UTF-8, or leave it out")


def text_column(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The texts in a column of this name."""
    names = {str(column): number for number, column in enumerate(table.columns)}
    if name not in names:
        raise no_column(name, list(names))
    column = table.iloc[:, names[name]]
    if not has_letters(column):
        raise ValueError(f"the column {name!r} holds no words; --text names the column with the texts{others(table)}")
    return column


def find_text_column(table: pd.DataFrame) -> str | None:
    """The only column of free text; None for a table of numbers, and an error if no column or several may be meant."""
    texts = {str(name): column for name, column in table.items() if not is_number(column)}
    if not texts:
        return None
    free = [name for name, column in texts.items() if table.shape[1] == 1 or is_free_text(column)]
    if len(free) == 1:
        return free[0]
    several = f"the columns {', '.join(free)} hold texts"
    none = f"no column looks like documents, but {', '.join([*texts][:5])} is not a number"
    raise ValueError(f"{several if free else none}; name the column with the texts: --text {(free or [*texts])[0]}")


def others(table: pd.DataFrame) -> str:
    names = [str(name) for name, column in table.items() if has_letters(column)]
    return f"; there is text in {', '.join(names)}" if names else ""


def is_number(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column) or bool(column.isna().all())


def strings_of(column: pd.Series[Any]) -> Sequence[str]:
    return [value for value in column.dropna() if isinstance(value, str)]


def has_letters(column: pd.Series[Any]) -> bool:
    return any(any(sign.isalpha() for sign in value) for value in strings_of(column))


def is_free_text(column: pd.Series[Any]) -> bool:
    values = strings_of(column)
    if not values or not has_letters(column):
        return False
    return bool(
        np.mean([len(value.split()) for value in values]) >= FEW_WORDS and len({*values}) > MOST_DIFFERENT * len(values)
    )
