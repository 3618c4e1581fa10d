"""Latent-variable models under one contract, because they all raise one number: the evidence lower bound."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

# Public names and where they live: loaded when first asked for, so that `import jensen` costs nothing.
_HOMES = {
    "Autoencoder": "jensen.models.autoencoders.autoencoder",
    "Bernoulli": "jensen.nets.likelihoods",
    "BernoulliMixture": "jensen.models.mixtures.bernoulli_mixture",
    "Blend": "jensen.models.blends.blend",
    "Bound": "jensen.bound",
    "Categorical": "jensen.nets.likelihoods",
    "Clusters": "jensen.tasks.clustering.result",
    "ConjugatePrior": "jensen.models.mixtures.conjugate_prior",
    "ConvDecoder": "jensen.nets.conv",
    "ConvEncoder": "jensen.nets.conv",
    "Denoiser": "jensen.nets.denoiser",
    "Depot": "jensen.models.clusters.depot",
    "DiffusersUNet": "jensen.nets.diffusers_unet",
    "Diffusion": "jensen.models.diffusion.diffusion",
    "DiscriminantAnalysis": "jensen.models.mixtures.discriminant_analysis",
    "Elbo": "jensen.models.autoencoders.objective",
    "FactorAnalysis": "jensen.models.factors.factor_analysis",
    "Gaussian": "jensen.nets.likelihoods",
    "GaussianMixture": "jensen.models.mixtures.gaussian_mixture",
    "Imputed": "jensen.tasks.impute",
    "Imputer": "jensen.tasks.imputer",
    "KMeans": "jensen.models.clusters.kmeans",
    "KMedoids": "jensen.models.clusters.kmedoids",
    "LatentClassAnalysis": "jensen.models.mixtures.latent_class_analysis",
    "LatentCurve": "jensen.models.curves.latent_curve",
    "LatentDirichletAllocation": "jensen.models.topics.latent_dirichlet_allocation",
    "LatentDiffusion": "jensen.models.latent_diffusion.latent_diffusion",
    "Leaderboard": "jensen.evaluate.leaderboard",
    "Logistic": "jensen.nets.likelihoods",
    "MLP": "jensen.nets.mlp",
    "Mixture": "jensen.models.mixtures.mixture",
    "MixtureOfFactorAnalysers": "jensen.models.factors.mixtures",
    "MixtureOfPPCA": "jensen.models.factors.mixtures",
    "NaiveBayes": "jensen.models.mixtures.naive_bayes",
    "NegativeBinomial": "jensen.nets.likelihoods",
    "Outliers": "jensen.tasks.odd_rows",
    "Poisson": "jensen.nets.likelihoods",
    "PoissonMixture": "jensen.models.mixtures.poisson_mixture",
    "Pooled": "jensen.tasks.pooling",
    "ProbabilisticPCA": "jensen.models.factors.probabilistic_pca",
    "Recipe": "jensen.nets.recipe",
    "ResidualMLP": "jensen.nets.mlp",
    "RidgeRegression": "jensen.models.regression.ridge_regression",
    "Schedule": "jensen.formulas.schedule",
    "Selection": "jensen.evaluate.selection",
    "Statistics": "jensen.contract.statistics",
    "Synthetic": "jensen.tasks.synthesize",
    "TimeEmbedding": "jensen.nets.denoiser",
    "Trainer": "jensen.engines.sgd.plan",
    "UNet": "jensen.nets.unet",
    "VAE": "jensen.models.autoencoders.vae",
    "cluster": "jensen.tasks.cluster",
    "conditional_kl": "jensen.formulas.information",
    "compare": "jensen.evaluate.compare",
    "cross_entropy": "jensen.formulas.information",
    "entropy": "jensen.formulas.information",
    "from_diffusers": "jensen.models.diffusion.from_diffusers",
    "gaussian_kl": "jensen.formulas.gaussian",
    "impute": "jensen.tasks.impute",
    "kl": "jensen.formulas.information",
    "load": "jensen.registry",
    "outlier_scores": "jensen.evaluate.outliers",
    "outliers": "jensen.tasks.outliers",
    "pool": "jensen.tasks.pooling",
    "Scan": "jensen.files.scan",
    "scan": "jensen.files.scan",
    "select": "jensen.evaluate.select",
    "synthesize": "jensen.tasks.synthesize",
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
