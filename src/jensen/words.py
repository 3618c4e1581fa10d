"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from jensen.progress import hide_progress

__all__ = [
    "MODEL_OPTIONS",
    "TABLE",
    "Drop",
    "FitSeed",
    "Json",
    "Keep",
    "Label",
    "Name",
    "Quiet",
    "SafeCsv",
    "Weight",
    "Word",
]

# A model's own options are not known before its name.
MODEL_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def silenced(wanted: bool) -> bool:
    """An option that also hides progress."""
    if wanted:
        hide_progress()
    return wanted


TABLE = typer.Argument(
    help="Table: .csv, .tsv, .parquet or .npy; empty cells are missing. Images: a folder, or .npy of (n, h, w) or "
    "(n, c, h, w). Or data of scikit-learn: digits, iris, wine."
)
Name = Annotated[str, typer.Argument(help="Name of a model; `jensen models` lists them.")]
# Where options of a model may follow, any word may land here.
Word = Annotated[str, TABLE]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN|FILE",
        help="Labels: a column (npy: its number), or a file of one per row, .npy, .csv or .txt; empty, NaN and -1 are "
        "unlabelled. `folder`: the subfolders of images. `target`: of digits, iris, wine. Of a regression what to "
        "predict.",
    ),
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN|FILE", help="Row weights: a column (npy: its number), or a file.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out, or several: a,b; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of the data to stand before the answer, or several: a,b."),
]
FitSeed = Annotated[int | None, typer.Option(help="Random seed; 0 when not given.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Write a quote before text that a spreadsheet would read as a formula: text that begins with = + - or @.",
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=silenced, help="Print one JSON object and nothing else.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=silenced, help="No progress bar, and nothing on standard output.")
]
