"""`jensen cluster`: the clusters of a table.

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
from jensen.files.places import check_columns, check_data, check_output

if TYPE_CHECKING:
    from jensen.tasks.clustering.result import Clusters


def cluster(
    data: Word,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE", help="Labels of some rows; empty cells are unlabelled. Clusters are these classes."
        ),
    ] = None,
    n_clusters: Annotated[int | None, typer.Option(min=1, help="Number of clusters. Default: found.")] = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    no_noise: Annotated[bool, typer.Option("--no-noise", help="Every row belongs to a cluster.")] = False,
    no_merge: Annotated[bool, typer.Option("--no-merge", help="Every component of the mixture is a cluster.")] = False,
    effort: Annotated[
        str, typer.Option(metavar="quick|normal|thorough", help="Rows, structures and sizes that are tried.")
    ] = "normal",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the table with a column `cluster`: .csv, .tsv or .parquet."),
    ] = None,
    report_to: Annotated[
        Path | None, typer.Option("--report", help="HTML page to write: every cluster, a picture, what was tried.")
    ] = None,
    model_to: Annotated[Path | None, typer.Option("--model", help="Model file to write: the mixture.")] = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the clusters of a table, and describe them.

    Structure and number of clusters are found. Every cluster is described by its
    size, its stability and the columns that set it apart. Rows that fit nowhere
    are noise, -1. Columns that identify rows are left out, and units do not
    matter.

    Examples:
      jensen cluster data.csv
      jensen cluster data.csv --drop name -o labels.csv --report page.html
      jensen cluster data.csv --label species --effort quick
      jensen cluster data.csv --n-clusters 3 --no-noise --json
    """
    check_safe(safe_csv, output, is_printed=False)
    check_outputs({"--output": output, "--report": report_to, "--model": model_to})
    if output:
        check_output(output)
    check_data(data)
    check_columns(data, drop or [], [label], header)
    from jensen.files.datasets import column_texts, need_table, read_with_cells, split_columns
    from jensen.files.tables import write_dataset
    from jensen.tasks.cluster import cluster as find_clusters
    from jensen.tasks.clustering.result import free_name

    reading = table_options(missing, header, types, label=label, aside=drop or [])
    read = read_with_cells(data, None if output else [], reading)
    need_table(Path(data), read.table)
    X, y, _ = split_columns(read.table, label=label, drop=drop or [])
    is_shown = not (as_json or quiet)
    found = find_clusters(
        with_whole_numbers(X),
        y,
        n_clusters=n_clusters,
        effort=effort,
        noise=not no_noise,
        merge=not no_merge,
        random_state=seed,
        verbose=int(is_shown),
    )
    if is_shown:
        # First, because an error in writing a file must not hide the result.
        typer.echo(found.describe())

    def write_clusters(file: Path) -> None:
        name = free_name("cluster", column_texts(read.table))
        table, form = beside(read, file, {name: found.labels})
        write_dataset(file, table, is_safe=safe_csv, form=form)

    writers = {
        "the table": (output, write_clusters),
        "the report": (report_to, lambda file: found.report(file, f"Clusters of {Path(data).name}")),
        "the model": (model_to, found.model.save),
    }
    written = {what: file for what, (file, _) in writers.items() if file}
    for what, file in written.items():
        writers[what][1](file)
        wrote(file)
        if is_shown:
            show_message(f"wrote {what} to {file.resolve()}")
    if as_json:
        files = {what.removeprefix("the "): str(file.resolve()) for what, file in written.items()}
        typer.echo(json.dumps(summary_of(found) | {"files": files}))


def summary_of(found: Clusters) -> dict[str, Any]:
    """What JSON says about clusters."""
    rows = [
        {str(name): value if isinstance(value, list) else plain(value) for name, value in row.items()}
        for row in found.clusters.to_dict("records")
    ]
    return {
        "summary": found.headline,
        "n_clusters": len(found.names),
        "structure": found.structure,
        "n_components": len(found.cluster_of),
        "agreement": plain(found.stability.agreement),
        "accuracy": plain(found.accuracy),
        "noise_rows": int((found.numbers < 0).sum()),
        "left_out": [str(name) for name in found.rows.ignored],
        "clusters": rows,
        "labels": [plain(label) for label in found.labels],
    }
