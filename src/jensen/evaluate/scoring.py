"""What a model is given of rows on a footing, what it says of them, and how tight that is."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from jensen.evaluate.footing import N_DRAWS, Footing, numbers_of
from jensen.interop.rows import as_array
from jensen.models.diffusion import Diffusion
from jensen.models.latent_diffusion import LatentDiffusion
from jensen.models.vae import VAE

__all__ = ["given", "how_tight", "on_footing", "says_probabilities", "score"]

# What is said of a score that some other library calls a log-likelihood.
OTHERS = "at its word"


def score(fitted: Any, footing: Footing, X: Any, seed: int) -> np.ndarray:
    """ln p(x) of rows, ln P(x) on a grid, or a bound of it (n,)."""
    if footing.unit != "probability" or says_probabilities(fitted, footing):
        return as_array(fitted.score_samples(given(fitted, footing, X, None))).astype(np.float64)
    rng = np.random.default_rng([seed, 1])
    draws = [as_array(fitted.score_samples(footing.with_noise(X, rng))) for _ in range(N_DRAWS)]
    return np.asarray(np.mean(draws, 0) + footing.log_cell(X))


def given(model: Any, footing: Footing, X: Any, rng: np.random.Generator | None) -> Any:
    """Rows as the model takes them: images, a table, or a table with noise on its cells."""
    if footing.unit == "probability" and not says_probabilities(model, footing):
        assert rng is not None
        return footing.with_noise(X, rng)
    if not isinstance(model, (VAE, Diffusion, LatentDiffusion)):
        return footing.as_table(X)
    # Of a frame's column of 0 and 1 these would say a probability.
    return numbers_of(X) if footing.has_flags else X


def on_footing(model: Any, footing: Footing) -> Any:
    """A copy of the model that says densities where all others do; an error where it says probabilities even so."""
    copy = clone(model)
    if footing.unit != "density":
        return copy
    if isinstance(copy, Diffusion) and copy.data_levels == "auto":
        copy.set_params(data_levels=None)
    if says_probabilities(copy, footing):
        raise ValueError(
            "its values have probabilities, and here numbers have a density; leave out the model, or discrete=False"
        )
    return copy


def says_probabilities(model: Any, footing: Footing) -> bool:
    """Whether a model gives levels of a grid a probability by itself."""
    if isinstance(model, Diffusion):
        if model.data_levels == "auto":
            return footing.unit == "probability" and (footing.is_image or footing.has_one_grid)
        return model.data_levels is not None
    if isinstance(model, LatentDiffusion):
        return says_probabilities(model.vae or VAE(), footing)
    if isinstance(model, VAE):
        likelihood = model.likelihood
        name = likelihood if isinstance(likelihood, str) else type(likelihood).__name__.lower()
        return name in ("categorical", "bernoulli")
    return False


def how_tight(fitted: Any, footing: Footing, X: Any) -> str:
    """Whether scores are ln p(x) itself, or what they rest on; told from the bound of some rows."""
    if isinstance(fitted, VAE):
        value = f"bound, {fitted.evaluation_samples} importance samples"
    elif isinstance(fitted, (Diffusion, LatentDiffusion)):
        recipe = fitted if isinstance(fitted, Diffusion) else fitted._training_arguments()
        value = f"bound, {recipe.evaluation_levels} levels"
    else:
        rows = given(fitted, footing, X, np.random.default_rng(0))
        # Models from elsewhere have no bound.
        value = OTHERS if not hasattr(fitted, "bound") else "exact" if fitted.bound(rows).is_exact else "bound"
    if footing.unit == "probability" and not says_probabilities(fitted, footing):
        return "bound, dequantised" if value == "exact" else f"{value}, dequantised"
    return value
