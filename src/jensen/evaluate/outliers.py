"""How unusual rows are.

bound     -ln p(x), or minus its lower bound
profile   the bound of a diffusion in bands of noise levels, compared with that of reference rows
          (`jensen.models.diffusion.profile`)
"""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor


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
