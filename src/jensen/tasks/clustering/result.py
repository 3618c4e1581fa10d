"""The result of `jensen.cluster`: labels, the mixture, what was tried, and a description of every cluster."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from jensen.data.container import as_array, is_frame
from jensen.files.replacing import write_text
from jensen.files.tables import as_frame
from jensen.tasks.clustering.page import page_of
from jensen.tasks.clustering.pictures import draw
from jensen.tasks.clustering.profiles import Difference, differences, in_words, share
from jensen.tasks.clustering.rows import Rows
from jensen.tasks.clustering.stability import Stability, assigned, word_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE = -1
# Rows that are shown as typical for a cluster.
N_TYPICAL = 3


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters of a table.

    Args:
        numbers: the number of the cluster of every row (n,), the largest cluster first; -1 is noise.
        names: of the clusters: their numbers, or the classes where labels were given.
        model: the fitted mixture, in the units of the table.
        cluster_of: the cluster of every component of the mixture (K,).
        structure: of its covariances, or what else tells it from the others that were tried.
        tried: all that was tried, the best first.
        stability: whether the same clusters are found again in halves of the rows.
        accuracy: with labels, the share of labelled rows that are right when they are held out; else NaN.
        given: the table that came in.
        rows: the columns that were used.

    Example:
        >>> import numpy as np
        >>> import jensen
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> X[:20] += 9
        >>> found = jensen.cluster(X, n_clusters=2, noise=False, effort="quick")
        >>> found.clusters["size"].tolist(), found.labels[:3].tolist()
        ([40, 20], [1, 1, 1])
    """

    numbers: np.ndarray
    names: tuple[Hashable, ...]
    model: Any
    cluster_of: np.ndarray
    structure: str
    tried: pd.DataFrame
    stability: Stability
    accuracy: float
    given: Any
    rows: Rows

    @cached_property
    def labels(self) -> np.ndarray:
        """The cluster of every row (n,), -1 for noise; with labels given to `cluster`, its class."""
        return self._named(self.numbers)

    @cached_property
    def table(self) -> Any:
        """The table that came in with one more column, "cluster"; an array gets one more column at its end."""
        if not is_frame(self.given):
            return np.column_stack([as_array(self.given), self.labels])
        frame = nw.from_native(self.given, eager_only=True)
        name = free_name("cluster", frame.columns)
        if hasattr(self.given, "iloc"):
            return self.given.assign(**{name: self.labels})
        return frame.with_columns(nw.new_series(name, self.labels, backend=frame.implementation)).to_native()

    @cached_property
    def clusters(self) -> pd.DataFrame:
        """A row per cluster: size, share, stability, what sets it apart, and the numbers of typical rows."""
        n = len(self.numbers)
        sizes = np.array([(self.numbers == k).sum() for k in range(len(self.names))])
        return pd.DataFrame(
            {
                "cluster": list(self.names),
                "size": sizes,
                "share": sizes / n,
                "stability": self.stability.of_clusters,
                "sets_apart": [in_words(self.differences(k)) for k in range(len(self.names))],
                "typical_rows": [self.typical(k).tolist() for k in range(len(self.names))],
            }
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns that were used, as a data frame of pandas."""
        return as_frame(self.rows.X).reset_index(drop=True)

    def differences(self, k: int) -> list[Difference]:
        """Every column of cluster number k compared with the other rows, the one that sets it apart most first."""
        return differences(self.frame, self.numbers == k)

    def typical(self, k: int, n: int = N_TYPICAL) -> np.ndarray:
        """The n rows of cluster number k that have the greatest density in it; complete ones come first."""
        own = np.flatnonzero(self.numbers == k)
        # The density of fewer columns cannot be compared with that of all.
        n_missing = self.frame.isna().sum(axis=1).to_numpy()[own]
        return own[np.lexsort([-self._joint[own, k], n_missing])[:n]]

    def predict(self, X: Any) -> np.ndarray:
        """The clusters of other rows with the same columns (n,)."""
        q = as_array(self.model.predict_proba(self.rows.of(X)))
        return self._named(assigned(q, self.cluster_of))

    def describe(self) -> str:
        """A few lines: how many clusters, how stable they are, and what sets each apart."""
        n, n_noise = len(self.numbers), int((self.numbers == NOISE).sum())
        lines = [self.headline]
        for k, (name, texts) in enumerate(zip(self.names, self.clusters["sets_apart"], strict=True)):
            size, stable = int((self.numbers == k).sum()), float(self.stability.of_clusters[k])
            known = "" if np.isnan(stable) else f", {word_of(stable)}"
            lines.append(f"  {name}: {size} rows ({share(size / n)}{known}): {texts}")
        if n_noise:
            lines.append(f"  {NOISE}: {n_noise} rows ({share(n_noise / n)}) that fit nowhere (noise)")
        if self.rows.ignored:
            lines.append(
                f"left out: {', '.join(map(str, self.rows.ignored))} (identify rows, or have one value or none)"
            )
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """One sentence about all clusters."""
        n, k = len(self.names), self.model.theta_.n_components
        made = f"{type(self.model).__name__}, {self.structure}, {k} component{'s' * (k != 1)}"
        if not np.isnan(self.accuracy):
            return f"{n} classes ({made}); {share(self.accuracy)} of the labels are right when they are held out"
        if n == 1:
            return f"1 cluster ({made}): these rows show no groups"
        known = self.stability
        return f"{n} clusters ({made}); {known.word}: agreement {known.agreement:.2f} between random halves of the rows"

    def plot(self) -> Figure:
        """The clusters over the two columns that tell them apart best, and how far every column does."""
        return draw(self)

    def report(self, path: str | os.PathLike[str], title: str = "Clusters") -> None:
        """Write one HTML page: the clusters, typical rows, a picture, and what was tried."""
        write_text(path, page_of(self, title))

    def __str__(self) -> str:
        return self.describe()

    @cached_property
    def _joint(self) -> np.ndarray:
        """ln p(x, cluster) of every row and cluster (n, C), up to a constant of the row's columns."""
        q = as_array(self.model.predict_proba(self.rows.X))
        summed = np.zeros((len(q), len(self.names)))
        np.add.at(summed.T, self.cluster_of, q[:, : len(self.cluster_of)].T)
        with np.errstate(divide="ignore"):
            found: np.ndarray = np.log(summed) + as_array(self.model.score_samples(self.rows.X))[:, None]
        return found

    def _named(self, numbers: np.ndarray) -> np.ndarray:
        if self.names == tuple(range(len(self.names))):
            return numbers
        names: np.ndarray = np.array(self.names)
        return np.take(names, numbers)


def free_name(name: str, taken: list[str]) -> str:
    """The name, or with a number behind it if there is such a column already."""
    number = 1
    found = name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
