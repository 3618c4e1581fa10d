"""`jensen report` on the command line: what a fitted model makes of rows, on one page.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jensen.cli.checks import check_files, check_page, check_writable
from jensen.cli.inputs import TABLE, Quiet, open_rows
from jensen.cli.output import tell, wrote


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
    check_files(model, data, label=label)
    opened = open_rows(model, data, label=label, needs_label=True, is_shown=not quiet)
    from jensen.report.page import write_report

    estimator = opened.estimator
    name = title or f"{type(estimator).__name__} of {Path(data).name}"
    write_report(estimator, opened.X, output, opened.y, title=name, random_state=seed, verbose=int(not quiet))
    wrote(output)
    if not quiet:
        tell(f"wrote the report to {output}")
