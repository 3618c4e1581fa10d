"""The page of a report about clusters."""

from __future__ import annotations

from html import escape

import numpy as np

from jensen.report import charts
from jensen.report.charts import GREY, Series
from jensen.report.html import table
from jensen.report.page import article, document
from jensen.report.panels import Panel
from jensen.tasks.clustering.pictures import Described, distances, points, two_columns
from jensen.tasks.clustering.profiles import is_date

# Lines of the table of what was tried.
MOST_TRIED = 30


def page_of(clusters: Described, title: str) -> str:
    """One HTML page."""
    overview = clusters.clusters.drop(columns="typical_rows")
    n_noise = int((clusters.numbers < 0).sum())
    noise = f" {n_noise} rows ({n_noise / len(clusters.numbers):.0%}) fit nowhere: they are noise." if n_noise else ""
    panels = [Panel("Clusters", f"{clusters.headline}.{noise}", table(overview))]
    if (drawn := scatter(clusters)) is not None:
        panels.append(drawn)
    shown = distances(clusters).reset_index(names="column")
    text = "The share of a cluster's rows that would have to change for no difference to the others to remain."
    panels.append(Panel("What sets clusters apart", text, table(shown, sortable=True)))
    panels += [typical(clusters, k) for k in range(len(clusters.names))]
    text = "Smaller BIC is better. A degenerate fit, shrunk on a few rows, is never chosen."
    panels.append(Panel("What was tried", text, table(clusters.tried.head(MOST_TRIED), sortable=True)))
    body = "".join(article(panel) for panel in panels)
    n, d = clusters.frame.shape
    return document(
        title, f"{n} rows, {d} columns", f'<section class="model"><div class="panels">{body}</div></section>'
    )


def scatter(clusters: Described) -> Panel | None:
    chosen = two_columns(clusters)
    if chosen is None or any(is_date(clusters.frame[name]) for name in clusters.frame if str(name) in chosen):
        return None
    x, y = (points(clusters, name) for name in chosen)
    series = [
        Series(str(name), x[clusters.numbers == k], y[clusters.numbers == k]) for k, name in enumerate(clusters.names)
    ]
    noise = clusters.numbers < 0
    if noise.any():
        series.append(Series("noise", x[noise], y[noise], colour=GREY))
    summary = f"Rows by cluster over {chosen[0]} and {chosen[1]}"
    text = f"The two columns that tell clusters apart best: {chosen[0]} and {chosen[1]}."
    return Panel("Rows by cluster", text, charts.scatter(series, *chosen, summary))


def typical(clusters: Described, k: int) -> Panel:
    rows = clusters.typical(k)
    shown = clusters.frame.iloc[rows]
    shown.insert(0, "row", np.asarray(rows))
    line = clusters.clusters.iloc[k]
    text = f"{line['size']} rows. {line['sets_apart']}. Typical rows:"
    return Panel(f"Cluster {escape(str(clusters.names[k]))}", text, table(shown))
