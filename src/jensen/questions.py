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
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN|FILE", help="What a regression predicts: a column (npy: its number), or a file."),
    ] = None,
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
      jensen sample digits.jensen -n 64 --y 3 --guidance 1 --output threes.png
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
    steps: Annotated[int | None, typer.Option(help="Of a diffusion: levels to go through.")] = None,
    resamplings: Annotated[int | None, typer.Option(help="Of a diffusion: how often each step is taken.")] = None,
    seed: Seed = None,
    output: RowsOutput = None,
) -> None:
    """Fill empty cells with their posterior mean; all other cells and columns stay as they are.

    With --draws N writes filled-1.csv to filled-N.csv, drawn from the posterior. Pixels of images are missing where
    they are NaN.

    Examples:
      jensen impute iris.jensen holes.csv > filled.csv
      jensen impute iris.jensen holes.csv --draws 5 --seed 0 --output filled.csv
      jensen impute digits.jensen holes.npy --steps 50 --output filled.npy
    """
    from jensen.interop.datasets import fill_cells, is_text, read_cells, read_dataset

    if draws and draws > 1 and output is None:
        raise ValueError(f"--draws {draws} makes {draws} tables, too many for standard output; give --output")
    estimator, X = open_both(model, data)
    verb = "impute" if draws is None else "impute_draws"
    fill, options = method(estimator, verb), options_for(estimator, verb, steps=steps, resamplings=resamplings)
    check_rows_fit(estimator, output)
    as_written = output is None or (not is_picture(output) and is_text(output))
    cells = read_cells(data) if as_written else read_dataset(data, images=True)
    tables = [fill(X, **options)] if draws is None else fill(X, draws, random_state=seed, **options)
    for i, filled in enumerate(tables, start=1):
        file = output if output is None or draws is None else output.with_name(f"{output.stem}-{i}{output.suffix}")
        if file and is_picture(file):
            deliver_picture(estimator, filled, file)
        else:
            deliver(fill_cells(cells, X, filled), file)


def predict(
    model: Model,
    data: Data,
    output: Output = None,
    proba: Annotated[bool, typer.Option("--proba", help="Also the probability of each class or component.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also the standard deviation of a regression.")] = False,
    budget: Annotated[int | None, typer.Option(help="Of a diffusion: levels of noise per class at most.")] = None,
    weighting: Annotated[
        str | None, typer.Option(metavar="variational|simple", help="Of a diffusion: classes by bound or simple loss.")
    ] = None,
    class_prior: Annotated[
        str | None, typer.Option(metavar="learned|uniform", help="Of a diffusion: how frequent classes are.")
    ] = None,
    as_json: Json = False,
) -> None:
    """The class of every row, its component after a fit without labels, or the number of a regression.

    Without --output as CSV.

    Examples:
      jensen predict iris.jensen new.csv
      jensen predict iris.jensen new.csv --proba --output predicted.csv
      jensen predict price.jensen new.csv --std
      jensen predict digits.jensen new.npy --budget 50
    """
    import pandas as pd

    from jensen.interop.labels import decode_labels

    estimator, X = open_both(model, data)
    answer = method(estimator, "predict")
    if std and "return_std" not in inspect.signature(answer).parameters:
        raise ValueError(f"--std is for regressions; {type(estimator).__name__} predicts no numbers")
    asked = {"budget": budget, "weighting": weighting, "class_prior": class_prior}
    options = options_for(estimator, "predict", **asked) | ({"return_std": True} if std else {})
    if proba:
        # The most probable class follows: to ask for it again may take minutes.
        probabilities, classes = method(estimator, "predict_proba")(X, **options), getattr(estimator, "classes_", None)
        best = probabilities.argmax(1)
        values, deviations = best if classes is None else decode_labels(best, classes), []
    else:
        values, *deviations = answer(X, **options) if std else (answer(X, **options),)
    tables = [columns_of("prediction", values), *(columns_of("standard_deviation", found) for found in deviations)]
    result = pd.concat(tables, axis=1)
    if proba:
        known = [] if classes is None else classes
        names = [*known, *(f"component_{k}" for k in range(len(known), probabilities.shape[1]))]
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
