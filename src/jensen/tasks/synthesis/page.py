"""The picture and the page of synthetic rows."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from jensen.data.names import shown
from jensen.report import charts
from jensen.report.html import table
from jensen.report.page import article, document
from jensen.report.panels import Panel
from jensen.runtime.figures import Drawn
from jensen.tasks.synthesis.maker import Maker
from jensen.tasks.synthesis.quality import Quality

# Columns of the picture, bars of a column of levels, bins of a column of numbers, rows that are listed.
MOST_COLUMNS, MOST_BARS, N_BINS, N_LISTED = 12, 8, 30, 8
REAL, NEW = "#9aa0a6", "#d1495b"
NO_GUARANTEE = (
    "Synthetic rows are no guarantee of privacy: a model of few rows, or of rare values, can give away its training "
    "rows. The score Nearest finds copies; it proves nothing about single people."
)


def draw_columns(maker: Maker, real: np.ndarray, new: np.ndarray) -> Figure:
    """The distribution of every column in real and in synthetic rows."""
    names = maker.columns.names[:MOST_COLUMNS]
    n_across = min(4, len(names))
    n_down = -(-len(names) // n_across)
    figure = Drawn(figsize=(3.2 * n_across, 2.4 * n_down + 0.5), layout="constrained")
    axes = np.ravel(figure.subplots(n_down, n_across, squeeze=False))
    for j, name in enumerate(names):
        draw_column(axes[j], maker, j, real[:, j], new[:, j])
        axes[j].set_title(str(name), fontsize=9)
        axes[j].tick_params(labelsize=7)
        axes[j].set_yticks([])
    for empty in axes[len(names) :]:
        empty.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=8)
    return figure


def draw_column(axes: Any, maker: Maker, j: int, real: np.ndarray, new: np.ndarray) -> None:
    if maker.is_number[j]:
        seen = real[~np.isnan(real)]
        edges = np.histogram_bin_edges(seen, N_BINS) if len(seen) else np.array([0.0, 1.0])
        for values, colour, label in ((real, REAL, "real"), (new, NEW, "synthetic")):
            counts = np.histogram(values[~np.isnan(values)], edges)[0] / max(1, len(values))
            axes.stairs(counts, edges, color=colour, fill=label == "real", lw=1.4, label=label)
        return
    n_levels = len(maker.columns.levels[j])
    p, q = (np.bincount(x[~np.isnan(x)].astype(int), minlength=n_levels) / len(x) for x in (real, new))
    order = np.argsort(-p, kind="stable")[:MOST_BARS]
    at = np.arange(len(order))
    axes.bar(at - 0.2, p[order], 0.4, color=REAL, label="real")
    axes.bar(at + 0.2, q[order], 0.4, color=NEW, label="synthetic")
    axes.set_xticks(at, [str(maker.columns.levels[j][i])[:10] for i in order], rotation=60, ha="right")


def page(
    maker: Maker,
    real: np.ndarray,
    new: np.ndarray,
    rows: pd.DataFrame,
    tried: pd.DataFrame,
    quality: Quality,
    title: str,
) -> str:
    """HTML: scores, columns, new rows, and how they were made."""
    names = maker.columns.names
    functions = [f"{shown(names[one.target])} of {shown(names[one.source])}" for one in maker.functions]
    scores = quality.table.reset_index(names="score")
    worst = quality.shapes.sort_values().head(MOST_COLUMNS)
    best = tried[tried["chosen"]].iloc[0]
    panels = [
        Panel(
            "Quality",
            f"Measured on {quality.n_rows} rows that were held out from a fit to as many others. Floor: independent "
            f"columns. Ceiling: real rows. {NO_GUARANTEE}",
            table(scores),
        ),
        Panel(
            "Columns",
            "The distribution of every column in real rows (grey) and in synthetic rows (red).",
            embedded(draw_columns(maker, real, new)),
        ),
        Panel(
            "Least alike columns",
            "Shape of the columns that differ most; 1 is best.",
            charts.bars([str(name) for name in worst.index], worst.tolist(), "Shape", "Shape of the worst columns"),
        ),
        Panel("Least alike pairs", "Trend of the pairs of columns that differ most; 1 is best.", pairs(quality)),
        Panel("Synthetic rows", f"The first {N_LISTED} of {len(rows)}.", table(rows.head(N_LISTED))),
        Panel(
            "How they were made",
            f"A mixture of {best['n_components']} components with {best['covariance_type']} covariances of the normal "
            "scores of numbers, chosen by ln p of held-out rows (nats). "
            + (f"Functions of another column: {', '.join(functions)}." if functions else ""),
            table(tried),
        ),
    ]
    body = f'<div class="panels">{"".join(article(panel) for panel in panels)}</div>'
    return document(title, f"{len(rows)} rows from a table of {len(real)}", body)


def pairs(quality: Quality) -> str:
    upper = np.triu_indices(len(quality.trends), 1)
    values = quality.trends.to_numpy()[upper]
    order = [i for i in np.argsort(values) if not np.isnan(values[i])][:MOST_COLUMNS]
    names = [f"{quality.trends.index[upper[0][i]]} × {quality.trends.index[upper[1][i]]}" for i in order]
    if not names:
        return ""
    return charts.bars(names, [float(values[i]) for i in order], "Trend", "Trend of the worst pairs")


def embedded(figure: Figure) -> str:
    """A figure as a picture inside the page."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    data = base64.b64encode(file.getvalue()).decode()
    alt = "Distribution of every column in real and in synthetic rows"
    return f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{data}">'
