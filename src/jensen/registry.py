"""Names to classes, for files and the command line, and what each class can do.

Libraries are imported inside functions, so that a name is checked without delay.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from jensen.contract import LatentVariableModel
    from jensen.models.regression.ridge_regression import RidgeRegression

    Model = LatentVariableModel | RidgeRegression

# The command line's name of a model, and its class.
MODELS = {
    "autoencoder": "Autoencoder",
    "bernoulli-mixture": "BernoulliMixture",
    "blend": "Blend",
    "diffusion": "Diffusion",
    "discriminant-analysis": "DiscriminantAnalysis",
    "factor-analysis": "FactorAnalysis",
    "gaussian-mixture": "GaussianMixture",
    "kmeans": "KMeans",
    "kmedoids": "KMedoids",
    "latent-class-analysis": "LatentClassAnalysis",
    "latent-curve": "LatentCurve",
    "latent-diffusion": "LatentDiffusion",
    "mixture": "Mixture",
    "mixture-of-factor-analysers": "MixtureOfFactorAnalysers",
    "mixture-of-ppca": "MixtureOfPPCA",
    "naive-bayes": "NaiveBayes",
    "poisson-mixture": "PoissonMixture",
    "probabilistic-pca": "ProbabilisticPCA",
    "ridge-regression": "RidgeRegression",
    "topics": "LatentDirichletAllocation",
    "vae": "VAE",
}
# The title of a model's page in the documentation.
PAGES = {
    "autoencoder": "Autoencoder",
    "bernoulli-mixture": "Latent classes: Bernoulli, Poisson and categorical mixtures",
    "blend": "Blend",
    "diffusion": "Denoising diffusion",
    "discriminant-analysis": "Discriminant analysis",
    "factor-analysis": "Factor analysis",
    "gaussian-mixture": "Gaussian mixture",
    "kmeans": "k-means",
    "kmedoids": "k-medoids",
    "latent-class-analysis": "Latent classes: Bernoulli, Poisson and categorical mixtures",
    "latent-curve": "Latent curve",
    "latent-diffusion": "Latent diffusion",
    "mixture": "Mixture of any columns",
    "mixture-of-factor-analysers": "Mixtures of subspaces: PPCA and factor analysers",
    "mixture-of-ppca": "Mixtures of subspaces: PPCA and factor analysers",
    "naive-bayes": "Naive Bayes",
    "poisson-mixture": "Latent classes: Bernoulli, Poisson and categorical mixtures",
    "probabilistic-pca": "Probabilistic PCA",
    "ridge-regression": "Ridge regression",
    "topics": "Topics",
    "vae": "Variational autoencoder",
}
# Classes of other layers whose fits a file may hold.
OTHERS = ("Imputer",)
# What a model can return, and what it can be trained on.
ANSWERS = ("score", "sample", "impute", "predict", "transform")
MATERIAL = ("labels", "weights", "holes", "text", "images", "batches")
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


def class_name(name: str) -> str:
    """The name of a model's class, by its command-line name or its own."""
    found = MODELS.get(name, name)
    if found not in MODELS.values():
        near = get_close_matches(name, MODELS, n=1)
        hint = f"did you mean {near[0]}? There" if near else "there"
        raise ValueError(f"there is no model {name!r}; {hint} are {', '.join(sorted(MODELS))}")
    return found


def model_class(name: str) -> type[Any]:
    """A model by its command-line name or its class's name."""
    found: type[Any] = getattr(import_module("jensen"), class_name(name))
    return found


def abilities(name: str) -> dict[str, bool | str]:
    """What a model with its default arguments can do: every word of ANSWERS and MATERIAL.

    score is "exact" or "bound"; predict is "labels" where only a fit with labels has it; labels are "needed" by a
    regression; batches are those of `partial_fit`.
    """
    model = model_class(name)()
    can = model.capabilities
    return {
        "score": can.score or False,
        "sample": hasattr(model, "sample"),
        "impute": hasattr(model, "impute"),
        "predict": can.predict,
        "transform": hasattr(model, "transform"),
        "labels": can.labels,
        "weights": can.weights,
        "holes": can.missing_in_fit,
        "text": can.text,
        "images": can.images,
        "batches": can.batches,
    }


def recipe_classes() -> dict[str, type[BaseEstimator]]:
    """The recipes that files and the command line may name; a blend is made of models."""
    return {name: getattr(import_module("jensen"), name) for name in (*RECIPES, *MODELS.values())}


def load(path: str | os.PathLike[str], recipes: Sequence[type[BaseEstimator]] = ()) -> Any:
    """Read a fitted model from a file that `save` wrote.

    A file that was changed after it was saved raises an error. A file of an older version of jensen, which has no
    checksum, loads with a warning.

    Args:
        path: the file.
        recipes: your own classes of models and recipes that the file uses; no class is ever imported because a file
            names it.

    Example:
        >>> import tempfile, numpy as np, jensen
        >>> path = tempfile.mkdtemp() + "/model.jensen"
        >>> jensen.GaussianMixture().fit(np.eye(3)).save(path)
        >>> jensen.load(path).means_.shape
        (1, 3)
    """
    from jensen.contract.files import restored
    from jensen.files.records import decode, read_record

    record = read_record(path, way_out="save the model again, with load(path).save(path)")
    if "statistics" in record:
        raise ValueError(f"{path} holds statistics of a site, and no model; model.merge([path]) reads it")
    own: dict[str, Any] = {recipe.__name__: recipe for recipe in recipes}
    known = recipe_classes() | own
    try:
        name = record["class"]
        model = own.get(name) or (getattr(import_module("jensen"), name) if name in OTHERS else model_class(name))
        return restored(model, decode(record["params"], known), decode(record["fitted"], known))
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path} does not describe a fitted model: {error!r}") from None
