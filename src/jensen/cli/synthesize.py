"""`jensen synthesize`: new rows like those of a table.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.apply import WRITTEN_HELP
from jensen.cli.checks import check_outputs, check_safe
from jensen.cli.inputs import Drop, Header, Json, Missing, Quiet, SafeCsv, Types, Word, table_options
from jensen.cli.output import plain, show_message, wrote
from jensen.cli.typed import with_whole_numbers
from jensen.files.places import check_columns, check_data, check_output, is_text

if TYPE_CHECKING:
    import pandas as pd


def synthesize(
    data: Word,
    n: Annotated[int, typer.Option("-n", "--n", help="Number of rows to make.")],
    output: Annotated[Path, typer.Option("--output", "-o", help=WRITTEN_HELP)],
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="What all new rows have: a value, low:high for numbers and dates (an end may be empty), or one of "
            "several: a|b. Several conditions: x=1,y=a. May be repeated.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that the report predicts with a model of the synthetic rows."),
    ] = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    effort: Annotated[
        str, typer.Option(metavar="quick|normal|thorough", help="How many sizes of the mixture are tried.")
    ] = "normal",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    report_to: Annotated[
        Path | None, typer.Option("--report", help="HTML page to write: quality, columns and rows.")
    ] = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make new rows like those of a table.

    Rows have the columns, types, ranges and dependences of the table; columns
    that are a function of another stay one. This is no guarantee of privacy.

    Examples:
      jensen synthesize data.csv -n 1000 -o new.csv
      jensen synthesize data.csv -n 500 -o new.csv --given 'income=>50K,age=30:40'
      jensen synthesize data.csv -n 500 -o new.csv --label income --report p.html
    """
    check_safe(safe_csv, output, is_printed=False)
    check_outputs({"--output": output, "--report": report_to})
    check_output(output)
    check_data(data)
    check_columns(data, drop or [], header=header)
    from jensen.files.datasets import as_written, need_table, read_with_cells, split_columns
    from jensen.files.tables import as_frame, write_dataset
    from jensen.tasks.synthesize import synthesize as make

    reading = table_options(missing, header, types, aside=drop or [])
    read = read_with_cells(data, [], reading)
    need_table(data, read.table)
    rows, _, _ = split_columns(read.table, drop=drop or [])
    table = as_frame(with_whole_numbers(rows))
    is_shown = not (as_json or quiet)
    made = make(
        table,
        n,
        given=read_given(given or [], table),
        label=label,
        effort=effort,
        random_state=seed,
        verbose=int(is_shown),
    )
    if is_text(output):
        new = as_written(made.table, read.understood.styles)
        write_dataset(output, new, is_safe=safe_csv, form=read.understood.form)
    else:
        write_dataset(output, made.table, is_safe=safe_csv)
    wrote(output)
    files = {"rows": str(output.resolve())}
    if report_to:
        made.report(report_to, f"Synthetic rows of {Path(data).name}")
        wrote(report_to)
        files["report"] = str(report_to.resolve())
    if is_shown:
        show_lines(str(made))
        for what, file in files.items():
            show_message(f"wrote {what} to {file}")
    if as_json:
        tried = [{str(name): plain(value) for name, value in row.items()} for row in made.tried.to_dict("records")]
        scores = made.quality.table.drop(columns="meaning") if report_to else None
        quality = {} if scores is None else {str(name): row for name, row in scores.to_dict("index").items()}
        cells = {score: {str(k): plain(v) for k, v in row.items()} for score, row in quality.items()}
        typer.echo(json.dumps({"n": n, "tried": tried, "quality": cells, "files": files}))


def show_lines(text: str) -> None:
    for line in text.splitlines():
        typer.echo(line)


def read_given(words: Sequence[str], table: pd.DataFrame) -> dict[str | int, Any]:
    """{column: value, (low, high) or list} of words such as x=1,y=a; a comma ends a condition if COLUMN= follows."""
    names = sorted((str(name) for name in table.columns), key=len, reverse=True)
    start = "|".join(map(re.escape, names))
    found: dict[str | int, Any] = {}
    for word in words:
        for part in re.split(rf",(?=(?:{start})=)", word):
            match = re.match(rf"({start})=(.*)$", part, flags=re.DOTALL)
            if match is None:
                raise ValueError(f"--given {part} must be COLUMN=VALUE with a column of {', '.join(names)}")
            name, text = match.groups()
            if name in found:
                raise ValueError(f"--given names the column {name} twice; separate alternatives by |, as {name}=a|b")
            found[name] = read_condition(name, text, table[name])
    return found


def read_condition(name: str, text: str, column: pd.Series) -> Any:
    """A value of a column, an interval of numbers or dates, or a list of values."""
    import pandas as pd

    is_date = pd.api.types.is_datetime64_any_dtype(column)
    has_order = is_date or (pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))
    known = {str(value): value for value in column.dropna().unique()}

    def read(part: str) -> Any:
        if part in known and not is_date:
            return known[part].item() if hasattr(known[part], "item") else known[part]
        try:
            return pd.Timestamp(part) if is_date else float(part) if has_order else part
        except ValueError:
            raise ValueError(f"--given {name}={text}: {part!r} is no {'date' if is_date else 'number'}") from None

    # The colons of a time are no sign of an interval.
    ends = re.match(r"(.*?):(?!\d\d(?:\D|$))(.*)$", text) if is_date else re.match(r"([^:]*):([^:]*)$", text)
    if has_order and ends is not None:
        low, high = (read(end) if end else None for end in ends.groups())
        return low, high
    parts = text.split("|")
    return [read(part) for part in parts] if len(parts) > 1 and text not in known else read(text)
