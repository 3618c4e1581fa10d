"""`jensen select`: one model with many settings.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.arguments import flag_of, read_grid
from jensen.cli.checks import check_writable
from jensen.cli.documents import Text, holds_documents, read_documents
from jensen.cli.inputs import (
    ROWS,
    Checkpoint,
    Drop,
    FitSeed,
    Header,
    Json,
    Label,
    Missing,
    Name,
    Quiet,
    Types,
    Weight,
    only,
    read_order,
    table_options,
    takes_images,
    warn_of_ignored_label,
)
from jensen.cli.output import PICTURES, plain, report, show_message, wrote
from jensen.cli.typed import asked_for, typed

if TYPE_CHECKING:
    from jensen.registry import Model


def select(
    ctx: typer.Context,
    model: Name,
    data: Annotated[str, ROWS],
    grid: Annotated[
        list[str], typer.Option(help="Values to try: NAME=1:10, NAME=2:20:2 or NAME=a,b; may be repeated.")
    ],
    criterion: Annotated[
        str,
        typer.Option(
            help="bic, completion, held-out, cv, silhouette, gap or reconstruction. auto is bic; for topics it is "
            "completion, and for deep models held-out, the bound on rows that the model was not trained on."
        ),
    ] = "auto",
    cv: Annotated[int | None, typer.Option(help="Number of folds for cv. Default: 5.")] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="Share of rows held out by completion, held-out and reconstruction. Default: 0.2."),
    ] = None,
    n_references: Annotated[int | None, typer.Option(help="Number of reference tables for gap. Default: 20.")] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Do not start mixtures from neighbouring fits in the grid.")
    ] = False,
    n_jobs: Annotated[int, typer.Option(help="Number of processes; -1 is one per core.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file to write: the best model.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot of the criterion to write: .png, .pdf or .svg.")] = None,
    checkpoint: Checkpoint = None,
    text: Text = None,
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    seed: FitSeed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose the number of clusters, or other options of a model, by a criterion.

    The output lists the leading fits, and a matrix of all fits if several options
    vary. A star marks the best. Options of the model that do not vary are options
    here; `jensen models NAME` lists them. Ctrl-C ends with the fits that are
    done; with --checkpoint, the same command resumes.

    Examples:
      jensen select gaussian-mixture x.csv --grid n-components=1:9 -o best.jensen
      jensen select gaussian-mixture x.csv --grid n-components=1:9 \\
        --grid covariance-type=full,tied,diag,spherical --plot bic.png --n-jobs 2
      jensen select gaussian-mixture x.csv --grid n-components=1:9 \\
        --grid covariance-type=mclust    # all fourteen structures
      jensen select mixture x.csv --grid n-components=1:9 --grid noise=true,false
      jensen select kmeans x.csv --grid n-clusters=2:20:2 --criterion gap --seed 1
      jensen select vae images.npy --grid n-components=2,4,8,16 --max-epochs 50
      jensen select autoencoder x.csv --grid n-components=1:4
      jensen select topics t.csv --text body --grid n-components=5,10,20,50
    """
    for file in (output, plot):
        if file:
            check_writable(file)
    if plot and plot.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot {plot} must end in {', '.join(PICTURES)}")
    ctx.meta["checkpoint"] = checkpoint
    column = only("--label", label)
    columns = [*(drop or []), *([text] if text else [])]
    order = read_order(ctx, model, data, seed, grid, drop=columns, or_files=[column, weight], header=header)
    from sklearn.base import is_regressor

    from jensen.data.container import n_rows
    from jensen.files.datasets import read_dataset, split_columns

    if is_regressor(order.estimator):
        raise ValueError("select does not support regressions; fit with --alpha evidence, or score each model")
    values = with_structures(read_grid(grid, order.parameters), type(order.estimator))
    twice = [flag_of(name) for name in values if name in order.given]
    if twice:
        raise ValueError(f"{', '.join(twice)} is both an option and in --grid; give it once")
    asked = table_options(missing, header, types, label=column, aside=[weight, *(drop or [])])
    X: Any
    if holds_documents(order.estimator, order.path, text):
        read = read_documents(order.estimator, order.path, text, asked, label=column, weight=weight, drop=drop or [])
        X, y, weights = read.X, read.y, read.weights
    else:
        reading = asked_for(order.estimator, asked)
        table = read_dataset(order.path, images=takes_images(order.estimator), reading=reading)
        X, y, weights = split_columns(table, label=column, weight=weight, drop=drop or [])
        X = typed(order.estimator, X)
    from jensen.evaluate.select import select as select_model

    given = {"cv": cv, "held_out": held_out, "n_references": n_references}
    measured: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
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
        checkpoint=checkpoint,
    )
    is_interrupted = bool(ctx.meta.get("is_interrupted"))
    if found.winner is not None:
        warn_of_ignored_label(found.winner, column)
    elif output:
        show_message(f"warning: the best model is not fitted to all rows, and {output} is not written")
        output = None
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
        summary: dict[str, Any] = {"criterion": found.criterion, "best": best, "table": rows}
        summary |= {"interrupted": True} if is_interrupted else {}
        report(order.estimator, n_rows(X), summary, output, as_json)
    elif not quiet:
        from rich.console import Console

        Console().print(found.rich())
        for file, what in ((output, "best model"), (plot, "picture")):
            if file:
                show_message(f"wrote the {what} to {file}")
    if is_interrupted:
        raise typer.Exit(130)


def check_used(measured: Mapping[str, Any], criterion: str, estimator: Model) -> None:
    """An error if an option does not belong to the criterion."""
    from jensen.evaluate.offers import find_criterion

    name = find_criterion(criterion, [estimator]).name
    users = {"cv": ("cv",), "held_out": ("completion", "held_out", "reconstruction"), "n_references": ("gap",)}
    for option in measured:
        if name not in users[option]:
            *others, last = (user.replace("_", "-") for user in users[option])
            words = f"{', '.join(others)} and {last}" if others else last
            raise ValueError(
                f"{flag_of(option)} is for the criterion {words}, and the criterion is {name.replace('_', '-')}; leave "
                "it out, or give --criterion"
            )


def with_structures(grid: dict[str, list[Any]], model: type[Any]) -> dict[str, list[Any]]:
    """A grid in which the word mclust stands for all covariance structures of a model that has them by name."""
    structures = getattr(model, "STRUCTURES", None)
    if structures is None or "covariance_type" not in grid:
        return grid
    spelled = [name for value in grid["covariance_type"] for name in (structures if value == "mclust" else [value])]
    return grid | {"covariance_type": list(dict.fromkeys(spelled))}
