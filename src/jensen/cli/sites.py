"""Commands for rows that stay at several sites: statistics of each, and a step of EM from all of them.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.cli.checks import check_files, check_writable
from jensen.cli.documents import Text, holds_documents, read_documents
from jensen.cli.inputs import (
    ROWS,
    Header,
    Json,
    Label,
    Missing,
    Types,
    Weight,
    method,
    only,
    open_model,
    table_options,
)
from jensen.cli.output import report, wrote
from jensen.cli.scans import is_scanned, open_scan
from jensen.cli.typed import as_fitted, typed_as_fitted

Model = Annotated[Path, typer.Argument(help="Model file written by `jensen fit` or `jensen merge`.")]


def statistics(
    model: Model,
    data: Annotated[Path, ROWS],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, for `jensen merge`.")],
    text: Text = None,
    label: Label = None,
    weight: Weight = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    as_json: Json = False,
) -> None:
    """Sum up the rows of one site, so that `jensen merge` can fit the model to several.

    The file holds sums over the rows and their number, and no row. Sums over few
    rows reveal them: there is a warning below 20.

    Examples:
      jensen statistics m.jensen rows.parquet -o a.stats
      jensen statistics m.jensen b.csv --label species --weight count -o b.stats
      jensen statistics m.jensen folder/ -o c.stats
    """
    column = only("--label", label)
    check_files(model, data, label=column, text=text, header=header, many=True)
    check_writable(output)
    estimator = open_model(model, is_shown=False)
    take = method(estimator, "statistics")
    reading = as_fitted(estimator, table_options(missing, header, types, label=column, aside=[weight]))
    rows = read_site(estimator, data, text, column, weight, reading)
    found = take(*rows)
    found.save(output)
    wrote(output)
    summary = {"weight": found.weight, "bound": found.bound / found.weight, "fingerprint": found.fingerprint[:12]}
    report(estimator, found.n_rows, summary, output, as_json)


def read_site(
    estimator: Any, data: Path, text: str | None, label: str | None, weight: str | None, reading: Any
) -> tuple[Any, Any, Any]:
    """Rows, labels and weights; several tables, and large ones, are read block by block."""
    from jensen.files.datasets import need_table, read_dataset, select_features, split_columns

    if holds_documents(estimator, data, text):
        found = read_documents(estimator, data, text, reading, label=label, weight=weight)
        return found.X, found.y, found.weights
    if is_scanned(data, None, model=estimator):
        rows, _ = open_scan(data, reading, label=label, weight=weight)
        head = rows.head().table
        known = getattr(select_features(estimator, head), "columns", ())
        return replace(rows, drop=tuple(name for name in getattr(head, "columns", ()) if name not in known)), None, None
    table = read_dataset(data, reading=reading)
    need_table(data, table)
    features, y, weights = split_columns(table, label=label, weight=weight)
    return typed_as_fitted(estimator, select_features(estimator, features)), y, weights


def merge(
    model: Model,
    sites: Annotated[list[Path], typer.Argument(metavar="STATISTICS...", help="Files of `jensen statistics`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    as_json: Json = False,
) -> None:
    """Take one step of EM on the rows of all sites, from their statistics.

    All of them must be taken with this model. The lower bound is that of all rows
    before the step: repeat both commands until it no longer rises.

    Examples:
      jensen merge m.jensen a.stats b.stats -o m2.jensen
      jensen merge m.jensen *.stats -o m.jensen --json
    """
    check_files(model)
    check_writable(output)
    for site in sites:
        if not site.is_file():
            raise FileNotFoundError(f"there is no file {site}; `jensen statistics` writes one")
    from jensen.contract.statistics import Statistics
    from jensen.registry import load

    estimator, found = load(model), [Statistics.load(site) for site in sites]
    method(estimator, "merge")(found)
    estimator.save(output)
    wrote(output)
    summary = {
        "sites": len(found),
        "lower_bound": estimator.lower_bound_,
        "steps": estimator.n_iter_,
        "converged": estimator.converged_,
    }
    report(estimator, sum(one.n_rows for one in found), summary, output, as_json)
