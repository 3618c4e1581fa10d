"""Arrays in npy files: rows and features, one column, or images."""

from __future__ import annotations

import math
import os
from typing import BinaryIO

import numpy as np

from jensen.files.places import check_holds_text
from jensen.files.replacing import replacing
from jensen.runtime.memory import in_units, need_memory

MAGIC = b"\x93NUMPY"
SAVED_AS = "save numbers, such as x.astype(float), or a table with text as .csv or .parquet"


def read_npy(path: str | os.PathLike[str], kinds: str = "biuf", file: BinaryIO | None = None) -> np.ndarray:
    """An array of numbers; from an open file if there is none of this name."""
    try:
        if file is None:
            check_size(path)
        array: np.ndarray = np.load(path if file is None else file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an npy file of numbers: {error}; {SAVED_AS}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} is an npz archive; save one array with numpy.save")
    if array.dtype.kind not in kinds:
        what = "text" if array.dtype.kind in "SUT" else f"{array.dtype} values"
        raise ValueError(f"{path} holds {what}, and rows of an npy file are real numbers; {SAVED_AS}")
    if array.ndim not in (1, 2, 3, 4):
        raise ValueError(
            f"{path} has shape {array.shape}; save rows and features (n, d), one column (n,), or images (n, h, w) or "
            "(n, c, h, w)"
        )
    return array[:, None] if array.ndim == 1 else array


def check_size(path: str | os.PathLike[str]) -> None:
    """An npy file must hold the numbers that its header claims, and these must fit into memory."""
    first, second = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    # Version 3 differs in the encoding of field names only.
    readers = {(1, 0): first, (2, 0): second, (3, 0): second}
    with open(path, "rb") as file:
        is_npy = file.read(len(MAGIC)) == MAGIC
        file.seek(0)
        reader = readers.get(np.lib.format.read_magic(file)) if is_npy else None
        if reader is None:
            return  # numpy knows what it is
        shape, _, dtype = reader(file)
        held = os.fstat(file.fileno()).st_size - file.tell()
    claimed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and claimed > held:
        raise ValueError(
            f"its header claims the shape {shape}, {in_units(claimed)} of numbers, and it holds {in_units(held)}; "
            "it is damaged or was cut off"
        )
    need_memory(claimed, f"an array of shape {shape}", "read a part of it: np.load(path, mmap_mode='r')[:n]")


def write_npy(path: str | os.PathLike[str], values: np.ndarray) -> None:
    if values.dtype.kind not in "biuf":
        check_holds_text(path)
    # A name would get a second suffix when its own is in capitals; an open file keeps it.
    with replacing(path) as aside, open(aside, "wb") as file:
        np.save(file, values, allow_pickle=False)
