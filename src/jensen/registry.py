"""Names to classes, for files and the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator

from jensen.contract import Persistent
from jensen.interop.files import decode, read_record

__all__ = ["MODELS", "load", "model_class", "recipe_classes"]

# The command line's name of a model, and its class.
MODELS = {
    "autoencoder": "Autoencoder",
    "diffusion": "Diffusion",
    "factor-analysis": "FactorAnalysis",
    "gaussian-mixture": "GaussianMixture",
    "kmeans": "KMeans",
    "kmedoids": "KMedoids",
    "latent-curve": "LatentCurve",
    "latent-diffusion": "LatentDiffusion",
    "mixture-of-factor-analysers": "MixtureOfFactorAnalysers",
    "mixture-of-ppca": "MixtureOfPPCA",
    "probabilistic-pca": "ProbabilisticPCA",
    "ridge-regression": "RidgeRegression",
    "vae": "VAE",
}
RECIPES = (
    "Bernoulli",
    "Categorical",
    "ConjugatePrior",
    "ConvDecoder",
    "ConvEncoder",
    "Depot",
    "DiffusersUNet",
    "Diffusion",
    "Elbo",
    "Gaussian",
    "MLP",
    "ResidualMLP",
    "Schedule",
    "Trainer",
    "UNet",
    "VAE",
)


def model_class(name: str) -> type[Persistent]:
    """A model by its command-line name or its class's name."""
    class_name = MODELS.get(name, name)
    if class_name not in MODELS.values():
        raise ValueError(f"there is no model {name!r}; there are {', '.join(sorted(MODELS))}")
    found: type[Persistent] = getattr(import_module("jensen"), class_name)
    return found


def recipe_classes() -> dict[str, type[BaseEstimator]]:
    """The recipes that files and the command line may name."""
    return {name: getattr(import_module("jensen"), name) for name in RECIPES}


def load(path: str | os.PathLike[str], recipes: Sequence[type[BaseEstimator]] = ()) -> Any:
    """Read a fitted model from a file that `save` wrote.

    Args:
        path: the file.
        recipes: your own recipe classes that the file may name; a class is never imported from a file.

    Example:
        >>> import tempfile, numpy as np, jensen
        >>> path = tempfile.mkdtemp() + "/model.jensen"
        >>> jensen.GaussianMixture().fit(np.eye(3)).save(path)
        >>> jensen.load(path).means_.shape
        (1, 3)
    """
    record = read_record(path)
    known = recipe_classes() | {recipe.__name__: recipe for recipe in recipes}
    try:
        model = model_class(record["class"])(**decode(record["params"], known))
        model._restore(decode(record["fitted"], known))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not describe a fitted model: {error!r}") from None
    return model
