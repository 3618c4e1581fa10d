"""Output of commands: results to standard output, as a table, CSV or JSON, and messages to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jensen.cli.checks import is_image_file
from jensen.cli.documents import is_topics, summary_of_documents
from jensen.cli.typed import left_out, modelled

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jensen.files.tables import Read
    from jensen.files.understood import TextForm
    from jensen.registry import Model

# Formats of pictures that matplotlib writes.
PICTURES = (".png", ".pdf", ".svg")

BITS_OF_A_DENSITY = "Bits of a density may be negative and are not a code length."
WRITTEN: ContextVar[list[str]] = ContextVar("written", default=[])  # noqa: B039 (outside of a command it is never read)


def entries_of(estimator: Model, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The number of observed and of missing entries of every row (n,), without columns left out."""
    import numpy as np
    import pandas as pd

    if hasattr(X, "tocsr"):  # a sparse matrix, whose entries are never missing
        n, d = X.shape
        return np.full(n, d), np.zeros(n, dtype=int)
    is_missing = np.asarray(pd.isna(modelled(estimator, X))).reshape(len(X), -1)
    return (~is_missing).sum(1), is_missing.sum(1)


def columns_of(name: str, values: np.ndarray) -> pd.DataFrame:
    """A data frame of one column, or of numbered ones where every row has several values."""
    import pandas as pd

    names = [name] if values.ndim == 1 else [f"{name}_{i}" for i in range(values.shape[1])]
    return pd.DataFrame(values, columns=names)


def in_units(
    estimator: Model, nats: float, n_observed: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, float]:
    """Nats per row, and for a model of rows also bits per observed entry: a regression's density is of y.

    Args:
        n_observed: the number of observed entries of every row.
    """
    import numpy as np
    from sklearn.base import is_regressor

    if is_regressor(estimator):
        return {"nats_per_row": nats}
    mean = np.average(n_observed, weights=weights)
    return {"nats_per_row": nats, "bits_per_dimension": -nats / (max(mean, 1e-300) * math.log(2))}


def summary_of_fit(
    estimator: Model, X: Any, y: np.ndarray | None, weights: np.ndarray | None, is_scored: bool = True
) -> dict[str, Any]:
    """The results of a fit by name. A model trained by gradients is scored on some rows, with few draws."""
    import numpy as np
    from sklearn.base import is_regressor

    from jensen.bound import averaging
    from jensen.data.container import n_rows, take
    from jensen.report.quick import Quick, quick_scores

    if is_topics(estimator):
        return summary_of_documents(estimator, X, weights, is_scored) | found_values(estimator)
    n_observed, n_missing = entries_of(estimator, X)
    summary = {
        "features": estimator.n_features_in_ - len(left_out(estimator)),
        "missing_entries": int(n_missing.sum()),
    }
    # Rows of weight 0 may hold anything.
    counted = np.ones(n_rows(X)) if weights is None else weights
    rows = np.flatnonzero(counted > 0)
    if needs_complete_rows(estimator):
        rows = rows[n_missing[rows] == 0]
    quick = Quick.of(estimator, len(rows))
    rows = rows[quick.some(len(rows))]
    some = take(X, rows)
    if is_scored and is_regressor(estimator):
        regressor: Any = estimator
        summary["r2"] = regressor.score(some, np.asarray(y)[rows], sample_weight=counted[rows])
    elif is_scored and hasattr(estimator, "score_samples") and len(rows):
        if len(rows) < (counted > 0).sum():
            summary["scored_rows"] = len(rows)
        if quick.is_short:
            summary["levels_per_row" if quick.option == "levels" else "draws_per_row"] = quick.n_draws
        with averaging():
            scores = quick_scores(estimator, some, quick)
        summary |= in_units(estimator, np.average(scores, weights=counted[rows]), n_observed[rows], counted[rows])
    summary |= found_values(estimator)
    if hasattr(estimator, "history_"):
        best = estimator.history_.max(numeric_only=True)
        shown = {"objective": getattr(estimator, "lower_bound_", None), "held_out": best.get("held_out")}
        # The simple loss of a diffusion is not in nats, but would look like it beside nats per row. The loss of a prior
        # that is trained alone is that of latent vectors.
        if getattr(estimator, "objective", None) in ("simple", "hybrid") or hasattr(estimator, "vae_"):
            shown = {"held_out": shown["held_out"]}
        if needs_complete_rows(estimator) and summary["missing_entries"]:
            # A sum over observed values only, which is not a bound.
            shown = {}
        summary |= {f"{name}_per_row": float(value) for name, value in shown.items() if value is not None}
    return summary


def found_values(estimator: Model) -> dict[str, Any]:
    """What a fit has found that is one value."""
    import numpy as np

    found = {
        "components": "n_components_",
        "alpha": "alpha_",
        "noise_variance": "noise_variance_",
        "log_evidence": "log_evidence_",
        "inertia": "inertia_",
        "loss": "loss_",
        "epochs" if hasattr(estimator, "history_") else "iterations": "n_iter_",
        "converged": "converged_",
    }
    if getattr(estimator, "depot", None) is not None:
        found = {"cost": "cost_", "supply_cost": "supply_cost_"} | found
    values = {name: getattr(estimator, key) for name, key in found.items() if hasattr(estimator, key)}
    # With a noise variance for every feature there are too many for a table.
    return {name: value for name, value in values.items() if name != "noise_variance" or np.size(value) == 1}


def needs_complete_rows(estimator: Model) -> bool:
    """Whether a model can be trained on rows with missing values, but cannot score them."""
    return bool(estimator.capabilities.scores_complete_rows_only)


def write_table(
    table: Any, output: Path | None, is_shown: bool = True, is_safe: bool = False, form: TextForm | None = None
) -> None:
    """Write a table to a file, or as CSV to standard output; in the form of another text file, if one is given."""
    from jensen.files.tables import as_frame, without_formulas, write_dataset
    from jensen.files.understood import TextForm

    if output is None:
        frame = as_frame(table)
        safe = without_formulas(frame) if is_safe else frame
        form = form or TextForm()
        safe.to_csv(sys.stdout, index=False, lineterminator="\n", sep=form.separator or ",", decimal=form.decimal)
        return
    write_dataset(output, table, is_safe=is_safe, form=form)
    wrote(output)
    if is_shown:
        show_message(f"wrote {len(table)} rows to {output}")


def beside(read: Read, output: Path, more: dict[str, Any]) -> tuple[pd.DataFrame, TextForm | None]:
    """The table that was read with more columns at its end, and its form: in a text file cells are as in the input."""
    from jensen.files.places import is_text
    from jensen.files.tables import as_frame

    as_written = is_text(output)
    frame = as_frame(read.cells if as_written else read.table)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    return frame.assign(**more), read.understood.form if as_written else None


def write_result(
    estimator: Model,
    table: Any,
    output: Path | None,
    as_json: bool,
    is_safe: bool = False,
    form: TextForm | None = None,
    **summary: Any,
) -> None:
    """Write a table to a file, or to standard output as CSV, or print one JSON object."""
    if output or not as_json:
        write_table(table, output, is_shown=not as_json, is_safe=is_safe, form=form)
    if not as_json:
        return
    from jensen.files.tables import as_frame

    if output is None:
        frame = as_frame(table)
        # JSON has no dates; as text these are as in a text file.
        shown = frame.astype(object)
        for name in frame.select_dtypes(["datetime", "datetimetz"]):
            shown[name] = frame[name].astype(str)
        summary["table"] = shown.where(frame.notna(), None).to_dict("list")
    report(estimator, len(table), summary, output, as_json)


def write_rows(
    estimator: Model,
    rows: Any,
    output: Path | None,
    as_json: bool,
    is_safe: bool = False,
    form: TextForm | None = None,
    **summary: Any,
) -> None:
    """Write rows from a model: images as .png if that is asked for, else as a table."""
    if output is None or not is_image_file(output):
        return write_result(estimator, rows, output, as_json, is_safe, form, **summary)
    write_images(estimator, rows, output, is_shown=not as_json)
    if as_json:
        report(estimator, len(rows), summary, output, as_json)


def check_complete(verb: str, table: Any) -> None:
    """An error if a result has missing values."""
    import numpy as np
    import pandas as pd

    is_missing = np.asarray(table.to_pandas().isna() if hasattr(table, "to_pandas") else pd.isna(table))
    if is_missing.any():
        row, *place = (int(where[0]) for where in is_missing.nonzero())
        column = "" if not place else f", column {shown_column(table, place)}"
        raise ValueError(
            f"{verb} returned no value for {int(is_missing.sum())} of {is_missing.size} cells, first in row {row}"
            f"{column}; its values may be too far from those that the model was trained on"
        )


def shown_column(table: Any, place: list[int]) -> str:
    """The name or number of a column; in images the position of a pixel."""
    if hasattr(table, "columns"):
        return repr(table.columns[place[0]])
    return str(place[0] if len(place) == 1 else tuple(place))


def write_images(estimator: Model, images: np.ndarray, output: Path, is_shown: bool = True) -> None:
    """Write images on the scale of the data: side by side in one .png, or one by one in a folder."""
    import numpy as np

    from jensen.report.images import image_grid, scale_of, write_png

    values, known = np.asarray(images), estimator.columns_.levels
    # A file of an older version may have neither.
    seen = np.concatenate(known).astype(float) if all(known) else getattr(estimator, "pixel_range_", None)
    limits = None if seen is None else scale_of(float(np.min(seen)), float(np.max(seen)))
    if output.suffix:
        write_png(image_grid(values, limits=limits), output)
        wrote(output)
    else:
        output.mkdir(exist_ok=True)
        wrote(f"images in {output}")
        n_digits = len(str(len(values) - 1))
        for i, image in enumerate(values):
            write_png(image_grid(image[None], scale=1, limits=limits), output / f"{i:0{n_digits}}.png")
    if is_shown:
        show_message(f"wrote {len(values)} images to {output}")


def report(
    estimator: Model,
    n_rows: int | None,
    summary: dict[str, Any],
    output: Path | None,
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Print a summary as one JSON object or as a table."""
    summary = {"model": type(estimator).__name__, "rows": n_rows, **summary}
    if output:
        summary["output"] = str(output)
    if as_json:
        text = json.dumps(summary, default=lambda value: value.item())
        # JSON has no NaN and no infinity.
        typer.echo(json.dumps(json.loads(text, parse_constant=lambda _: None)))
    elif not quiet:
        least = summary.pop("least_likely", [])
        caption = BITS_OF_A_DENSITY if "bits_per_dimension" in summary and "density" in estimator.measure_ else None
        show(("", ""), [(name.replace("_", " "), cell(value)) for name, value in summary.items()], caption)
        if least:
            show(("least likely row (from 0)", "nats"), [(cell(one["row"]), cell(one["nats"])) for one in least])


def plain(value: Any) -> Any:
    """A value that JSON can hold, or else its text."""
    import pandas as pd

    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    value = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def show(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str | None = None) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # A name on two lines could not be copied.
    options: dict[str, Any] = {"caption": caption, "caption_justify": "left", "show_header": any(header)}
    table = Table(Column(header[0], no_wrap=True), *header[1:], **options)
    for row in rows:
        table.add_row(*(Text(text, overflow="fold") for text in row))
    Console().print(table)


@contextmanager
def noted() -> Iterator[list[str]]:
    """The list of files written within the context."""
    token = WRITTEN.set([])
    try:
        yield WRITTEN.get()
    finally:
        WRITTEN.reset(token)


def wrote(what: str | Path) -> None:
    """Note a file, for the last line of an interrupted command."""
    WRITTEN.get().append(str(what))


def show_message(message: str) -> None:
    """Print one line on standard error."""
    typer.echo(" ".join(message.split()), err=True)
