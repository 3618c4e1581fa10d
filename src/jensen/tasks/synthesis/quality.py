"""How good synthetic rows are, on rows that the model has not seen, between a floor and a ceiling.

The rows are split in two halves. The same maker and the same mixture are fitted to the first half, and everything is
compared with the second one: the rows they make, rows whose columns are independent (the first half, each column
permuted by itself), and the first half itself. So scores are of a model of half of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jensen.models.mixtures.mixture import Mixture
from jensen.runtime.progress import Bar
from jensen.tasks.synthesis.maker import Maker
from jensen.tasks.synthesis.metrics import c2st, nearer_share, shapes, trends, utility
from jensen.tasks.synthesis.search import fit, most_components

# Rows of a half at most, rows whose nearest ones are found, and rows that a table needs.
MOST_ROWS, NEAREST_ROWS, LEAST_ROWS = 10_000, 2_000, 50

MEANING = {
    "Shape": "how alike single columns are: 1 - Kolmogorov-Smirnov or total-variation distance, mean over columns",
    "Trend": "how alike pairs of columns are: 1 - |difference of correlations| / 2, or 1 - total-variation distance, "
    "mean over pairs",
    "C2ST": "1 if gradient boosting cannot tell synthetic rows from real ones, 0 if it always can",
    "Utility": "gradient boosting trained on these rows predicts the label of real ones: AUC, or R² of a number",
    "Nearest": "share of rows nearer to a training row than to any held-out row: ½ is good, 1 is a copy",
}


@dataclass(frozen=True, eq=False)
class Quality:
    """Scores of synthetic rows.

    Args:
        table: a row per score; "synthetic", its "floor" (independent columns), its "ceiling" (real rows) and "meaning".
        shapes: the score of every column.
        trends: the score of every pair of columns.
        n_rows: rows of a half.
    """

    table: pd.DataFrame
    shapes: pd.Series
    trends: pd.DataFrame
    n_rows: int

    def __str__(self) -> str:
        figures = self.table[["synthetic", "floor", "ceiling"]]
        return figures.to_string(float_format=lambda value: f"{value:.3f}")


def measure(maker: Maker, model: Mixture, x: np.ndarray, label: int | None, seed: int, verbose: int) -> Quality:
    """The quality of a maker and a mixture that were fitted to codes (n, d)."""
    if len(x) < LEAST_ROWS:
        raise ValueError(f"quality needs at least {LEAST_ROWS} rows to split, the table has {len(x)}")
    rng = np.random.default_rng(seed)
    n = min(len(x) // 2, MOST_ROWS)
    order = rng.permutation(len(x))
    train, held_out = x[order[:n]], x[order[n : 2 * n]]
    is_number = maker.is_number
    with Bar("quality" if verbose else None, 4, unit="table") as bar:
        synthetic = refitted(maker, model, train, seed)
        bar.update()
        independent = np.stack([rng.permutation(column) for column in train.T], 1)
        rows = {"synthetic": synthetic, "floor": independent, "ceiling": train}
        found: dict[str, dict[str, float]] = {}
        for name, made in rows.items():
            found[name] = scores_of(made, held_out, is_number, label, seed)
            bar.update()
    # Rows that are neither: another part of the held-out half beside parts of both halves that are as large.
    half, most = n // 2, min(n // 2, NEAREST_ROWS)
    found["synthetic"]["Nearest"] = nearer_share(synthetic[:most], train, held_out, is_number)
    found["floor"]["Nearest"] = nearer_share(independent[:most], train, held_out, is_number)
    found["ceiling"]["Nearest"] = nearer_share(held_out[:most], train[:half], held_out[half : 2 * half], is_number)
    table = pd.DataFrame(found)
    table["meaning"] = [MEANING[name] for name in table.index]
    names = list(maker.columns.names)
    return Quality(
        table,
        pd.Series(shapes(held_out, synthetic, is_number), names),
        pd.DataFrame(trends(held_out, synthetic, is_number), names, names),
        n,
    )


def refitted(maker: Maker, model: Mixture, train: np.ndarray, seed: int) -> np.ndarray:
    """As many rows as there are training rows (n, d), by a mixture of these of the same form."""
    own = Maker.learn(maker.columns, maker.kind, train)
    rows = own.forward(train, np.random.default_rng(seed))
    k = min(len(model.weights_), most_components(rows))
    mixture, _ = fit(rows, own.kinds, k, model.covariance_type, model.max_iter, seed)
    return own.sample(mixture, len(train), {}, seed)


def scores_of(
    made: np.ndarray, real: np.ndarray, is_number: np.ndarray, label: int | None, seed: int
) -> dict[str, float]:
    """All scores of some rows beside real ones that they were not made from."""
    made_of: dict[str, Callable[[], float]] = {
        "Shape": lambda: float(shapes(real, made, is_number).mean()),
        "Trend": lambda: mean_or_nan(trends(real, made, is_number)),
        "C2ST": lambda: c2st(real, made, is_number, seed),
    }
    if label is not None:
        made_of["Utility"] = lambda: utility(made, real, is_number, label, seed)
    return {name: score() for name, score in made_of.items()}


def mean_or_nan(values: np.ndarray) -> float:
    """The mean of what is no NaN; NaN if there is nothing else, as in a table of one column."""
    seen = values[~np.isnan(values)]
    return float(seen.mean()) if len(seen) else float("nan")
