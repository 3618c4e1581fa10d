"""Parts of a table that is read block by block: what one worker reads, small enough to send and to read again.

A part says where its rows are and holds none of them. Every part can be opened on its own, as often as there are
sweeps, and checks that its file is still the one it was made from.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

# Bytes of a part that could be of any size.
PART_BYTES = 2**26
EXTRA = "scale"
# What pyarrow reports about a line of the wrong number of cells that looks like a comment.
COMMENT = re.compile(r"CSV parse error: .* columns, got \d+: #")
NO_COMMENTS = "every line must be a row: remove those that begin with #, such as by grep -v '^#'"


class ChangedError(ValueError):
    """Rows that are not those of the sweep before."""


class Part(Protocol):
    """Some rows of a table; `n_rows` is None where only reading them tells."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def n_rows(self) -> int | None: ...

    @property
    def is_fast(self) -> bool:
        """Whether numbers are read as fast as from a file of ours."""

    def blocks(self, n_rows: int) -> Iterator[Any]:
        """The rows as data frames or arrays of at most about so many rows."""


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was scanned."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Stamp:
        found = os.stat(path)
        return cls(os.fspath(path), found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        try:
            now = Stamp.of(self.path)
        except FileNotFoundError:
            raise ChangedError(f"{self.path} is gone since it was scanned; restore it, or scan again") from None
        if now != self:
            raise ChangedError(
                f"{self.path} has changed since it was scanned ({self.size} bytes then, {now.size} now); sums would "
                "be of two tables: scan it again and fit anew"
            )


@contextmanager
def damage_named(name: str) -> Iterator[None]:
    """Errors of pyarrow name the part."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, (ChangedError, MemoryError)):
            raise
        what = str(error).splitlines()[0]
        way_out = NO_COMMENTS if COMMENT.search(what) else "replace the file, or leave it out of the scan"
        raise ValueError(f"{name} cannot be read: {what}; {way_out}") from None


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a Parquet file."""

    stamp: Stamp
    group: int
    n_rows: int
    columns: tuple[str, ...] | None = None
    is_fast: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"{self.stamp.path}, row group {self.group}"

    def blocks(self, n_rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        self.stamp.check()
        columns = None if self.columns is None else list(self.columns)
        with damage_named(self.name), pq.ParquetFile(self.stamp.path) as file:
            # A row group at a time: pyarrow's datasets read ahead, and hold what they have read.
            check_names(Path(self.stamp.path), file.schema_arrow.names, self.columns)
            for batch in file.iter_batches(n_rows, row_groups=[self.group], columns=columns, use_threads=False):
                frame = frame_of(batch)
                # pyarrow returns columns in the order of the file.
                yield frame if columns is None or list(frame.columns) == columns else frame[columns]
        self.stamp.check()


@dataclass(frozen=True)
class ArrowPart:
    """A record batch of an Arrow (Feather) file."""

    stamp: Stamp
    number: int
    n_rows: int
    columns: tuple[str, ...] | None = None
    is_fast: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"{self.stamp.path}, record batch {self.number}"

    def blocks(self, n_rows: int) -> Iterator[Any]:
        import pyarrow as pa

        self.stamp.check()
        with damage_named(self.name), pa.memory_map(self.stamp.path) as file:
            batch = pa.ipc.open_file(file).get_batch(self.number)
            batch = batch if self.columns is None else batch.select(list(self.columns))
            for start in range(0, batch.num_rows, n_rows):
                yield frame_of(batch.slice(start, n_rows))
        self.stamp.check()


@dataclass(frozen=True)
class ArrayPart:
    """Rows of an npy file, which is mapped and not read, or of an array in memory."""

    array: Any
    start: int
    stop: int
    stamp: Stamp | None = None
    is_fast: ClassVar[bool] = True

    @property
    def name(self) -> str:
        where = "the array" if self.stamp is None else self.stamp.path
        return f"{where}, rows {self.start} to {self.stop}"

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    def blocks(self, n_rows: int) -> Iterator[Any]:
        array = self.array
        if self.stamp is not None:
            self.stamp.check()
            array = np.load(self.stamp.path, mmap_mode="r", allow_pickle=False)
        for start in range(self.start, self.stop, n_rows):
            yield rows_of(array, start, min(start + n_rows, self.stop))
        if self.stamp is not None:
            self.stamp.check()


def rows_of(array: Any, start: int, stop: int) -> np.ndarray:
    """A copy of some rows. Those of a mapped file are read: pages that are looked at count as memory of the process."""
    is_whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap) and array.flags.c_contiguous
    if is_whole and array.filename is not None:
        width = array.strides[0]
        own = np.fromfile(
            array.filename, array.dtype, (stop - start) * width // array.itemsize, "", array.offset + start * width
        )
        return own.reshape(stop - start, *array.shape[1:])
    return np.array(array[start:stop])


@dataclass(frozen=True)
class SparsePart:
    """A sparse matrix in an npz file of scipy, which is read as a whole."""

    stamp: Stamp
    n_rows: int
    is_fast: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.stamp.path

    def blocks(self, n_rows: int) -> Iterator[Any]:
        from jensen.files.documents import read_counts

        self.stamp.check()
        matrix = read_counts(self.stamp.path)
        for start in range(0, self.n_rows, n_rows):
            yield matrix[start : start + n_rows]
        self.stamp.check()


@dataclass(frozen=True)
class CallPart:
    """What a function returns anew for every sweep: an iterable of data frames, arrays, sparse matrices or texts.

    Args:
        make: takes the number of rows of a block.
        name: for messages.
        n_rows: their number, if it is known.
    """

    make: Callable[[int], Iterable[Any]]
    name: str
    n_rows: int | None = field(default=None)
    is_fast: ClassVar[bool] = False

    def blocks(self, n_rows: int) -> Iterator[Any]:
        for table in with_texts_gathered(self.make(n_rows), n_rows):
            n = int(table.shape[0]) if hasattr(table, "shape") else len(table)
            if n <= 2 * n_rows:
                yield table
                continue
            from jensen.data.container import take

            for start in range(0, n, n_rows):
                yield take(table, np.arange(start, min(start + n_rows, n)))


def with_texts_gathered(tables: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Tables as they are, and texts that come one by one in lists."""
    texts: list[str] = []
    for table in tables:
        if isinstance(table, str):
            texts.append(table)
        else:
            yield table
        if len(texts) == n_rows:
            yield texts
            texts = []
    if texts:
        yield texts


def frame_of(batch: Any) -> Any:
    """A record batch of Arrow as a data frame of pandas; what is missing is NaN."""
    import pandas as pd
    import pyarrow as pa

    if batch.num_columns and all(pa.types.is_float64(kind) for kind in batch.schema.types):
        # One array of all columns, without the detour of a column each.
        values = np.empty((batch.num_columns, batch.num_rows))
        for own, column in zip(values, batch.columns, strict=True):
            own[:] = column.to_numpy(zero_copy_only=False)
        return pd.DataFrame(values.T, columns=batch.schema.names, copy=False)
    frame = batch.to_pandas(date_as_object=False)
    texts = [
        field.name for field in batch.schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    for name in texts:
        # None for a missing text, whatever the version of pandas makes of it.
        frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
    booleans = [
        field.name for field in batch.schema if pa.types.is_boolean(field.type) and batch[field.name].null_count
    ]
    for name in booleans:
        frame[name] = frame[name].astype(pd.BooleanDtype())
    return frame


# Files


def check_names(path: Path, names: Iterable[str], columns: tuple[str, ...] | None) -> None:
    absent = [name for name in columns or () if name not in set(names)]
    if absent:
        raise ValueError(f"{path} has no column {absent[0]!r}; it has {', '.join(map(str, names))}")


def array_parts(array: np.ndarray, stamp: Stamp | None) -> list[Part]:
    """Parts of rows (n, ...) of about 64 MB."""
    if array.ndim < 2 or array.dtype.kind not in "buif":
        where = "the array" if stamp is None else stamp.path
        raise ValueError(f"{where} has shape {array.shape} and type {array.dtype}; give rows (n, d) of numbers")
    if not len(array):
        return []
    per_part = max(1, PART_BYTES // max(1, array.nbytes // len(array)))
    held = None if stamp is not None else array
    return [ArrayPart(held, i, min(i + per_part, len(array)), stamp) for i in range(0, len(array), per_part)]
