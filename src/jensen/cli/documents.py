"""Documents for commands: texts of a folder, a file or a column, and sparse counts; what is printed about topics.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.files.places import WRITTEN
from jensen.files.reading import Reading
from jensen.files.understood import Reported, few
from jensen.runtime.messages import levels_inside

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jensen.registry import Model

WIDTH = 80
# Words of a topic on its line, and letters of the class whose topic it is.
N_WORDS, MOST_LETTERS = 12, 20

DOCUMENTS = "Texts: a folder of .txt files, or a .txt file with one per line. Sparse counts: .npz of scipy."
Text = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Topics only: the column with the texts, one document per row. Default: the only column of free text.",
    ),
]


@dataclass(frozen=True)
class Documents:
    """Rows for a model of documents.

    Args:
        X: texts, sparse counts, or a table of counts.
        y: labels.
        weights: row weights.
        kept: columns for an output, by name.
    """

    X: Any
    y: np.ndarray | None = None
    weights: np.ndarray | None = None
    kept: Mapping[str, pd.Series[Any]] = field(default_factory=dict)


def holds_documents(estimator: Model, path: str | Path, text: str | None) -> bool:
    """Whether rows are read as documents: the model takes texts, or the file holds sparse counts."""
    from jensen.files.documents import is_counts

    check_text_option(estimator, text)
    return estimator.capabilities.texts or is_counts(path)


def check_text_option(estimator: Model, text: str | None) -> None:
    if text is not None and not estimator.capabilities.texts:
        raise ValueError(
            f"--text {text} is for models of texts (jensen fit topics), which {type(estimator).__name__} is not; "
            "leave it out"
        )


def read_documents(
    estimator: Model,
    path: str | Path,
    text: str | None,
    reading: Reading,
    *,
    label: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] | None = None,
) -> Documents:
    """Texts or counts, with the label, the weight and the columns of --keep beside them."""
    from jensen.files.documents import is_counts, is_lines, read_counts, read_lines, read_text_folder

    if Path(path).is_dir() and estimator.capabilities.texts:
        texts, names, classes = read_text_folder(path)
        n_classes = len({*classes} - {None}) if classes else 0
        beside = f" in {n_classes} subfolders" if n_classes else ""
        found = without_columns(path, texts, text, [*drop, *(keep or [])], "folder" if classes else None, classes)
        tell(f"{path}: {len(texts)} documents, one per .txt file{beside}")
        return labelled(found, label, weight, {"file": as_series(names)})
    if is_counts(path):
        counts = read_counts(path)
        found = without_columns(path, counts, text, [*drop, *(keep or [])])
        tell(f"{path}: {counts.shape[0]} rows of sparse counts, {counts.shape[1]} columns, {counts.nnz} not 0")
        return labelled(found, label, weight)
    if is_lines(path) and text is None:
        lines = read_lines(path)
        tell(f"{path}: {len(lines)} documents, one per line")
        return labelled(without_columns(path, lines, text, [*drop, *(keep or [])]), label, weight)
    return of_table(estimator, path, text, reading, label, weight, drop, keep)


def without_columns(
    path: str | Path,
    X: Any,
    text: str | None,
    columns: Sequence[str],
    name: str | None = None,
    classes: list[Any] | None = None,
) -> tuple[Any, Any]:
    """Documents, and a table without columns whose rows they are; an error for the name of a column."""
    import pandas as pd

    from jensen.data.container import n_rows
    from jensen.files.datasets import with_labels

    for column in ([text] if text is not None else []) + [*columns]:
        raise ValueError(f"there is no column {column!r}: {path} holds documents and no table; leave it out")
    beside = pd.DataFrame(index=range(n_rows(X)))
    return X, beside if classes is None or name is None else with_labels(beside, name, classes)


def labelled(
    found: tuple[Any, Any], label: str | None, weight: str | None, kept: Mapping[str, Any] | None = None
) -> Documents:
    """Documents with labels and weights from files, or with the labels of subfolders."""
    from jensen.files.datasets import labels_with, split_columns

    X, beside = found
    for option, name in (("--label", label), ("--weight", weight)):
        if name is not None and not Path(name).is_file() and name not in labels_with(beside):
            known = "".join(f", or {known}" for known in labels_with(beside))
            raise ValueError(
                f"{option} {name}: there is no such file; give a file with one value for each document{known}"
            )
    _, y, weights = split_columns(beside, label=label, weight=weight)
    return Documents(X if hasattr(X, "shape") else as_series(X), y, weights, kept or {})


def of_table(
    estimator: Model,
    path: str | Path,
    text: str | None,
    reading: Reading,
    label: str | None,
    weight: str | None,
    drop: Sequence[str],
    keep: Sequence[str] | None,
) -> Documents:
    """Texts of a column, or counts whose columns are words."""
    import pandas as pd

    from jensen.files.datasets import need_table, read_dataset, read_with_cells, select_features, split_columns
    from jensen.files.documents import find_text_column, text_column
    from jensen.files.tables import as_frame

    # A text is what is written: NA may be a word, and very many texts are no mistake.
    as_written = {} if text is None else {text: "as written"}
    reading = replace(reading, fitted={**reading.fitted, **as_written}, hints=False)
    if keep is None:
        table, cells = read_dataset(path, reading=reading), None
    else:
        read = read_with_cells(path, keep, reading)
        table, cells = read.table, as_frame(read.cells).reset_index(drop=True)
        need_table(path, table)
    kept = {} if cells is None else {str(name): column for name, column in cells.items()}
    features: Any
    features, y, weights = split_columns(table, label=label, weight=weight, drop=drop)
    is_frame = isinstance(features, pd.DataFrame)
    if text is not None and not is_frame:
        raise ValueError(f"there is no column {text!r}: {path} holds numbers without names; leave --text out")
    words = getattr(estimator, "vocabulary_", getattr(estimator, "feature_names_in_", None))
    if words is not None and text is None and is_frame and {*words} <= {*features.columns}:
        counts = features[list(words)]
        return Documents(counts.to_numpy() if hasattr(estimator, "vocabulary_") else counts, y, weights, kept)
    column = text if text is not None else find_text_column(features) if is_frame else None
    if column is not None:
        texts = text_column(pd.DataFrame(features), column).reset_index(drop=True)
        others = [str(name) for name in features.columns if str(name) != column]
        left_out = f"; {few(others)} {'is' if len(others) == 1 else 'are'} left out" if others else ""
        chosen = "" if text is not None else " (--text names another)"
        tell(f"{path}: {len(texts)} documents in the column {column!r}{chosen}{left_out}")
        return Documents(texts, y, weights, kept)
    if hasattr(estimator, "n_features_in_"):
        if words is not None and is_frame:
            absent = [str(word) for word in words if word not in features.columns]
            raise ValueError(
                f"{path} has neither a column of texts nor a count of every word that the model knows: there is no "
                f"column {few(absent, 3)}"
            )
        return Documents(select_features(estimator, features), y, weights, kept)
    return Documents(features, y, weights, kept)


@contextmanager
def dense_rows_named(estimator: Model, path: str | Path) -> Iterator[None]:
    """The errors of a model that takes no sparse matrix, or no scan, say what to do with the file."""
    try:
        yield
    except TypeError as error:
        if str(error).startswith("X is a scan"):
            raise ValueError(
                f"{path} is read block by block, and {type(estimator).__name__} needs all rows at once; give one file "
                "that fits into memory, with --no-scan, or another model (gaussian-mixture, mixture, kmeans, ...)"
            ) from None
        if "Sparse data was passed" not in str(error):
            raise
        raise ValueError(
            f"{path} holds sparse counts, and {type(estimator).__name__} takes dense rows; save a dense array as .npy, "
            "or fit topics, kmeans, or a mixture with --families multinomial"
        ) from None


def as_series(values: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(values, dtype=object)


def tell(line: str) -> None:
    """One line about what was read, beside those about tables."""
    warnings.warn(line, Reported, stacklevel=levels_inside())


# Results


def is_sparse_output(estimator: Any, output: Path | None) -> bool:
    """Whether rows are written as sparse counts; an error if the model does not draw counts."""
    if output is None or output.suffix.lower() != ".npz":
        return False
    if "density" in estimator.measure_:
        raise ValueError(
            f"--output {output} holds sparse counts, which {type(estimator).__name__} does not draw; give a file that "
            f"ends in {', '.join(WRITTEN)}"
        )
    return True


def write_sparse(rows: Any, output: Path) -> None:
    import pandas as pd

    from jensen.files.documents import write_counts

    write_counts(output, rows.to_numpy(dtype=float) if isinstance(rows, pd.DataFrame) else rows)


def written_out(estimator: Any, rows: Any) -> Any:
    """Sparse counts as a table with a column for every word; other rows as they are."""
    import numpy as np
    import pandas as pd

    from jensen.data.names import word_name
    from jensen.runtime.memory import need_memory

    if not hasattr(rows, "toarray"):
        return rows
    n, d = rows.shape
    need_memory(8 * n * d, f"a table of {n} documents and {d} words", "write them to an .npz file with --output")
    names = [word_name(word) for word in estimator.words_]
    return pd.DataFrame(rows.toarray().astype(np.int64), columns=names)


def is_topics(estimator: Model) -> bool:
    return hasattr(estimator, "count_words")


def summary_of_documents(
    estimator: Any, X: Any, weights: np.ndarray | None = None, is_scored: bool = True
) -> dict[str, Any]:
    """Words, and over the documents that count nats per document and per word and document completion."""
    import numpy as np

    from jensen.data.container import n_rows, take

    counted = np.ones(n_rows(X)) if weights is None else weights
    rows = take(X, np.flatnonzero(counted > 0))
    lengths, weight = estimator.count_words(rows).sum(1), counted[counted > 0]
    summary: dict[str, Any] = {"words": whole(float(lengths.sum())), "vocabulary": int(estimator.n_features_in_)}
    if (empty := int((lengths == 0).sum())) > 0:
        summary["empty_documents"] = empty
    if is_scored:
        nats = float(np.average(estimator.score_samples(rows), weights=weight))
        summary |= units_of_documents(estimator, rows, nats, float(np.average(lengths, weights=weight)))
    return summary


def whole(value: float) -> int | float:
    """Counts of words may be fractions, but rarely are."""
    return int(value) if value.is_integer() else value


def units_of_documents(estimator: Any, X: Any, nats: float, n_words: float) -> dict[str, Any]:
    """Nats per document and per word, of documents of this mean length, and document completion."""
    units: dict[str, Any] = {"nats_per_row": nats, "nats_per_word": nats / n_words if n_words else None}
    if (estimator.count_words(X).sum(1) < 2).all():
        return units
    found = estimator.document_completion(X)
    return units | {
        "completion_perplexity": found.perplexity,
        "completion_nats_per_word": found.nats_per_word,
        "completion_standard_error": found.standard_error,
    }


def topics_of(estimator: Any) -> list[dict[str, Any]]:
    """The topics as JSON holds them, largest share first; a topic of a class has its name."""
    from jensen.data.names import word_name

    classes = [str(name) for name in getattr(estimator, "classes_", ())]
    listed = [
        {
            "topic": classes[number] if number < len(classes) else number,
            "share": float(group["share"].iloc[0]),
            "words": [word_name(word) for word in group["word"]],
        }
        for number, group in estimator.top_words(N_WORDS).groupby("topic")
    ]
    return sorted(listed, key=lambda topic: -topic["share"])


def topic_lines(estimator: Any) -> list[str]:
    """A line for every topic that fits a terminal: its number, share and most probable words."""
    topics = topics_of(estimator)
    wide = min(MOST_LETTERS, max(len(str(one["topic"])) for one in topics))
    lines = []
    for one in topics:
        line = f"topic {str(one['topic'])[:wide]:>{wide}} {100 * one['share']:5.1f} % "
        for word in one["words"]:
            if len(line) + 1 + len(word) > WIDTH:
                break
            line += f" {word}"
        lines.append(line)
    return lines
