"""Latent-variable models under one contract, because they all raise one number: the evidence lower bound."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public names and where they live: loaded when first asked for, so that `import jensen` costs nothing.
_HOMES = {
    "Autoencoder": "jensen.models.autoencoder",
    "Bernoulli": "jensen.nets.likelihoods",
    "Bound": "jensen.bound",
    "Categorical": "jensen.nets.likelihoods",
    "ConjugatePrior": "jensen.models.conjugate_prior",
    "ConvDecoder": "jensen.nets.conv",
    "ConvEncoder": "jensen.nets.conv",
    "Denoiser": "jensen.nets.denoiser",
    "Depot": "jensen.models.depot",
    "DiffusersUNet": "jensen.nets.diffusers_unet",
    "Diffusion": "jensen.models.diffusion",
    "Elbo": "jensen.models.objectives",
    "FactorAnalysis": "jensen.models.factor_analysis",
    "Gaussian": "jensen.nets.likelihoods",
    "GaussianMixture": "jensen.models.gaussian_mixture",
    "KMeans": "jensen.models.kmeans",
    "KMedoids": "jensen.models.kmedoids",
    "LatentCurve": "jensen.models.latent_curve",
    "LatentDiffusion": "jensen.models.latent_diffusion",
    "Leaderboard": "jensen.evaluate.leaderboard",
    "MLP": "jensen.nets.mlp",
    "MixtureOfFactorAnalysers": "jensen.models.mixture_of_subspaces",
    "MixtureOfPPCA": "jensen.models.mixture_of_subspaces",
    "ProbabilisticPCA": "jensen.models.probabilistic_pca",
    "Recipe": "jensen.nets.recipe",
    "ResidualMLP": "jensen.nets.residual_mlp",
    "RidgeRegression": "jensen.models.ridge_regression",
    "Schedule": "jensen.formulas.schedule",
    "Selection": "jensen.evaluate.select",
    "TimeEmbedding": "jensen.nets.denoiser",
    "Trainer": "jensen.engines.trainer",
    "UNet": "jensen.nets.unet",
    "VAE": "jensen.models.vae",
    "conditional_kl": "jensen.formulas.information",
    "compare": "jensen.evaluate.compare",
    "cross_entropy": "jensen.formulas.information",
    "entropy": "jensen.formulas.information",
    "from_diffusers": "jensen.exchange",
    "gaussian_kl": "jensen.formulas.gaussian",
    "kl": "jensen.formulas.information",
    "load": "jensen.registry",
    "outlier_scores": "jensen.evaluate.outliers",
    "select": "jensen.evaluate.select",
    "write_report": "jensen.report.page",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jensen' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
