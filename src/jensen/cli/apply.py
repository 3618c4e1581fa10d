"""What a fitted model is asked on the command line: score, sample, impute, predict and transform.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.cli.arguments import value_of
from jensen.cli.checks import check_files, check_place, check_safe, is_folder, is_picture
from jensen.cli.inputs import (
    TABLE,
    Json,
    Keep,
    SafeCsv,
    check_rows_fit,
    method,
    named,
    open_model,
    open_rows,
    options_for,
)
from jensen.cli.output import answer, columns_of, deliver, deliver_pictures, in_units, missing_entries, report, tell
from jensen.files.places import SEPARATORS

Data = Annotated[Path, TABLE]
Model = Annotated[Path, typer.Argument(help="Model file that `jensen fit` wrote.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write: .csv, .tsv, .parquet or .npy.")]
RowsOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File to write: .csv, .tsv, .parquet or .npy; images: .npy, to look at one .png or a folder of them.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Random seed of what is drawn; without it the model's own.")]


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
    keep: Keep = None,
    seed: Seed = None,
    output: Output = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """How likely are the rows of a table? ln p(x), or the model's lower bound of it.

    Of a regression ln p(y|x), and R²; --label names y. With --output also writes
    a column log_likelihood, one value per row.

    Examples:
      jensen score iris.jensen new.csv
      jensen score iris.jensen new.csv --keep id --output scores.csv --json
      jensen score price.jensen new.csv --label price
      jensen score digits.jensen digits --levels all --seed 1
      jensen score faces.jensen faces/
    """
    check_files(model, data, output, keep=keep, label=label)
    check_safe(safe_csv, output, is_printed=False)
    import numpy as np
    import pandas as pd
    from sklearn.base import is_regressor

    opened = open_rows(model, data, label=label, needs_label=True, keep=keep, seed=seed, is_shown=not as_json)
    estimator, X, y = opened.estimator, opened.X, opened.y if is_regressor(opened.estimator) else None
    if label is not None and y is None:
        tell(f"warning: {type(estimator).__name__} scores rows without their label; {named(label)} is left out")
    given = (X,) if y is None else (X, y)
    if levels is None:
        found = method(estimator, "score_samples")(*given)
    else:
        found = estimator.bound(X, **options_for(estimator, "bound", levels=value_of(levels, Any))).total
    scores = np.asarray(found, dtype=np.float64)
    check_answered("score", scores)
    summary = {
        **({} if y is None else {"r2": estimator.score(X, y)}),
        **in_units(estimator, scores.mean(), missing_entries(X)),
        "standard_error": scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None,
        "least_likely": [{"row": int(i), "nats": scores[i]} for i in scores.argsort()[:5]],
    }
    if output:
        table = pd.DataFrame({**opened.kept, "log_likelihood": scores})
        deliver(table, output, is_told=not as_json, is_safe=safe_csv)
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
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Draw new rows, with the column names of the fit; without --output as CSV to standard output.

    Images go to an .npy file, side by side into one .png, or with a name without
    a suffix to a folder of them.

    Examples:
      jensen sample iris.jensen -n 100 --y setosa --seed 1 --output new.csv
      jensen sample iris.jensen -n 1000 | head
      jensen sample iris.jensen -n 3 --json
      jensen sample digits.jensen -n 64 --output grid.png
      jensen sample digits.jensen -n 64 --sampler ddim --steps 20 --output new.npy
      jensen sample digits.jensen -n 64 --y 3 --guidance 1 --output threes.png
      jensen sample digits.jensen -n 64 --output new/
    """
    check_place(output)
    check_safe(safe_csv, output, is_printed=not as_json)
    estimator = open_model(model, seed, is_shown=not as_json)
    classes = {str(value): value for value in getattr(estimator, "classes_", [])}
    wanted = None if y is None else classes.get(y, value_of(y, Any))
    draw = method(estimator, "sample")
    options = options_for(estimator, "sample", steps=steps, sampler=sampler, eta=eta, guidance=guidance)
    check_rows_fit(estimator, output)
    rows, _ = draw(n_samples, y=wanted, random_state=seed, **options)
    check_answered("sample", rows)
    hand_over(estimator, rows, output, as_json, safe_csv)


def impute(
    model: Model,
    data: Data,
    draws: Annotated[int | None, typer.Option(min=1, help="Draw this many tables instead of the mean.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of a diffusion: levels to go through.")] = None,
    resamplings: Annotated[int | None, typer.Option(help="Of a diffusion: how often each step is taken.")] = None,
    seed: Seed = None,
    output: RowsOutput = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Fill empty cells with their posterior mean; all other cells and columns stay as they are.

    With --draws N writes filled-1.csv to filled-N.csv, drawn from the posterior.
    Pixels of images are missing where they are NaN.

    Examples:
      jensen impute iris.jensen holes.csv > filled.csv
      jensen impute iris.jensen holes.csv --draws 5 --seed 0 --output filled.csv
      jensen impute digits.jensen holes.npy --steps 50 --output filled.npy
    """
    if draws and draws > 1 and output is None:
        raise ValueError(f"--draws {draws} makes {draws} tables, too many for standard output; give --output")
    check_files(model, data)
    check_place(output)
    check_safe(safe_csv, output, is_printed=not as_json)
    import numpy as np
    import pandas as pd

    from jensen.files.datasets import fill_cells

    is_image = is_picture(output) or is_folder(output)
    as_written = not as_json and (output is None or output.suffix.lower() in SEPARATORS)
    opened = open_rows(model, data, as_written=as_written, seed=seed, is_shown=not as_json)
    estimator, X, cells = opened.estimator, opened.X, opened.cells
    verb = "impute" if draws is None else "impute_draws"
    fill, options = method(estimator, verb), options_for(estimator, verb, steps=steps, resamplings=resamplings)
    check_rows_fit(estimator, output)
    is_missing = np.asarray(pd.isna(X))
    tables = [fill(X, **options)] if draws is None else fill(X, draws, random_state=seed, **options)
    for filled in tables:
        check_answered("impute", filled)
    for i, filled in enumerate(tables, start=1):
        file = output if output is None or draws is None else output.with_name(f"{output.stem}-{i}{output.suffix}")
        table = filled if is_image else fill_cells(cells, X, is_missing, filled)
        hand_over(estimator, table, file, as_json, safe_csv, filled_entries=int(is_missing.sum()))
    left = holes_outside(cells, X)
    if left and not as_json:
        hint = "; `jensen predict` tells classes" if hasattr(estimator, "classes_") else ""
        tell(f"left empty, as the model does not know them: {left}{hint}")


def check_answered(verb: str, table: Any) -> None:
    """An error where a value is missing that the model should have returned."""
    import numpy as np
    import pandas as pd

    is_missing = np.asarray(table.to_pandas().isna() if hasattr(table, "to_pandas") else pd.isna(table))
    if is_missing.any():
        row, *place = (int(where[0]) for where in is_missing.nonzero())
        column = "" if not place else f", column {shown_column(table, place)}"
        raise ValueError(
            f"{verb} returned no value for {int(is_missing.sum())} of {is_missing.size} cells, first in row {row}"
            f"{column}; its values may be too far from those that the model was trained on"
        )


def shown_column(table: Any, place: list[int]) -> str:
    """By its name, or by its number; of images the place of a pixel."""
    if hasattr(table, "columns"):
        return repr(table.columns[place[0]])
    return str(place[0] if len(place) == 1 else tuple(place))


def holes_outside(cells: Any, X: Any) -> str:
    """The columns with empty cells that a model does not know, and how many."""
    if not (hasattr(cells, "columns") and hasattr(X, "columns")):
        return ""
    others = cells.drop(columns=list(X.columns))
    # As they are written, empty cells are empty texts.
    empty = (others.isna() | (others == "")).sum()
    return ", ".join(f"{n} cells of {name}" for name, n in empty.items() if n)


def hand_over(
    estimator: Any, rows: Any, output: Path | None, as_json: bool, is_safe: bool = False, **summary: Any
) -> None:
    """Rows that a model made: images as pictures where they are asked for, tables by their file or as text."""
    if output is None or not (is_picture(output) or is_folder(output)):
        return answer(estimator, rows, output, as_json, is_safe, **summary)
    deliver_pictures(estimator, rows, output, is_told=not as_json)
    if as_json:
        report(estimator, len(rows), summary, output, as_json)


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
    keep: Keep = None,
    seed: Seed = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """The class of every row, its component after a fit without labels, or the number of a regression.

    Without --output as CSV.

    Examples:
      jensen predict iris.jensen new.csv
      jensen predict iris.jensen new.csv --proba --keep id --output predicted.csv
      jensen predict price.jensen new.csv --std
      jensen predict digits.jensen new.npy --budget 50 --seed 1
    """
    check_files(model, data, output, keep=keep)
    check_safe(safe_csv, output, is_printed=not as_json)
    import pandas as pd
    from sklearn.base import is_regressor

    from jensen.data.labels import decode_labels

    opened = open_rows(model, data, keep=keep, seed=seed, is_shown=not as_json)
    estimator, X = opened.estimator, opened.X
    ask = method(estimator, "predict")
    if std and "return_std" not in inspect.signature(ask).parameters:
        raise ValueError(f"--std is for regressions; {type(estimator).__name__} predicts no numbers")
    asked = {"budget": budget, "weighting": weighting, "class_prior": class_prior}
    options = options_for(estimator, "predict", **asked) | ({"return_std": True} if std else {})
    if proba:
        # The most probable class follows: to ask for it again may take minutes.
        probabilities, classes = method(estimator, "predict_proba")(X, **options), getattr(estimator, "classes_", None)
        best = probabilities.argmax(1)
        values, deviations = best if classes is None else decode_labels(best, classes), []
    else:
        values, *deviations = ask(X, **options) if std else (ask(X, **options),)
    if is_regressor(estimator):
        for numbers in (values, *deviations):
            check_answered("predict", numbers)
    tables = [columns_of("prediction", values), *(columns_of("standard_deviation", found) for found in deviations)]
    result = pd.concat([pd.DataFrame(opened.kept), *tables], axis=1)
    if proba:
        check_answered("predict", probabilities)
        known = [] if classes is None else classes
        names = [*known, *(f"component_{k}" for k in range(len(known), probabilities.shape[1]))]
        result[[f"probability_{name}" for name in names]] = probabilities
    if output or not as_json:
        deliver(result, output, is_told=not as_json, is_safe=safe_csv)
    if as_json:
        report(estimator, len(result), {str(name): list(result[name]) for name in result}, output, as_json)


def transform(
    model: Model,
    data: Data,
    keep: Keep = None,
    output: Output = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """What is hidden in every row: the posterior mean of its latent vector.

    Of k-means and K medoids the distance to every centre. Without --output as CSV.

    Examples:
      jensen transform pca.jensen new.csv
      jensen transform pca.jensen new.csv --keep id --output latent.csv
      jensen transform vae.jensen digits --json
    """
    check_files(model, data, output, keep=keep)
    check_safe(safe_csv, output, is_printed=not as_json)
    import pandas as pd

    opened = open_rows(model, data, keep=keep, is_shown=not as_json)
    estimator = opened.estimator
    values = pd.DataFrame(method(estimator, "transform")(opened.X), columns=estimator.get_feature_names_out())
    check_answered("transform", values)
    table = pd.concat([pd.DataFrame(opened.kept), values.reset_index(drop=True)], axis=1)
    answer(estimator, table, output, as_json, safe_csv)
