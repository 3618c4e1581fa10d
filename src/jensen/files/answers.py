"""What a model returns about a scan: computed block by block when it is read, collected or written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jensen.files.parts import EXTRA
from jensen.files.places import suffixes_of
from jensen.files.replacing import replacing
from jensen.files.scan import Block, Scan
from jensen.files.sources import needed
from jensen.runtime.ahead import ahead
from jensen.runtime.messages import saying_once

STREAMED = (".parquet", ".csv", ".tsv", ".npy")


@dataclass(frozen=True, repr=False)
class Answered:
    """Answers about the rows of a scan, one per row.

    Args:
        scan: the rows.
        answer: takes a table to what is returned about it.
        name: of the answer, for a column.
    """

    scan: Scan
    answer: Callable[[Any], Any]
    name: str

    def __repr__(self) -> str:
        return f"<{self.name} of {self.scan!r}; collect() or write(path) computes it>"

    def __iter__(self) -> Iterator[Any]:
        for _, values in self.blocks():
            yield values

    def blocks(self) -> Iterator[tuple[Block, Any]]:
        """Blocks of rows with the answers about them; the next ones are read meanwhile."""
        said: set[type[Warning]] = set()
        for block in ahead(self.scan):
            with saying_once(said):
                found = self.answer(block.table)
            yield block, found

    def collect(self) -> Any:
        """All answers in memory: an array, or a data frame."""
        found = list(self)
        if hasattr(found[0], "iloc"):
            return pd.concat(found, ignore_index=True)
        return np.concatenate([np.asarray(values) for values in found])

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write the answers to a Parquet, CSV or npy file, block by block; returns the number of rows."""
        for part in self.scan.parts:
            stamp = getattr(part, "stamp", None)
            if stamp is not None and os.path.realpath(stamp.path) == os.path.realpath(path):
                raise ValueError(f"{os.fspath(path)} is one of the files that are read; write to another one")
        return write_frames(path, (as_frame(values, self.name) for values in self))


def streamed_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of a file, or an error if it cannot be written block by block."""
    suffix, packing = suffixes_of(path)
    if suffix not in STREAMED or packing:
        raise ValueError(f"{path} cannot be written block by block; give a file that ends in {', '.join(STREAMED)}")
    return suffix


def write_frames(path: str | os.PathLike[str], frames: Iterator[pd.DataFrame]) -> int:
    """Write data frames one after the other to one file; returns the number of rows."""
    suffix = streamed_suffix(path)
    if suffix == ".parquet":
        needed("pyarrow", f"{path}: Parquet files need pyarrow", EXTRA)
    with replacing(path) as aside:
        return WRITERS[suffix](aside, frames, suffix)


def as_frame(values: Any, name: str) -> pd.DataFrame:
    """A data frame of what was returned about a block."""
    if hasattr(values, "iloc"):
        frame: pd.DataFrame = values if hasattr(values, "columns") else values.to_frame(name)
        return frame
    array = np.asarray(values)
    if array.ndim == 1:
        return pd.DataFrame({name: array})
    return pd.DataFrame({f"{name}_{j}": array[:, j] for j in range(array.shape[1])})


def write_parquet(path: Path, frames: Iterator[pd.DataFrame], suffix: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, n = None, 0
    try:
        for frame in frames:
            if writer is None:
                writer = pq.ParquetWriter(path, schema_of(frame))
            try:
                writer.write_table(pa.Table.from_pandas(frame, schema=writer.schema, preserve_index=False))
            except (pa.ArrowException, KeyError) as error:
                what = str(error).splitlines()[0]
                raise ValueError(f"rows from {n} on differ in type from those before: {what}; write a .csv") from None
            n += len(frame)
    finally:
        if writer is not None:
            writer.close()
    return n


def schema_of(frame: pd.DataFrame) -> Any:
    """The types of a file whose first rows these are; a column without a value so far is text."""
    import pyarrow as pa

    found = pa.Schema.from_pandas(frame, preserve_index=False)
    for i, field in enumerate(found):
        if pa.types.is_null(field.type):
            found = found.set(i, field.with_type(pa.string()))
    return found


def write_text(path: Path, frames: Iterator[pd.DataFrame], suffix: str) -> int:
    n = 0
    with open(path, "w", encoding="utf-8", newline="") as file:
        for frame in frames:
            frame.to_csv(file, index=False, header=n == 0, sep="\t" if suffix == ".tsv" else ",")
            n += len(frame)
    return n


def write_array(path: Path, frames: Iterator[pd.DataFrame], suffix: str) -> int:
    """Rows follow a header whose number of rows is written at the end, in the room that is left for it."""
    n, width, dtype = 0, 0, np.dtype(np.float64)
    with open(path, "wb") as file:
        for frame in frames:
            values = np.ascontiguousarray(frame.to_numpy(dtype=None if n == 0 else dtype))
            if n == 0:
                if values.dtype.kind not in "biuf":
                    raise ValueError(f"{path} cannot hold text, because npy files hold numbers; write a .parquet file")
                width, dtype = values.shape[1], values.dtype
                file.write(header(10**15, width, dtype))
            file.write(values.tobytes())
            n += len(values)
        end = len(header(10**15, width, dtype))
        file.seek(0)
        file.write(header(n, width, dtype, end))
    return n


def header(n: int, width: int, dtype: np.dtype[Any], length: int | None = None) -> bytes:
    """The header of an npy file of version 1, padded to this length."""
    shape = f"({n},)" if width == 1 else f"({n}, {width})"
    text = f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape}, }}"
    size = 64 * -(-(len(text) + 11) // 64) if length is None else length
    return b"\x93NUMPY\x01\x00" + (size - 10).to_bytes(2, "little") + (text.ljust(size - 11) + "\n").encode("latin-1")


WRITERS = {".parquet": write_parquet, ".csv": write_text, ".tsv": write_text, ".npy": write_array}
