"""What a training came to, round by round: a data frame that can draw itself."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["History"]

# Columns that say when and how, not what the bound was.
ABOUT = ("epoch", "phase", "learning_rate", "seconds")


class History(pd.DataFrame):
    """One row per round: the epoch, what was raised, the terms of the bound, and the held-out bound.

    Example:
        >>> from jensen.engines.sgd.history import History
        >>> History([{"epoch": 1, "objective": -3.0}])["objective"].tolist()
        [-3.0]
    """

    @property
    def _constructor(self) -> type[History]:
        return History

    def plot(self, ax: Any = None) -> Any:  # type: ignore[override]
        """Draw objective and held-out bound, and beside them, unless `ax` is given, the terms; returns the figure."""
        import matplotlib.pyplot as plt

        if self.empty:
            raise ValueError("the training was over before its first round; there is nothing to draw")
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
            # The simple loss of a diffusion is no nats.
            is_bound = "reconstruction" in self.columns and "simple" not in self.columns
            panel.set_ylabel("nats per row" if is_bound else "per row")
            panel.legend()
        return panels[0].figure
