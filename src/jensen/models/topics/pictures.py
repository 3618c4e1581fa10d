"""Pictures of topics: their words as bars, and their shares over documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jensen.data.names import word_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Topics in a row of pictures, and documents that a heat map tells apart.
PER_ROW, MOST_DOCUMENTS = 5, 600
# Values of lift beside the colours.
MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def topic_name(k: int, classes: Sequence[str]) -> str:
    return f"topic {classes[k] if k < len(classes) else k}"


def draw_topics(table: pd.DataFrame, classes: Sequence[str]) -> Figure:
    """A panel of bars per topic, largest share first; the colour of a bar is the lift of its word."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    from jensen.runtime.figures import Drawn

    groups = sorted((group for _, group in table.groupby("topic")), key=lambda group: -group["share"].iloc[0])
    n, n_words = len(groups), max(map(len, groups))
    n_columns = min(n, PER_ROW)
    n_rows = -(-n // n_columns)
    fig = Drawn(figsize=(2.5 * n_columns + 0.9, n_rows * (0.55 + 0.21 * n_words) + 0.4), layout="constrained")
    lift = table["lift"].to_numpy()
    most = max(2.0, float(np.quantile(lift, 0.95)))
    scale = ScalarMappable(LogNorm(1.0, most), "viridis_r")
    axes = fig.subplots(n_rows, n_columns, squeeze=False)
    for ax, group in zip(axes.flat, groups, strict=False):
        places = range(len(group))
        ax.barh(places, group["probability"], color=scale.to_rgba(np.maximum(group["lift"], 1.0)))
        ax.set_yticks(places, [shortened(word_name(word)) for word in group["word"]], fontsize=8)
        ax.tick_params(axis="x", labelsize=7)
        ax.locator_params(axis="x", nbins=3)
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(f"{topic_name(group['topic'].iloc[0], classes)}: {group['share'].iloc[0]:.1%}", fontsize=9)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    bar = fig.colorbar(scale, ax=axes, label="lift", shrink=min(1.0, 2 / n_rows), extend="both")
    bar.minorticks_off()
    bar.set_ticks(marks := [mark for mark in MARKS if mark <= most], labels=[str(mark) for mark in marks])
    fig.supxlabel("probability of the word in the topic", fontsize=9)
    return fig


def shortened(word: str) -> str:
    return word if len(word) <= 16 else word[:15] + "…"


def sorted_documents(shares: np.ndarray) -> np.ndarray:
    """Documents by their largest topic, topics of many documents first, and by its share within."""
    best = shares.argmax(1)
    place = np.argsort(np.argsort(-np.bincount(best, minlength=shares.shape[1]), kind="stable"))
    return np.lexsort((-shares[np.arange(len(shares)), best], place[best]))


def draw_shares(shares: np.ndarray, classes: Sequence[str], ax: Axes | None) -> Axes:
    """A heat map of shares (n, K): documents from left to right, sorted, and topics from top to bottom."""
    k = shares.shape[1]
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(8, max(2.5, 0.9 + 0.22 * k)), layout="constrained")[1]
    n, order = len(shares), sorted_documents(shares)
    # Of more documents than there are points, every few are one.
    shown = order[np.unique(np.linspace(0, n - 1, min(n, MOST_DOCUMENTS)).round().astype(int))]
    topics = np.argsort(-np.bincount(shares.argmax(1), minlength=k), kind="stable")
    image = ax.imshow(
        shares[shown][:, topics].T,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(0, n, k - 0.5, -0.5),
    )
    ax.set_yticks(range(k), [topic_name(int(j), classes) for j in topics], fontsize=8 if k <= 30 else 6)
    ax.set(xlabel=f"{n} documents, sorted by their largest topic", title="Shares of topics")
    ax.figure.colorbar(image, ax=ax, label="share")
    return ax
