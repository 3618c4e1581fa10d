"""Scores of some rows with few draws, so that a summary or a report costs a fraction of the fit.

The cost is the number of passes of a row through a network. Training on n rows for E epochs costs about 3 n E, with
gradients; a score with k draws from a model with C classes costs k C per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from jensen.bound import averaging
from jensen.data.container import as_array

# The least and the greatest number of passes allowed.
LEAST_PASSES, MOST_PASSES = 2000, 40_000
# Passes as a share of those in training, without gradients.
SHARE = 0.25
# With fewer draws scores are too low; with fewer rows their mean is too uncertain.
LEAST_DRAWS, LEAST_ROWS, MOST_ROWS = 10, 20, 400


@dataclass(frozen=True)
class Quick:
    """The number of rows and draws for scores.

    Args:
        n_rows: the most rows that are scored.
        n_draws: draws per row; None if scores need no draws.
        usual: the number of draws in `score_samples`.
        option: the argument of `bound` that sets the number of draws: importance_samples or levels.
    """

    n_rows: int
    n_draws: int | None = None
    usual: int = 0
    option: str = ""

    @classmethod
    def of(cls, model: Any, n_rows: int) -> Quick:
        """For a fitted model and n rows. A model that is not trained by gradients is scored on all rows."""
        if not hasattr(model, "history_") or not hasattr(model, "score_samples"):
            return cls(n_rows)
        n_passes = int(min(max(SHARE * n_rows * getattr(model, "n_iter_", 0), LEAST_PASSES), MOST_PASSES))
        option = "importance_samples" if "importance_samples" in signature(model.bound).parameters else "levels"
        usual = draws_of(model, option)
        # A VAE with labels draws latent vectors for every class; a diffusion draws its levels once.
        n_classes = len(getattr(model, "classes_", ())) or 1 if option == "importance_samples" else 1
        n = min(n_rows, MOST_ROWS, max(n_passes // (min(usual, LEAST_DRAWS) * n_classes), LEAST_ROWS))
        n_draws = min(usual, max(n_passes // (max(n, 1) * n_classes), LEAST_DRAWS))
        return cls(n, n_draws, usual, option)

    def some(self, n_rows: int) -> np.ndarray:
        """The rows to score, the same in every call."""
        every = np.arange(n_rows)
        return every if n_rows <= self.n_rows else np.sort(np.random.default_rng(0).permutation(n_rows)[: self.n_rows])

    @property
    def is_short(self) -> bool:
        """Whether scores use fewer draws than usual."""
        return self.n_draws is not None and self.n_draws < self.usual


def draws_of(model: Any, option: str) -> int:
    """The number of draws in `score_samples`; in a model of several parts it may be an argument of one part."""
    wanted = {"importance_samples": "evaluation_samples", "levels": "evaluation_levels"}[option]
    found = [value for name, value in model.get_params().items() if name.split("__")[-1] == wanted]
    usual = found[0] if found else LEAST_DRAWS
    return int(model.schedule_.n_levels if usual == "all" else usual)


def quick_scores(model: Any, rows: Any, quick: Quick) -> np.ndarray:
    """Scores of the rows, from `quick.n_draws` draws each."""
    if not quick.is_short:
        return as_array(model.score_samples(rows)).astype(np.float64)
    # With so few draws a few weights always dominate; the warning about it is of no use here.
    with averaging():
        return as_array(model.bound(rows, **{quick.option: quick.n_draws}).total).astype(np.float64)
