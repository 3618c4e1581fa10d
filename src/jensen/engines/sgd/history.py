"""The history of a training: a data frame with one row per round, and a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Columns that are not terms of the objective.
ABOUT = ("epoch", "phase", "learning_rate", "seconds")


class History(pd.DataFrame):
    """One row per round: the epoch, the objective, the terms of the bound and the held-out bound.

    Example:
        >>> from jensen.engines.sgd.history import History
        >>> History([{"epoch": 1, "objective": -3.0}])["objective"].tolist()
        [-3.0]
    """

    @property
    def _constructor(self) -> type[History]:
        return History

    def plot(self, ax: Axes | None = None) -> Figure:  # type: ignore[override]
        """Plot the objective and the held-out bound and, unless `ax` is given, the terms; returns the figure."""
        import matplotlib.pyplot as plt

        if self.empty:
            raise ValueError("the training ended before its first round, so there is nothing to plot")
        names = [name for name in self.columns if name not in ABOUT]
        totals = [name for name in names if name in ("objective", "held_out")]
        terms = [name for name in names if name not in totals]
        if ax is None:
            _, axes = plt.subplots(1, 2 if terms else 1, figsize=(10 if terms else 5, 3.6), layout="constrained")
            panels = list(axes) if terms else [axes]
        else:
            panels = [ax]
        for panel, shown in zip(panels, (totals, terms), strict=False):
            for name in shown:
                panel.plot(self["epoch"], self[name], label=name.replace("_", " "))
            if "phase" in self.columns:
                for phase, marker in zip(sorted(set(self["phase"])), "o^sv", strict=False):
                    rows = self[self["phase"] == phase]
                    panel.plot(
                        rows["epoch"], rows[shown[0]], marker, markersize=3, label=f"{phase} phase", linestyle=""
                    )
            panel.set_xlabel("epoch")
            # The simple loss of a diffusion is not in nats.
            is_bound = "reconstruction" in self.columns and "simple" not in self.columns
            panel.set_ylabel("nats per row" if is_bound else "per row")
            panel.legend()
        figure: Figure = panels[0].figure
        return figure
