"""What a model is given of rows on a footing, what it says of them, and how tight that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from jensen.data.container import as_array
from jensen.evaluate.footing import N_DRAWS, Footing, Measure, numbers_of
from jensen.models.autoencoders.vae import VAE
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.latent_diffusion.latent_diffusion import LatentDiffusion

__all__ = ["can_score", "dequantised", "given", "how_tight", "measure_of", "on_footing", "score"]

# What is said of a score that some other library calls a log-likelihood.
OTHERS = "at its word"


def score(fitted: Any, footing: Footing, X: Any, seed: int) -> np.ndarray:
    """ln p(x) of rows, ln P(x) on a grid, or a bound of it (n,)."""
    check_grey(fitted, footing, X)
    rng, columns = np.random.default_rng([seed, 1]), dequantised(fitted, footing, X)
    if not columns.any():
        return as_array(fitted.score_samples(given(fitted, footing, X, rng))).astype(np.float64)
    draws = [as_array(fitted.score_samples(given(fitted, footing, X, rng))) for _ in range(N_DRAWS)]
    return np.asarray(np.mean(draws, 0) + footing.log_cell(X, columns))


def can_score(fitted: Any, footing: Footing, X: Any) -> np.ndarray:
    """Which rows (n,) the model can score; models of other libraries are taken to score all."""
    if not hasattr(fitted, "can_score"):
        return np.ones(len(X), dtype=bool)
    return np.asarray(fitted.can_score(given(fitted, footing, X, np.random.default_rng(0))))


def measure_of(model: Any, footing: Footing, X: Any) -> Measure:
    """What a model gives every column (d,): as fitted, or as a fit to X would; models from elsewhere give densities."""
    # Before a fit the attribute is not there.
    if hasattr(model, "measure_"):
        return tuple(model.measure_)
    if hasattr(model, "find_measure"):
        return tuple(model.find_measure(as_it_takes(model, footing, X)))
    return ("density",) * footing.n_entries


def dequantised(model: Any, footing: Footing, X: Any) -> np.ndarray:
    """Which columns (d,) of a grid the model gives a density, so that it is given noise on their cells."""
    if footing.unit != "probability":
        return np.zeros(footing.n_entries, dtype=bool)
    return footing.is_dequantised(measure_of(model, footing, X))


def given(model: Any, footing: Footing, X: Any, rng: np.random.Generator) -> Any:
    """Rows as the model takes them, with noise on the cells of a grid where it has a density."""
    columns = dequantised(model, footing, X)
    return footing.with_noise(X, rng, columns) if columns.any() else as_it_takes(model, footing, X)


def as_it_takes(model: Any, footing: Footing, X: Any) -> Any:
    """Rows as images, as a table, or as numbers alone."""
    # Models from elsewhere may have no tags.
    if not (hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.three_d_array):
        return footing.as_table(X)
    # A model that chooses by the column would give a frame's column of 0 and 1 a probability. One that names columns
    # has chosen, and an array has no names.
    names_columns = any(isinstance(value, Mapping) for value in model.get_params().values())
    return numbers_of(X) if footing.has_flags and not names_columns else X


def on_footing(model: Any, footing: Footing) -> Any:
    """A copy of the model that gives densities where all others do, unless it was told otherwise."""
    copy = clone(model)
    if footing.unit == "density" and copy.get_params(deep=False).get("data_levels") == "auto":
        copy.set_params(data_levels=None)
    return copy


def check_grey(fitted: Any, footing: Footing, X: Any) -> None:
    """An error for values between 0 and 1: x ln p + (1-x) ln(1-p) is the log-probability of 0 and 1 only."""
    kinds = getattr(getattr(fitted, "columns_", None), "kinds", ())
    numbers = numbers_of(X)[:, [j for j, kind in enumerate(kinds) if kind == "binary"]] if "binary" in kinds else None
    if footing.unit == "probability" and numbers is not None and ((numbers > 0) & (numbers < 1)).any():
        raise ValueError(
            "it reads values between 0 and 1 as probabilities of a 1, and gives them no probability of their own; "
            'choose likelihood="categorical" or "gaussian"'
        )


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
    if dequantised(fitted, footing, X).any():
        return "bound, dequantised" if value == "exact" else f"{value}, dequantised"
    return value
