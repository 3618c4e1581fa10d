"""`jensen impute`: fill missing values, by models that are chosen here or by a fitted one.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.apply import RowsOutput
from jensen.cli.checks import (
    check_files,
    check_page,
    check_place,
    check_safe,
    check_writable,
    is_image_file,
)
from jensen.cli.inputs import (
    Drop,
    Header,
    Json,
    Missing,
    SafeCsv,
    Types,
    check_rows_fit,
    method,
    open_rows,
    options_for,
    table_options,
)
from jensen.cli.output import check_complete, plain, show_message, write_result, write_rows, wrote
from jensen.cli.scans import BlockRows, Scanned, is_scanned
from jensen.cli.streams import check_streamed, deliver, open_stream
from jensen.cli.typed import missing_elsewhere, modelled, typed
from jensen.files.places import check_columns, check_data, check_output, is_text, numbered

if TYPE_CHECKING:
    import pandas as pd

    from jensen.cli.streams import Stream
    from jensen.files.reading import Reading
    from jensen.files.tables import Table
    from jensen.files.understood import TextForm


def impute(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL] DATA",
            help="Table, such as a .csv or .parquet file. Before it, a model file written by `jensen fit`; without "
            "one, models are chosen and fitted here.",
        ),
    ],
    effort: Annotated[
        str | None,
        typer.Option(
            metavar="quick|normal|thorough", help="Without a model: how many models are tried. Default: normal."
        ),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Number of tables to draw instead of the posterior mean.")
    ] = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    steps: Annotated[int | None, typer.Option(help="Diffusion only: number of sampling steps.")] = None,
    resamplings: Annotated[int | None, typer.Option(help="Diffusion only: repetitions of each step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: 0, or the random_state of the model.")] = None,
    scan: Scanned = None,
    block_rows: BlockRows = None,
    output: RowsOutput = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", help="Without a model: HTML page with errors, models and filled cells."),
    ] = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Fill missing values.

    With one file, several models of the table are compared on hidden entries and
    averaged: numbers are filled with their expectation, levels with the most
    probable one, and the error on hidden entries is printed. With a model file
    first, values are filled with their posterior mean under that model. All other
    cells and columns stay as they are.

    With --draws N, N tables are drawn, for multiple imputation, and written to
    filled-1.csv to filled-N.csv. Missing pixels of images are NaN.

    Examples:
      jensen impute data.csv -o filled.csv
      jensen impute data.csv --effort quick --drop id --report p.html -o new.csv
      jensen impute data.csv --draws 5 -o filled.csv
      jensen impute iris.jensen gaps.csv > filled.csv
      jensen impute iris.jensen gaps.csv --draws 5 --seed 0 --output filled.csv
      jensen impute digits.jensen gaps.npy --steps 50 --output filled.npy
      jensen impute m.jensen big.csv --scan --output filled.parquet
    """
    if len(files) > 2:
        raise ValueError(
            f"{len(files)} files were given: {', '.join(map(str, files))}; give a table, or a model and a table"
        )
    if draws and draws > 1 and output is None:
        raise ValueError(f"--draws {draws} makes {draws} tables, and standard output takes one; give --output")
    check_place(output)
    check_safe(safe_csv, output, is_printed=not as_json)
    if len(files) == 2:
        unused = {"--effort": effort, "--report": report_to, "--drop": drop}
        for flag, value in unused.items():
            if value:
                raise ValueError(
                    f"{flag} is for imputation without a model; {files[0]} is fitted already: leave it out"
                )
        reading = table_options(missing, header, types)
        check_data(files[1], many=True)
        if is_scanned(files[1], scan, block_rows, model=files[0]):
            if draws:
                raise ValueError(
                    f"--draws {draws} draws tables in memory, and {files[1]} is read block by block; leave it out"
                )
            check_files(files[0], files[1], output, many=True)
            check_streamed(output, files[1])
            options: dict[str, Any] = {"block_rows": block_rows, "seed": seed, "is_shown": not as_json}
            stream = open_stream(files[0], files[1], reading, keep=None, **options)
            return impute_stream(stream, {"steps": steps, "resamplings": resamplings}, output, safe_csv, as_json)
        return impute_by_model(files[0], files[1], reading, draws, steps, resamplings, seed, output, safe_csv, as_json)
    if scan:
        raise ValueError(
            f"--scan reads {files[0]} block by block, and models are chosen on a table in memory; fit one with "
            "`jensen fit` and give its file before the table"
        )
    if block_rows is not None:
        raise ValueError(f"--block-rows {block_rows} is for a fitted model; give its file before the table")
    for flag, given in {"--steps": steps, "--resamplings": resamplings}.items():
        if given is not None:
            raise ValueError(f"{flag} is for a fitted diffusion; give its file before the table, or leave it out")
    if files[0].suffix == ".jensen":
        raise ValueError(f"{files[0]} is a model file; give the table after it")
    check_data(str(files[0]))
    check_columns(files[0], drop or [], header=header)
    if report_to:
        check_page(report_to, "--report")
        check_writable(report_to, "--report")
    if output:
        check_writable(output)
        check_output(output)
    reading, asked = table_options(missing, header, types, aside=drop or []), effort or "normal"
    impute_table(files[0], reading, asked, draws, drop or [], seed or 0, output, report_to, safe_csv, as_json)


def impute_table(
    data: Path,
    reading: Reading,
    effort: str,
    draws: int | None,
    drop: list[str],
    seed: int,
    output: Path | None,
    report_to: Path | None,
    safe_csv: bool,
    as_json: bool,
) -> None:
    """Choose and fit models, and fill the table with their average."""
    import numpy as np
    import pandas as pd

    from jensen.files.datasets import fill_cells, need_table, read_with_cells, split_columns
    from jensen.tasks.impute import impute as impute_rows
    from jensen.tasks.imputer import Imputer

    read = read_with_cells(data, reading=reading)
    as_written = not as_json and (output is None or is_text(output))
    cells, styles = (read.cells, read.understood.styles) if as_written else (read.table, {})
    form = read.understood.form if as_written else None
    need_table(data, read.table)
    X, _, _ = split_columns(read.table, drop=drop)
    X = typed(Imputer(effort), X)
    if report_to is None and not np.asarray(pd.isna(X)).any():
        return write_complete(data, cells, effort, draws, output, safe_csv, as_json, form)
    result = impute_rows(X, effort, random_state=seed, verbose=int(not as_json))
    own = modelled(result.model, X)
    is_missing = np.asarray(pd.isna(own))
    tables = [result.table] if draws is None else result.draws(draws, verbose=int(not as_json))
    if report_to:
        result.report(report_to, f"Imputed values of {data.name}")
        wrote(report_to)
    summary: dict[str, Any] = {"filled_entries": int(is_missing.sum())}
    if as_json:
        summary |= {"columns": records(result.columns), "tried": records(result.tried)}
        summary |= {"report": str(report_to)} if report_to else {}
    for i, filled in enumerate(tables, start=1):
        write_rows(
            result.model,
            fill_cells(cells, own, is_missing, filled, styles),
            file_of(output, i, draws),
            as_json,
            safe_csv,
            form,
            **summary,
        )
    if not as_json:
        for line in str(result).splitlines():
            show_message(line)
        if report_to:
            show_message(f"wrote the report to {report_to.resolve()}")


def write_complete(
    data: Path,
    cells: Table,
    effort: str,
    draws: int | None,
    output: Path | None,
    safe_csv: bool,
    as_json: bool,
    form: TextForm | None,
) -> None:
    """Write a table in which nothing is missing as it is; no model is fitted."""
    from jensen.tasks.imputer import Imputer

    unfitted = Imputer(effort)
    unfitted._validate_params()
    summary: dict[str, Any] = {"filled_entries": 0} | ({"columns": [], "tried": []} if as_json else {})
    for i in range(1, (draws or 1) + 1):
        write_rows(unfitted, cells, file_of(output, i, draws), as_json, safe_csv, form, **summary)
    if not as_json:
        show_message(f"nothing is missing in {data}; the table is written as it is, and no model was fitted")


def file_of(output: Path | None, i: int, draws: int | None) -> Path | None:
    """The file of the i-th draw."""
    return output if output is None or draws is None else numbered(output, i)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def impute_by_model(
    model: Path,
    data: Path,
    reading: Reading,
    draws: int | None,
    steps: int | None,
    resamplings: int | None,
    seed: int | None,
    output: Path | None,
    safe_csv: bool,
    as_json: bool,
) -> None:
    """Fill a table by a fitted model."""
    check_files(model, data)
    import numpy as np
    import pandas as pd

    from jensen.files.datasets import fill_cells

    is_image = is_image_file(output)
    as_written = not as_json and (output is None or is_text(output))
    opened = open_rows(model, data, as_written=as_written, seed=seed, is_shown=not as_json, reading=reading)
    estimator, X, cells = opened.estimator, opened.X, opened.cells
    verb = "impute" if draws is None else "impute_draws"
    fill, options = method(estimator, verb), options_for(estimator, verb, steps=steps, resamplings=resamplings)
    check_rows_fit(estimator, output)
    own = modelled(estimator, X)
    is_missing = np.asarray(pd.isna(own))
    tables = [fill(X, **options)] if draws is None else fill(X, draws, random_state=seed, **options)
    for filled in tables:
        check_complete("impute", modelled(estimator, filled))
    for i, filled in enumerate(tables, start=1):
        file = file_of(output, i, draws)
        table = filled if is_image else fill_cells(cells, own, is_missing, filled, opened.styles)
        n_filled = int(is_missing.sum())
        write_rows(estimator, table, file, as_json, safe_csv, opened.form, filled_entries=n_filled)
    if not as_json:
        show_left(estimator, missing_elsewhere(cells, own))


def show_left(estimator: Any, left: Mapping[str, int]) -> None:
    """One line about missing values that stay missing, by column."""
    if not left:
        return
    hint = "; for classes use `jensen predict`" if hasattr(estimator, "classes_") else ""
    cells = ", ".join(f"{n} cells of {name}" for name, n in left.items())
    show_message(f"not imputed, in columns that the model was not trained on: {cells}{hint}")


def impute_stream(stream: Stream, asked: Mapping[str, Any], output: Path | None, safe_csv: bool, as_json: bool) -> None:
    """Fill tables by a fitted model, block by block."""
    import numpy as np
    import pandas as pd

    from jensen.files.datasets import fill_cells
    from jensen.files.tables import as_frame

    estimator = stream.estimator
    if stream.scan.head().table.ndim > 2:
        raise ValueError("images are filled in memory and not block by block; add --no-scan")
    fill, options = method(estimator, "impute"), options_for(estimator, "impute", **asked)
    as_written = not as_json and (output is None or is_text(output))
    n_filled, left = 0, Counter[str]()

    def frames() -> Iterator[pd.DataFrame]:
        nonlocal n_filled
        for piece in stream:
            own = modelled(estimator, piece.X)
            is_missing = np.asarray(pd.isna(own))
            with piece.place:
                filled = fill(piece.X, **options)
                check_complete("impute", modelled(estimator, filled))
            n_filled += int(is_missing.sum())
            cells = piece.cells if as_written else piece.table
            left.update(missing_elsewhere(cells, own))
            yield as_frame(fill_cells(cells, own, is_missing, filled))

    table = deliver(stream, frames(), output, as_json, safe_csv, lambda: {"filled_entries": n_filled})
    if table is not None:
        write_result(estimator, table, output, as_json, filled_entries=n_filled)
    if not as_json:
        show_left(estimator, left)
