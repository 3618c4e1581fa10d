"""`jensen report`: a page about a fitted model.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jensen.cli.checks import check_files, check_page, check_writable
from jensen.cli.documents import Text
from jensen.cli.inputs import ROWS, Header, Missing, Quiet, Types, open_rows, table_options
from jensen.cli.output import show_message, wrote


def report(
    model: Annotated[Path, typer.Argument(help="Model file written by `jensen fit`.")],
    data: Annotated[Path, ROWS],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path("report.html"),
    text: Text = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN|FILE", help="Labels that colour the rows, or the target of a regression."),
    ] = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    title: Annotated[str | None, typer.Option(help="Title of the page. Default: the model and the data.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed for samples, hidden entries and the choice of rows.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report about a fitted model: one file that needs no network.

    It shows the terms of the bound, the training, samples beside real rows,
    latent vectors, imputations, the least likely rows, and what is specific to
    the model.

    Examples:
      jensen report iris.jensen iris.csv --label species
      jensen report digits.jensen digits --output digits.html
      jensen report topics.jensen texts.csv --text body
    """
    check_page(output)
    check_writable(output)
    check_files(model, data, label=label, text=text, header=header)
    reading = table_options(missing, header, types, label=label)
    opened = open_rows(model, data, text=text, label=label, needs_label=True, is_shown=not quiet, reading=reading)
    from jensen.report.page import write_report

    estimator = opened.estimator
    name = title or f"{type(estimator).__name__} of {Path(data).name}"
    write_report(estimator, opened.X, output, opened.y, title=name, random_state=seed, verbose=int(not quiet))
    wrote(output)
    if not quiet:
        show_message(f"wrote the report to {output}")
