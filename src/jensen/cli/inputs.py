"""Inputs of commands: a model, its options and tables, read from words and files.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.arguments import flag_of, parts_with, read_arguments, read_value, sort_grid, sort_words, unknown
from jensen.cli.checks import check_files, check_writable, is_folder, is_image_file, is_picture
from jensen.cli.documents import DOCUMENTS, holds_documents, is_sparse_output, read_documents
from jensen.cli.output import show_message
from jensen.cli.signatures import arguments_of
from jensen.cli.typed import as_fitted, typed_as_fitted
from jensen.files.places import WRITTEN, check_columns, check_data, check_output
from jensen.files.reading import Reading, reading_of
from jensen.runtime.progress import hide_progress

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jensen.files.styles import Style
    from jensen.files.understood import TextForm
    from jensen.registry import Model


@dataclass(frozen=True)
class Order:
    """A table and an estimator, the arguments of it that were given, and all that it has."""

    path: str
    estimator: Model
    given: Mapping[str, Any]
    parameters: Mapping[str, inspect.Parameter]


def read_order(
    ctx: typer.Context,
    model: str,
    data: str,
    seed: int | None,
    grid: Sequence[str] = (),
    *,
    drop: Sequence[str] = (),
    or_files: Sequence[str | None] = (),
    header: bool | None = None,
    many: bool = False,
) -> Order:
    """The model and its options among the words of the command line. The data may be `many` tables.

    Names in a grid, columns to drop, and names of columns `or_files` are only checked.
    """
    from jensen.registry import MODELS, class_name, model_class

    # An unknown option may be among the positional arguments; the name of the model shows which word is which.
    words = [model, data, *ctx.args]
    words.remove(name := next((word for word in words if word in MODELS), model))
    own_flags = [flag for parameter in ctx.command.params for flag in parameter.opts if flag.startswith("--")]
    known = arguments_of(class_name(name))

    def refuse(flag: str, names: Iterable[str]) -> Exception:
        option = flag.removeprefix("--").replace("-", "_")
        return unknown(flag, [*map(flag_of, names), *own_flags], parts_with(option, class_name(name)))

    if known is not None:
        # Mistakes in words are reported before torch is imported.
        switches = {option: argument.is_switch for option, argument in known.items()}
        path, texts = sort_words(words, switches, partial(refuse, names=known))
        for option, text in texts.items():
            if (parameter := known[option].plain) is not None:
                read_value(text, parameter)
        sort_grid(grid, known)
        check_data(path, many=many)
        check_columns(path, drop, or_files, header)
    cls = model_class(name)
    parameters = inspect.signature(cls, eval_str=True).parameters
    path, given = read_arguments(words, parameters, partial(refuse, names=parameters))
    if seed is not None and "random_state" in given:
        raise ValueError(f"--seed {seed} and --random-state {given['random_state']} are the same option; give one")
    usual = {"random_state": seed or 0} if "random_state" in parameters else {}
    return Order(path, cls(**(usual | given)), given, parameters)


def only(flag: str, given: Sequence[str] | None) -> str | None:
    """The value of an option that may be given only once."""
    if given and len(given) > 1:
        raise ValueError(f"{flag} was given {len(given)} times: {', '.join(given)}; give one column")
    return given[0] if given else None


def check_rows_fit(estimator: Model, output: Path | None) -> None:
    """An error if the rows of a model cannot be written to this file; drawing them may take long."""
    from jensen.report.images import check_images

    shape = getattr(estimator, "row_shape_", ())
    if output is not None and len(shape) > 1 and is_folder(output) and output.is_dir():
        if any(output.iterdir()):
            raise ValueError(f"--output {output} is a folder with files in it; give a new or empty one")
    elif output is not None:
        check_writable(output)
    if len(shape) > 1 and is_image_file(output):
        try:
            check_images((1, *shape))
        except ValueError as error:
            raise ValueError(f"--output {output}: {error}; an .npy file can hold all images") from None
    elif len(shape) > 1 and (output is None or output.suffix.lower() != ".npy"):
        raise ValueError(
            f"rows of shape {shape} are not a table; write them to an .npy or .png file, or to a folder, with --output"
        )
    elif is_picture(output):
        raise ValueError(
            f"--output {output} is a picture, but {type(estimator).__name__} was fitted on a table and not on images; "
            f"give a file that ends in {', '.join(WRITTEN)}"
        )
    elif output is not None and not is_sparse_output(estimator, output):
        check_output(output)


def is_trained_by_gradients(estimator: Model) -> bool:
    return estimator.capabilities.gradients


def takes_images(estimator: Model) -> bool:
    return estimator.capabilities.images


def predicts_numbers(estimator: Model, label: str | None) -> bool:
    """Whether the model is a regression; an error if it is one, or a classifier, and has no label."""
    from sklearn.base import is_regressor

    if estimator.capabilities.labels == "needed" and label is None:
        raise ValueError(f"{type(estimator).__name__} predicts one column from the others; name it with --label")
    return bool(is_regressor(estimator))


def warn_of_ignored_label(estimator: Model, label: str | None) -> None:
    """Warn if a fit did not use the labels: it has no classes and is not a regression."""
    from sklearn.base import is_regressor

    if label is not None and not (is_regressor(estimator) or hasattr(estimator, "classes_")):
        show_message(f"warning: {type(estimator).__name__} ignores --label; {named(label)} is left out")


def named(label: str) -> str:
    return label if Path(label).is_file() else f"the column {label!r}"


def open_model(model: Path, seed: int | None = None, is_shown: bool = True) -> Model:
    """Load a fitted model, with a seed if one is given, and with a progress bar on a terminal."""
    from jensen.registry import load

    check_files(model)
    estimator: Model = load(model)
    asked = {"verbose": int(is_shown)} | ({} if seed is None else {"random_state": seed})
    known = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in asked.items() if name in known})
    return estimator


@dataclass(frozen=True)
class Opened:
    """A fitted model and a table.

    Args:
        X: the columns that the model was fitted on.
        y: labels, or what a regression predicts.
        cells: the whole table, as it is written in a text file if that was asked for.
        kept: the columns of --keep by name, as they are written in a text file.
        styles: how columns of the file write numbers and dates, if not in the usual way.
        form: of the text file, for one that is written.
    """

    estimator: Model
    X: Any
    y: np.ndarray | None
    cells: Any
    kept: Mapping[str, pd.Series[Any]]
    styles: Mapping[str, Style]
    form: TextForm | None


def open_rows(
    model: Path,
    data: Path,
    *,
    text: str | None = None,
    label: str | None = None,
    needs_label: bool = False,
    keep: Sequence[str] | None = None,
    as_written: bool = False,
    seed: int | None = None,
    is_shown: bool = True,
    reading: Reading | None = None,
) -> Opened:
    """Read a model, and a table once. A regression that `needs_label` raises an error without one."""
    from jensen.files.datasets import need_table, read_dataset, read_with_cells, select_features, split_columns
    from jensen.files.tables import as_frame

    estimator = open_model(model, seed, is_shown)
    reading = as_fitted(estimator, reading or Reading())
    styles: Mapping[str, Style] = {}
    form = None
    if holds_documents(estimator, data, text):
        found = read_documents(estimator, data, text, reading, label=label, keep=keep)
        return Opened(estimator, found.X, found.y, found.X, found.kept, styles, form)
    if as_written or keep is not None:
        read = read_with_cells(data, keep, reading)
        table, cells, styles = read.table, read.cells, read.understood.styles
        form = read.understood.form
    else:
        table = cells = read_dataset(data, images=True, reading=reading)
    if not takes_images(estimator):
        need_table(data, table)
    is_number = needs_label and predicts_numbers(estimator, label)
    features, y, _ = split_columns(table, label=label, label_is_number=is_number)
    beside = as_frame(cells).reset_index(drop=True).items() if keep is not None else ()
    kept = {str(name): column for name, column in beside}
    X = typed_as_fitted(estimator, select_features(estimator, features))
    return Opened(estimator, X, y, cells, kept, styles, form)


def table_options(
    missing: str | None,
    header: bool | None,
    types: Sequence[str] | None,
    *,
    label: str | None = None,
    is_number: bool = False,
    aside: Sequence[str | None] = (),
) -> Reading:
    """How to read a table, from the options of a command.

    Args:
        label: a column of classes, which is left as it is unless it is numbers to predict.
        aside: other columns that are no part of the model, or several in one word: a,b.
    """
    names = [part for word in (label, *aside) if word is not None for part in (word, *word.split(","))]
    kept = {} if label is None or is_number else {label: "plain"}
    return replace(reading_of(missing, header, types or ()), fitted=kept, aside=tuple(names))


def options_for(estimator: Model, verb: str, **asked: Any) -> dict[str, Any]:
    """The options that were given (not None); an error if the method does not take one."""
    given = {name: value for name, value in asked.items() if value is not None}
    taken = inspect.signature(getattr(estimator, verb, lambda: None)).parameters
    for name in given:
        if name not in taken:
            who = "models with a decoder (vae, latent-diffusion)" if name == "mean" else "diffusions"
            raise ValueError(f"{flag_of(name)} is for {who}, which {type(estimator).__name__} is not; leave it out")
    return given


def method(estimator: Model, verb: str) -> Any:
    try:
        return getattr(estimator, verb)
    except AttributeError as error:
        offered = [
            name for name in ("predict", "transform", "score_samples", "sample", "impute") if hasattr(estimator, name)
        ]
        reason = f": {error.__cause__}" if error.__cause__ else f"; it has {', '.join(offered)}"
        raise ValueError(f"{type(estimator).__name__} has no {verb}{reason}") from None


# The options of a model are known only after its name.
MODEL_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def silenced(wanted: bool) -> bool:
    """Hide progress bars if an option is given."""
    if wanted:
        hide_progress()
    return wanted


TABLES = (
    "Table: .csv, .tsv, .txt, .jsonl (also .gz or .zst), .json, .parquet, .feather, .xlsx, .npy, a .zip of one table, "
    "a database (shop.db::orders), or - for standard input. Images: a folder, or .npy of shape (n, h, w) or "
    "(n, c, h, w). Or a data set of scikit-learn: digits, iris or wine."
)
MANY = "Many tables, read block by block: a folder of .parquet, .feather, .csv or .npy files, or 'rows/*.parquet'."
TABLE = typer.Argument(help=TABLES)
ROWS = typer.Argument(help=f"{TABLES} {DOCUMENTS}")
MANY_ROWS = typer.Argument(help=f"{TABLES} {MANY} {DOCUMENTS}")
Name = Annotated[str, typer.Argument(help="Name of a model; `jensen models` lists them.")]
# In commands that take options of a model, any word may be parsed as this argument.
Word = Annotated[str, TABLE]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN|FILE",
        help="Labels, or the target of a regression: a column (npy: its number), or a file with one value per row "
        "(.npy, .csv or .txt). Empty cells, NaN and -1 are unlabelled. `folder`: subfolders of images are classes. "
        "`target`: the labels of digits, iris and wine.",
    ),
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN|FILE", help="Row weights: a column (npy: its number) or a file.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out, or several: a,b. May be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to copy to the output, or several: a,b. May be repeated."),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="CODES",
        help="More codes of missing values, beside empty cells, NA, ? and the like: '?,-999'. 'only,-999': no others.",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line has the column names. Default: found out."),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=TYPE",
        help="Read a column as text, number, decimal-comma, date, day-first or month-first; several: a=text,b=date.",
    ),
]
FitSeed = Annotated[int | None, typer.Option(help="Random seed. Default: 0.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put a quote before text that a spreadsheet would take for a formula: text that begins with = + - or @.",
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=silenced, help="Print the result as one JSON object.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=silenced, help="No progress bar and no results on standard output.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder for fits that are done; the same command resumes from it."),
]
