"""How unusual rows are.

bound     -ln p(x), or minus its lower bound
profile   the bound of a diffusion in bands of noise levels, compared with that of reference rows
          (`jensen.models.diffusion.profile`)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

# Shares of the reference: ranks give p-values of the scores below the first, the tail is fitted up to the second.
BULK, CENSORED = 0.75, 0.9


def outlier_scores(model: Any, X: Any, reference: Any = None, *, by: str = "bound") -> Any:
    """An outlier score for every row, (n,); larger is more unusual.

    Args:
        model: a fitted model that scores rows; for "profile" a diffusion.
        X: rows.
        reference: for "profile", usual rows, preferably rows that the model was not trained on.
        by: "bound" is minus `score_samples`. "profile" compares the cost of a row from coarse to fine levels of detail
            with the costs of the reference rows, from as many levels as the model's `evaluation_levels`.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture, outlier_scores
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = GaussianMixture(random_state=0).fit(X)
        >>> ordinary, odd = outlier_scores(model, [[0.0, 0.0], [5.0, -5.0]])
        >>> bool(odd > ordinary + 20)
        True
    """
    if isinstance(model, type):
        raise TypeError(f"model={model.__name__} is a class; give a fitted model, {model.__name__}().fit(X)")
    if not hasattr(model, "fit"):
        raise TypeError(f"model={model!r} is no model; give a fitted one")
    if by not in ("bound", "profile"):
        raise ValueError(f"by={by!r} is not known; choose 'bound' or 'profile'")
    if by == "profile":
        return by_profile(model, X, reference)
    if reference is not None:
        raise ValueError("reference is for by='profile'; leave it out, or choose that")
    return -scores_of(model, X)


def scores_of(model: Any, X: Any) -> Any:
    """The scores of the rows, or an error with the reason why there are none."""
    name = type(model).__name__
    if is_regressor(model):
        raise TypeError(f"{name} is a model of y given x, and cannot say how unusual x is; give a model of rows")
    try:
        score = model.score_samples
    except AttributeError as error:
        reason = f": {error.__cause__}" if error.__cause__ else ""
        instead = "give a model that scores rows"
        if hasattr(model, "reconstruction_error"):
            instead = f"use {type(model).__name__}.reconstruction_error(X), or {instead}"
        raise TypeError(f"{name} has no score_samples{reason}; {instead}") from None
    return score(X)


def by_profile(model: Any, X: Any, reference: Any) -> Any:
    if not hasattr(model, "profile_distances"):
        raise TypeError(
            f"by='profile' is for diffusions of rows, which {type(model).__name__} is not; give one, or by='bound'"
        )
    if reference is None:
        raise ValueError("by='profile' compares rows with usual ones; give them as reference, or by='bound'")
    return model.profile_distances(X, reference)


def tail_p_values(scores: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """P{a usual row scores at least s} (n,), from scores of rows that no fit was trained on.

        s ≤ u:  p = (1 + #{s_i ≥ s}) / (n + 1),   u the 75 % quantile of the reference
        s > u:  p = p(u) exp(-λ (s-u)),           λ = #{u < s_i ≤ c} / Σ_{s_i > u} (min(s_i, c) - u)
    Ranks have no p-value below 1/(n+1), too large to reject a few of n rows. So the tail is exponential, as that of
    -ln p is. Its rate is that of maximum likelihood with all scores above c, the 90 % quantile, censored: rows that may
    be odd count, and how odd they are does not. p is monotone in s.

    Example:
        >>> import numpy as np
        >>> reference = np.random.default_rng(0).exponential(size=2000)
        >>> p = tail_p_values(np.array([1.0, 10.0]), reference)
        >>> (np.abs(np.log(p) + [1.0, 10.0]) < 0.8).tolist()
        [True, True]
    """
    known = np.sort(reference)
    n = len(known)
    ranks = (1 + n - np.searchsorted(known, scores, side="left")) / (n + 1)
    start, end = np.quantile(known, [BULK, CENSORED], method="inverted_cdf")
    length = (np.minimum(known[known > start], end) - start).sum()
    inside = ((known > start) & (known <= end)).sum()
    if length <= 0:
        return np.asarray(ranks)  # so many equal scores that there is no tail to fit
    first = (1 + (known > start).sum()) / (n + 1)
    beyond = np.clip(scores - start, 0.0, None)
    tail = first * np.exp(-inside / length * beyond)
    return np.asarray(np.where(scores > start, tail, np.maximum(ranks, first)))


def discoveries(p_values: np.ndarray, level: float) -> np.ndarray:
    """Which of n hypotheses Benjamini & Hochberg (1995) reject: the k smallest p with p_(k) ≤ k level / n, largest k.

    Example:
        >>> import numpy as np
        >>> discoveries(np.array([0.5, 0.001, 0.02, 0.9]), 0.05).tolist()
        [False, True, True, False]
    """
    order = np.argsort(p_values, kind="stable")
    below = p_values[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1)
    rejected = np.zeros(len(p_values), dtype=bool)
    if below.any():
        rejected[order[: np.flatnonzero(below)[-1] + 1]] = True
    return rejected
