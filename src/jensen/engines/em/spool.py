"""Batches in temporary files: the first sweep over a scan writes them, so that later ones need not parse the rows.

Tensors and arrays go to the file as they lie in memory, so that sums over what is read back have the same bits. What is
left of a batch, its shapes and the parts that batches share, stays in memory.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import uuid
import warnings
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.runtime.messages import levels_inside

# Products of matrices read their operands fastest, and round alike, from such places.
ALIGNED = 64
# Marks a field whose value many batches share: `field(metadata=SHARED)`.
SHARED = {"shared": True}


@dataclass(frozen=True)
class Place:
    """Where the numbers of a tensor or an array lie in the bytes of its batch.

    Args:
        start: the first byte.
        n_bytes: their number.
        dtype: of the numbers.
        shape: with its axes in the order of the bytes.
        order: axis i of the tensor is axis order[i] of the bytes.
        is_array: whether it is an array of numpy.
    """

    start: int
    n_bytes: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    order: tuple[int, ...]
    is_array: bool

    def read(self, data: Tensor) -> Any:
        own = data[self.start : self.start + self.n_bytes].view(self.dtype).view(self.shape).permute(self.order)
        return own.numpy() if self.is_array else own


@dataclass(frozen=True)
class Compressed:
    """A sparse matrix by its parts."""

    starts: Place
    places: Place
    values: Place
    shape: torch.Size
    layout: torch.layout


@dataclass(frozen=True)
class Spooled:
    """A batch whose numbers are in a file, from byte `start`."""

    start: int
    n_bytes: int
    rest: Any


class SpoolFile:
    """A temporary file of bytes, which several threads write and read."""

    def __init__(self, folder: str | None) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as the fit)
        weakref.finalize(self, self._file.close)
        self._lock, self.n_bytes = Lock(), 0

    def append(self, data: Tensor) -> int:
        """Write bytes (n,) at the end; returns where they start."""
        with self._lock:
            start = self._file.seek(self.n_bytes)
            self._file.write(data.numpy().data)
            self.n_bytes += len(data)
        return start

    def read(self, start: int, n_bytes: int) -> Tensor:
        data = torch.empty(n_bytes, dtype=torch.uint8)
        with self._lock:
            self._file.seek(start)
            self._file.readinto(data.numpy().data)  # type: ignore[attr-defined]
        return data


class SpooledPart:
    """The batches of one part, a list for every block."""

    def __init__(self, file: SpoolFile) -> None:
        self._file, self._blocks = file, list[list[Spooled]]()
        self.n_bytes = 0
        self.is_whole = False

    def write(self, batches: Iterable[Batch]) -> None:
        """Append a block."""
        block = []
        for batch in batches:
            pieces: list[Tensor] = []
            rest = taken_apart(batch, pieces)
            data = torch.zeros(sum(map(room_for, pieces)), dtype=torch.uint8)
            start = 0
            for piece in pieces:
                data[start : start + piece.numel() * piece.element_size()] = piece.flatten().view(torch.uint8)
                start += room_for(piece)
            block.append(Spooled(self._file.append(data), len(data), rest))
            self.n_bytes += len(data)
        self._blocks.append(block)

    def __iter__(self) -> Iterator[list[Batch]]:
        for block in self._blocks:
            yield [put_together(one.rest, self._file.read(one.start, one.n_bytes)) for one in block]


class Spool:
    """The batches of a scan, part by part. Sent to another process, it is the spool of that process for the same fit.

    Args:
        folder: for temporary files; None is the system's.
        n_rows: of all parts, to see whether there is room.
        fit: a name for the fit; None makes one.
    """

    def __init__(self, folder: str | None, n_rows: int, fit: str | None = None) -> None:
        self._folder, self._n_rows, self._fit = folder, n_rows, fit or uuid.uuid4().hex
        self._file: SpoolFile | None = None
        self._parts: dict[str, SpooledPart] = {}
        self._is_off = self._has_room = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return spool_of, (self._folder, self._n_rows, self._fit)

    def found(self, name: str) -> SpooledPart | None:
        """The batches of a part, if a sweep has written all of them."""
        part = self._parts.get(name)
        return part if part is not None and part.is_whole else None

    def through(self, name: str, blocks: Iterable[tuple[int, list[Batch]]]) -> Iterator[list[Batch]]:
        """The batches of a part's blocks, which have so many rows; they are written on the way."""
        part = None if self._is_off else self._begin()
        for n_rows, batches in blocks:
            part = self._add(part, n_rows, batches)
            yield batches
        if part is not None and not self._is_off:
            part.is_whole = True
            self._parts[name] = part

    def _begin(self) -> SpooledPart | None:
        # One file for all parts, of which there may be more than a process may have files open.
        try:
            with self._lock:
                self._file = self._file or SpoolFile(self._folder)
            return SpooledPart(self._file)
        except OSError as error:
            self._end(error)
            return None

    def _add(self, part: SpooledPart | None, n_rows: int, batches: list[Batch]) -> SpooledPart | None:
        if part is None or self._is_off:
            return None
        try:
            before = part.n_bytes
            part.write(batches)
            if not self._has_room:
                self._check_room((part.n_bytes - before) / max(1, n_rows))
        except OSError as error:
            self._end(error)
            return None
        return part

    def _check_room(self, bytes_per_row: float) -> None:
        """An error unless all rows fit twice: others need room, too."""
        free = shutil.disk_usage(self._folder or tempfile.gettempdir()).free
        if free < 2 * bytes_per_row * self._n_rows:
            raise OSError(f"{free / 1e9:.1f} GB are free and {2e-9 * bytes_per_row * self._n_rows:.1f} GB are wanted")
        self._has_room = True

    def _end(self, error: OSError) -> None:
        """Without a file rows are read from their source in every sweep, which takes longer."""
        if not self._is_off:
            self._is_off, self._file = True, None
            self._parts.clear()
            warnings.warn(
                f"the cache of the scan in {self._folder or tempfile.gettempdir()} is not written: {error}; every "
                "sweep reads the source again; scan(cache=FOLDER) names a folder with more room",
                UserWarning,
                stacklevel=levels_inside(),
            )


@lru_cache(maxsize=2)
def spool_of(folder: str | None, n_rows: int, fit: str) -> Spool:
    """The spool of this process for a fit; files of earlier fits are deleted."""
    return Spool(folder, n_rows, fit)


def room_for(piece: Tensor) -> int:
    return ALIGNED * math.ceil(piece.numel() * piece.element_size() / ALIGNED)


def taken_apart(value: Any, pieces: list[Tensor]) -> Any:
    """A value with places instead of its tensors and arrays, which are appended to the pieces."""
    if isinstance(value, Tensor):
        if value.layout == torch.strided:
            return place_of(value, pieces, is_array=False)
        by_row = value.layout == torch.sparse_csr
        starts, places = (
            (value.crow_indices(), value.col_indices()) if by_row else (value.ccol_indices(), value.row_indices())
        )
        parts = [place_of(one, pieces, is_array=False) for one in (starts, places, value.values())]
        return Compressed(parts[0], parts[1], parts[2], value.shape, value.layout)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return place_of(torch.from_numpy(value if value.flags.writeable else value.copy()), pieces, is_array=True)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: taken_apart(getattr(value, name), pieces) for name in own_fields(value)})
    if type(value) is tuple:
        return tuple(taken_apart(one, pieces) for one in value)
    return value


def own_fields(record: Any) -> list[str]:
    """The fields of a record that are not shared."""
    return [f.name for f in fields(record) if f.init and not f.metadata.get("shared")]


def place_of(value: Tensor, pieces: list[Tensor], *, is_array: bool) -> Place:
    start = sum(map(room_for, pieces))
    strides = value.stride()
    by_stride = sorted(range(value.ndim), key=lambda axis: -strides[axis])
    piece = value.permute(by_stride).contiguous()
    order = tuple(by_stride.index(axis) for axis in range(value.ndim))
    pieces.append(piece)
    return Place(start, piece.numel() * piece.element_size(), value.dtype, tuple(piece.shape), order, is_array)


def put_together(rest: Any, data: Tensor) -> Any:
    """Undo `taken_apart`."""
    if isinstance(rest, Place):
        return rest.read(data)
    if isinstance(rest, Compressed):
        starts, places, values = (one.read(data) for one in (rest.starts, rest.places, rest.values))
        return torch.sparse_compressed_tensor(
            starts, places, values, rest.shape, layout=rest.layout, check_invariants=False
        )
    if is_dataclass(rest) and not isinstance(rest, type):
        return replace(rest, **{name: put_together(getattr(rest, name), data) for name in own_fields(rest)})
    if type(rest) is tuple:
        return tuple(put_together(one, data) for one in rest)
    return rest
