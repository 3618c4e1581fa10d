"""Checks of files before any work, and before libraries are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jensen.files.places import check_columns, check_data, check_output, is_text


def check_files(
    model: Path,
    data: Path | None = None,
    output: Path | None = None,
    *,
    keep: Sequence[str] | None = None,
    label: str | None = None,
    text: str | None = None,
    header: bool | None = None,
    many: bool = False,
) -> None:
    """An error if files cannot be read, if columns are not there, or if a table cannot be written.

    The data may be `many` tables.
    """
    if data is not None:
        check_data(data, many=many)
        check_columns(data, [*(keep or []), *([text] if text else [])], [label], header)
    if not model.is_file():
        raise FileNotFoundError(f"there is no model file {model}; `jensen fit` writes one")
    if output is not None:
        check_writable(output)
        check_output(output)


def check_place(output: Path | None) -> None:
    """An error if there is no folder for an output of any kind."""
    if output is not None and not output.absolute().parent.is_dir():
        check_writable(output)


def check_writable(output: Path, option: str = "--output") -> None:
    """An error if a file cannot be written."""
    folder = output.parent
    if output.is_dir():
        raise ValueError(f"{option} {output} cannot be written: it is a folder; give a file")
    if not folder.is_dir():
        raise ValueError(f"{option} {output} cannot be written: there is no folder {folder}; give one that exists")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {output} cannot be written: no permission to write to {folder}; give another")


def check_outputs(files: Mapping[str, Path | None]) -> None:
    """An error if one of these files, by its option, cannot be written, or a --report is no page."""
    for option, file in files.items():
        if file is not None:
            check_writable(file, option)
            if option == "--report":
                check_page(file, option)


def check_safe(is_safe: bool, *files: Path | None, is_printed: bool) -> None:
    """An error if --safe-csv would have no effect."""
    if not is_safe:
        return
    given = [file for file in files if file is not None]
    if not (any(is_text(file) for file in given) if given else is_printed):
        raise ValueError("--safe-csv applies to .csv and .tsv tables, and none is written here; leave it out")


def check_page(output: Path, option: str = "--output") -> None:
    if output.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{option} {output} must end in .html")


def is_picture(output: Path | None) -> bool:
    return output is not None and output.suffix.lower() == ".png"


def is_folder(output: Path | None) -> bool:
    """Whether images are written to a folder, one file each: the name has no suffix. (A path drops its last slash.)"""
    return output is not None and not output.suffix


def is_image_file(output: Path | None) -> bool:
    """Whether images are written as pictures: one .png, or a folder of them."""
    return is_picture(output) or is_folder(output)
