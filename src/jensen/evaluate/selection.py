"""The result of a search over a grid: a table, a figure and the chosen model."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from jensen.evaluate.criterion import is_number, varied_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group

# Columns of a matrix that a page of 80 characters has room for, with all digits.
NARROW = 5
# Positive numbers with a ratio above this are drawn on a logarithmic axis.
WIDE = 50
# Up to this many values, each has a tick of its own.
MANY = 12
# The number of entries listed below a matrix: the winner and the next best.
N_LISTED = 3
# Marks the value of a degenerate fit.
FLAWED = "†"
# Columns that the error bars show, in order of preference.
ERRORS = ("behind_error", "standard_error")


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of `select`.

    Args:
        table: a row per entry, in the order of the grid. Columns: the parameters; the criterion and its
            `standard_error`, where it has one; the difference to the winner (`behind`) and its standard error over rows
            (`behind_error`); `nats_per_word` and `perplexity` of "completion"; `n_parameters`, where it is known;
            `seconds`; `degenerate`, why a fit is degenerate and chosen only if all are; and `failure`, why an entry has
            no value.
        winner: the chosen model, fitted to all rows; None if Ctrl-C came before that.
        best_params: the parameters of the winner.
        best_index: the row of the winner in the table.
        criterion: the name of the criterion.
        direction: which of its values are better, "smaller" or "larger".

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import GaussianMixture, select
        >>> chosen = select(GaussianMixture(random_state=0), load_iris().data, {"n_components": [1, 2, 3]})
        >>> chosen.best_params, chosen.criterion, chosen.direction
        ({'n_components': 2}, 'bic', 'smaller')
    """

    table: pd.DataFrame
    winner: Any
    best_params: dict[str, Any]
    best_index: int
    criterion: str
    direction: Literal["smaller", "larger"]

    def runners_up(self, n: int = 3) -> pd.DataFrame:
        """The n next best entries after the winner, the best first, with their difference to it (`behind`)."""
        others = self.table[self.table["failure"] == ""].drop(index=self.best_index)
        others = others.sort_values(self.criterion, ascending=self.direction == "smaller", kind="stable")
        # Degenerate fits come last, whatever their value.
        return others.iloc[np.argsort(others["degenerate"].to_numpy() != "", kind="stable")].head(n)

    def pivot(self, values: str | None = None) -> pd.DataFrame:
        """The criterion, or another column of the table, as a matrix: a row for every value of the first numeric
        parameter, such as n_components, and a column for every combination of the others; NaN where an entry failed.
        """
        along, lines = self._axes
        cells = self.table[self.criterion if values is None else values].tolist()
        found = dict(zip(zip(along, lines, strict=True), cells, strict=True))
        rows, columns = list(dict.fromkeys(along)), list(dict.fromkeys(lines))
        if self._is_numeric:
            rows.sort()
        out = pd.DataFrame([[found.get((row, column), np.nan) for column in columns] for row in rows])
        out.index = pd.Index(rows, name=self._names[0])
        out.columns = pd.Index([line or self.criterion for line in columns], name=", ".join(self._names[1:]) or None)
        return out

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the criterion over the first numeric parameter, a line for every combination of the others.

        Error bars are standard errors of the difference to the winner if these are known, or else of the criterion.
        """
        from matplotlib.ticker import NullLocator, ScalarFormatter

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        x, lines = self._axes
        y, error = self.table[self.criterion].to_numpy(), next((name for name in ERRORS if name in self.table), None)
        bars = None if error is None else self.table[error].to_numpy()
        handles: list[Any] = []
        for line in dict.fromkeys(lines):
            rows = [i for i in range(len(x)) if lines[i] == line]
            # Words have no order, so their points are not joined.
            rows, style = (sorted(rows, key=lambda i: x[i]), "o-") if self._is_numeric else (rows, "o")
            at, shown = [x[i] for i in rows], None if bars is None else bars[rows]
            drawn = ax.errorbar(at, y[rows], shown, fmt=style, ms=4, lw=1.2, capsize=3, label=line)
            handles += [drawn] if line else []
        best, is_flawed = self.best_index, (self.table["degenerate"] != "").to_numpy()
        if is_flawed.any():
            at = [x[i] for i in np.flatnonzero(is_flawed)]
            handles += ax.plot(at, y[is_flawed], "x", color="grey", ms=9, label="degenerate")
        handles += ax.plot(x[best], y[best], "o", color="black", fillstyle="none", ms=11, label="chosen")
        drawn_at = list(dict.fromkeys(value for value, height in zip(x, y, strict=True) if not np.isnan(height)))
        if self._is_numeric and min(drawn_at) > 0 and max(drawn_at) >= WIDE * min(drawn_at):
            ax.set_xscale("log")
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(ScalarFormatter())
        if len(drawn_at) <= MANY:
            ax.set_xticks(drawn_at)
        if not self._is_numeric:
            ax.margins(x=0.2)
        ax.set(xlabel=self._names[0], ylabel=f"{self.criterion} ({self.direction} is better)")
        ax.legend(handles=handles, title=", ".join(self._names[1:]) or None)
        return ax

    def rich(self) -> Group:
        """Tables for `rich.print`."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = []
        for title, frame in self._shown().items():
            out = Table()
            for name in frame.columns:
                out.add_column(
                    name.replace("_", " "), justify="left" if name in ("", "degenerate", "failure") else "right"
                )
            for row in frame.to_numpy().tolist():
                out.add_row(*(Text(cell, "bold" if cell.endswith("*") else "", overflow="fold") for cell in row))
            parts += [Text(title), out]
        return Group(*parts)

    def __repr__(self) -> str:
        return "\n\n".join(f"{title}\n{frame.to_string(index=False)}" for title, frame in self._shown().items())

    def _repr_html_(self) -> str:
        return "".join(
            f"<p>{html.escape(title)}</p>{frame.to_html(index=False, border=0)}"
            for title, frame in self._shown().items()
        )

    @cached_property
    def _names(self) -> list[str]:
        """The parameters that vary, first the one on the horizontal axis."""
        names = self._parameters
        settings = [dict(zip(names, row, strict=True)) for row in self.table[names].astype(object).to_numpy().tolist()]
        varied = varied_names(settings) or names
        along = next((name for name in varied if all(map(is_number, self.table[name]))), varied[0])
        return [along, *(name for name in varied if name != along)]

    @property
    def _parameters(self) -> list[str]:
        return list(self.table.columns[: self.table.columns.tolist().index(self.criterion)])

    @property
    def _is_numeric(self) -> bool:
        return all(map(is_number, self.table[self._names[0]]))

    @cached_property
    def _axes(self) -> tuple[list[Any], list[str]]:
        """For every entry, the value of the first parameter, as text if it is no number, and the others as text."""
        along, *others = (self.table[name].astype(object).tolist() for name in self._names)
        lines = [", ".join(map(in_words, values)) for values in zip(*others, strict=True)] or [""] * len(along)
        return (along if self._is_numeric else [in_words(value) for value in along]), lines

    def _shown(self) -> dict[str, pd.DataFrame]:
        """The tables to display, as text by title: all entries with a star at the winner, or if several parameters vary
        a matrix, the best entries, and the failures.
        """
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.best_params.items())
        title = f"Selection by {self.criterion} ({self.direction} is better): {chosen}"
        words = {
            name: [(in_words if name in self._parameters else in_digits)(value) for value in self.table[name].tolist()]
            for name in self.table
        }
        table = pd.DataFrame(words)
        is_flawed, is_failed = ((self.table[name] != "").to_numpy() for name in ("degenerate", "failure"))
        unused = [name for name, some in (("degenerate", is_flawed), ("failure", is_failed)) if not some.any()]
        if len(self._names) == 1:
            table.insert(0, "", ["*" if i == self.best_index else "" for i in range(len(table))])
            return {title: table.drop(columns=unused)}
        numbers, (along, lines) = self.pivot(), self._axes
        # The longer side goes down the page, and a matrix of many columns has few digits: the lead below has all.
        is_turned = numbers.shape[1] > max(NARROW, numbers.shape[0])
        n_columns = numbers.shape[0 if is_turned else 1]
        digits = 4 if n_columns <= NARROW else 1 if n_columns < 2 * NARROW - 1 else 0
        cells = np.array([[in_digits(value, digits) for value in row] for row in numbers.to_numpy()], dtype=object)
        here = numbers.index.tolist().index(along[self.best_index])
        cells[here, numbers.columns.tolist().index(lines[self.best_index])] += "*"
        for i in np.flatnonzero(is_flawed):
            place = numbers.index.tolist().index(along[i]), numbers.columns.tolist().index(lines[i])
            cells[place] += FLAWED
        # Text is clear without the name of the parameter, numbers are not.
        speak = all(isinstance(value, str) for name in self._names[1:] for value in self.table[name])
        heading = self._names[0] if speak and not is_turned else " / ".join(self._names)
        matrix = pd.DataFrame(cells, numbers.index.map(in_words), numbers.columns.tolist())
        matrix = matrix.T if is_turned else matrix
        matrix.insert(0, heading, matrix.index)
        lead = table.loc[[self.best_index, *self.runners_up(N_LISTED - 1).index]].drop(
            columns=["seconds", "degenerate", "failure"]
        )
        failed = {"Failed": table.loc[is_failed, [*self._names, "failure"]]} if is_failed.any() else {}
        flawed = {f"{FLAWED} Degenerate": table.loc[is_flawed, [*self._names, "degenerate"]]} if is_flawed.any() else {}
        return {title: matrix, "In the lead": lead} | flawed | failed


def in_words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_digits(value: Any, n: int = 4) -> str:
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.{n}f}"
    return "-" if value is pd.NA else str(value)
