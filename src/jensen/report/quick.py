"""Scores of some rows from few draws: what is said after a fit, or on a page, costs a fraction of the fit.

A pass of a row through a network is the unit. A training of E epochs on n rows takes about 3 n E of them, with the
gradients; a score of k draws from a model of C classes takes k C for every row.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from jensen.bound import HeavyTailWarning
from jensen.interop.filters import own_filters
from jensen.interop.rows import as_array

__all__ = ["Quick", "quick_scores"]

# Passes that are always free, and that always suffice.
LEAST_PASSES, MOST_PASSES = 2000, 40_000
# Share of the passes of a training, counted without gradients.
SHARE = 0.25
# Fewer draws make a score too low, and fewer rows a mean too uncertain.
LEAST_DRAWS, LEAST_ROWS, MOST_ROWS = 10, 20, 400


@dataclass(frozen=True)
class Quick:
    """How much a model is asked.

    Args:
        n_rows: at most.
        n_draws: per row; None for a model whose scores need none.
        usual: what it draws by itself.
        option: how the number of draws is called: importance_samples or levels.
    """

    n_rows: int
    n_draws: int | None = None
    usual: int = 0
    option: str = ""

    @classmethod
    def of(cls, model: Any, n_rows: int) -> Quick:
        """For a fitted model and so many rows; one that is not trained by gradients is asked about all."""
        if not hasattr(model, "history_") or not hasattr(model, "score_samples"):
            return cls(n_rows)
        n_passes = int(min(max(SHARE * n_rows * getattr(model, "n_iter_", 0), LEAST_PASSES), MOST_PASSES))
        option = "importance_samples" if "importance_samples" in signature(model.bound).parameters else "levels"
        usual = draws_of(model, option)
        # All levels of a diffusion have one class, and draws of a latent vector are made for each.
        n_classes = len(getattr(model, "classes_", ())) or 1 if option == "importance_samples" else 1
        n = min(n_rows, MOST_ROWS, max(n_passes // (min(usual, LEAST_DRAWS) * n_classes), LEAST_ROWS))
        n_draws = min(usual, max(n_passes // (max(n, 1) * n_classes), LEAST_DRAWS))
        return cls(n, n_draws, usual, option)

    def some(self, n_rows: int) -> np.ndarray:
        """The rows to ask about, drawn once and for all."""
        every = np.arange(n_rows)
        return every if n_rows <= self.n_rows else np.sort(np.random.default_rng(0).permutation(n_rows)[: self.n_rows])

    @property
    def is_short(self) -> bool:
        """Whether scores rest on fewer draws than usual."""
        return self.n_draws is not None and self.n_draws < self.usual


def draws_of(model: Any, option: str) -> int:
    """What scores rest on unless less is asked for; of a model of several parts it may be a part's argument."""
    wanted = {"importance_samples": "evaluation_samples", "levels": "evaluation_levels"}[option]
    found = [value for name, value in model.get_params().items() if name.split("__")[-1] == wanted]
    usual = found[0] if found else LEAST_DRAWS
    return int(model.schedule_.n_levels if usual == "all" else usual)


def quick_scores(model: Any, rows: Any, quick: Quick) -> np.ndarray:
    """Scores of the rows, from as many draws as are granted."""
    if not quick.is_short:
        return as_array(model.score_samples(rows)).astype(np.float64)
    with own_filters():
        # That a few weights decide is no wonder of so few draws, and what the warning advises was not asked for.
        warnings.simplefilter("ignore", HeavyTailWarning)
        return as_array(model.bound(rows, **{quick.option: quick.n_draws}).total).astype(np.float64)
