"""What a fitted model is asked on the command line: score, sample, impute, predict and transform.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.options import value_of
from jensen.orders import check_rows_fit, is_picture, method, open_both, open_labelled, options_for
from jensen.printing import columns_of, deliver, deliver_picture, in_units, report

__all__ = ["TABLE", "Json", "impute", "predict", "sample", "score", "transform"]

TABLE = typer.Argument(
    help="Table: .csv, .tsv, .parquet or .npy; empty cells are missing. Images: .npy of (n, h, w) or (n, c, h, w)."
)
Data = Annotated[Path, TABLE]
Model = Annotated[Path, typer.Argument(help="Model file that `jensen fit` wrote.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write: .csv, .tsv, .parquet or .npy.")]
RowsOutput = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="File to write: .csv, .tsv, .parquet or .npy; images: .npy, or .png to look at."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int | None, typer.Option(help="Random seed; without it the model's own.")]


def score(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="Column that a regression predicts (npy: its number).")] = None,
    levels: Annotated[
        str | None,
        typer.Option(metavar="all|N", help="Of a diffusion: sum over all levels of noise, or estimate from so many."),
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """How likely are the rows of a table? ln p(x), or the model's lower bound of it.

    Of a regression ln p(y|x), and R²; --label names y. With --output also writes a column log_likelihood, one value
    per row.

    Examples:
      jensen score iris.jensen new.csv
      jensen score iris.jensen new.csv --output scores.csv --json
      jensen score price.jensen new.csv --label price
      jensen score digits.jensen new.npy --levels all
    """
    import numpy as np
    import pandas as pd

    estimator, X, y = open_labelled(model, data, label)
    given = (X,) if y is None else (X, y)
    if levels is None:
        found = method(estimator, "score_samples")(*given)
    else:
        found = estimator.bound(X, **options_for(estimator, "bound", levels=value_of(levels, Any))).total
    scores = np.asarray(found, dtype=np.float64)
    summary = {
        **({} if y is None else {"r2": estimator.score(X, y)}),
        **in_units(estimator, scores.mean(), X),
        "standard_error": scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None,
        "least_likely": [{"row": int(i), "nats": scores[i]} for i in scores.argsort()[:5]],
    }
    if output:
        deliver(pd.DataFrame({"log_likelihood": scores}), output)
    report(estimator, len(scores), summary, output, as_json)


def sample(
    model: Model,
    n_samples: Annotated[int, typer.Option("-n", "--n-samples", help="Number of rows.")] = 1,
    y: Annotated[str | None, typer.Option(metavar="CLASS", help="Only from this class (or component).")] = None,
    steps: Annotated[int | None, typer.Option(help="Of a diffusion: levels to go through; all if not given.")] = None,
    sampler: Annotated[
        str | None,
        typer.Option(metavar="ancestral|ddim|dpm", help="Of a diffusion: the way down; ddim and dpm need few steps."),
    ] = None,
    eta: Annotated[float | None, typer.Option(help="Of ddim: the share of the noise to keep, 0 to 1.")] = None,
    guidance: Annotated[float | None, typer.Option(help="Of a diffusion: how far to go beyond the class.")] = None,
    seed: Seed = None,
    output: RowsOutput = None,
) -> None:
    """Draw new rows, with the column names of the fit; without --output as CSV to standard output.

    Images go to an .npy file, or side by side into one picture.

    Examples:
      jensen sample iris.jensen -n 100 --y setosa --seed 1 --output new.csv
      jensen sample iris.jensen -n 1000 | head
      jensen sample digits.jensen -n 64 --output grid.png
      jensen sample digits.jensen -n 64 --sampler ddim --steps 20 --output new.npy
    """
    from jensen.registry import load

    estimator = load(model)
    classes = {str(value): value for value in getattr(estimator, "classes_", [])}
    wanted = None if y is None else classes.get(y, value_of(y, Any))
    draw = method(estimator, "sample")
    options = options_for(estimator, "sample", steps=steps, sampler=sampler, eta=eta, guidance=guidance)
    check_rows_fit(estimator, output)
    rows, _ = draw(n_samples, y=wanted, random_state=seed, **options)
    if output and is_picture(output):
        return deliver_picture(estimator, rows, output)
    deliver(rows, output)


def impute(
    model: Model,
    data: Data,
    draws: Annotated[int | None, typer.Option(min=1, help="Draw this many tables instead of the mean.")] = None,
    seed: Seed = None,
    output: Output = None,
) -> None:
    """Fill empty cells with their posterior mean; all other cells and columns stay as they are.

    With --draws N writes filled-1.csv to filled-N.csv, drawn from the posterior.

    Examples:
      jensen impute iris.jensen holes.csv > filled.csv
      jensen impute iris.jensen holes.csv --draws 5 --seed 0 --output filled.csv
    """
    from jensen.interop.datasets import fill_cells, is_text, read_cells, read_dataset

    if draws and draws > 1 and output is None:
        raise ValueError(f"--draws {draws} makes {draws} tables, too many for standard output; give --output")
    estimator, X = open_both(model, data)
    cells = read_cells(data) if output is None or is_text(output) else read_dataset(data, images=True)
    if draws is None:
        return deliver(fill_cells(cells, X, method(estimator, "impute")(X)), output)
    for i, filled in enumerate(method(estimator, "impute_draws")(X, draws, random_state=seed), start=1):
        deliver(fill_cells(cells, X, filled), output and output.with_name(f"{output.stem}-{i}{output.suffix}"))


def predict(
    model: Model,
    data: Data,
    output: Output = None,
    proba: Annotated[bool, typer.Option("--proba", help="Also the probability of each class or component.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also the standard deviation of a regression.")] = False,
    as_json: Json = False,
) -> None:
    """The class of every row, its component after a fit without labels, or the number of a regression.

    Without --output as CSV.

    Examples:
      jensen predict iris.jensen new.csv
      jensen predict iris.jensen new.csv --proba --output predicted.csv
      jensen predict price.jensen new.csv --std
    """
    import pandas as pd

    estimator, X = open_both(model, data)
    answer = method(estimator, "predict")
    if std and "return_std" not in inspect.signature(answer).parameters:
        raise ValueError(f"--std is for regressions; {type(estimator).__name__} predicts no numbers")
    values, *deviations = answer(X, return_std=True) if std else (answer(X),)
    tables = [columns_of("prediction", values), *(columns_of("standard_deviation", found) for found in deviations)]
    result = pd.concat(tables, axis=1)
    if proba:
        probabilities = method(estimator, "predict_proba")(X)
        classes = getattr(estimator, "classes_", [])
        names = [*classes, *(f"component_{k}" for k in range(len(classes), probabilities.shape[1]))]
        result[[f"probability_{name}" for name in names]] = probabilities
    if output or not as_json:
        deliver(result, output)
    if as_json:
        report(estimator, len(result), {str(name): list(result[name]) for name in result}, output, as_json)


def transform(model: Model, data: Data, output: Output = None) -> None:
    """What is hidden in every row: the posterior mean of its latent vector; without --output as CSV.

    Examples:
      jensen transform pca.jensen new.csv
      jensen transform pca.jensen new.csv --output latent.csv
    """
    import pandas as pd

    estimator, X = open_both(model, data)
    values = method(estimator, "transform")(X)
    deliver(pd.DataFrame(values, columns=estimator.get_feature_names_out()), output)
