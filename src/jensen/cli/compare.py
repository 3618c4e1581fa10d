"""`jensen compare`: many models on the same data.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jensen.cli.checks import check_outputs, check_safe
from jensen.cli.documents import read_documents
from jensen.cli.inputs import (
    Checkpoint,
    Drop,
    Header,
    Json,
    Missing,
    Quiet,
    SafeCsv,
    Types,
    Weight,
    Word,
    table_options,
)
from jensen.cli.output import PICTURES, plain, show_message, wrote
from jensen.files.places import check_columns, check_data, check_holds_text
from jensen.registry import class_name, model_class

if TYPE_CHECKING:
    import numpy as np

    from jensen.evaluate.leaderboard import Leaderboard
    from jensen.files.reading import Reading
    from jensen.files.tables import Table


def compare(
    ctx: typer.Context,
    data: Word,
    models: Annotated[str, typer.Option(help="auto, or names of models: kmeans,vae.")] = "auto",
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN|FILE", help="Labels for models that use them; empty cells are unlabelled."),
    ] = None,
    weight: Weight = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    discrete: Annotated[
        str, typer.Option(metavar="auto|yes|no", help="Treat values as discrete (probability) or continuous (density).")
    ] = "auto",
    cv: Annotated[
        int | None,
        typer.Option(help="Number of folds. Default: one 80/20 split; 5 folds below 500 rows unless --effort quick."),
    ] = None,
    effort: Annotated[
        str,
        typer.Option(metavar="quick|normal|thorough", help="Training budget and model sizes tried by --models auto."),
    ] = "normal",
    blend: Annotated[
        bool, typer.Option("--blend", help="Also rank a blend of the models, weighted on training rows.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the results table: .csv or .parquet.")
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", help="HTML page to write: the results table, with a section per model."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(help="File for samples of every model: .png for images, .csv or .parquet for tables."),
    ] = None,
    checkpoint: Checkpoint = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit many models and rank them by their score on held-out rows.

    The table has nats per held-out row, bits per entry and the distance to the
    best model. A model that fails, or that has a density where the others have a
    probability, is listed with the reason. Ctrl-C ends with the models that are
    done; with --checkpoint, the same command resumes.

    Examples:
      jensen compare digits --effort quick
      jensen compare data.csv --drop id,town --label species
      jensen compare data.csv --models gaussian-mixture,vae --blend
      jensen compare images.npy --cv 3 --output board.csv --checkpoint run
      jensen compare digits --report report.html --samples samples.png
      jensen compare counts.npz --models auto
    """
    answers: dict[str, str | bool] = {"auto": "auto", "yes": True, "no": False}
    if discrete not in answers:
        raise ValueError(f"--discrete {discrete} is unknown; choose auto, yes or no")
    check_safe(safe_csv, output, samples, is_printed=False)
    check_outputs({"--output": output, "--report": report_to, "--samples": samples})
    if output:
        check_holds_text(output)
    ctx.meta["checkpoint"] = checkpoint
    names = "auto" if models == "auto" else [name.strip() for name in models.split(",")]
    for name in names if names != "auto" else ():
        class_name(name)
    check_data(data)
    check_columns(data, drop or [], [label, weight], header)
    from jensen.evaluate.compare import compare as compare_models
    from jensen.files.tables import write_dataset

    aside = [weight, *(drop or [])]
    reading = table_options(missing, header, types, label=label, aside=aside)
    X, y, weights = rows_of(data, label, weight, drop or [], reading)
    if samples:
        check_samples(samples, X)
    board = compare_models(
        X,
        names,
        y,
        discrete=answers[discrete],
        cv=cv,
        effort=effort,
        sample_weight=weights,
        blend=blend,
        random_state=seed,
        verbose=int(not (as_json or quiet)),
        checkpoint=checkpoint,
    )
    is_shown = not (as_json or quiet)
    if is_shown:
        from rich.console import Console

        # First, because an error in writing a file must not hide the table.
        console = Console()
        console.print(board.rich(console.width))
    writers = {
        "the table": (output, lambda file: write_dataset(file, board.table, is_safe=safe_csv)),
        "the report": (report_to, lambda file: board.report(file, f"Models of {Path(data).name}", int(is_shown))),
        "samples": (samples, lambda file: write_samples(file, board, safe_csv)),
    }
    written = {what: file for what, (file, _) in writers.items() if file}
    for what, file in written.items():
        writers[what][1](file)
        wrote(file)
        if is_shown:
            show_message(f"wrote {what} to {file.resolve()}")
    if as_json:
        rows = [{str(name): plain(value) for name, value in row.items()} for row in board.table.to_dict("records")]
        files = {what.removeprefix("the "): str(file.resolve()) for what, file in written.items()}
        told = {"best": board.best, "caption": board.caption, "table": rows, "files": files}
        typer.echo(json.dumps(told | ({"interrupted": True} if ctx.meta.get("is_interrupted") else {})))
    if ctx.meta.get("is_interrupted"):
        raise typer.Exit(130)


def check_samples(file: Path, X: Table) -> None:
    """An error unless the file suits the data: a picture for images, a table for rows."""
    from jensen.report.images import check_images

    is_picture = file.suffix.lower() in PICTURES
    if is_picture and len(X.shape) < 3:
        raise ValueError(f"--samples {file} must be a .csv or .parquet file for the rows of a table")
    if not is_picture and len(X.shape) > 2:
        raise ValueError(f"--samples {file} must be an image file (.png) for images of shape {X.shape[1:]}")
    if is_picture:
        check_images(X.shape)
    else:
        check_holds_text(file)


def write_samples(file: Path, board: Leaderboard, is_safe: bool) -> None:
    """One row of images per model, or a table with the name of the model in its first column."""
    import pandas as pd

    from jensen.files.replacing import replacing
    from jensen.files.tables import as_frame, write_dataset

    if file.suffix.lower() in PICTURES:
        with replacing(file) as aside:
            board.plot_samples().savefig(aside)
        return
    tables = {name: as_frame(rows) for name, rows in board.sample(100).items()}
    write_dataset(file, pd.concat(tables, names=["model"]).reset_index("model"), is_safe=is_safe)


def rows_of(
    data: str, label: str | None, weight: str | None, drop: list[str], reading: Reading
) -> tuple[Table, np.ndarray | None, np.ndarray | None]:
    """Rows, labels and weights of a file, a folder of images, sparse counts, or a data set of scikit-learn."""
    from jensen.files.datasets import read_dataset, split_columns
    from jensen.files.documents import is_counts

    if is_counts(data):
        found = read_documents(model_class("topics")(), data, None, reading, label=label, weight=weight, drop=drop)
        return found.X, found.y, found.weights
    return split_columns(read_dataset(data, images=True, reading=reading), label=label, weight=weight, drop=drop)
