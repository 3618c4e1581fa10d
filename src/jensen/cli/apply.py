"""Commands that apply a fitted model to rows: score, predict and transform.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.answers import Predictions, Scoring, latent_vectors, row_scores
from jensen.cli.checks import check_files, check_safe
from jensen.cli.documents import Text, is_topics, units_of_documents
from jensen.cli.inputs import (
    MANY_ROWS,
    Header,
    Json,
    Keep,
    Missing,
    SafeCsv,
    Types,
    method,
    named,
    open_rows,
    options_for,
    table_options,
)
from jensen.cli.output import (
    entries_of,
    in_units,
    report,
    show_message,
    write_result,
    write_table,
)
from jensen.cli.scans import BlockRows, Scanned, is_scanned
from jensen.cli.streams import check_streamed, deliver, open_stream, score_stream

if TYPE_CHECKING:
    import numpy as np

WRITTEN_HELP = "File to write: .csv, .tsv, .jsonl (also .gz or .zst), .parquet, .feather, .xlsx or .npy."
Data = Annotated[Path, MANY_ROWS]
Model = Annotated[Path, typer.Argument(help="Model file written by `jensen fit`.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help=WRITTEN_HELP)]
RowsOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help=f"{WRITTEN_HELP} Images: .npy, one .png, or a folder of .png files.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Random seed. Default: the random_state of the model.")]


def score(
    model: Model,
    data: Data,
    text: Text = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN|FILE", help="Target of a regression: a column (npy: its number) or a file."),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="all|N", help="Diffusion only: sum over all noise levels, or estimate the sum from N of them."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="bound|ode", help="Diffusion only: the bound (default), or ln p(x) estimated by the ODE, no bound."
        ),
    ] = None,
    keep: Keep = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    seed: Seed = None,
    scan: Scanned = None,
    block_rows: BlockRows = None,
    output: Output = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Score rows: the log-likelihood ln p(x), or the model's lower bound of it, in nats per row.

    For a regression: ln p(y|x) and R²; --label names y. --output writes one value
    per row, in a column log_likelihood.

    Examples:
      jensen score iris.jensen new.csv
      jensen score iris.jensen new.csv --keep id --output scores.csv --json
      jensen score price.jensen new.csv --label price
      jensen score digits.jensen digits --levels all --seed 1
      jensen score m.jensen new.csv --method ode
      jensen score faces.jensen faces/
      jensen score topics.jensen new.csv --text body
      jensen score m.jensen rows/ --output scores.parquet
    """
    check_files(model, data, output, keep=keep, label=label, text=text, header=header, many=True)
    check_safe(safe_csv, output, is_printed=False)
    if keep and not output:
        raise ValueError(f"--keep {','.join(keep)} needs --output, the file that gets these columns beside the scores")
    import pandas as pd
    from sklearn.base import is_regressor

    reading, is_shown = table_options(missing, header, types), not as_json
    if is_scanned(data, scan, block_rows, model=model):
        check_streamed(output, data)
        stream = open_stream(
            model,
            data,
            reading,
            text=text,
            label=label,
            needs_label=True,
            keep=keep or [],
            block_rows=block_rows,
            seed=seed,
            is_shown=is_shown,
        )
        return score_stream(stream, Scoring(levels, method), output, as_json, safe_csv)
    opened = open_rows(
        model, data, text=text, label=label, needs_label=True, keep=keep, seed=seed, is_shown=is_shown, reading=reading
    )
    estimator, X, y = opened.estimator, opened.X, opened.y if is_regressor(opened.estimator) else None
    if label is not None and y is None:
        show_message(f"warning: {type(estimator).__name__} scores rows without their label; {named(label)} is left out")
    scores = row_scores(estimator, X, y, Scoring(levels, method))
    summary = {
        **({} if y is None else {"r2": estimator.score(X, y)}),
        **units_of(estimator, X, scores),
        "standard_error": scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None,
        "least_likely": [{"row": int(i), "nats": scores[i]} for i in scores.argsort()[:5]],
    }
    if output:
        table = pd.DataFrame({**opened.kept, "log_likelihood": scores})
        write_table(table, output, is_shown=not as_json, is_safe=safe_csv)
    report(estimator, len(scores), summary, output, as_json)


def units_of(estimator: Any, X: Any, scores: np.ndarray) -> dict[str, Any]:
    """The mean score in several units; of documents also their completion."""
    if is_topics(estimator):
        return units_of_documents(estimator, X, float(scores.mean()), float(estimator.count_words(X).sum(1).mean()))
    return in_units(estimator, float(scores.mean()), entries_of(estimator, X)[0])


def predict(
    model: Model,
    data: Data,
    text: Text = None,
    output: Output = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class or component.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Regression only: add the standard deviation.")] = False,
    budget: Annotated[int | None, typer.Option(help="Diffusion only: most evaluations per class.")] = None,
    weighting: Annotated[
        str | None,
        typer.Option(metavar="variational|simple", help="Diffusion only: compare classes by bound or by simple loss."),
    ] = None,
    class_prior: Annotated[
        str | None, typer.Option(metavar="learned|uniform", help="Diffusion only: prior probabilities of the classes.")
    ] = None,
    keep: Keep = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    seed: Seed = None,
    scan: Scanned = None,
    block_rows: BlockRows = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Predict the class of every row.

    A model fitted without labels predicts components, a regression numbers.
    Without --output, predictions are printed as CSV.

    Examples:
      jensen predict iris.jensen new.csv
      jensen predict iris.jensen new.csv --proba --keep id --output predicted.csv
      jensen predict price.jensen new.csv --std
      jensen predict digits.jensen new.npy --budget 50 --seed 1
      jensen predict m.jensen 'rows/*.parquet' --keep id --output clusters.parquet
    """
    check_files(model, data, output, keep=keep, text=text, header=header, many=True)
    check_safe(safe_csv, output, is_printed=not as_json)
    import pandas as pd

    reading = table_options(missing, header, types)
    asked = {"budget": budget, "weighting": weighting, "class_prior": class_prior}

    def answers(estimator: Any) -> Predictions:
        method(estimator, "predict")
        found = Predictions(estimator, proba, std, options_for(estimator, "predict", **asked))
        found.check()
        return found

    if is_scanned(data, scan, block_rows, model=model):
        check_streamed(output, data)
        options: dict[str, Any] = {
            "text": text,
            "keep": keep or [],
            "block_rows": block_rows,
            "seed": seed,
        }
        stream = open_stream(model, data, reading, is_shown=not as_json, **options)
        estimator = stream.estimator
        result = deliver(stream, stream.frames(answers(estimator)), output, as_json, safe_csv)
        if result is None:
            return
    else:
        opened = open_rows(model, data, text=text, keep=keep, seed=seed, is_shown=not as_json, reading=reading)
        estimator = opened.estimator
        result = pd.concat([pd.DataFrame(opened.kept), answers(estimator)(opened.X)], axis=1)
        if output or not as_json:
            write_table(result, output, is_shown=not as_json, is_safe=safe_csv)
    if as_json:
        values = {} if output else {str(name): list(result[name]) for name in result}
        report(estimator, len(result), values, output, as_json)


def transform(
    model: Model,
    data: Data,
    text: Text = None,
    keep: Keep = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    scan: Scanned = None,
    block_rows: BlockRows = None,
    output: Output = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Compute the latent vector of every row: its posterior mean.

    For k-means and k-medoids: the distance to every centre. Without --output,
    vectors are printed as CSV.

    Examples:
      jensen transform pca.jensen new.csv
      jensen transform pca.jensen new.csv --keep id --output latent.csv
      jensen transform vae.jensen digits --json
      jensen transform topics.jensen folder/ --output shares.csv
      jensen transform pca.jensen rows/ --output latent.parquet
    """
    check_files(model, data, output, keep=keep, text=text, header=header, many=True)
    check_safe(safe_csv, output, is_printed=not as_json)
    import pandas as pd

    reading = table_options(missing, header, types)
    if is_scanned(data, scan, block_rows, model=model):
        check_streamed(output, data)
        options: dict[str, Any] = {"text": text, "keep": keep or [], "block_rows": block_rows}
        stream = open_stream(model, data, reading, is_shown=not as_json, **options)
        estimator = stream.estimator
        method(estimator, "transform")
        table = deliver(stream, stream.frames(partial(latent_vectors, estimator)), output, as_json, safe_csv)
        if table is None:
            return
    else:
        opened = open_rows(model, data, text=text, keep=keep, is_shown=not as_json, reading=reading)
        estimator = opened.estimator
        values = latent_vectors(estimator, opened.X).reset_index(drop=True)
        table = pd.concat([pd.DataFrame(opened.kept), values], axis=1)
    write_result(estimator, table, output, as_json, safe_csv)
