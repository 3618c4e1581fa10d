"""What a search over a grid found, as a table, a picture and the chosen model."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from jensen.evaluate.criteria import is_number, varied_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Selection"]


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` found.

    Args:
        table: a row per entry, in the order of the grid: its parameters, the criterion, `standard_error` and
            `n_parameters` where there are any, `seconds`, and `failure`, the reason why an entry has no value.
        winner: the chosen model, fitted to all rows.
        best_params: its entry of the grid.
        best_index: its row of the table.
        criterion: the name of the criterion.
        direction: which of its values are better, "smaller" or "larger".
    """

    table: pd.DataFrame
    winner: Any
    best_params: dict[str, Any]
    best_index: int
    criterion: str
    direction: Literal["smaller", "larger"]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the criterion over the first numeric parameter, a line for every combination of the others."""
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        names = list(self.table.columns[: self.table.columns.get_loc(self.criterion)])
        settings = [dict(zip(names, row, strict=True)) for row in self.table[names].astype(object).to_numpy()]
        varied = varied_names(settings) or names
        numeric = [name for name in varied if all(is_number(setting[name]) for setting in settings)]
        along = (numeric or varied)[0]
        others = [name for name in varied if name != along]
        x = [setting[along] if numeric else str(setting[along]) for setting in settings]
        lines = np.array([", ".join(f"{name}={setting[name]}" for name in others) for setting in settings])
        y, error = self.table[self.criterion].to_numpy(), self.table.get("standard_error")
        handles: list[Any] = []
        for line in dict.fromkeys(lines):
            rows = np.flatnonzero(lines == line)
            if numeric:
                rows = rows[np.argsort([x[i] for i in rows], kind="stable")]
            bars = None if error is None else error.to_numpy()[rows]
            drawn = ax.errorbar([x[i] for i in rows], y[rows], bars, marker="o", ms=4, capsize=3, label=line)
            handles += [drawn] if line else []
        best = self.best_index
        handles += ax.plot(x[best], y[best], "o", color="black", fillstyle="none", ms=12, label="chosen")
        if all(isinstance(value, int) for value in x):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel=along, ylabel=f"{self.criterion} ({self.direction} is better)")
        ax.legend(handles=handles)
        return ax

    def __repr__(self) -> str:
        return f"{self._headline()}\n{self._marked().to_string(index=False, max_colwidth=60)}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._headline())}</p>{self._marked().to_html(index=False, border=0)}"

    def _headline(self) -> str:
        best = ", ".join(f"{name}={value!r}" for name, value in self.best_params.items())
        return f"Selection by {self.criterion} ({self.direction} is better): {best}"

    def _marked(self) -> pd.DataFrame:
        """The table with a star at the winner, and `failure` only where something failed."""
        table = self.table if self.table["failure"].any() else self.table.drop(columns="failure")
        table = table.copy()
        table.insert(0, "", ["*" if i == self.best_index else "" for i in range(len(table))])
        return table
