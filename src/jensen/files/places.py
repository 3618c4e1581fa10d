"""Names of data and of columns, checked before any library is loaded."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from jensen.files.layout import SAMPLE, find_layout

# Data sets of scikit-learn; a file or folder with the same name has priority.
EMBEDDED = ("digits", "iris", "wine")
# Standard input.
STDIN = "-"
# Text of separated cells, and the usual separator.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".psv": "|", ".data": ",", ".dat": ",", ".txt": ","}
# Text of which the name does not tell that it is a table, or what separates its cells: runs of spaces may.
ANY_TEXT = (".data", ".dat", ".txt")
LINES = (".jsonl", ".ndjson")
DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb")
# Text may be packed: .csv.gz.
PACKED = (".gz", ".bz2", ".xz", ".zst")
WRITTEN = (".csv", ".tsv", ".jsonl", ".parquet", ".feather", ".xlsx", ".npy")
SUFFIXES = (*SEPARATORS, *LINES, ".json", ".parquet", ".feather", ".arrow", ".xlsx", *DATABASES, ".zip", ".npy")
# Files of documents: one text per line, and sparse counts of words. Some models read them.
DOCUMENTS = (".txt", ".npz")
# Tables that can be read block by block.
SCANNED = (".parquet", ".feather", ".arrow", ".npy", ".npz", ".csv", ".tsv", ".psv", ".data")
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm")
# Formats in which every cell is a text.
AS_TEXT = (*SEPARATORS, *LINES)


def check_data(path: str | os.PathLike[str], *, many: bool = False) -> None:
    """An error if there are no data of this name; or if they are `many` tables, unless these are taken."""
    if is_pattern(path) or is_folder_of_tables(path):
        if not many:
            what = "pattern" if is_pattern(path) else "folder"
            raise ValueError(
                f"{path} is a {what} of tables, and this command reads one table into memory; give one file, "
                "or fit a model to all with `jensen fit` and apply it with score, predict, transform or impute"
            )
        return check_matches(path)
    if not (Path(path).is_dir() or is_embedded(path) or is_stdin(path)):
        check_exists(path)
        if suffixes_of(path)[0] not in DOCUMENTS:
            known_suffix(path)


def check_exists(path: str | os.PathLike[str]) -> None:
    if not is_stdin(path) and not file_of(path)[0].is_file():
        others = "" if Path(path).suffix else f"; the names of data sets are {', '.join(EMBEDDED)}"
        raise FileNotFoundError(f"there is no file {path}{others}")


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether this is a pattern of names, such as rows/*.parquet, and not the name of a file."""
    return glob.has_magic(os.fspath(path)) and not file_of(path)[0].exists()


def check_matches(path: str | os.PathLike[str]) -> None:
    """An error for a pattern that no table matches."""
    name = os.fspath(path)
    if is_pattern(path) and not any(Path(one).is_file() for one in glob.iglob(name, recursive=True)):
        raise FileNotFoundError(f"there is no file {name}, and no file matches it as a pattern")


def is_folder_of_tables(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds tables and no image."""
    if not Path(path).is_dir():
        return False
    endings = {Path(name).suffix.lower() for _, _, names in os.walk(path) for name in names if name[0] != "."}
    return not endings.isdisjoint(SCANNED) and endings.isdisjoint(IMAGES)


def is_embedded(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) in EMBEDDED and not Path(path).exists()


def is_stdin(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) == STDIN


def file_of(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """The file, and the table of a database or the sheet of a workbook behind two colons: shop.db::orders."""
    file, colons, part = os.fspath(path).rpartition("::")
    if not colons or Path(path).exists() or Path(file).suffix.lower() not in (*DATABASES, ".xlsx", ".zip"):
        return Path(path), None
    return Path(file), part


def suffixes_of(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The suffix of the format, and that of the packing or nothing: (".csv", ".gz")."""
    file, _ = file_of(path)
    *_, first, last = ("", "", *(suffix.lower() for suffix in file.suffixes))
    return (first, last) if last in PACKED else (last, "")


def known_suffix(path: str | os.PathLike[str], suffixes: Sequence[str] = SUFFIXES) -> str:
    """The suffix of the format, or an error if it is not that of a table."""
    suffix, packing = suffixes_of(path)
    if suffix not in suffixes or (packing and suffix not in AS_TEXT):
        ending = f"{suffix}{packing}"
        packed = "; .csv, .tsv and .jsonl may be packed, as in .csv.gz"
        raise ValueError(f"{path} has the suffix {ending!r}; give a file that ends in {', '.join(suffixes)}{packed}")
    return suffix


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds lines of separated cells, packed or not."""
    return suffixes_of(path)[0] in SEPARATORS


def check_output(path: str | os.PathLike[str]) -> None:
    """An error if no table can be written to a file of this name."""
    known_suffix(path, WRITTEN)


def numbered(path: Path, number: int) -> Path:
    """The name of one of several files: filled-1.csv.gz of filled.csv.gz."""
    ending = "".join(suffixes_of(path))
    return path.with_name(
        f"{path.name[: len(path.name) - len(ending)]}-{number}{path.name[len(path.name) - len(ending) :]}"
    )


def check_holds_text(path: str | os.PathLike[str]) -> None:
    """An error if a file cannot hold a table with text; making the table may take long."""
    if known_suffix(path, WRITTEN) == ".npy":
        raise ValueError(
            f"{path} cannot hold text, because npy files hold numbers; write a .csv, .tsv or .parquet file"
        )


def check_columns(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    or_files: Sequence[str | None] = (),
    header: bool | None = None,
) -> None:
    """An error for a column that the header line of a text file does not name.

    Args:
        columns: names, or several in one word: a,b.
        or_files: names of columns or of files.
        header: whether the first line has the names; found if not given.
    """
    names = header_of(path, header) if columns or any(or_files) else None
    if names is None:
        return
    wanted = [part for word in columns for part in ([word] if word in names else word.split(","))]
    wanted += [name for name in or_files if name is not None and not Path(name).is_file()]
    for name in wanted:
        if name not in names:
            raise no_column(name, names)


def header_of(path: str | os.PathLike[str], header: bool | None = None) -> list[str] | None:
    """The column names of a text file; None where they are not simply its first line."""
    if not is_text(path) or suffixes_of(path)[1] or not Path(path).is_file():
        return None
    with open(path, encoding="latin-1", newline="") as file:
        # Every byte is one letter of Latin-1; the layout finds the encoding.
        sample = file.read(SAMPLE).encode("latin-1")
    suffix = known_suffix(path)
    names = find_layout(sample, SEPARATORS[suffix], header, may_be_spaces=suffix in ANY_TEXT).names
    # A name on two lines, names that are missing or occur twice: pandas has rules for them.
    is_simple = all(names) and len({*names}) == len(names) > 0 and not any("\n" in name for name in names)
    return list(names) if is_simple else None


def no_column(name: str, names: Sequence[str], also: str = "") -> ValueError:
    return ValueError(f"there is no column {name!r}; there are {', '.join(names)}{also}")
