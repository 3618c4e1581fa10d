"""A picture of clusters: a scatter plot of two columns, and the distance of every column."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from jensen.tasks.clustering.profiles import Difference, is_date, is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Columns in the matrix, and dots in the plot.
MOST_COLUMNS, MOST_DOTS = 12, 3000


class Described(Protocol):
    """What pictures and pages show of clusters."""

    @property
    def numbers(self) -> np.ndarray: ...

    @property
    def names(self) -> tuple[Hashable, ...]: ...

    @property
    def tried(self) -> pd.DataFrame: ...

    @property
    def frame(self) -> pd.DataFrame: ...

    @property
    def clusters(self) -> pd.DataFrame: ...

    @property
    def headline(self) -> str: ...

    def differences(self, k: int) -> list[Difference]: ...

    def typical(self, k: int, n: int = ...) -> np.ndarray: ...


def distances(clusters: Described) -> pd.DataFrame:
    """How far every column sets every cluster apart: columns by clusters, those that do most first."""
    found = {
        str(name): {one.column: one.distance for one in clusters.differences(k)}
        for k, name in enumerate(clusters.names)
    }
    table = pd.DataFrame(found).reindex([str(name) for name in clusters.frame.columns])
    return table.loc[table.mean(axis=1).sort_values(ascending=False, kind="stable").index]


def two_columns(clusters: Described) -> tuple[str, str] | None:
    """The two columns of numbers that tell clusters apart best."""
    numbers = [str(name) for name in clusters.frame if is_number(clusters.frame[name])]
    names = [name for name in distances(clusters).index if name in numbers]
    return (names[0], names[1]) if len(names) > 1 else None


def points(clusters: Described, name: str) -> Any:
    column = clusters.frame.set_axis([*map(str, clusters.frame.columns)], axis=1)[name]
    return column.to_numpy() if is_date(column) else column.astype(float).to_numpy()


def draw(clusters: Described) -> Figure:
    """Dots by cluster, and a matrix of distances."""
    from jensen.runtime.figures import Drawn

    chosen, table = two_columns(clusters), distances(clusters).iloc[:MOST_COLUMNS]
    height = max(3.8, 1.6 + 0.3 * len(table))
    fig = Drawn(figsize=(11, height) if chosen else (6, height), layout="constrained")
    axes = fig.subplots(1, 2 if chosen else 1, squeeze=False)[0]
    if chosen:
        ax, x, y = axes[0], *(points(clusters, name) for name in chosen)
        some = np.random.default_rng(0).permutation(len(x))[:MOST_DOTS]
        for k, name in enumerate(clusters.names):
            own = some[clusters.numbers[some] == k]
            ax.scatter(x[own], y[own], s=14, lw=0, alpha=0.8, color=f"C{k % 10}", label=str(name))
        noise = some[clusters.numbers[some] < 0]
        if len(noise):
            ax.scatter(x[noise], y[noise], s=14, marker="x", lw=0.8, color="grey", label="noise")
        ax.set(xlabel=chosen[0], ylabel=chosen[1])
        ax.legend(title="cluster")
    ax = axes[-1]
    image = ax.imshow(table.to_numpy(), vmin=0, vmax=1, cmap="Blues", aspect="auto")
    ax.set_xticks(range(table.shape[1]), table.columns)
    ax.set_yticks(range(len(table)), table.index)
    ax.set(xlabel="cluster", title="What sets clusters apart")
    fig.colorbar(image, ax=ax, label="distance to the other rows")
    fig.suptitle(clusters.headline.partition(";")[0])
    return fig
