"""The mixture that makes rows: its covariance and its number of components by ln p of held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jensen.models.mixtures.mixture import Mixture
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.messages import levels_inside, own_filters, recorded_warnings
from jensen.runtime.progress import Bar

HELD_OUT = 0.2
# Pseudo-counts of a level, and the least variance of a score: neither may vanish in a component of a few rows.
ALPHA, LEAST_VARIANCE = 0.1, 1e-3
# Rows among which distinct ones are counted.
SOME_ROWS = 5000


@dataclass(frozen=True)
class Effort:
    """
    Args:
        covariances: that are tried.
        first: components at first; they are doubled while ln p of held-out rows rises.
        most: components at most.
        rows_per_component: at least, on average.
        max_iter: steps of EM.
    """

    covariances: tuple[str, ...]
    first: int
    most: int
    rows_per_component: int
    max_iter: int


EFFORTS = {
    "quick": Effort(("full",), 10, 80, 40, 50),
    "normal": Effort(("diag", "full"), 10, 320, 20, 100),
    "thorough": Effort(("diag", "full"), 5, 1280, 10, 300),
}


def find_mixture(
    rows: np.ndarray, kinds: Mapping[str | int, Any], effort: Effort, seed: int, verbose: int
) -> tuple[Mixture, pd.DataFrame]:
    """A mixture of rows (n, m), fitted to all of them, and what was tried.

    Ctrl-C ends the search and not the job: the best sizes so far are used.
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    n_held = max(1, int(HELD_OUT * len(rows)))
    held, train = rows[order[:n_held]], rows[order[n_held:]]
    most = min(effort.most, max(1, len(train) // effort.rows_per_component), most_components(train))
    tried: list[dict[str, Any]] = []
    with Bar("synthesize" if verbose else None, unit="fit") as bar:
        for covariance in effort.covariances:
            best, k = -np.inf, min(effort.first, most)
            while True:
                bar.note(f"{k} components, {covariance}")
                began = time.perf_counter()
                model, is_interrupted = fit(train, kinds, k, covariance, effort.max_iter, seed)
                score = mean_score(model, held)
                seconds = time.perf_counter() - began
                tried.append({"n_components": k, "covariance_type": covariance, "nats": score, "seconds": seconds})
                bar.update()
                if is_interrupted or score <= best or k == most:
                    break
                best, k = score, min(2 * k, most)
            if is_interrupted:
                break
        table = pd.DataFrame(tried)
        chosen = int(table["nats"].argmax())
        table["chosen"] = np.arange(len(table)) == chosen
        k, covariance = tried[chosen]["n_components"], tried[chosen]["covariance_type"]
        bar.note(f"{k} components, {covariance}, all rows")
        model, _ = fit(rows, kinds, k, covariance, effort.max_iter, seed)
    return model, table


def most_components(rows: np.ndarray) -> int:
    """Half of the distinct rows, of some of them: a few levels have few, and components that repeat each other."""
    return max(1, len(np.unique(rows[:SOME_ROWS], axis=0)) // 2)


def fit(
    rows: np.ndarray, kinds: Mapping[str | int, Any], k: int, covariance: str, max_iter: int, seed: int
) -> tuple[Mixture, bool]:
    """A mixture, and whether Ctrl-C has ended its fit early, of which the user is told."""
    model = Mixture(
        k,
        columns=dict(kinds),
        covariance_type=covariance,
        alpha=ALPHA,
        reg_covar=LEAST_VARIANCE,
        init_params="kmeans",
        max_iter=max_iter,
        random_state=seed,
    )
    with recorded_warnings() as heard:
        warnings.simplefilter("always")
        model.fit(rows)
    is_interrupted = any(issubclass(one.category, InterruptedFitWarning) for one in heard)
    if is_interrupted:
        warnings.warn("interrupted: the best mixture so far is used", InterruptedFitWarning, stacklevel=levels_inside())
    return model, is_interrupted


def mean_score(model: Mixture, rows: np.ndarray) -> float:
    """ln p per row; a value that was not in the training rows counts as 1/(n+1)."""
    with own_filters():
        warnings.simplefilter("ignore")
        return float(np.mean(model.score_samples(rows)))
