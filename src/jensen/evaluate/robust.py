"""Fits that odd rows do not bend, and scores that several of them share.

    keep the (1-α) n rows of greatest ln p, fit to these, repeat:   Σ_kept ln p never falls
A component that holds at most a share α of the rows, together with the smaller ones, may be a cluster of odd rows: its
part of ln p does not count when rows are chosen. So a tight cluster of odd rows leaves the fit as scattered ones do.

A simple model misses structure, and a rich one learns odd rows. The score of a row is the mean over models of
    (-ln p_m(x) - median) / (interquartile range),   both of -ln p_m over rows that the model was not trained on
so that models of different flexibility count alike. Trimming: Rousseeuw (1984), Neykov et al. (2007).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from jensen.data.codes import without_unseen_warning
from jensen.data.container import n_rows, take
from jensen.evaluate.outliers import scores_of
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.messages import own_filters

# Refits at most; the rows that are kept settle after a few.
N_REFITS = 4


def trimmed_fit(model: Any, X: Any, trim: float) -> Any:
    """A fit of the model that up to a share `trim` of odd rows does not bend; the model is not changed.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture
        >>> from jensen.evaluate.robust import trimmed_fit
        >>> X = np.r_[np.random.default_rng(0).normal(size=(190, 1)), np.full((10, 1), 30.0)]
        >>> bent, robust = GaussianMixture().fit(X), trimmed_fit(GaussianMixture(), X, 0.1)
        >>> [round(abs(float(model.means_[0, 0]))) for model in (bent, robust)]
        [2, 0]
    """
    fitted, before = fitted_to(model, X), None
    if trim == 0:
        return fitted
    for _ in range(N_REFITS):
        scores = scores_of_large_components(fitted, X, trim)
        kept = np.sort(np.argsort(-scores, kind="stable")[: max(2, round((1 - trim) * len(scores)))])
        if before is not None and np.array_equal(kept, before):
            break
        fitted, before = fitted_to(model, take(X, kept), fitted), kept
    return fitted


def fitted_to(model: Any, X: Any, start: Any = None) -> Any:
    """A fit of a copy of the model, from the parameters of another fit where the model can start there.

    Ctrl-C ends it with KeyboardInterrupt: half of a robust fit is no robust fit.
    """
    with own_filters():
        # A column with one value among the rows that are kept is no news, nor is a fit of a few steps.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            if start is not None and "warm_start" in start.get_params(deep=False):
                near = copy.deepcopy(start).set_params(warm_start=True)
                try:
                    return near.fit(X).set_params(warm_start=model.get_params(deep=False)["warm_start"])
                except ValueError:
                    pass  # other columns vary, or have other levels, than among the rows before
            return clone(model).fit(X)
        except InterruptedFitWarning:
            raise KeyboardInterrupt from None


def scores_of_large_components(model: Any, X: Any, trim: float) -> np.ndarray:
    """ln p (n,) without the components that together hold at most the share `trim` of the rows."""
    scores = np.asarray(quiet_scores(model, X), dtype=np.float64)
    if len(getattr(model, "weights_", ())) < 2 or not hasattr(model, "predict_proba"):
        return scores
    with without_unseen_warning():
        q = np.asarray(model.predict_proba(X), dtype=np.float64)
    share = q.mean(0)
    order = np.argsort(share)
    small = order[np.cumsum(share[order]) <= trim]
    with np.errstate(divide="ignore"):
        return scores + np.log(np.clip(1 - q[:, small].sum(1), 0.0, 1.0)) if len(small) else scores


def quiet_scores(model: Any, X: Any) -> np.ndarray:
    """ln p of rows, in which a value may be new to the model: that is what is looked for."""
    with own_filters():
        warnings.simplefilter("ignore")
        return np.asarray(scores_of(model, X), dtype=np.float64)


@dataclass(frozen=True)
class Pool:
    """Fitted models that score rows together.

    Args:
        models: by name.
        scales: of every model, the median and the interquartile range of -ln p over rows it was not trained on.
    """

    models: Mapping[str, Any]
    scales: Mapping[str, tuple[float, float]]

    def score(self, X: Any) -> np.ndarray:
        """How odd rows are (n,); around 0 for usual ones."""
        costs = {name: -quiet_scores(model, X) for name, model in self.models.items()}
        return pooled(costs, self.scales)


def pooled(costs: Mapping[str, np.ndarray], scales: Mapping[str, tuple[float, float]]) -> np.ndarray:
    """The mean of standardised costs -ln p (n,)."""
    parts = [(cost - scales[name][0]) / scales[name][1] for name, cost in costs.items()]
    return np.asarray(np.mean(parts, axis=0))


def scale_of(cost: np.ndarray) -> tuple[float, float]:
    """Median and interquartile range, which a few odd rows hardly move."""
    usual = cost[np.isfinite(cost)]
    low, middle, high = np.quantile(usual, [0.25, 0.5, 0.75]) if len(usual) else (0.0, 0.0, 0.0)
    return float(middle), float(high - low) or 1.0


@dataclass(frozen=True)
class CrossFit:
    """Models of all rows, and of all but one part each, which score that part.

    Args:
        pool: the models of all rows.
        parts: (rows, {name: model that was not trained on them}).
        training: the rows that the models of every part were trained on.
        costs: {name: -ln p (n,) of every row by a model that was not trained on it}.
    """

    pool: Pool
    parts: tuple[tuple[np.ndarray, Mapping[str, Any]], ...]
    training: tuple[np.ndarray, ...]
    costs: Mapping[str, np.ndarray]

    @property
    def scores(self) -> np.ndarray:
        """How odd rows are (n,) in the eyes of models that were not trained on them."""
        return pooled(self.costs, self.pool.scales)


def usual_fits(fit: CrossFit, name: str, model: Any, X: Any, is_usual: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
    """Fits of one of the models to the usual rows alone: to all of them, and to those of every part's training rows.

    Trimming cuts the spread of usual rows, too. These fits have all of it, for statements about single cells.
    """
    own = [rows[is_usual[rows]] for rows in (np.arange(len(is_usual)), *fit.training)]
    starts = (fit.pool.models[name], *(models[name] for _, models in fit.parts))
    found = [fitted_to(model, take(X, rows), start) for rows, start in zip(own, starts, strict=True)]
    return found[0], tuple(found[1:])


def held_out_nats(cost: np.ndarray, trim: float) -> float:
    """The mean ln p over the best (1-trim) of held-out rows, so that odd rows do not vote."""
    kept = np.sort(cost)[: max(1, round((1 - trim) * len(cost)))]
    return -float(kept.mean())


def rows_to_fit(rows: np.ndarray, most_rows: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most_rows else np.sort(rng.choice(rows, most_rows, replace=False))


def folds_of(X: Any, n_folds: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows in random parts of equal size."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n_rows(X)), n_folds)]
