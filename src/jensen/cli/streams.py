"""Fitted models applied to tables that are read block by block, from file to file.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jensen.cli.answers import Scores, Scoring, row_scores
from jensen.cli.documents import check_text_option, is_topics, whole
from jensen.cli.inputs import method, open_model, predicts_numbers
from jensen.cli.output import entries_of, found_values, in_units, report, show_message, summary_of_fit, wrote
from jensen.cli.scans import open_scan
from jensen.cli.typed import as_fitted, left_out, typed_as_fitted
from jensen.files.places import SCANNED
from jensen.files.reading import Reading
from jensen.runtime.messages import saying_once
from jensen.runtime.progress import Bar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jensen.files.scan import Block, Scan
    from jensen.registry import Model


@dataclass(frozen=True)
class Place:
    """Where a block is; errors within this context name it, and warnings that were `said` are not repeated."""

    part: Any
    block: Block
    said: set[type[Warning]]
    within: list[Any] = field(default_factory=list)

    def __enter__(self) -> None:
        self.within.append(saying_once(self.said))
        self.within[-1].__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: Any) -> None:
        from jensen.engines.em.streamed import located

        self.within.pop().__exit__(None, None, None)
        if isinstance(error, ValueError):
            raise located(error, self.part, self.block) from error


@dataclass(frozen=True)
class Piece:
    """Some rows for a fitted model.

    Args:
        X: the columns that it was fitted on.
        y: labels, if a column of them is named.
        table: all columns.
        cells: those for the output; of a text file as they are written.
        place: where the rows are.
    """

    X: Any
    y: Any
    table: Any
    cells: Any
    place: Place


@dataclass(frozen=True)
class Stream:
    """A fitted model and the rows of a scan.

    Args:
        estimator: the model.
        scan: the rows.
        kept: columns for the output, or None for all of them; cells of text files are as they are written there.
        text: the column of texts, for a model of texts.
        is_number: whether the label is a number to predict.
        said: warnings about earlier blocks.
    """

    estimator: Model
    scan: Scan
    kept: Sequence[str] | None
    text: str | None = None
    is_number: bool = False
    said: set[type[Warning]] = field(default_factory=set)

    def __iter__(self) -> Iterator[Piece]:
        from jensen.runtime.ahead import ahead

        with Bar("rows", self.scan.n_rows, unit="row") as bar:
            for part, block, cells in ahead(self.blocks()):
                yield self.piece(part, block, cells)
                bar.update(block.n_rows)

    def blocks(self) -> Iterator[tuple[Any, Block, pd.DataFrame]]:
        """Blocks of rows, and the cells beside them."""
        import pandas as pd

        from jensen.files.text_parts import TextPart

        for part in self.scan.parts:
            is_written = isinstance(part, TextPart) and (self.kept is None or len(self.kept) > 0)
            columns = None if self.kept is None else tuple(self.kept)
            written = part.as_written(columns).blocks(self.scan.block_rows) if is_written else None  # type: ignore[attr-defined]
            first = 0
            for table in part.blocks(self.scan.block_rows):
                block = self.scan.split(table, first)
                first += block.n_rows
                frame = next(written) if written else table
                if self.kept is not None and written is None:
                    frame = pd.DataFrame(table).rename(columns=str)[list(self.kept)] if self.kept else pd.DataFrame()
                yield part, block, frame

    def piece(self, part: Any, block: Block, cells: Any) -> Piece:
        import pandas as pd

        from jensen.files.datasets import numbers_of, select_features
        from jensen.files.documents import text_column

        place = Place(part, block, self.said)
        if self.text is not None:
            return Piece(text_column(block.table, self.text).fillna(""), None, block.table, cells, place)
        with place:
            X = typed_as_fitted(self.estimator, select_features(self.estimator, block.table))
            y = block.y
            if y is not None and self.is_number:
                y = numbers_of(pd.Series(y), f"column {self.scan.label!r}", "numbers to predict")
        return Piece(X, y, block.table, cells, place)

    def frames(self, answer: Callable[[Any], pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The columns to keep, with what is returned about the rows beside them."""
        import pandas as pd

        for piece in self:
            with piece.place:
                found = answer(piece.X).reset_index(drop=True)
            yield pd.concat([piece.cells, found], axis=1)


def open_stream(
    model: Path,
    data: Path,
    reading: Reading,
    *,
    text: str | None = None,
    label: str | None = None,
    needs_label: bool = False,
    keep: Sequence[str] | None = (),
    block_rows: int | None = None,
    seed: int | None = None,
    is_shown: bool = True,
) -> Stream:
    """A model and a scan. With `keep` None, all columns are kept."""
    from jensen.files.documents import find_text_column

    estimator = open_model(model, seed, is_shown)
    check_text_option(estimator, text)
    is_number = needs_label and predicts_numbers(estimator, label)
    reading = as_fitted(estimator, reading)
    scan, kept = open_scan(data, reading, label=label, keep=keep or (), block_rows=block_rows)
    if estimator.capabilities.texts and text is None and hasattr(estimator, "vocabulary_"):
        text = find_text_column(scan.head().table)
    return Stream(estimator, scan, None if keep is None else kept, text, is_number)


def check_streamed(output: Path | None, data: Path) -> None:
    """An error if a file cannot be written block by block, or would become one of those that are read."""
    from jensen.files.answers import streamed_suffix
    from jensen.files.table_files import files_of

    if output is None:
        return
    streamed_suffix(output)
    place = output.resolve()
    is_inside = data.is_dir() and data.resolve() in place.parents and place.suffix.lower() in SCANNED
    if is_inside or place in {file.resolve() for file in files_of(data)}:
        raise ValueError(f"--output {output} would be one of the tables of {data}; give a place outside of it")


def write_stream(
    stream: Stream, frames: Iterator[pd.DataFrame], output: Path | None, is_shown: bool, is_safe: bool
) -> int:
    """Write data frames one after the other to a file, or as CSV to standard output; returns the number of rows."""
    from jensen.files.answers import write_frames
    from jensen.files.tables import without_formulas

    safe = (without_formulas(frame) if is_safe else frame for frame in frames)
    if output is not None:
        n = write_frames(output, safe)
        wrote(output)
        if is_shown:
            show_message(f"wrote {n} rows to {output}")
        return n
    n = 0
    for frame in safe:
        frame.to_csv(sys.stdout, index=False, header=n == 0, lineterminator="\n")
        n += len(frame)
    return n


def deliver(
    stream: Stream,
    frames: Iterator[pd.DataFrame],
    output: Path | None,
    as_json: bool,
    is_safe: bool,
    summary: Callable[[], dict[str, Any]] = dict,
) -> pd.DataFrame | None:
    """Write answers, and with --json a summary; with --json and no file, all answers are returned as one table."""
    import pandas as pd

    if as_json and output is None:
        return pd.concat(list(frames), ignore_index=True)
    n = write_stream(stream, frames, output, not as_json, is_safe)
    if as_json:
        report(stream.estimator, n, summary(), output, as_json)
    return None


def score_stream(stream: Stream, scoring: Scoring, output: Path | None, as_json: bool, is_safe: bool) -> None:
    """Print the mean score, and write that of every row if there is a file."""
    import pandas as pd
    from sklearn.base import is_regressor

    estimator, summed = stream.estimator, Scores(stream.estimator)
    takes_label = is_regressor(estimator)
    if stream.scan.label is not None and not takes_label:
        name = type(estimator).__name__
        show_message(f"warning: {name} scores rows without their label; {stream.scan.label!r} is left out")

    def frames() -> Iterator[pd.DataFrame]:
        for piece in stream:
            with piece.place:
                y = piece.y if takes_label else None
                scores = row_scores(estimator, piece.X, y, scoring)
            summed.add(piece.X, y, scores)
            yield pd.concat([piece.cells, pd.DataFrame({"log_likelihood": scores})], axis=1)

    if output:
        write_stream(stream, frames(), output, not as_json, is_safe)
    else:
        for _ in frames():
            pass
    report(estimator, summed.n, summed.summary(), output, as_json)


def summary_of_scan(estimator: Model, scan: Scan, is_scored: bool) -> tuple[int | None, dict[str, Any]]:
    """The number of rows, and the results of a fit by name, as `summary_of_fit` has them of a table.

    Models whose scores take long are scored on rows of the first block. What is not scored is not read again.
    """
    import numpy as np

    from jensen.data.container import take

    features = {} if is_topics(estimator) else {"features": estimator.n_features_in_ - len(left_out(estimator))}
    if not is_scored:
        return scan.n_rows, features | found_values(estimator)
    is_quick = estimator.capabilities.gradients or is_topics(estimator)
    n = n_missing = 0
    n_words = total = mass = n_observed = 0.0
    for X, weight in rows_of_fit(estimator, scan):
        n += len(weight)
        if is_topics(estimator):
            n_words += float(estimator.count_words(X).sum())
            continue
        observed, missing = entries_of(estimator, X)
        n_missing += int(missing.sum())
        # Rows of weight 0 may hold anything.
        rows = np.flatnonzero(weight > 0)
        if not is_quick and hasattr(estimator, "score_samples") and len(rows):
            scores = np.asarray(method(estimator, "score_samples")(take(X, rows)), dtype=np.float64)
            total, mass = total + float(scores @ weight[rows]), mass + float(weight[rows].sum())
            n_observed += float(observed[rows] @ weight[rows])
    if is_quick:
        X, weight = next(rows_of_fit(estimator, scan))
        summary = summary_of_fit(estimator, X, scan.head().y, weight)
        n_scored = summary.get("scored_rows", len(weight))
        some = {"scored_rows": n_scored} if n_scored < n else {}
        sums = {"words": whole(n_words)} if is_topics(estimator) else {"missing_entries": n_missing}
        return n, summary | sums | some
    summary = features | {"missing_entries": n_missing}
    if mass:
        summary |= in_units(estimator, total / mass, np.array([n_observed / mass]))
    return n, summary | found_values(estimator)


def rows_of_fit(estimator: Model, scan: Scan) -> Iterator[tuple[Any, np.ndarray]]:
    """X and the weights of every block of the rows that a model was fitted to."""
    import numpy as np

    from jensen.files.datasets import select_features
    from jensen.runtime.ahead import ahead

    with Bar("summary", scan.n_rows, unit="row") as bar:
        for block in ahead(scan):
            weight = np.ones(block.n_rows) if block.weight is None else np.asarray(block.weight, dtype=np.float64)
            if is_topics(estimator) and hasattr(estimator, "vocabulary_"):
                yield block.table.iloc[:, 0].fillna(""), weight
            else:
                yield typed_as_fitted(estimator, select_features(estimator, block.table)), weight
            bar.update(block.n_rows)
