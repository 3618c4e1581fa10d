"""`jensen compare` and `jensen select` on the command line: many models on one table of data, or one in many ways.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.cli.arguments import flag_of, read_grid
from jensen.cli.inputs import (
    Drop,
    FitSeed,
    Json,
    Label,
    Name,
    Quiet,
    SafeCsv,
    Weight,
    Word,
    check_page,
    check_safe,
    check_writable,
    only,
    read_order,
    takes_images,
    tell_of_ignored,
)
from jensen.cli.output import plain, report, tell, wrote
from jensen.files.places import check_data, check_holds_text
from jensen.registry import class_name

__all__ = ["compare", "select"]

PICTURES = (".png", ".pdf", ".svg")


def compare(
    data: Word,
    models: Annotated[str, typer.Option(help="auto, or names of models, a,b: kmeans,vae.")] = "auto",
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help="Labels for models that read them; empty is unlabelled.")
    ] = None,
    drop: Drop = None,
    discrete: Annotated[str, typer.Option(metavar="auto|yes|no", help="Whether values have probabilities.")] = "auto",
    cv: Annotated[
        int | None,
        typer.Option(help="Folds; without it a fifth is held out, and of fewer than 500 rows 5 folds, but if quick."),
    ] = None,
    effort: Annotated[str, typer.Option(metavar="quick|normal|thorough", help="Steps and sizes of auto.")] = "normal",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the table: .csv or .parquet.")] = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", help="Page of HTML to write: the table, and what every model makes of it."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(help="File for new rows of every model: .png for images, .csv or .parquet for tables."),
    ] = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit many models to the same rows and score them on others: one table, the best first.

    Nats per held-out row, bits per entry, and how far behind the best; a model that fails, or that gives a density
    where the others give a probability, is a line with its reason.

    Examples:
      jensen compare digits --effort quick
      jensen compare data.csv --drop id,town --label species
      jensen compare data.csv --models gaussian-mixture,vae
      jensen compare images.npy --cv 3 --output board.csv
      jensen compare digits --report report.html --samples samples.png
    """
    answers: dict[str, str | bool] = {"auto": "auto", "yes": True, "no": False}
    if discrete not in answers:
        raise ValueError(f"--discrete {discrete} is not known; choose auto, yes or no")
    check_safe(safe_csv, output, samples, is_printed=False)
    for option, file in {"--output": output, "--report": report_to, "--samples": samples}.items():
        if file:
            check_writable(file, option)
    if output:
        check_holds_text(output)
    if report_to:
        check_page(report_to, "--report")
    names = "auto" if models == "auto" else [name.strip() for name in models.split(",")]
    for name in names if names != "auto" else ():
        class_name(name)
    check_data(data)
    from jensen.evaluate.compare import compare as compare_models
    from jensen.files.datasets import write_dataset

    X, y = rows_of(data, label, drop or [])
    if samples:
        check_samples(samples, X)
    board = compare_models(
        X,
        names,
        y,
        discrete=answers[discrete],
        cv=cv,
        effort=effort,
        random_state=seed,
        verbose=int(not (as_json or quiet)),
    )
    is_shown = not (as_json or quiet)
    if is_shown:
        from rich.console import Console

        # Before the files: what may go wrong with these must not take it along.
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
            tell(f"wrote {what} to {file.resolve()}")
    if as_json:
        rows = [{str(name): plain(value) for name, value in row.items()} for row in board.table.to_dict("records")]
        files = {what.removeprefix("the "): str(file.resolve()) for what, file in written.items()}
        typer.echo(json.dumps({"best": board.best, "caption": board.caption, "table": rows, "files": files}))


def check_samples(file: Path, X: Any) -> None:
    """Images go to a picture and rows to a table."""
    from jensen.report.images import check_images

    is_picture = file.suffix.lower() in PICTURES
    if is_picture and len(X.shape) < 3:
        raise ValueError(f"--samples {file} is a picture, and {data_kind(X)}; give a .csv or .parquet file")
    if not is_picture and len(X.shape) > 2:
        raise ValueError(f"--samples {file} is no picture, and {data_kind(X)}; give a .png file")
    if is_picture:
        check_images(X.shape)
    else:
        check_holds_text(file)


def data_kind(X: Any) -> str:
    return "the rows are those of a table" if len(X.shape) < 3 else f"the rows are images of shape {X.shape[1:]}"


def write_samples(file: Path, board: Any, is_safe: bool) -> None:
    """A line of images per model, or a table with the model's name in its first column."""
    import pandas as pd

    from jensen.files.datasets import as_frame, write_dataset
    from jensen.files.replacing import replacing

    if file.suffix.lower() in PICTURES:
        with replacing(file) as aside:
            board.plot_samples().savefig(aside)
        return
    tables = {name: as_frame(rows) for name, rows in board.sample(100).items()}
    write_dataset(file, pd.concat(tables, names=["model"]).reset_index("model"), is_safe=is_safe)


def rows_of(data: str, label: str | None, drop: list[str]) -> tuple[Any, Any]:
    """Rows and labels of a file, a folder of images, or data that scikit-learn ships."""
    from jensen.files.datasets import read_dataset, split_columns

    X, y, _ = split_columns(read_dataset(data, images=True), label=label, drop=drop)
    return X, y


def select(
    ctx: typer.Context,
    model: Name,
    data: Word,
    grid: Annotated[list[str], typer.Option(help="Values to try: NAME=1:10, NAME=2:20:2 or NAME=a,b; repeatable.")],
    criterion: Annotated[
        str,
        typer.Option(
            help="bic, held-out, cv, silhouette, gap or reconstruction; auto is bic, and of deep models held-out, the "
            "bound of rows not learnt from."
        ),
    ] = "auto",
    cv: Annotated[int | None, typer.Option(help="Number of folds of cv; 5 if not given.")] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of rows that held-out and reconstruction score; 0.2 if not given.")
    ] = None,
    n_references: Annotated[
        int | None, typer.Option(help="Number of reference tables of gap; 20 if not given.")
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="No starts of mixtures from neighbours in the grid.")] = False,
    n_jobs: Annotated[int, typer.Option(help="Processes; -1 is one on every core.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write the best model to.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the criterion: .png, .pdf or .svg.")] = None,
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    seed: FitSeed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose the number of clusters, or other options of a model, by a criterion.

    A matrix of all entries where several options vary, and those in the lead; the best is marked with a star.
    Options of the model that stay the same are options here; `jensen models NAME` lists them.

    Examples:
      jensen select gaussian-mixture x.csv --grid n-components=1:9 -o best.jensen
      jensen select gaussian-mixture x.csv --grid n-components=1:9 \\
        --grid covariance-type=full,tied,diag,spherical --plot bic.png --n-jobs 2
      jensen select kmeans x.csv --grid n-clusters=2:20:2 --criterion gap --seed 1
      jensen select vae images.npy --grid n-components=2,4,8,16 --max-epochs 50
      jensen select autoencoder x.csv --grid n-components=1:4
    """
    for file in (output, plot):
        if file:
            check_writable(file)
    if plot and plot.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot {plot} is no picture that can be written; give one ending in {', '.join(PICTURES)}")
    column = only("--label", label)
    order = read_order(ctx, model, data, seed, grid)
    from sklearn.base import is_regressor

    from jensen.files.datasets import read_dataset, split_columns

    if is_regressor(order.estimator):
        raise ValueError("select compares models of rows, not regressions; fit with --alpha evidence, or score each")
    values = read_grid(grid, order.parameters)
    twice = [flag_of(name) for name in values if name in order.given]
    if twice:
        raise ValueError(f"{', '.join(twice)} is given as an option and in --grid; give it once")
    table = read_dataset(order.path, images=takes_images(order.estimator))
    X, y, weights = split_columns(table, label=column, weight=weight, drop=drop or [])
    from jensen.evaluate.select import select as select_model

    asked = {"cv": cv, "held_out": held_out, "n_references": n_references}
    measured: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    check_used(measured, criterion.replace("-", "_"), order.estimator)
    found = select_model(
        order.estimator,
        X,
        values,
        criterion.replace("-", "_"),
        y=y,
        sample_weight=weights,
        **measured,
        warm_start=not cold,
        n_jobs=n_jobs,
        random_state=seed or 0,
        verbose=int(not (as_json or quiet)),
    )
    tell_of_ignored(found.winner, column)
    if output:
        found.winner.save(output)
        wrote(output)
    if plot:
        from matplotlib.figure import Figure

        from jensen.files.replacing import replacing

        figure = Figure(layout="constrained")
        found.plot(figure.subplots())
        with replacing(plot) as aside:
            figure.savefig(aside, dpi=150)
        wrote(plot)
    if as_json:
        rows = [{str(name): plain(value) for name, value in row.items()} for row in found.table.to_dict("records")]
        best = {name: plain(value) for name, value in found.best_params.items()}
        summary = {"criterion": found.criterion, "best": best, "table": rows}
        return report(found.winner, len(X), summary, output, as_json)
    if not quiet:
        from rich.console import Console

        Console().print(found.rich())
        for file, what in ((output, "best model"), (plot, "picture")):
            if file:
                tell(f"wrote the {what} to {file}")


def check_used(measured: Mapping[str, Any], criterion: str, estimator: Any) -> None:
    """An error where an option has no part in the criterion."""
    from jensen.evaluate.offers import find_criterion

    name = find_criterion(criterion, [estimator]).name
    users = {"cv": ("cv",), "held_out": ("held_out", "reconstruction"), "n_references": ("gap",)}
    for option in measured:
        if name not in users[option]:
            words = " and ".join(user.replace("_", "-") for user in users[option])
            raise ValueError(
                f"{flag_of(option)} is for the criterion {words}, and here it is {name.replace('_', '-')}; leave it "
                "out, or give --criterion"
            )
