"""Tables that commands read block by block: several files, or one that would fill the memory.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.documents import tell
from jensen.files.places import (
    SCANNED,
    SEPARATORS,
    header_of,
    is_embedded,
    is_folder_of_tables,
    is_pattern,
    is_stdin,
    no_column,
)
from jensen.files.reading import Reading
from jensen.runtime.memory import available_bytes

if TYPE_CHECKING:
    from jensen.files.scan import Scan
    from jensen.registry import Model

# The largest share of the available memory that a file may have to be read at once: a table takes several times the
# size of its file, and models make copies.
SHARE = 1 / 4

Scanned = Annotated[
    bool | None,
    typer.Option(
        "--scan/--no-scan",
        help="Read the table block by block, or at once into memory. Default: block by block for a folder or a pattern "
        "of tables, and for a file larger than a quarter of the available memory.",
    ),
]
BlockRows = Annotated[
    int | None, typer.Option(min=1, help="Rows of a block. Default: found from the number of columns.")
]


def is_scanned(
    path: str | Path, asked: bool | None, block_rows: int | None = None, *, model: Model | Path | None = None
) -> bool:
    """Whether a table is read block by block; an error for options that contradict it.

    A folder with tables and .txt files is one of texts for a `model` of texts.
    """
    is_many = is_pattern(path) or (is_folder_of_tables(path) and not is_folder_of_texts(path, model))
    if asked is False and is_many:
        raise ValueError(f"--no-scan reads one table into memory, and {path} are several; give one file")
    if asked and (is_stdin(path) or is_embedded(path) or (Path(path).is_dir() and not is_many)):
        raise ValueError(f"--scan reads tables that end in {', '.join(SCANNED)}, and {path} is none; leave it out")
    found = is_many or is_large(path) if asked is None else asked
    if block_rows is not None and not found:
        raise ValueError(f"--block-rows {block_rows} is for tables that are read block by block; add --scan")
    return found


def is_large(path: str | Path) -> bool:
    """Whether a file is too large to be read at once, and can be read in blocks."""
    file, free = Path(path), available_bytes()
    return free is not None and file.suffix.lower() in SCANNED and file.is_file() and file.stat().st_size > SHARE * free


def open_scan(
    path: str | Path,
    reading: Reading,
    *,
    label: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] | None = None,
    block_rows: int | None = None,
) -> tuple[Scan, list[str]]:
    """A scan of tables, and the columns to keep. One line says what was found."""
    from jensen.files.scan import scan
    from jensen.files.table_files import files_of

    for option, name in (("--label", label), ("--weight", weight)):
        if name is not None and Path(name).is_file():
            raise ValueError(
                f"{option} {name} is a file, and a table that is read block by block has its own column of it; add "
                "the column to the table"
            )
    files = files_of(path)
    is_text = files[0].suffix.lower() in SEPARATORS
    options: dict[str, Any] = {"missing": reading.missing, "types": reading.types, "header": reading.header}
    given = {"--missing": reading.missing, "--types": reading.types, "--header": reading.header is not None}
    for option, value in () if is_text else given.items():
        if value:
            raise ValueError(
                f"{option} is for text files if a table is read block by block, and {files[0]} is none; leave it out, "
                "and change the table where it is written"
            )
    if is_text:
        check_levels(reading, files[0])
        known = header_of(files[0], reading.header) or []
        # What a fitted model has as text is text, even if it is all digits here.
        kinds = {"as written": "text"}
        fitted = {name: kinds.get(kind, kind) for name, kind in reading.fitted.items() if name in known}
        options["types"] = {name: kind for name, kind in fitted.items() if kind != "plain"} | dict(reading.types)
    found = scan([os.fspath(file) for file in files], block_rows=block_rows, **options)
    head = found.head().table
    names = [str(name) for name in (head.columns if hasattr(head, "columns") else range(head.shape[1]))]
    left, kept = listed(drop, names), listed(keep or (), names)
    for name in (label, weight, *left, *kept):
        if name is not None and name not in names:
            raise no_column(name, names)
    describe(path, files, found, head)
    return replace(found, label=label, weight=weight, drop=tuple(left)), kept


def check_levels(reading: Reading, file: Path) -> None:
    """An error if a level of the fitted model would be read as a missing value."""
    levels = [name for name, kind in reading.fitted.items() if kind == "as written" and name not in reading.types]
    if levels and reading.has_usual_codes:
        raise ValueError(
            f"the model has a level of {levels[0]!r}, such as NA or ?, that {file} would have as a missing value if it "
            "is read block by block; give --missing only"
        )


def listed(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names of columns; a word may hold several: a,b."""
    return [part for word in words for part in ([word] if word in names else word.split(","))]


def describe(path: str | Path, files: Sequence[Path], scan: Scan, head: Any) -> None:
    """One line: files, rows if they are known, and columns of the first block."""
    n_rows = scan.n_rows
    rows = "" if n_rows is None else f"{n_rows} rows, "
    many = f"{len(files)} files, " if len(files) > 1 else ""
    if head.ndim > 2:
        what = f"of shape {tuple(head.shape[1:])}"
    else:
        kinds = Counter(map(kind_of, head.dtypes)) if hasattr(head, "dtypes") else Counter(numbers=head.shape[1])
        what = f"{head.shape[1]} columns ({', '.join(f'{n} of {kind}' for kind, n in kinds.items())})"
    tell(f"{path}: {many}{rows}{what}; read in blocks of at most {scan.block_rows} rows")


def kind_of(dtype: Any) -> str:
    return {"M": "dates", "b": "yes/no", "O": "text"}.get(dtype.kind, "numbers")


def scan_for_fit(
    estimator: Model,
    path: str | Path,
    reading: Reading,
    *,
    text: str | None,
    label: str | None,
    weight: str | None,
    drop: Sequence[str],
    block_rows: int | None,
) -> Scan:
    """The rows to fit a model to."""
    found, _ = open_scan(path, reading, label=label, weight=weight, drop=drop, block_rows=block_rows)
    if not estimator.capabilities.texts:
        return found
    from jensen.files.documents import find_text_column, text_column

    head = found.head().table
    column = text if text is not None else find_text_column(head) if hasattr(head, "columns") else None
    if column is None:
        return found
    text_column(head, column)
    return replace(found, drop=(*found.drop, *(str(name) for name in head.columns if str(name) != column)))


def is_folder_of_texts(path: str | Path, model: Model | Path | None) -> bool:
    """Whether a folder has .txt files, and the model takes them."""
    if model is None or not any(Path(path).rglob("*.txt")):
        return False
    from jensen.registry import load

    return bool((load(model) if isinstance(model, Path) else model).capabilities.texts)


@contextmanager
def workers(processes: int | None, dask: str | None) -> Iterator[Any]:
    """An executor for sweeps over a scan: processes here, or those of dask; None where neither is asked for."""
    if dask is not None:
        if processes:
            raise ValueError(f"--dask {dask} and --processes {processes} both say where sweeps run; give one")
        from jensen.files.parts import EXTRA
        from jensen.files.sources import needed

        distributed: Any = needed("distributed", f"--dask {dask}: dask runs the sweeps", EXTRA)
        try:
            client = distributed.Client(dask, timeout="10s")
        except (OSError, ValueError) as error:
            raise ValueError(f"--dask {dask}: there is no scheduler of dask ({error}); give host:port") from None
        with client:
            yield client.get_executor(retries=3)
        return
    if not processes or processes == 1:
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=begin_worker)
    try:
        yield pool
    finally:
        # After Ctrl-C nobody waits for what is left of a sweep.
        pool.shutdown(wait=True, cancel_futures=True)


def begin_worker() -> None:
    """One thread for each process; Ctrl-C is for the command."""
    import signal

    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
