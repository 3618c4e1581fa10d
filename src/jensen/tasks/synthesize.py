"""New rows that look like those of a table.

    z ~ Categorical(π),  x | z=k ~ N(scores of numbers; μ_k, Σ_k) Π_j P_kj(levels, atoms and missing cells)
One mixture of all columns; numbers by their normal scores, so that every column keeps its distribution, and the
components carry what columns have to do with each other. K and Σ by ln p of held-out rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from jensen.contract import whole_number
from jensen.data.container import Table
from jensen.data.names import shown
from jensen.data.some import place_of
from jensen.files.replacing import write_text
from jensen.models.mixtures.mixture import Mixture
from jensen.tasks.opening import opened
from jensen.tasks.synthesis.maker import Maker
from jensen.tasks.synthesis.page import draw_columns, page
from jensen.tasks.synthesis.quality import Quality, measure
from jensen.tasks.synthesis.search import EFFORTS, find_mixture


def synthesize(
    table: Table | str | os.PathLike[str],
    n: int,
    *,
    given: Mapping[str | int, Any] | None = None,
    label: str | int | None = None,
    effort: str = "normal",
    random_state: int = 0,
    verbose: int = 0,
) -> Synthetic:
    """New rows with the columns, types, ranges and dependences of a table.

    This is no guarantee of privacy: rare rows of the table may come back nearly as they are.

    Args:
        table: a data frame, an array, or the path of a file that holds one.
        n: the number of new rows.
        given: {column: value} that all new rows have, {column: (low, high)} for an interval of numbers or dates, where
            None is no end, {column: [value, ...]} for one of several values.
        label: the column that `quality` predicts with a model trained on synthetic rows; new rows have it in any case.
        effort: "quick", "normal" or "thorough", how many sizes of the mixture are tried.
        random_state: seed.
        verbose: 1 shows a progress bar on a terminal.

    Returns:
        A `Synthetic`: the `table` of new rows, the `model`, what was `tried`, and the `quality`.

    Example:
        >>> import jensen
        >>> from sklearn.datasets import load_iris
        >>> iris = load_iris(as_frame=True).frame
        >>> new = jensen.synthesize(iris, 5, given={"target": 2, "petal width (cm)": (2.0, None)}, effort="quick")
        >>> new.table["target"].tolist()
        [2, 2, 2, 2, 2]
        >>> bool((new.table["petal width (cm)"] >= 2).all())
        True
    """
    n = whole_number("n", n)
    if effort not in EFFORTS:
        raise ValueError(f"effort={effort!r} is unknown; choose 'quick', 'normal' or 'thorough'")
    rows = opened(table)
    maker, x = Maker.of(rows)
    if len(x) < 2:
        raise ValueError("table has one row; give at least two, of which one is held out")
    place = None if label is None else place_of(maker.columns, label)
    # Conditions are checked before the work.
    maker.conditions(given or {})
    scores = maker.forward(x, np.random.default_rng(random_state))
    model, tried = find_mixture(scores, maker.kinds, EFFORTS[effort], random_state, verbose)
    made = maker.sample(model, n, given or {}, random_state)
    return Synthetic(maker.table(made), model, tried, maker, x, made, place, random_state, verbose)


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic:
    """Rows that `synthesize` has made.

    Args:
        table: the rows, in the container that came in.
        model: the mixture of all columns, fitted to their levels and normal scores.
        tried: a row per mixture that was tried: "n_components", "covariance_type", "nats" per held-out row, "seconds",
            and which was "chosen".
        maker: what turns rows of the table into rows of the model and back.
        real: codes of the rows that came in.
        made: codes of the new rows.
        label: the number of the column to predict, or None.
        random_state: seed.
        verbose: 1 shows a progress bar.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> import jensen
        >>> new = jensen.synthesize(load_iris(as_frame=True).frame, 3, effort="quick")
        >>> new.table.shape, int(new.tried["chosen"].sum())
        ((3, 5), 1)
    """

    table: Any
    model: Mixture
    tried: pd.DataFrame
    maker: Maker
    real: np.ndarray
    made: np.ndarray
    label: int | None
    random_state: int
    verbose: int

    def __str__(self) -> str:
        names = self.maker.columns.names
        best = self.tried[self.tried["chosen"]].iloc[0]
        lines = [
            f"{len(self.made)} synthetic rows of {len(names)} columns, from {len(self.real)} rows",
            f"mixture of {best['n_components']} components, {best['covariance_type']} covariances: "
            f"{best['nats']:.3f} nats per held-out row",
        ]
        lines += [f"{shown(names[f.target])} is computed from {shown(names[f.source])}" for f in self.maker.functions]
        if empty := [shown(one.name) for one in self.maker.empty.values()]:
            lines.append(f"no value in any row, and in no new one: {', '.join(empty)}")
        if "quality" in vars(self):
            lines.append(str(self.quality))
        return "\n".join(lines)

    __repr__ = __str__

    @cached_property
    def quality(self) -> Quality:
        """How good such rows are, on rows that a second fit has not seen; computed when it is first asked for."""
        return measure(self.maker, self.model, self.real, self.label, self.random_state, self.verbose)

    def sample(self, n: int, given: Mapping[str | int, Any] | None = None, random_state: int = 1) -> Any:
        """More rows of the same model, under the same conditions or others."""
        return self.maker.table(self.maker.sample(self.model, whole_number("n", n), given or {}, random_state))

    def plot(self) -> Figure:
        """The distribution of every column in real and in synthetic rows."""
        return draw_columns(self.maker, self.real, self.made)

    def report(self, path: str | os.PathLike[str], title: str = "Synthetic rows") -> None:
        """Write an HTML page: the quality, every column, some rows, and how they were made."""
        rows = self.maker.frame(self.made)
        write_text(path, page(self.maker, self.real, self.made, rows, self.tried, self.quality, title))
