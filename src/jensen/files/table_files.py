"""Files of tables that are read block by block: which there are, and their parts."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from jensen.files.documents import read_counts
from jensen.files.parts import (
    EXTRA,
    ArrowPart,
    ParquetPart,
    Part,
    SparsePart,
    Stamp,
    array_parts,
    check_names,
    damage_named,
)
from jensen.files.places import SCANNED
from jensen.files.sources import needed
from jensen.files.text_parts import TextOptions, text_parts


@dataclass
class FirstNames:
    """The columns of the first of several files; the others have them in any order."""

    path: Path | None = None
    names: tuple[str, ...] = ()

    def order(self, path: Path, names: Iterable[str]) -> tuple[str, ...] | None:
        """The columns to read from a file, so that they come as in the first; None where they do."""
        own = tuple(names)
        if self.path is None:
            self.path, self.names = path, own
        if own == self.names:
            return None
        lacks, has = [n for n in self.names if n not in own], [n for n in own if n not in self.names]
        if lacks or has:
            apart = [f"lacks {', '.join(lacks)}"] * bool(lacks) + [f"also has {', '.join(has)}"] * bool(has)
            raise ValueError(
                f"{path} has other columns than {self.path}: it {' and '.join(apart)}; make them alike, or choose "
                "columns that all files have"
            )
        return self.names


def parts_of_files(
    paths: Iterable[Path], columns: tuple[str, ...] | None, options: TextOptions, first: FirstNames
) -> list[Part]:
    """The parts of several files, in their order."""
    return [part for path in paths for part in parts_of_file(path, columns, options, first)]


def parts_of_file(path: Path, columns: tuple[str, ...] | None, options: TextOptions, first: FirstNames) -> list[Part]:
    """The parts of one file, by its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} cannot be read: {error}; replace the file, or leave it out") from None
        return array_parts(array, Stamp.of(path))
    if suffix == ".npz":
        check_array_has_no_names(columns)
        return [SparsePart(Stamp.of(path), read_counts(path).shape[0])]
    needed("pyarrow", f"{path}: {suffix} files are read block by block with pyarrow", EXTRA)
    stamp = Stamp.of(path)
    with damage_named(str(path)):
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
                names = file.schema_arrow.names
                check_names(path, names, columns)
            own = columns or first.order(path, names)
            return [ParquetPart(stamp, i, n, own) for i, n in enumerate(groups) if n]
        if suffix in (".feather", ".arrow"):
            import pyarrow as pa

            with pa.memory_map(os.fspath(path)) as mapped:
                opened = pa.ipc.open_file(mapped)
                names = opened.schema.names
                check_names(path, names, columns)
                sizes = [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]
            own = columns or first.order(path, names)
            return [ArrowPart(stamp, i, n, own) for i, n in enumerate(sizes) if n]
        try:
            found = list(text_parts(path, stamp, columns, options))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text file ({error}); give it the ending of what it is") from None
        own = columns or (first.order(path, found[0].names) if found else None)
        return [part if own is None else replace(part, columns=own) for part in found]


def check_array_has_no_names(columns: tuple[str, ...] | None) -> None:
    if columns is not None:
        raise ValueError(f"columns={list(columns)!r} names columns of files; choose them where the rows are made")


def files_of(source: str | os.PathLike[str]) -> list[Path]:
    """The files of a path, of a folder or of a pattern, sorted by name."""
    path, name = Path(source), os.fspath(source)
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.suffix.lower() in SCANNED and one.is_file())
        found = [one for one in found if not any(name[0] == "." for name in one.relative_to(path).parts)]
        if not found:
            raise ValueError(f"{name} is a folder without files that end in {', '.join(SCANNED)}; give another one")
        suffixes = sorted({one.suffix.lower() for one in found})
        if len(suffixes) > 1:
            raise ValueError(
                f"{name} has files that end in {', '.join(suffixes)}; give a pattern, such as {name}/*.parquet"
            )
        return found
    if path.is_file():
        return [path]
    found = sorted(Path(one) for one in glob.glob(name, recursive=True) if Path(one).is_file())
    if not found:
        raise FileNotFoundError(f"there is no file {name}, and no file matches it as a pattern")
    return found
