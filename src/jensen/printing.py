"""What a command says: results to standard output, as a table, CSV or JSON, and messages to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

__all__ = ["cell", "columns_of", "deliver", "in_units", "plain", "report", "show", "tell"]


def columns_of(name: str, values: Any) -> Any:
    """A data frame of one column, or of numbered ones where every row has several values."""
    import pandas as pd

    names = [name] if values.ndim == 1 else [f"{name}_{i}" for i in range(values.shape[1])]
    return pd.DataFrame(values, columns=names)


def in_units(estimator: Any, nats: float, X: Any, weights: Any = None) -> dict[str, float]:
    """Nats per row, and for a model of rows also bits per observed entry: a regression's density is of y."""
    import numpy as np
    import pandas as pd
    from sklearn.base import is_regressor

    if is_regressor(estimator):
        return {"nats_per_row": nats}
    n_observed = np.average(np.asarray(pd.notna(X)).sum(1), weights=weights)
    return {"nats_per_row": nats, "bits_per_dimension": -nats / (max(n_observed, 1e-300) * math.log(2))}


def deliver(table: Any, output: Path | None) -> None:
    """A table to a file, or as CSV to standard output."""
    from jensen.interop.datasets import as_frame, write_dataset

    if output is None:
        as_frame(table).to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    write_dataset(output, table)
    tell(f"wrote {len(table)} rows to {output}")


def report(
    estimator: Any, n_rows: int, summary: dict[str, Any], output: Path | None, as_json: bool, quiet: bool = False
) -> None:
    """One JSON object, or a table for people."""
    summary = {"model": type(estimator).__name__, "rows": n_rows, **summary}
    if output:
        summary["output"] = str(output)
    if as_json:
        text = json.dumps(summary, default=lambda value: value.item())
        # JSON has no NaN and no infinity.
        typer.echo(json.dumps(json.loads(text, parse_constant=lambda _: None)))
    elif not quiet:
        least = summary.pop("least_likely", [])
        show(("", ""), [(name.replace("_", " "), cell(value)) for name, value in summary.items()])
        if least:
            show(("least likely row, from 0", "nats"), [(cell(one["row"]), cell(one["nats"])) for one in least])


def plain(value: Any) -> Any:
    """A value that JSON knows, or else its text."""
    import pandas as pd

    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    value = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # A name that is broken in two cannot be copied.
    table = Table(Column(header[0], no_wrap=True), *header[1:], show_header=any(header))
    for row in rows:
        table.add_row(*(Text(text, overflow="fold") for text in row))
    Console().print(table)


def tell(message: str) -> None:
    """One line on standard error."""
    typer.echo(" ".join(message.split()), err=True)
