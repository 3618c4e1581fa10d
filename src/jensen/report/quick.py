"""Scores of some rows from few draws: the summary of a fit and a report cost a fraction of the fit.

The cost is counted in passes of a row through a network. Training on n rows for E epochs costs about 3 n E, with the
gradients; a score of k draws from a model with C classes costs k C per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from jensen.bound import averaging
from jensen.data.container import as_array

__all__ = ["Quick", "quick_scores"]

# Passes that are always allowed, and the most that are ever made.
LEAST_PASSES, MOST_PASSES = 2000, 40_000
# Share of the passes of the training, gradients not counted.
SHARE = 0.25
# With fewer draws a score is too low, and with fewer rows a mean is too uncertain.
LEAST_DRAWS, LEAST_ROWS, MOST_ROWS = 10, 20, 400


@dataclass(frozen=True)
class Quick:
    """How many rows and draws the scores rest on.

    Args:
        n_rows: the most rows that are scored.
        n_draws: draws per row; None for a model whose scores need none.
        usual: the draws that `score_samples` makes.
        option: the argument of `bound` that sets the number of draws: importance_samples or levels.
    """

    n_rows: int
    n_draws: int | None = None
    usual: int = 0
    option: str = ""

    @classmethod
    def of(cls, model: Any, n_rows: int) -> Quick:
        """For a fitted model and n rows; a model that is not trained by gradients is scored on all of them."""
        if not hasattr(model, "history_") or not hasattr(model, "score_samples"):
            return cls(n_rows)
        n_passes = int(min(max(SHARE * n_rows * getattr(model, "n_iter_", 0), LEAST_PASSES), MOST_PASSES))
        option = "importance_samples" if "importance_samples" in signature(model.bound).parameters else "levels"
        usual = draws_of(model, option)
        # A VAE with labels draws latent vectors for every class; the levels of a diffusion are drawn once.
        n_classes = len(getattr(model, "classes_", ())) or 1 if option == "importance_samples" else 1
        n = min(n_rows, MOST_ROWS, max(n_passes // (min(usual, LEAST_DRAWS) * n_classes), LEAST_ROWS))
        n_draws = min(usual, max(n_passes // (max(n, 1) * n_classes), LEAST_DRAWS))
        return cls(n, n_draws, usual, option)

    def some(self, n_rows: int) -> np.ndarray:
        """The rows to score; the same for every call."""
        every = np.arange(n_rows)
        return every if n_rows <= self.n_rows else np.sort(np.random.default_rng(0).permutation(n_rows)[: self.n_rows])

    @property
    def is_short(self) -> bool:
        """Whether scores rest on fewer draws than usual."""
        return self.n_draws is not None and self.n_draws < self.usual


def draws_of(model: Any, option: str) -> int:
    """The number of draws behind `score_samples`; in a model of several parts it may be an argument of one part."""
    wanted = {"importance_samples": "evaluation_samples", "levels": "evaluation_levels"}[option]
    found = [value for name, value in model.get_params().items() if name.split("__")[-1] == wanted]
    usual = found[0] if found else LEAST_DRAWS
    return int(model.schedule_.n_levels if usual == "all" else usual)


def quick_scores(model: Any, rows: Any, quick: Quick) -> np.ndarray:
    """Scores of the rows, from `quick.n_draws` draws each."""
    if not quick.is_short:
        return as_array(model.score_samples(rows)).astype(np.float64)
    # With so few draws a few weights always decide, and the advice to raise their number does not apply here.
    with averaging():
        return as_array(model.bound(rows, **{quick.option: quick.n_draws}).total).astype(np.float64)
