"""What a comparison found, as a table, in a terminal, a notebook and a picture."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

__all__ = ["Leaderboard"]

# What people read, and how; the numbers of `table` are not rounded.
SHOWN = {
    "model": "model",
    "nats": "nats",
    "standard_error": "± s.e.",
    "bits_per_dimension": "bits/dim",
    "behind": "to the best",
    "interval": "95 % interval",
    "value": "value",
    "n_parameters": "parameters",
    "fit_seconds": "fit, s",
    "score_seconds": "score, s",
}


class _Row(NamedTuple):
    """The columns that are shown."""

    model: str
    nats: float
    standard_error: float
    bits_per_dimension: float
    behind: float
    behind_low: float
    behind_high: float
    value: str
    n_parameters: Any
    fit_seconds: float
    score_seconds: float


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """What `compare` found.

    Args:
        table: a row per model, the best first and failures last: held-out `nats` per row with their `standard_error`,
            `bits_per_dimension`, how far `behind` the best row by row, with a 95 % interval `behind_low` to
            `behind_high`, `value` (exact or a bound, and how tight), `n_parameters`, `fit_seconds`, `score_seconds`,
            and `failure`, the reason why a model has no figures.
        caption: units, footing and the rows held out, for people.
        scores: nats of every held-out row (index) under every model (column).
        models: the fitted models by name, those of the first fold.
    """

    table: pd.DataFrame
    caption: str
    scores: pd.DataFrame
    models: Mapping[str, Any]

    @property
    def best(self) -> str:
        """The name of the model with the most nats."""
        return str(self.table["model"].iloc[0])

    def shown(self) -> pd.DataFrame:
        """The table as people read it, in words."""
        table = self.table[self.table["failure"] == ""]
        rows = [
            {
                "model": row.model,
                "nats": f"{row.nats:.3f}",
                "standard_error": f"{row.standard_error:.3f}",
                "bits_per_dimension": f"{row.bits_per_dimension:.3f}",
                "behind": f"{row.behind:+.3f}" if i else "",
                "interval": f"{row.behind_low:+.3f} to {row.behind_high:+.3f}" if i else "",
                "value": row.value,
                "n_parameters": "" if row.n_parameters is pd.NA else f"{row.n_parameters:,}",
                "fit_seconds": f"{row.fit_seconds:.1f}",
                "score_seconds": f"{row.score_seconds:.1f}",
            }
            for i, row in enumerate(map(_Row._make, table[list(_Row._fields)].to_numpy().tolist()))
        ]
        return pd.DataFrame(rows, columns=list(SHOWN)).rename(columns=SHOWN)

    @property
    def failures(self) -> dict[str, str]:
        """Reasons by model."""
        failed = self.table[self.table["failure"] != ""]
        return dict(zip(failed["model"], failed["failure"], strict=True))

    def rich(self) -> Table:
        """A table for `rich.print`."""
        from rich.table import Table

        out = Table(caption=self.caption, caption_justify="left")
        shown = self.shown()
        for name in shown.columns:
            out.add_column(name, justify="left" if name in ("model", "value") else "right", no_wrap=name == "model")
        for row in shown.to_numpy().tolist():
            out.add_row(*row)
        for name, reason in self.failures.items():
            out.add_row(name, "failed", *[""] * 4, reason)
        return out

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far every model is behind the best, with 95 % intervals."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        table = self.table[self.table["failure"] == ""].iloc[::-1]
        place = np.arange(len(table))
        reach = np.abs(table[["behind_low", "behind_high"]].to_numpy().T - table["behind"].to_numpy())
        ax.errorbar(table["behind"], place, xerr=np.nan_to_num(reach), fmt="o", ms=5, capsize=3)
        ax.set_yticks(place, list(table["model"]))
        ax.axvline(0, color="grey", lw=1, zorder=0)
        ax.set(xlabel=f"nats per held-out row, to {self.best}")
        return ax

    def __repr__(self) -> str:
        lines = [self.shown().to_string(index=False), *(f"{k} failed: {v}" for k, v in self.failures.items())]
        return "\n".join([*lines, self.caption])

    def _repr_html_(self) -> str:
        failed = "".join(f"<p>{html.escape(k)} failed: {html.escape(v)}</p>" for k, v in self.failures.items())
        return f"{self.shown().to_html(index=False, border=0)}{failed}<p>{html.escape(self.caption)}</p>"
