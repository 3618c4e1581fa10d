"""What `jensen.outliers` returns: rows with a score, the odd ones and why, the odd cells, a plot and a page."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from jensen.data.columns import Columns
from jensen.data.container import is_frame, take
from jensen.evaluate.blame import as_pandas, one_by_one
from jensen.evaluate.outliers import discoveries, tail_p_values
from jensen.evaluate.robust import Pool
from jensen.files.replacing import write_text
from jensen.report import charts, html
from jensen.report.page import article, document
from jensen.report.panels import Panel
from jensen.runtime.messages import own_filters
from jensen.tasks.odd_cells import SMALLEST, limits_of, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADDED = SCORE, P_VALUE, FLAG = "outlier_score", "outlier_p_value", "is_outlier"
# Columns that are named as the reason of a row, at most; and how much more likely than the worst they may be.
MOST_REASONS, NEAR_WORST, UNLIKELY = 3, 100.0, 0.05
# Rows and cells on a page.
MOST_SHOWN = 50
COVERAGE = 0.9
# Rows with a smaller p-value are left out of the model of single cells.
LEAST_USUAL = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Outliers:
    """The odd rows and cells of a table.

    Attributes:
        table: the rows as they came, in the same order and container, with `outlier_score` (around 0 for usual rows),
            `outlier_p_value` and `is_outlier`; an array gets these as three more columns.
        rows: the odd rows, worst first, with the columns that make them odd in `why`.
        cells: the cells with a tail probability of at most `level`, the worst first: row, column, value, expected, low,
            high (a 90 % interval, within the range of usual rows), tail, nats, and `is_outlier`: whether Benjamini &
            Hochberg's rule flags them or their column cannot hold them.
        scores, p_values, is_outlier: arrays (n,). Tables have p-values and tails of at least 1e-6.
        model: that with the highest held-out ln p over the best 90 % of the rows, fitted to the usual rows.
        pool: the fitted models that score rows together.
        parts: (rows, a fit of `model` that was not trained on them), for `cells`.
        tried: what was fitted, held-out nats per row over the best 90 %, and seconds.
        level: of false discoveries.
        data, source, columns: the table that came in, its name, and what its columns are.

    Example:
        >>> import numpy as np
        >>> import jensen
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> X[5] = 9
        >>> found = jensen.outliers(X, effort="quick")
        >>> found.rows.index.tolist(), found.is_outlier.sum().item()
        ([5], 1)
        >>> bool(found.p_value([[8.0, 8.0]])[0] < 0.01)
        True
    """

    data: Any
    source: str
    scores: np.ndarray
    p_values: np.ndarray
    is_outlier: np.ndarray
    level: float
    model: Any
    tried: pd.DataFrame
    pool: Pool
    parts: tuple[tuple[np.ndarray, Any], ...]
    columns: Columns

    @property
    def table(self) -> Any:
        """The rows as they came, with three more columns."""
        return with_results(self.data, self.results)

    @property
    def results(self) -> dict[str, np.ndarray]:
        """The columns (n,) that `table` adds, by name."""
        return {SCORE: self.scores, P_VALUE: np.maximum(self.p_values, SMALLEST), FLAG: self.is_outlier}

    def score(self, new: Any) -> np.ndarray:
        """How odd rows of another table with the same columns are (n,), on the scale of `scores`."""
        return self.pool.score(modelled(new, self.columns))

    def p_value(self, new: Any) -> np.ndarray:
        """The p-values (n,) of rows of another table."""
        return tail_p_values(self.score(new), self.scores)

    @cached_property
    def rows(self) -> pd.DataFrame:
        found = np.flatnonzero(self.is_outlier)
        found = found[np.argsort(-self.scores[found], kind="stable")]
        frame = as_pandas(self.data).iloc[found]
        results = {
            SCORE: self.scores[found],
            P_VALUE: np.maximum(self.p_values[found], SMALLEST),
            "why": self.reasons(found),
        }
        return pd.concat([pd.DataFrame(results, index=frame.index), frame], axis=1)

    @cached_property
    def cells(self) -> pd.DataFrame:
        return self.cells_of(np.arange(len(self.scores)), self.level)

    def cells_of(self, rows: np.ndarray, most: float = 1.0) -> pd.DataFrame:
        """The cells of some rows, by number, with a tail probability of at most `most`."""
        frame, parts, data = as_pandas(self.data), [], modelled(self.data, self.columns)
        # Bonferroni's: of usual rows, few have a cell to blame, however many columns there are.
        blamed = min(self.level, UNLIKELY) / max(1, len(self.columns.names))
        limits = limits_of(data, self.columns.kinds, self.p_values >= LEAST_USUAL)
        for held_out, model in self.parts:
            own = np.intersect1d(held_out, rows)
            if len(own):
                with own_filters():
                    warnings.simplefilter("ignore")  # values that are new to a model are what is looked for
                    found = one_by_one(model, take(data, own), blamed, COVERAGE, limits.is_impossible[own])
                parts.append(listed(frame, own, found, most, self.columns, limits))
        cells = pd.concat(parts, ignore_index=True).sort_values(["tail", "nats"], ignore_index=True)
        n_cells = int(frame.iloc[rows].notna().to_numpy().sum())
        # Cells that are not listed have larger tails, and are rejected only if those that are listed are.
        tail = cells["tail"].to_numpy(dtype=float)
        flagged = discoveries(np.concatenate([tail, np.ones(max(0, n_cells - len(cells)))]), self.level)[: len(cells)]
        flagged |= cells.pop("is_impossible").to_numpy(dtype=bool)
        return cells.assign(tail=np.maximum(tail, SMALLEST), is_outlier=flagged)

    def reasons(self, rows: np.ndarray) -> list[str]:
        """The columns of every row that are least likely given the others; empty where no cell can be compared."""
        if not len(rows):
            return []
        place = {label: i for i, label in enumerate(rows)}
        why: list[list[str]] = [[] for _ in rows]
        worst: dict[int, float] = {}
        for number, column, tail in self.cells_of(rows)[["number", "column", "tail"]].itertuples(index=False):
            worst.setdefault(number, tail)
            own = why[place[number]]
            if not own or (len(own) < MOST_REASONS and tail <= min(NEAR_WORST * worst[number], UNLIKELY)):
                own.append(str(column))
        return [", ".join(names) for names in why]

    def plot(self) -> Figure:
        """Scores of all rows in order, with the odd ones marked, and the largest of them named."""
        from jensen.runtime.figures import Drawn

        figure = Drawn(figsize=(7.5, 4), layout="constrained")
        axes = figure.add_subplot()
        number, odd = np.arange(len(self.scores)), self.is_outlier
        shown = np.minimum(self.scores, finite_end(self.scores))
        axes.scatter(number[~odd], shown[~odd], s=8, color="0.6", label="usual")
        axes.scatter(number[odd], shown[odd], s=18, color="C3", label=f"odd ({int(odd.sum())})")
        index = as_pandas(self.data).index
        for i in np.flatnonzero(odd)[np.argsort(-self.scores[odd])][:10]:
            axes.annotate(str(index[i]), (i, shown[i]), xytext=(4, 2), textcoords="offset points", fontsize=8)
        axes.set(xlabel="row", ylabel="outlier score", yscale="symlog")
        axes.legend(frameon=False)
        return figure

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> None:
        """Write an HTML page: the odd rows with reasons, the odd cells, the scores, and what was tried."""
        first = f"{str(self).splitlines()[0]} {self.left_out[:1].upper()}{self.left_out[1:]}"
        title = title or f"Odd rows{f' of {self.source}' if self.source else ''}"
        write_text(path, document(title, first.strip(), self._body()))

    def _body(self) -> str:
        odd, number = self.is_outlier, np.arange(len(self.scores))
        # One score of thousands would flatten all others.
        shown = np.sign(self.scores) * np.log1p(np.abs(np.minimum(self.scores, finite_end(self.scores))))
        series = [
            charts.Series("usual", number[~odd], shown[~odd], colour=charts.GREY),
            charts.Series("odd", number[odd], shown[odd], colour=3),
        ]
        scatter = charts.scatter(
            [one for one in series if len(one.x)], "row", "± ln(1 + |score|)", "Outlier score of every row"
        )
        rows = self.rows.rename_axis("row").reset_index(names="row")
        cells = self.cells[self.cells["is_outlier"]].drop(columns=["number", "is_outlier"])
        panels = [
            Panel(
                "Odd rows",
                f"{len(rows)} row{'s' * (len(rows) != 1)}, the worst first.",
                html.table(rows[:MOST_SHOWN], sortable=True),
            ),
            Panel(
                "Odd cells",
                f"{len(cells)} cell{'s' * (len(cells) != 1)}, unlikely given the rest of their row, with what was "
                "expected there. The tail is the probability of a value that is at most as likely.",
                html.table(cells[:MOST_SHOWN], sortable=True),
            ),
            Panel("Scores", "Every row by a model that was not trained on it; usual rows are around 0.", scatter),
            Panel("Models", "Held-out nats per row over the best 90 % of the rows.", html.table(self.tried)),
        ]
        return f'<div class="panels">{"".join(article(panel) for panel in panels)}</div>'

    def __str__(self) -> str:
        n, odd = len(self.scores), int(self.is_outlier.sum())
        first = f"{odd} of {n} rows are odd, with about {self.level:.0%} false discoveries among them."
        if not odd:
            first = f"None of {n} rows is odd at a false discovery rate of {self.level:.0%}."
        worst = self.rows[:5]
        lines = [f"  row {label}: {why or 'no single column'}" for label, why in worst["why"].items()]
        more = ["  ..."] if odd > len(worst) else []
        return "\n".join([first, *lines, *more, *([self.left_out] if self.left_out else [])])

    @property
    def left_out(self) -> str:
        """One line about the columns that were left out; empty if none was."""
        names = ", ".join(map(str, self.columns.left_out))
        return f"left out: {names} (identify rows, or have no value)" if names else ""

    def __repr__(self) -> str:
        return f"Outliers({int(self.is_outlier.sum())} of {len(self.scores)} rows, level={self.level})"


def modelled(X: Any, columns: Columns) -> Any:
    """X without the columns that name rows; data frames as pandas."""
    table = as_pandas(X) if is_frame(X) else np.asarray(X)
    if not columns.left_out:
        return table
    if isinstance(table, pd.DataFrame):
        return table.drop(columns=[name for name in columns.left_out if name in table.columns])
    return table[:, list(columns.kept)]


def with_results(X: Any, results: dict[str, np.ndarray]) -> Any:
    """X with more columns."""
    if hasattr(X, "iloc"):
        return X.assign(**results)
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        more = [nw.new_series(name, values, backend=frame.implementation) for name, values in results.items()]
        return frame.with_columns(*more).to_native()
    return np.column_stack([np.asarray(X), *results.values()])


def finite_end(scores: np.ndarray) -> float:
    """Where a picture ends that cannot show an infinite score."""
    return float(scores[np.isfinite(scores)].max(initial=0.0)) * 1.1
