"""`jensen compare` on the command line: all models on one table of data.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.orders import check_writable
from jensen.printing import plain, tell

__all__ = ["compare"]

# Data that scikit-learn ships.
EMBEDDED = ("digits", "iris", "wine")


def compare(
    data: Annotated[str, typer.Argument(help=f"A table or images, as for `fit`; or {', '.join(EMBEDDED)}.")],
    models: Annotated[str, typer.Option(help="auto, or names of models: kmeans,vae,...")] = "auto",
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help="Labels for models that read them; empty is unlabelled.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    discrete: Annotated[str, typer.Option(metavar="auto|yes|no", help="Whether values have probabilities.")] = "auto",
    cv: Annotated[int | None, typer.Option(help="Folds; without it a fifth of the rows is held out.")] = None,
    effort: Annotated[str, typer.Option(metavar="quick|normal|thorough", help="Steps and sizes of auto.")] = "normal",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the table: .csv or .parquet.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no table.")] = False,
) -> None:
    """Fit many models to the same rows and score them on others: one table, the best first.

    Nats per held-out row, bits per entry, and how far behind the best; a model that fails is a line with its reason.

    Examples:
      jensen compare digits --effort quick
      jensen compare data.csv --label species --models gaussian-mixture,vae
      jensen compare images.npy --cv 3 --output board.csv
    """
    from jensen.evaluate.compare import compare as compare_models
    from jensen.interop.datasets import write_dataset

    answers: dict[str, str | bool] = {"auto": "auto", "yes": True, "no": False}
    if discrete not in answers:
        raise ValueError(f"--discrete {discrete} is not known; choose auto, yes or no")
    if output:
        check_writable(output)
    X, y = rows_of(data, label, drop or [])
    board = compare_models(
        X,
        models if models == "auto" else models.split(","),
        y,
        discrete=answers[discrete],
        cv=cv,
        effort=effort,
        random_state=seed,
        verbose=int(not (as_json or quiet)),
    )
    if output:
        write_dataset(output, board.table)
    if as_json:
        rows = [{str(name): plain(value) for name, value in row.items()} for row in board.table.to_dict("records")]
        typer.echo(json.dumps({"best": board.best, "caption": board.caption, "table": rows}))
    elif not quiet:
        from rich.console import Console

        Console().print(board.rich())
    if output and not as_json:
        tell(f"wrote the table to {output}")


def rows_of(data: str, label: str | None, drop: list[str]) -> tuple[Any, Any]:
    """Rows and labels of a file, or of data that scikit-learn ships."""
    from sklearn import datasets

    from jensen.interop.datasets import read_dataset, split_columns

    if data in EMBEDDED and not Path(data).exists():
        if label or drop:
            raise ValueError(f"{data} has no columns to name; leave out --label and --drop")
        found = getattr(datasets, f"load_{data}")()
        return (found.images if data == "digits" else found.data), None
    X, y, _ = split_columns(read_dataset(data, images=True), label=label, weight=None, drop=drop)
    return X, y
