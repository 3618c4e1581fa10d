"""Where the bytes of a table come from: a file, a packed one, a member of a zip archive, or standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from jensen.files.places import DATABASES, SUFFIXES, check_exists, file_of, is_stdin, known_suffix, suffixes_of

# How the bytes of formats begin; zip archives may be workbooks.
SIGNATURES = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\x93NUMPY": ".npy",
    b"[": ".json",
    b"{": ".jsonl",
}
WORKBOOK = "[Content_Types].xml"


@dataclass(frozen=True)
class Source:
    """An open table.

    Args:
        path: its name for messages.
        suffix: its format.
        file: its bytes, unpacked; of a database nothing, because its library opens the file.
        part: the table of a database or the sheet of a workbook, if one is named.
    """

    path: str
    suffix: str
    file: BinaryIO
    part: str | None = None


@contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[Source]:
    """The table of this name, unpacked; "-" is standard input, whose first bytes tell the format."""
    name = os.fspath(path)
    with ExitStack() as stack:
        if is_stdin(path):
            yield unpacked(name, io.BytesIO(sys.stdin.buffer.read()), stack)
            return
        check_exists(path)
        suffix, packing = suffixes_of(path)
        file, part = file_of(path)
        if suffix != ".zip":
            suffix = known_suffix(path)
        if suffix in DATABASES:
            yield Source(name, suffix, io.BytesIO(), part)
            return
        opened: BinaryIO = stack.enter_context(open(file, "rb"))
        if packing or suffix == ".zip":
            # A file that was cut off may be found out at its end.
            stack.enter_context(damage_named(name))
        if packing:
            opened = unpack(name, opened, packing)
        yield member(name, opened, part, stack) if suffix == ".zip" else Source(name, suffix, opened, part)


def unpacked(name: str, file: BinaryIO, stack: ExitStack) -> Source:
    """A table whose format its bytes tell."""
    suffix = suffix_of_bytes(file)
    if suffix in (".gz", ".bz2", ".xz", ".zst"):
        return unpacked(name, io.BytesIO(unpack(name, file, suffix).read()), stack)
    return member(name, file, None, stack) if suffix == ".zip" else Source(name, suffix, file)


def suffix_of_bytes(file: BinaryIO) -> str:
    head = file.read(4096)
    file.seek(0)
    found = next((suffix for signature, suffix in SIGNATURES.items() if head.lstrip().startswith(signature)), ".csv")
    if found == ".zip" and WORKBOOK in zipfile.ZipFile(file).namelist():
        found = ".xlsx"
    file.seek(0)
    return found


def open_packed(path: Path, packing: str) -> Any:
    """A new file of bytes that are packed in this way; "" for no packing."""
    if packing == ".zst":
        return needed("zstandard", f"{path}: .zst files need zstandard", "files").open(path, "wb")
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers.get(packing, open)(path, "wb")


def unpack(name: str, file: BinaryIO, packing: str) -> BinaryIO:
    if packing == ".zst":
        zstandard: Any = needed("zstandard", f"{name}: .zst files need zstandard", "files")
        with damage_named(name):
            return io.BytesIO(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read())
    openers: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opened: BinaryIO = openers[packing](file)
    with damage_named(name):
        opened.read(1)
    opened.seek(0)
    return opened


@contextmanager
def damage_named(name: str) -> Iterator[None]:
    """Errors of unpacking name the file."""
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"{name} cannot be unpacked: {error}") from None
    except Exception as error:
        # zstandard has an exception of its own, and may not be installed.
        if type(error).__name__ != "ZstdError":
            raise
        raise ValueError(f"{name} cannot be unpacked: {error}") from None


def member(name: str, file: BinaryIO, part: str | None, stack: ExitStack) -> Source:
    """The only table in a zip archive, or the one that is named."""
    with damage_named(name):
        archive = stack.enter_context(zipfile.ZipFile(file))
    tables = [
        entry
        for entry in archive.namelist()
        if suffixes_of(entry)[0] in set(SUFFIXES) - {".zip", *DATABASES} and not entry.startswith("__MACOSX/")
    ]
    # A text beside tables describes them.
    others = [entry for entry in tables if suffixes_of(entry)[0] != ".txt"]
    tables = others if others and part not in tables else tables
    chosen = part or (tables[0] if len(tables) == 1 else None)
    if chosen not in tables:
        found = f"the tables {', '.join(tables)}" if tables else f"no table ({', '.join(archive.namelist()[:5])})"
        raise ValueError(
            f"{name} holds {found}; name one of its tables, such as {Path(name).name}::{(*tables, 'x.csv')[0]}"
        )
    suffix, packing = suffixes_of(chosen)
    with damage_named(name):
        opened: Any = stack.enter_context(archive.open(chosen))
    return Source(f"{name}::{chosen}" if part else name, suffix, unpack(name, opened, packing) if packing else opened)


def needed(module: str, what: str, extra: str) -> Any:
    """A library that is not always installed, or an error that names the extra that has it."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{what}: pip install 'jensen[{extra}]'") from None
