"""`jensen report` on the command line: what a fitted model makes of rows, on one page.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jensen.cli.checks import check_files, check_page, check_writable
from jensen.cli.inputs import TABLE, Quiet, open_model, predicts_numbers, takes_images
from jensen.cli.output import tell, wrote

__all__ = ["report"]


def report(
    model: Annotated[Path, typer.Argument(help="Model file that `jensen fit` wrote.")],
    data: Annotated[Path, TABLE],
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("report.html"),
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN|FILE", help="Labels to colour rows by; of a regression what it predicts."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page; without it the model and the data.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of samples, hidden entries and drawn rows.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Write one page of HTML on what a model makes of rows: a file that needs no network.

    The bound by term, how it was learnt, samples beside real rows, what is hidden, imputations, the rows it finds least
    likely, and what is special to the model.

    Examples:
      jensen report iris.jensen iris.csv --label species
      jensen report digits.jensen digits --output digits.html
    """
    check_page(output)
    check_writable(output)
    check_files(model, data)
    from jensen.files.datasets import need_table, read_dataset, select_features, split_columns

    table = read_dataset(data, images=True)
    estimator = open_model(model, None, not quiet)
    if not takes_images(estimator):
        need_table(data, table)
    X, y, _ = split_columns(table, label=label, label_is_number=predicts_numbers(estimator, label))
    from jensen.report.page import write_report

    rows = select_features(estimator, X)
    name = title or f"{type(estimator).__name__} of {Path(data).name}"
    write_report(estimator, rows, output, y, title=name, random_state=seed, verbose=int(not quiet))
    wrote(output)
    if not quiet:
        tell(f"wrote the report to {output}")
