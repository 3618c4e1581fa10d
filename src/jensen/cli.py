"""The `jensen` command: fit, select, compare, score, sample, impute and predict on CSV, TSV, Parquet and npy files.

Results go to standard output, messages to standard error; a mistake of the user's is one line and exit code 2.
Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jensen.contest import compare
from jensen.options import argument_descriptions, default_text, flag_of, read_grid, type_text
from jensen.orders import (
    check_writable,
    is_first_process,
    only,
    predicts_numbers,
    read_order,
    run_together,
    takes_images,
    tell_of_ignored,
)
from jensen.printing import cell, plain, report, show, summary_of_fit, tell
from jensen.questions import TABLE, Json, impute, predict, sample, score, transform

__all__ = ["app", "main"]


class Commands(TyperGroup):
    """One line for what is wrong with the input; other exceptions are bugs and keep their traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # What was typed, for processes that are to do the same.
        ctx.meta["words"] = [*args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
            if not is_first_process():
                warnings.simplefilter("ignore")
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise
            except (ValueError, TypeError, OSError, ImportError) as error:
                tell(f"error: {error}")
                raise typer.Exit(2) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="Name of a model; `jensen models` lists them.")]
# Where options of a model may follow, any word may land here.
Word = Annotated[str, TABLE]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN|FILE",
        help="Labels: a column (npy: its number), or a file of one per row, .npy, .csv or .txt; empty, NaN and -1 are "
        "unlabelled. Of a regression what to predict.",
    ),
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN|FILE", help="Row weights: a column (npy: its number), or a file.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
FitSeed = Annotated[int | None, typer.Option(help="Random seed; 0 when not given.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no table.")]


def print_version(wanted: bool) -> None:
    if wanted:
        from jensen import __version__

        typer.echo(f"jensen {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")]


@app.callback()
def root(version: Version = False) -> None:
    """Latent-variable models of tables and images: learn p(x), then score, sample, impute and predict.

    Missing cells need no preparation, and every score is in nats per row.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen score iris.jensen new.csv
      jensen impute iris.jensen holes.csv --output filled.csv
      jensen sample digits.jensen -n 64 --output grid.png
    """


# A model's own options are not known before its name.
MODEL_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=MODEL_OPTIONS)
def fit(
    ctx: typer.Context,
    model: Name,
    data: Word,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    seed: FitSeed = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes that train a deep model together.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a table or images and write it to a file.

    Every option of the model is an option here; `jensen models NAME` lists them.
    Lists are written a,b and arrays and objects as JSON; none is None.
    Recipes are written as in Python, in quotes: 'MLP(hidden=(50, 50))'.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen fit gaussian-mixture x.npy --n-components 3 --n-init 5 -o x.jensen
      jensen fit gaussian-mixture a.csv --drop id --prior '{}' -o a.jensen
      jensen fit ridge-regression b.csv --label price --alpha evidence -o b.jensen
      jensen fit vae c.csv --encoder 'MLP(hidden=(50,))' -o c.jensen
      jensen fit vae d.npy --checkpoint d.ckpt --processes 2 -o d.jensen
      jensen fit diffusion e.npy --network 'UNet(channels=(16, 32))' -o e.jensen
      jensen fit diffusion images.npy --label labels.npy -o g.jensen
      jensen fit diffusion f.csv --schedule cosine --n-steps 50 -o f.jensen
    """
    from jensen.interop.datasets import read_dataset, split_columns

    order = read_order(ctx, model, data, seed)
    check_writable(output)
    column = only("--label", label)
    if run_together(order, ctx.meta["words"], processes):
        return
    estimator, parameters = order.estimator, order.parameters
    has_own_bar = "verbose" in parameters and "verbose" not in order.given
    if has_own_bar:
        estimator.set_params(verbose=int(not (as_json or quiet)))
    X, y, weights = split_columns(
        read_dataset(order.path, images=takes_images(estimator)),
        label=column,
        weight=weight,
        drop=drop or [],
        label_is_number=predicts_numbers(estimator, column),
    )
    estimator.fit(X, y, sample_weight=weights)
    if not is_first_process():
        return
    tell_of_ignored(estimator, column)
    # The bar and the checkpoint are this command's, not properties of the model.
    own = [*(["verbose"] if has_own_bar else []), *(["checkpoint"] if "checkpoint" in parameters else [])]
    estimator.set_params(**{name: parameters[name].default for name in own})
    estimator.save(output)
    summary = summary_of_fit(estimator, X, y, weights)
    report(estimator, len(X), summary, output, as_json, quiet)


@app.command(context_settings=MODEL_OPTIONS)
def select(
    ctx: typer.Context,
    model: Name,
    data: Word,
    grid: Annotated[list[str], typer.Option(help="Values to try: NAME=1:10, NAME=2:20:2 or NAME=a,b; repeatable.")],
    criterion: Annotated[str, typer.Option(help="bic, silhouette, gap or cv.")] = "bic",
    cv: Annotated[int, typer.Option(help="Number of folds of cv.")] = 5,
    n_references: Annotated[int, typer.Option(help="Number of reference tables of gap.")] = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write the best model to.")] = None,
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    seed: FitSeed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose the number of clusters, or other options of a model, by a criterion.

    Options of the model that stay the same are options here; `jensen models NAME` lists them.

    Examples:
      jensen select gaussian-mixture x.csv --grid n-components=1:9 -o best.jensen
      jensen select kmeans x.csv --grid n-clusters=2:20:2 --criterion gap --seed 1
      jensen select gaussian-mixture x.csv --grid covariance-type=full,diag
    """
    from sklearn.base import is_regressor

    from jensen.interop.datasets import read_dataset, split_columns

    order = read_order(ctx, model, data, seed)
    if is_regressor(order.estimator):
        raise ValueError("select compares models of rows, not regressions; fit with --alpha evidence, or score each")
    values = read_grid(grid, order.parameters)
    twice = [flag_of(name) for name in values if name in order.given]
    if twice:
        raise ValueError(f"{', '.join(twice)} is given as an option and in --grid; give it once")
    if output:
        check_writable(output)
    column = only("--label", label)
    X, y, weights = split_columns(read_dataset(order.path), label=column, weight=weight, drop=drop or [])
    from jensen.evaluate.select import select as select_model

    found = select_model(
        order.estimator,
        X,
        values,
        criterion,
        y=y,
        sample_weight=weights,
        cv=cv,
        n_references=n_references,
        random_state=seed or 0,
        verbose=int(not (as_json or quiet)),
    )
    tell_of_ignored(found.winner, column)
    if output:
        found.winner.save(output)
    rows = [{str(name): plain(value) for name, value in row.items()} for row in found.table.to_dict("records")]
    if as_json:
        best = {name: plain(value) for name, value in found.best_params.items()}
        return report(found.winner, len(X), {"criterion": criterion, "best": best, "table": rows}, output, as_json)
    if not quiet:
        columns = [name for name in rows[0] if name != "failure" or found.table["failure"].any()]
        marks = ["*" if i == found.best_index else "" for i in range(len(rows))]
        show(
            ["", *(name.replace("_", " ") for name in columns)],
            [[mark, *(cell(row[name]) for name in columns)] for mark, row in zip(marks, rows, strict=True)],
        )
        if output:
            tell(f"wrote the best model to {output}")


for verb in (compare, score, sample, impute, predict, transform):
    app.command()(verb)


@app.command()
def models(name: Annotated[str | None, typer.Argument(help="A model, to list its options.")] = None) -> None:
    """List the models, or all options of one with their defaults.

    Examples:
      jensen models
      jensen models gaussian-mixture
    """
    from jensen.registry import MODELS, model_class

    if name is None:
        lines = {known: inspect.getdoc(model_class(known)) or "" for known in MODELS}
        return show(("model", "what it is"), [(known, text.partition("\n")[0]) for known, text in lines.items()])
    cls = model_class(name)
    meaning = argument_descriptions(cls)
    show(
        ("option", "type", "default", "meaning"),
        [
            (flag_of(p.name), type_text(p), default_text(p.default), meaning.get(p.name, ""))
            for p in inspect.signature(cls, eval_str=True).parameters.values()
        ],
    )


def main() -> None:
    app(prog_name="jensen")
