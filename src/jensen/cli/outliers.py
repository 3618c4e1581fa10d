"""`jensen outliers`: the odd rows and cells of a table.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.checks import check_outputs, check_safe
from jensen.cli.inputs import Drop, Header, Json, Missing, Quiet, SafeCsv, Types, Word, table_options
from jensen.cli.output import beside, plain, show_message, wrote
from jensen.cli.typed import with_whole_numbers
from jensen.files.places import check_columns, check_data, check_holds_text

if TYPE_CHECKING:
    import pandas as pd

# Lines that are printed.
MOST_LINES = 20
PROBABILITIES = {"tail", "outlier_p_value"}


def outliers(
    data: Word,
    level: Annotated[float, typer.Option(help="Accepted share of usual rows among those that are flagged.")] = 0.05,
    cells: Annotated[bool, typer.Option("--cells", help="List odd cells, with what was expected there.")] = False,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    effort: Annotated[
        str,
        typer.Option(metavar="quick|normal|thorough", help="Number of folds, and of rows that a fit is trained on."),
    ] = "normal",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for all rows with their scores (with --cells: the cells)."),
    ] = None,
    report_to: Annotated[Path | None, typer.Option("--report", help="HTML page to write.")] = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find odd rows, and the cells that make them odd.

    Every row is scored by models that were not trained on it and that odd rows do
    not bend. Rows are flagged so that about a share --level of them are usual.
    The cells are ranked by the probability of a value that is at most as likely
    given the rest of the row.

    Examples:
      jensen outliers data.csv
      jensen outliers data.csv --cells
      jensen outliers data.csv --drop id -o scored.csv --report page.html
    """
    check_safe(safe_csv, output, is_printed=False)
    check_outputs({"--output": output, "--report": report_to})
    if output:
        check_holds_text(output)
    check_data(data)
    check_columns(data, drop or [], header=header)
    from jensen.files.datasets import need_table, read_with_cells, split_columns
    from jensen.files.tables import write_dataset
    from jensen.tasks.outliers import outliers as find

    reading = table_options(missing, header, types, aside=drop or [])
    read = read_with_cells(data, None if output and not cells else [], reading)
    need_table(data, read.table)
    X = with_whole_numbers(split_columns(read.table, drop=drop or [])[0])
    is_shown = not (as_json or quiet)
    found = find(X, level=level, effort=effort, random_state=seed, verbose=int(is_shown))
    if cells:
        listed = found.cells[found.cells["is_outlier"]].drop(columns=["number", "is_outlier"])
        odd = "1 cell is" if len(listed) == 1 else f"{len(listed)} cells are"
        first = f"{odd} odd, at a false discovery rate of {level:.0%} under the model."
    else:
        listed, first = found.rows.rename_axis("row").reset_index(names="row"), str(found).splitlines()[0]
    if is_shown:
        print_lines(listed, first)
        if found.left_out:
            typer.echo(found.left_out)
    files = {}
    if output:
        table, form = (listed, None) if cells else beside(read, output, found.results)
        write_dataset(output, table, is_safe=safe_csv, form=form)
        files["cells" if cells else "table"] = output
    if report_to:
        found.report(report_to, f"Odd rows of {Path(data).name}")
        files["report"] = report_to
    for what, file in files.items():
        wrote(file)
        if is_shown:
            show_message(f"wrote the {what} to {file.resolve()}")
    if as_json:
        answer = {
            "n_rows": len(found.scores),
            "n_outliers": int(found.is_outlier.sum()),
            "level": level,
            "cells" if cells else "rows": in_json(listed),
            "models": in_json(found.tried),
            "files": {what: str(file.resolve()) for what, file in files.items()},
        }
        typer.echo(json.dumps(answer))


def in_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def print_lines(listed: pd.DataFrame, first: str) -> None:
    """The first lines of a table, and how many more there are."""
    import pandas as pd
    from rich.console import Console

    from jensen.tasks.odd_cells import SMALLEST

    def shown(p: float) -> str:
        return f"{p:.4g}" if p > SMALLEST else "<1e-6"

    console = Console()
    console.print(first)
    if len(listed):
        with pd.option_context("display.width", max(console.width, 40), "display.max_columns", 12):
            text = listed[:MOST_LINES].assign(**{name: listed[name].map(shown) for name in PROBABILITIES & {*listed}})
            typer.echo(text.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    if len(listed) > MOST_LINES:
        typer.echo(f"... and {len(listed) - MOST_LINES} more; --output writes all of them")
