"""Functions that draw the pictures of the pages, by the name of the page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

# The style of the examples.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "examples"))

from pictures import curves, deep, groups, jobs

__all__ = ["PICTURES"]

PICTURES: dict[str, Callable[[], Figure]] = {
    "quick-start": jobs.quick_start,
    "one-bound": groups.one_bound,
    "gaussian-mixture": groups.gaussian_mixture,
    "mixture": groups.mixture,
    "latent-classes": groups.latent_classes,
    "naive-bayes": groups.naive_bayes,
    "discriminant-analysis": groups.discriminant_analysis,
    "kmeans": groups.kmeans,
    "kmedoids": groups.kmedoids,
    "probabilistic-pca": curves.probabilistic_pca,
    "factor-analysis": curves.factor_analysis,
    "mixture-of-ppca": curves.mixture_of_ppca,
    "latent-curve": curves.latent_curve,
    "topics": groups.topics,
    "ridge-regression": curves.ridge_regression,
    "blend": curves.blend,
    "autoencoder": deep.autoencoder,
    "vae": deep.vae,
    "diffusion": deep.diffusion,
    "latent-diffusion": deep.latent_diffusion,
    "first-image-model": deep.first_image_model,
    "deep-trouble": deep.mean_and_draw,
    "imputation": jobs.imputation,
    "outliers": jobs.outliers,
    "synthesize": jobs.synthesize,
}
