"""One small case per model and variant: the laws run on every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.special import gammaln, logsumexp, psi
from scipy.stats import bernoulli, beta, dirichlet, expon, laplace, logistic, multivariate_normal, norm, poisson
from sklearn.base import is_classifier
from sklearn.datasets import load_iris, make_blobs

from jensen import (
    MLP,
    VAE,
    Autoencoder,
    BernoulliMixture,
    Blend,
    Depot,
    Diffusion,
    DiscriminantAnalysis,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentClassAnalysis,
    LatentCurve,
    LatentDiffusion,
    LatentDirichletAllocation,
    Mixture,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    NaiveBayes,
    PoissonMixture,
    ProbabilisticPCA,
    ResidualMLP,
)
from jensen.contract.gradient import GradientEstimator
from jensen.models.diffusion.module import DiffusionModule
from your_own_model import ExponentialMixture

__all__ = ["CASES", "Case", "diffusion_step", "standardisation"]


def gaussian_rows(means: np.ndarray, spreads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return means + (np.linalg.cholesky(spreads) @ rng.normal(size=(*means.shape, 1)))[..., 0]


@dataclass(frozen=True)
class Case:
    """
    Args:
        name: for the test's identifier.
        make: an unfitted model.
        x: complete rows, to fit unless `given` are.
        log_joint: ln p(x, z=k) of a fitted model by brute force, (n, K); None where z cannot be enumerated.
        is_exact: whether score_samples is ln p(x), rather than the term of the one z that the model chooses.
        components: the weights (K,) and means (K, d) that samples come from; one, where z cannot be enumerated.
        spreads: the covariance of each of these (K, d, d); None where it is not known.
        draw: draws rows by numpy from components with these means (n, d) and spreads (n, d, d); Gaussians unless given.
        draw_rows: draws n rows by numpy from a fitted model that has no components.
        claimed: what score_samples claims by hand (n,), where that is neither ln p(x) nor the term of one z.
        objective: what a fit raises.
        log_prior: what a prior adds to the mean score of the rows of a fit, per row.
        arrays: names of attributes that keep the dtype of X.
        for_checks: a model for scikit-learn's check_estimator, where that is not `make`.
        raises_bound: whether a fit raises the bound; with a depot it has a cost of its own.
        evidence: ln p(x) of a fitted model by brute force (n,), where that is not the sum of log_joint over z.
        is_closed: whether a fit to complete rows is one step.
        is_sampled: whether scores are estimates from draws.
        has_sampled_kl: whether divergences are, too.
        needs_distinct: whether three components need three distinct rows.
        y: labels to fit with, or None.
        given: rows to fit that are not x, such as x with holes.
        scores_holes: whether rows with holes have a score; a diffusion learns from them and fills them only.
        by_labels: methods that only a fit with labels has.
        has_location: whether the data may have any offset; positive numbers have none.
        has_units: whether the data may have any scale; counts and levels have none.
        has_means: whether missing entries are imputed by their mean; levels have the most probable one instead.
        takes_any: whether the model takes all that its class takes; a likelihood that is asked for does not.
        is_placed: whether something given lies among the rows, so that they have a place and units, and every column
            a part in the model.
        tables: names of attributes that are dictionaries of parameters.
        classes: classes that `load` needs to be given.
        expected_failed_checks: of scikit-learn's check_estimator, with the reason.
    """

    name: str
    make: Callable[[], Any]
    x: np.ndarray
    log_joint: Callable[[Any, np.ndarray], np.ndarray] | None
    is_exact: bool
    components: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None
    objective: Callable[[Any], float]
    arrays: tuple[str, ...]
    for_checks: Callable[[], Any] | None = None
    spreads: Callable[[Any], np.ndarray] | None = None
    draw: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray] = gaussian_rows
    draw_rows: Callable[[Any, int, np.random.Generator], np.ndarray] | None = None
    claimed: Callable[[Any, np.ndarray], np.ndarray] | None = None
    log_prior: Callable[[Any, np.ndarray], float] = lambda model, rows: 0.0
    raises_bound: bool = True
    evidence: Callable[[Any, np.ndarray], np.ndarray] | None = None
    is_closed: bool = False
    is_sampled: bool = False
    has_sampled_kl: bool = False
    needs_distinct: bool = True
    y: np.ndarray | None = None
    by_labels: tuple[str, ...] = ()
    given: np.ndarray | None = None
    scores_holes: bool = True
    has_location: bool = True
    has_units: bool = True
    has_means: bool = True
    takes_any: bool = True
    is_placed: bool = False
    tables: tuple[str, ...] = ()
    classes: tuple[type, ...] = ()
    expected_failed_checks: dict[str, str] = field(default_factory=dict)

    @property
    def learnt(self) -> np.ndarray:
        """The rows that a fit is to learn from."""
        return self.x if self.given is None else self.given

    @property
    def required_y(self) -> np.ndarray | None:
        """Labels for a fit that cannot do without."""
        return self.y if self.make().capabilities.labels == "needed" else None

    def fitted(self) -> Any:
        return self.make().fit(self.learnt, self.y)

    def brief(self) -> Any:
        """An unfitted model whose fit takes a few steps, for what holds of any parameters."""
        model = self.make()
        few = {"max_iter": 3, "max_epochs": 2, "vae__max_epochs": 2, "diffusion__max_epochs": 2}
        return model.set_params(**{name: n for name, n in few.items() if name in model.get_params()})

    def log_likelihood(self, model: Any, x: np.ndarray) -> np.ndarray:
        """ln p(x) = ln Σ_z p(x, z)."""
        if self.evidence is not None:
            return self.evidence(model, x)
        assert self.log_joint is not None
        return logsumexp(self.log_joint(model, x), axis=1)

    def score(self, model: Any, x: np.ndarray) -> np.ndarray:
        """What score_samples claims: ln p(x), or the largest ln p(x, z) of a model that chooses one z."""
        if self.is_exact:
            return self.log_likelihood(model, x)
        if self.claimed is not None:
            return self.claimed(model, x)
        assert self.log_joint is not None
        return self.log_joint(model, x).max(1)

    def drawn(self, model: Any, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows by numpy, from the parameters of a fitted model."""
        if self.draw_rows is not None:
            return self.draw_rows(model, n, rng)
        assert self.components is not None
        assert self.spreads is not None
        (weights, means), spreads = self.components(model), self.spreads(model)
        z = rng.choice(len(weights), n, p=weights)
        return self.draw(means[z], spreads[z], rng)

    def answer(self, model: Any, x: np.ndarray) -> np.ndarray:
        """What the model says of every row, of what is hidden if it has a word for it."""
        name = next(name for name in ("predict", "transform", "score_samples") if self.offers(name))
        return getattr(model, name)(x)

    def offers(self, what: str) -> bool:
        """A method or attribute by name, or: holes, scores_holes, sparse, exact, raises_bound, needs_distinct,
        iterates, untrained (not by gradients), trained (by them), computed (scores are no estimates), numbers (no
        columns of text), units, means (imputed by them), any (kind of column), mean_score (score is their mean),
        fits_without_labels, constants (a column with one value has no part in the model; one of words has).
        """
        model = self.make()
        tags = model.__sklearn_tags__().input_tags
        special = {
            "holes": tags.allow_nan,
            "scores_holes": tags.allow_nan and self.scores_holes,
            "sparse": tags.sparse,
            "exact": self.is_exact,
            "raises_bound": self.raises_bound,
            "needs_distinct": self.needs_distinct,
            "iterates": not self.is_closed,
            "untrained": not isinstance(model, GradientEstimator),
            "trained": isinstance(model, GradientEstimator),
            "computed": not self.is_sampled,
            "numbers": not tags.string,
            "units": self.has_units and not self.is_placed,
            "means": self.has_means,
            "any": self.takes_any,
            "mean_score": not is_classifier(model),
            "constants": model.capabilities.values != "words" and not self.is_placed,
            "fits_without_labels": model.capabilities.labels != "needed",
        }
        if self.y is None and what in self.by_labels:
            return False
        return special[what] if what in special else hasattr(model, what)


def full_covariances(model: GaussianMixture) -> np.ndarray:
    k, d = model.means_.shape
    covariances = model.covariances_
    return {
        "full": lambda: covariances,
        "VVE": lambda: covariances,
        "tied": lambda: np.tile(covariances, (k, 1, 1)),
        "diag": lambda: np.array([np.diag(v) for v in covariances]),
        "EVI": lambda: np.array([np.diag(v) for v in covariances]),
        "spherical": lambda: np.array([v * np.eye(d) for v in covariances]),
    }[model.covariance_type]()


def gaussians_log_joint(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray, x: np.ndarray) -> np.ndarray:
    """scipy's density of the observed features of every row, one row and component at a time."""
    out = np.tile(np.log(weights), (len(x), 1))
    for i, row in enumerate(x):
        seen = ~np.isnan(row)
        for k, (mean, cov) in enumerate(zip(means, covariances, strict=True)):
            if seen.any():
                out[i, k] += multivariate_normal.logpdf(row[seen], mean[seen], cov[np.ix_(seen, seen)])
    return out


def gaussian_mixture_log_joint(model: GaussianMixture, x: np.ndarray) -> np.ndarray:
    return gaussians_log_joint(model.weights_, model.means_, full_covariances(model), x)


def kmeans_log_joint(model: KMeans, x: np.ndarray) -> np.ndarray:
    """Of the mixture with equal weights whose bound k-means raises."""
    return gaussians_log_joint(*kmeans_components(model), kmeans_spreads(model), x)


def kmeans_components(model: KMeans) -> tuple[np.ndarray, np.ndarray]:
    return np.full(model.n_clusters, 1 / model.n_clusters), model.cluster_centers_


def kmeans_spreads(model: KMeans) -> np.ndarray:
    """One σ² for all: the mean square of what is left of the rows, an entry at a time, at the nearest centre."""
    x, centres = three_clusters(), model.cluster_centers_
    variance = ((x[:, None] - centres) ** 2).sum(2).min(1).sum() / x.size
    return np.tile(variance * np.eye(x.shape[1]), (len(centres), 1, 1))


def laplace_scale(model: KMeans) -> float:
    """One b for all: the mean of |x - c| over entries, at the nearest centre."""
    x = three_clusters()
    return float(np.abs(x[:, None] - model.cluster_centers_).sum(2).min(1).sum() / x.size)


def laplace_log_joint(model: KMeans, x: np.ndarray) -> np.ndarray:
    """Of the mixture with equal weights whose bound k-medians raises; a missing value has a factor of 1."""
    terms = laplace.logpdf(x[:, None], model.cluster_centers_, laplace_scale(model))
    return np.nansum(terms, axis=2) - np.log(model.n_clusters)


def laplace_spreads(model: KMeans) -> np.ndarray:
    k, d = model.cluster_centers_.shape
    return np.tile(2 * laplace_scale(model) ** 2 * np.eye(d), (k, 1, 1))


def laplace_rows(means: np.ndarray, spreads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.laplace(means, np.sqrt(np.diagonal(spreads, axis1=1, axis2=2) / 2))


# scikit-learn's checks that set n_components = 1 and then pass y with more classes: here y holds labels, and more
# classes than components is an error on purpose.
LABELS_ARE_READ = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "sets n_components=1 and passes y of several classes, which are labels here",
)


WEIGHTED_BATCHES = {
    "check_sample_weight_equivalence_on_dense_data": "batches of weighted rows are others than those of repeated rows"
}
# Scores are estimates from draws, new ones for other rows.
SAMPLED = WEIGHTED_BATCHES | dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    "score_samples draws z for every row, and other draws for other rows",
)


def three_clusters() -> np.ndarray:
    x, _ = make_blobs(90, centers=3, n_features=3, random_state=1)
    x[:, 1] *= 5.0
    x[:30, 2] += x[:30, 0]
    return x


def gaussian_mixture(name: str, *, y: np.ndarray | None = None, **arguments: Any) -> Case:
    def make() -> GaussianMixture:
        return GaussianMixture(n_components=3, random_state=0, tol=1e-6, max_iter=500, **arguments)

    return Case(
        name,
        make,
        three_clusters(),
        gaussian_mixture_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, model.means_),
        spreads=full_covariances,
        objective=lambda model: model.lower_bound_,
        arrays=("means_", "weights_", "covariances_", "precisions_", "precisions_cholesky_"),
        # The number of components follows y there: the checks pass up to four classes.
        for_checks=lambda: make().set_params(n_components=None, max_iter=20),
        y=y,
        expected_failed_checks=LABELS_ARE_READ,
    )


def scattered_clusters() -> np.ndarray:
    """Three clusters, and every sixth row anywhere in a larger box."""
    x = three_clusters()
    x[::6] = np.random.default_rng(2).uniform([-40, -150, -60], [40, 150, 60], size=(15, 3))
    return x


def noise_box(model: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    noise = model.theta_.noise
    return noise.low.numpy(), noise.high.numpy()


def noisy_log_joint(model: GaussianMixture, x: np.ndarray) -> np.ndarray:
    """Gaussians, and a uniform density over the box of the columns that a row has."""
    low, high = noise_box(model)
    inside = (np.isnan(x) | ((x >= low) & (x <= high))).all(1)
    log_u = np.where(inside, -(~np.isnan(x) @ np.log(high - low)), -np.inf)
    own = gaussians_log_joint(model.weights_[:-1], model.means_, full_covariances(model), x)
    return np.column_stack([own, np.log(model.weights_[-1]) + log_u])


def noisy_components(model: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    return model.weights_, np.vstack([model.means_, sum(noise_box(model)) / 2])


def noisy_spreads(model: GaussianMixture) -> np.ndarray:
    low, high = noise_box(model)
    return np.concatenate([full_covariances(model), np.diag((high - low) ** 2 / 12)[None]])


def draw_noisy(means: np.ndarray, spreads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussians, and a uniform where features are uncorrelated, which they are in the box alone."""
    drawn, variances = gaussian_rows(means, spreads, rng), np.diagonal(spreads, axis1=1, axis2=2)
    is_box = (spreads[:, 0, 1:] == 0).all(1)
    half = np.sqrt(12 * variances[is_box]) / 2
    drawn[is_box] = means[is_box] + rng.uniform(-half, half)
    return drawn


def mixture_with_noise() -> Case:
    return replace(
        gaussian_mixture("mixture-noise", noise=True),
        x=scattered_clusters(),
        log_joint=noisy_log_joint,
        components=noisy_components,
        spreads=noisy_spreads,
        draw=draw_noisy,
    )


def discriminant_analysis() -> Case:
    def make() -> DiscriminantAnalysis:
        return DiscriminantAnalysis(unlabelled=-1, random_state=0)

    return Case(
        "discriminant-analysis",
        make,
        three_clusters(),
        gaussian_mixture_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, model.means_),
        spreads=full_covariances,
        objective=lambda model: model.lower_bound_,
        arrays=("means_", "weights_", "covariances_", "precisions_", "precisions_cholesky_"),
        for_checks=DiscriminantAnalysis,
        y=some_labels(),
        needs_distinct=False,
    )


# scikit-learn's checks with four distinct rows: eight clusters, the default, cannot be made of them.
FEW_DISTINCT_ROWS = dict.fromkeys(
    ("check_sample_weights_shape", "check_sample_weights_not_overwritten"),
    "has four distinct rows, too few for n_clusters=8, which is an error here",
)


def kmeans(name: str, *, raises_bound: bool = True, **arguments: Any) -> Case:
    """K-means with squared distances."""

    def make() -> KMeans:
        return KMeans(n_clusters=3, random_state=0, **arguments)

    return Case(
        name,
        make,
        three_clusters(),
        kmeans_log_joint,
        is_exact=False,
        components=kmeans_components,
        spreads=kmeans_spreads,
        objective=lambda model: -model.cost_,
        arrays=("cluster_centers_",),
        # A depot's place has the features of these rows; those of the checks differ.
        for_checks=lambda: make().set_params(depot=None, n_clusters=8),
        expected_failed_checks=FEW_DISTINCT_ROWS,
        raises_bound=raises_bound,
    )


def kmedians() -> Case:
    return replace(
        kmeans("kmeans-manhattan", metric="manhattan"),
        log_joint=laplace_log_joint,
        spreads=laplace_spreads,
        draw=laplace_rows,
    )


def spherical_kmeans() -> Case:
    zeros = dict.fromkeys(
        (
            "check_estimators_dtypes",
            "check_estimator_sparse_tag",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
        ),
        "has rows of zeros, which have no direction and are an error for metric='cosine'",
    )
    return replace(
        kmeans("kmeans-cosine", metric="cosine"),
        log_joint=None,
        components=None,
        spreads=None,
        has_location=False,
        expected_failed_checks=FEW_DISTINCT_ROWS | zeros,
    )


def kmedoids() -> Case:
    return Case(
        "kmedoids",
        lambda: KMedoids(n_clusters=3, random_state=0),
        three_clusters(),
        log_joint=None,
        is_exact=False,
        components=None,
        objective=lambda model: -model.inertia_,
        arrays=("cluster_centers_",),
        for_checks=lambda: KMedoids(random_state=0),
        expected_failed_checks=FEW_DISTINCT_ROWS,
    )


def gower_medoids() -> Case:
    def make() -> KMedoids:
        return KMedoids(n_clusters=3, metric="gower", random_state=0)

    return replace(kmedoids(), name="kmedoids-gower", make=make, for_checks=lambda: make().set_params(n_clusters=2))


def noisy_arc() -> np.ndarray:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 90)
    return np.stack([3 * np.cos(angle), 2 * np.sin(angle), angle], 1) + 0.2 * rng.normal(size=(90, 3))


def latent_curve_components(model: LatentCurve) -> tuple[np.ndarray, np.ndarray]:
    """The images of the midpoints of equal cells, by the basis written out: 1, z - ½ and bumps from 0 to 1."""
    axes = range(model.n_latent)
    z = np.array(list(product((np.arange(model.n_grid) + 0.5) / model.n_grid, repeat=len(axes))))
    bumps = np.array(list(product(np.linspace(0, 1, model.n_basis), repeat=len(axes))))
    width = model.basis_width / (model.n_basis - 1)
    columns = [np.ones(len(z)), *(z[:, axis] - 0.5 for axis in axes)]
    columns += [np.exp(-((z - bump) ** 2).sum(1) / (2 * width**2)) for bump in bumps]
    return np.full(len(z), 1 / len(z)), np.stack(columns, 1) @ model.theta_.coefficients.numpy()


def latent_curve_spreads(model: LatentCurve) -> np.ndarray:
    n_points, d = model.n_grid**model.n_latent, model.n_features_in_
    return np.tile(model.noise_variance_ * np.eye(d), (n_points, 1, 1))


def latent_curve_log_joint(model: LatentCurve, x: np.ndarray) -> np.ndarray:
    """Of the mixture of round Gaussians at the images of the grid points; the noise of every feature is independent."""
    weights, points = latent_curve_components(model)
    return np.nansum(norm.logpdf(x[:, None], points, np.sqrt(model.noise_variance_)), 2) + np.log(weights)


def latent_curve_log_prior(model: LatentCurve, rows: np.ndarray) -> float:
    """N(0, 1/α) of the bumps' coefficients in units of the data's deviation, without its constant."""
    bumps = model.theta_.coefficients.numpy()[1 + model.n_latent :]
    return -model.penalty / 2 * (bumps**2).sum() / np.nanvar(rows, axis=0).mean() / len(rows)


def latent_curve(name: str, *, penalty: float = 0.0, **arguments: Any) -> Case:
    def make() -> LatentCurve:
        # From the straight start, which takes no steps of its own.
        return LatentCurve(penalty=penalty, init="pca", random_state=0, tol=1e-6, max_iter=500, **arguments)

    return Case(
        name,
        make,
        noisy_arc(),
        latent_curve_log_joint,
        is_exact=True,
        components=latent_curve_components,
        spreads=latent_curve_spreads,
        log_prior=latent_curve_log_prior,
        objective=lambda model: model.lower_bound_,
        arrays=("points_", "grid_"),
        for_checks=lambda: make().set_params(init="auto", penalty=1.0, max_iter=20),
        needs_distinct=False,
    )


def near_arc(z: np.ndarray) -> np.ndarray:
    """A curve that the rows of `noisy_arc` lie about, with an offset."""
    return np.stack([3 * np.cos(np.pi * z) + 0.1, 2 * np.sin(np.pi * z), np.pi * z], 1)


def given_curve_components(model: LatentCurve) -> tuple[np.ndarray, np.ndarray]:
    return np.full(model.n_grid, 1 / model.n_grid), near_arc((np.arange(model.n_grid) + 0.5) / model.n_grid)


def given_curve_log_joint(model: LatentCurve, x: np.ndarray) -> np.ndarray:
    weights, points = given_curve_components(model)
    return np.nansum(norm.logpdf(x[:, None], points, np.sqrt(model.noise_variance_)), 2) + np.log(weights)


def given_curve() -> Case:
    """f is given in the units of the rows, and only σ² is fitted."""

    def make() -> LatentCurve:
        # Lists compare as parameters of a model; the grid points are every other of these.
        points = near_arc(np.linspace(0, 1, 61)).tolist()
        return LatentCurve(mapping=points, n_grid=30, random_state=0, tol=1e-8, max_iter=500)

    return replace(
        latent_curve("latent-curve-given"),
        make=make,
        log_joint=given_curve_log_joint,
        components=given_curve_components,
        log_prior=lambda model, rows: 0.0,
        # Tables of any size have no curve of their own.
        for_checks=lambda: LatentCurve(noise_variance=0.5, init="pca", max_iter=20),
        is_placed=True,
    )


def one_gaussian(model: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(1), model.mean_[None]


def linear_latent(
    name: str, make: Callable[[], Any], arrays: tuple[str, ...], *, is_closed: bool, for_checks: Callable[[], Any]
) -> Case:
    """One Gaussian around a subspace, seen by scipy as N(μ, C)."""

    def evidence(model: Any, x: np.ndarray) -> np.ndarray:
        return gaussians_log_joint(*one_gaussian(model), spreads(model), x)[:, 0]

    def spreads(model: Any) -> np.ndarray:
        loadings = np.reshape(getattr(model, "loadings_", model.components_.T), (model.n_features_in_, -1))
        return (loadings @ loadings.T + model.noise_variance_ * np.eye(len(loadings)))[None]

    return Case(
        name,
        make,
        three_clusters(),
        log_joint=None,
        is_exact=True,
        components=one_gaussian,
        spreads=spreads,
        objective=lambda model: model.lower_bound_,
        arrays=arrays,
        evidence=evidence,
        is_closed=is_closed,
        for_checks=for_checks,
        needs_distinct=False,
    )


def subspace_mixture(name: str, kind: type, *, y: np.ndarray | None = None) -> Case:
    def make() -> Any:
        return kind(n_components=3, n_latent=1, random_state=0, tol=1e-6, max_iter=500)

    def spreads(model: Any) -> np.ndarray:
        noise = np.reshape(model.noise_variance_, (3, -1, 1)) * np.eye(model.n_features_in_)
        return model.loadings_ @ np.swapaxes(model.loadings_, 1, 2) + noise

    def log_joint(model: Any, x: np.ndarray) -> np.ndarray:
        return gaussians_log_joint(model.weights_, model.means_, spreads(model), x)

    return Case(
        name,
        make,
        three_clusters(),
        log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, model.means_),
        spreads=spreads,
        objective=lambda model: model.lower_bound_,
        arrays=("means_", "weights_", "loadings_", "noise_variance_"),
        for_checks=lambda: make().set_params(n_components=None, max_iter=20),
        y=y,
        expected_failed_checks=LABELS_ARE_READ,
    )


LINE = np.linspace(-7, 7, 1401)[:, None]


def vae_log_joint(model: VAE, x: np.ndarray) -> np.ndarray:
    """ln p(x, y, z) dz on a grid of the one latent dimension, for every class where there are classes."""
    classes = getattr(model, "classes_", [None])
    prior = np.exp(np.asarray(model.module_.log_prior_class()))
    parts = []
    for share, label in zip(prior, classes, strict=True):
        y = None if label is None else np.full(len(LINE), label)
        densities = norm.logpdf(x[:, None], model.inverse_transform(LINE, y), np.sqrt(model.noise_variance_))
        parts.append(np.nansum(densities, 2) + norm.logpdf(LINE[:, 0]) + np.log(LINE[1] - LINE[0]) + np.log(share))
    return np.concatenate(parts, 1)


def vae_curve(model: VAE) -> tuple[np.ndarray, np.ndarray]:
    """The prior of y and z on the grid (G,), and what the decoder expects there (G, d)."""
    share = np.exp(vae_log_joint(model, np.full((1, model.n_features_in_), np.nan)))[0]
    classes = getattr(model, "classes_", [None])
    means = [model.inverse_transform(LINE, None if c is None else np.full(len(LINE), c)) for c in classes]
    return share, np.concatenate(means)


def vae_mean(model: VAE) -> tuple[np.ndarray, np.ndarray]:
    """E[x] by quadrature, as one component."""
    share, means = vae_curve(model)
    return np.ones(1), (share @ means)[None]


def vae_spread(model: VAE) -> np.ndarray:
    return spread_around(*vae_curve(model), model.noise_variance_)


def spread_around(share: np.ndarray, means: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The covariance of x as one component (1, d, d): of the means, and the noise around them."""
    return np.cov(means.T, aweights=share, ddof=0)[None] + np.diag(variance)


def vae(name: str, *, y: np.ndarray | None = None) -> Case:
    def make() -> VAE:
        networks = {"encoder": MLP((10,)), "decoder": MLP((10,))}
        return VAE(1, **networks, max_epochs=40, learning_rate=0.01, evaluation_samples=20, random_state=0)

    return Case(
        name,
        make,
        three_clusters(),
        vae_log_joint,
        is_exact=False,
        components=vae_mean,
        spreads=vae_spread,
        objective=lambda model: model.lower_bound_,
        arrays=(),
        for_checks=lambda: make().set_params(max_epochs=1),
        needs_distinct=False,
        is_sampled=True,
        y=y,
        by_labels=("predict", "predict_proba"),
        expected_failed_checks=SAMPLED,
    )


def along_line(model: VAE) -> np.ndarray:
    """p(z) dz on the grid (G,)."""
    return norm.pdf(LINE[:, 0]) * (LINE[1] - LINE[0])


def counts_log_joint(model: VAE, x: np.ndarray) -> np.ndarray:
    of_x = seen_as(x, poisson.logpmf(np.nan_to_num(x)[:, None], model.inverse_transform(LINE)))
    return np.nansum(of_x, 2) + np.log(along_line(model))


def draw_counts(model: VAE, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(model.inverse_transform(rng.normal(size=(n, 1)))).astype(float)


def pixel_shares(model: VAE) -> np.ndarray:
    """P(level) of every pixel on the grid of z (G, d, 3), from the distribution function of the logistic."""
    emission = model.module_.emission
    with torch.no_grad():
        [(family, outputs)] = emission.split(model.module_.decode(torch.tensor(LINE, dtype=torch.float32)))
        location, scale = (part.double().numpy()[..., None] for part in family.parameters_of(outputs))
    below = logistic.cdf(np.array([-np.inf, -0.5, 0.5, np.inf]), location, scale)
    # A share of 1/(nd+1) is uniform.
    n = three_levels().size
    return (n * np.diff(below) + 1 / 3) / (n + 1)


def pixels_log_joint(model: VAE, x: np.ndarray) -> np.ndarray:
    shares = pixel_shares(model)
    at = np.nan_to_num(x).astype(int)[:, None, :, None]
    chosen = np.take_along_axis(np.broadcast_to(shares, (len(x), *shares.shape)), at, -1)[..., 0]
    return np.nansum(seen_as(x, np.log(chosen)), 2) + np.log(along_line(model))


def pixel_moments(model: VAE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The prior of z, and the mean and variance of every pixel there."""
    mean, variance = zip(*(level_moments(shares) for shares in pixel_shares(model).transpose(1, 0, 2)), strict=True)
    return along_line(model), np.stack(mean, 1), np.stack(variance, 1)


def pixel_mean(model: VAE) -> tuple[np.ndarray, np.ndarray]:
    share, mean, _ = pixel_moments(model)
    return np.ones(1), (share @ mean)[None]


def pixel_spread(model: VAE) -> np.ndarray:
    share, mean, variance = pixel_moments(model)
    return spread_around(share, mean, share @ variance)


def draw_pixels(model: VAE, n: int, rng: np.random.Generator) -> np.ndarray:
    shares = pixel_shares(model)[rng.choice(len(LINE), n, p=along_line(model) / along_line(model).sum())]
    return (rng.random(shares.shape[:2])[..., None] > shares.cumsum(-1)).sum(-1).astype(float)


def discrete_vae(name: str, likelihood: str, x: np.ndarray, **arguments: Any) -> Case:
    """A VAE of counts, or of pixels that are on a grid of levels."""
    case = vae(name)

    def make() -> VAE:
        return case.make().set_params(likelihood=likelihood)

    limits = dict.fromkeys(("has_location", "has_units", "has_means", "takes_any"), False)
    return replace(case, make=make, x=x, **limits, **arguments)


def vae_of_counts() -> Case:
    def mean(model: VAE) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(1), (along_line(model) @ model.inverse_transform(LINE))[None]

    def spread(model: VAE) -> np.ndarray:
        means = model.inverse_transform(LINE)
        return spread_around(along_line(model), means, along_line(model) @ means)

    return discrete_vae(
        "vae-counts",
        "poisson",
        some_counts(),
        log_joint=counts_log_joint,
        components=mean,
        spreads=spread,
        draw_rows=draw_counts,
    )


def vae_of_pixels() -> Case:
    return discrete_vae(
        "vae-pixels",
        "logistic",
        three_levels(),
        log_joint=pixels_log_joint,
        components=pixel_mean,
        spreads=pixel_spread,
        draw_rows=draw_pixels,
    )


AXIS = np.linspace(-6, 6, 121)
PLANE = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1).reshape(-1, 2)


def diffusion_step(module: DiffusionModule, points: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (n, D) of p(x_{t-1}|x_t) at points, from β and what the network says alone.

    The formulas of Ho et al. (2020) and Nichol & Dhariwal (2021) are written out once more, for columns of numbers.
    """
    beta = np.asarray(module.schedule.betas, dtype=np.float64)
    bar = np.cumprod(1 - beta)
    before = np.append(1.0, bar[:-1])
    tilde = beta * (1 - before) / (1 - bar)
    i, d = t - 1, points.shape[1]
    time = torch.full((len(points),), 1000 * i / len(beta))
    seen = [torch.tensor(points, dtype=torch.float32)]
    if module.has_missing:
        seen.append(torch.ones(points.shape))
    if module.masks is not None:
        # Nothing is known: no values, and a mask of zeros.
        seen.append(torch.zeros((len(points), 2 * d)))
    with torch.no_grad():
        said = module.network(torch.cat(seen, 1), time, None).double().numpy()
    x0 = {
        "velocity": lambda v: np.sqrt(bar[i]) * points - np.sqrt(1 - bar[i]) * v,
        "noise": lambda noise: (points - np.sqrt(1 - bar[i]) * noise) / np.sqrt(bar[i]),
    }[module.space.prediction](said[:, :d])
    if module.space.clip is not None and bar[i] < 0.25:
        x0 = x0.clip(-module.space.clip, module.space.clip)
    mean = (
        np.sqrt(1 - beta[i]) * (1 - before[i]) / (1 - bar[i]) * points
        + np.sqrt(before[i]) * beta[i] / (1 - bar[i]) * x0
    )
    variance = np.full(mean.shape, beta[i])
    if module.space.variance == "learned":
        # A network that says 0 means β; β̃_1 = 0 has no logarithm, and β̃_2 stands for it.
        log_tilde = np.log(tilde[max(i, 1)])
        variance = np.exp(np.log(beta[i]) + said[:, d:] * (np.log(beta[i]) - log_tilde))
    return mean, np.sqrt(variance)


def diffusion_first(model: Diffusion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(x_1) on a grid of the plane, times its cell, with the mean and deviation of p(x_0|x_1) there.

    The chain is followed by quadrature, p(x_{t-1}) = ∫ p(x_{t-1}|x_t) p(x_t) dx_t; its steps are Gaussians with a mean
    per x_t, so the sum over the plane is a product of two matrices.
    """
    mass = np.exp(norm.logpdf(PLANE).sum(1)) * (AXIS[1] - AXIS[0]) ** 2
    mean, std = np.empty(0), np.empty(0)
    for t in range(len(model.schedule), 0, -1):
        mean, std = diffusion_step(model.module_, PLANE, t)
        if t > 1:
            first, second = (norm.pdf(AXIS, mean[:, j, None], std[:, j, None]) for j in range(2))
            mass = (first.T @ (mass[:, None] * second)).ravel() * (AXIS[1] - AXIS[0]) ** 2
    return mass, mean, std


def standardisation(case_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a fit subtracts from columns of numbers and divides them by: moments of what is observed."""
    return np.nanmean(case_rows, axis=0), np.nanstd(case_rows, axis=0)


def diffusion_evidence(rows: np.ndarray, model: Diffusion, x: np.ndarray) -> np.ndarray:
    """ln p(x) of a model that was fitted on rows."""
    location, scale = standardisation(rows)
    mass, mean, std = diffusion_first(model)
    densities = norm.pdf(((x - location) / scale)[:, None], mean, std).prod(2) @ mass
    return np.log(densities) - np.log(scale).sum()


def diffusion_mean(rows: np.ndarray, model: Diffusion) -> tuple[np.ndarray, np.ndarray]:
    location, scale = standardisation(rows)
    mass, mean, _ = diffusion_first(model)
    return np.ones(1), (location + scale * (mass @ mean))[None]


def diffusion_spread(rows: np.ndarray, model: Diffusion) -> np.ndarray:
    mass, mean, std = diffusion_first(model)
    _, scale = standardisation(rows)
    return spread_around(mass, scale * mean, scale**2 * (mass @ std**2) / mass.sum())


def diffusion(name: str, *, y: np.ndarray | None = None, share_missing: float = 0.0, **arguments: Any) -> Case:
    """Few levels with much noise each, so that a grid of the plane can follow the chain."""
    x = three_clusters()[:, :2]
    is_missing = np.random.default_rng(1).random(x.shape) < share_missing
    given = np.where(is_missing, np.nan, x) if share_missing else x

    def make() -> Diffusion:
        network = ResidualMLP(width=16, n_blocks=1)
        return Diffusion(
            np.array([0.05, 0.2, 0.4, 0.7]),
            network=network,
            max_epochs=60,
            learning_rate=0.01,
            random_state=0,
            **arguments,
        )

    return Case(
        name,
        make,
        x,
        log_joint=None,
        is_exact=False,
        components=partial(diffusion_mean, given),
        # Where it predicts noise, 2 % of the samples are off the grid, and have much of the variance.
        spreads=None if arguments.get("prediction") == "noise" else partial(diffusion_spread, given),
        objective=lambda model: model.lower_bound_,
        arrays=(),
        for_checks=lambda: make().set_params(max_epochs=1),
        evidence=partial(diffusion_evidence, given),
        needs_distinct=False,
        is_sampled=True,
        y=y,
        by_labels=("predict", "predict_proba"),
        given=given if share_missing else None,
        scores_holes=False,
        expected_failed_checks=SAMPLED
        | {"check_estimators_pickle": "predicts rows with NaN, and classes are compared by bounds of complete rows"},
    )


def latent_diffusion_decoded(model: LatentDiffusion) -> tuple[np.ndarray, np.ndarray]:
    """The mean and deviation of p(x|z) on the grid of z, from what the decoder says alone."""
    vae = model.module_.vae
    with torch.no_grad():
        said = vae.decoder(torch.tensor(LINE, dtype=torch.float32)).double().numpy()
        # What is learnt is added to a floor of a thousandth of a deviation, squared.
        variance = np.exp(vae.emission.numbers.log_variance.double().numpy()) + 1e-6
    start = 0.0 if vae.emission.start is None else vae.emission.start.double().numpy()
    location, scale = standardisation(three_clusters())
    return location + scale * (said + start), scale * np.sqrt(variance)


def latent_diffusion_log_joint(model: LatentDiffusion, x: np.ndarray) -> np.ndarray:
    """ln p(x, z) dz on a grid of the one latent dimension, the reverse chain of z followed by quadrature."""
    step = LINE[1, 0] - LINE[0, 0]
    mass = norm.pdf(LINE[:, 0]) * step
    for t in range(len(model.diffusion.schedule), 0, -1):
        mean, std = diffusion_step(model.module_.prior, LINE, t)
        mass = mass @ norm.pdf(LINE[:, 0], mean, std) * step
    densities = norm.logpdf(x[:, None], *latent_diffusion_decoded(model))
    return np.nansum(densities, 2) + np.log(mass)


def latent_diffusion_mean(model: LatentDiffusion) -> tuple[np.ndarray, np.ndarray]:
    share = np.exp(latent_diffusion_log_joint(model, np.full((1, model.n_features_in_), np.nan)))[0]
    return np.ones(1), (share @ latent_diffusion_decoded(model)[0])[None]


def latent_diffusion_spread(model: LatentDiffusion) -> np.ndarray:
    share = np.exp(latent_diffusion_log_joint(model, np.full((1, model.n_features_in_), np.nan)))[0]
    means, std = latent_diffusion_decoded(model)
    return spread_around(share, means, std**2)


def latent_diffusion(name: str, **arguments: Any) -> Case:
    def make() -> LatentDiffusion:
        networks = {"encoder": MLP((10,)), "decoder": MLP((10,))}
        return LatentDiffusion(
            VAE(1, **networks, max_epochs=40, learning_rate=0.01, evaluation_samples=20),
            Diffusion(
                np.array([0.05, 0.2, 0.4, 0.7]),
                objective="variational",
                network=ResidualMLP(width=16, n_blocks=1),
                max_epochs=40,
                learning_rate=0.01,
            ),
            random_state=0,
            **arguments,
        )

    return Case(
        name,
        make,
        three_clusters(),
        latent_diffusion_log_joint,
        is_exact=False,
        components=latent_diffusion_mean,
        spreads=latent_diffusion_spread,
        objective=lambda model: model.lower_bound_,
        arrays=(),
        for_checks=lambda: make().set_params(vae__max_epochs=1, diffusion__max_epochs=1),
        needs_distinct=False,
        is_sampled=True,
        by_labels=("predict", "predict_proba", "class_bounds"),
        has_sampled_kl=True,
        expected_failed_checks=SAMPLED,
    )


def autoencoder() -> Case:
    networks = {"encoder": MLP((20,)), "decoder": MLP((20,))}
    return Case(
        "autoencoder",
        lambda: Autoencoder(1, **networks, max_epochs=30, random_state=0),
        three_clusters(),
        log_joint=None,
        is_exact=False,
        components=None,
        objective=lambda model: -model.loss_,
        arrays=(),
        for_checks=lambda: Autoencoder(**networks, max_epochs=3, random_state=0),
        needs_distinct=False,
        expected_failed_checks=WEIGHTED_BATCHES
        | {"check_methods_subset_invariance": "asks for 1e-7, and networks compute in single precision"},
    )


def some_labels() -> np.ndarray:
    _, y = make_blobs(90, centers=3, n_features=3, random_state=1)
    return np.where(np.arange(90) % 5 == 0, y, -1)


def waiting_times() -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.exponential(np.repeat([[2.0, 0.2, 0.5], [0.2, 1.5, 0.5], [0.1, 0.1, 2.0]], 30, axis=0))


def exponential_log_joint(model: ExponentialMixture, x: np.ndarray) -> np.ndarray:
    log_density = expon.logpdf(x[:, None], scale=1 / model.rates_)
    return np.log(model.weights_) + np.nansum(log_density, 2)


def your_own_model() -> Case:
    return Case(
        "your-own-model",
        lambda: ExponentialMixture(n_components=3, random_state=0, tol=1e-9, max_iter=500),
        waiting_times(),
        exponential_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, 1 / model.rates_),
        spreads=lambda model: np.stack([np.diag(scale**2) for scale in 1 / model.rates_]),
        draw=lambda means, spreads, rng: rng.exponential(means),
        objective=lambda model: model.lower_bound_,
        arrays=("weights_", "rates_"),
        for_checks=ExponentialMixture,
        has_location=False,
        classes=(ExponentialMixture,),
        expected_failed_checks=LABELS_ARE_READ,
    )


def yes_or_no() -> np.ndarray:
    rng = np.random.default_rng(6)
    share = np.repeat([[0.9, 0.2, 0.7], [0.1, 0.8, 0.6], [0.7, 0.9, 0.1]], 30, axis=0)
    return (rng.random((90, 3)) < share).astype(float)


class OfAnyCounts(BernoulliMixture):
    """scikit-learn's checks bring counts; this one sees whether they are above 1."""

    def _read(self, X: Any) -> Any:
        x, kind = super()._read(X)
        return above_one(x), kind

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Any:
        rows = super()._read_rows(X, y, sample_weight, reset=reset)
        return replace(rows, x=above_one(rows.x))


def above_one(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.isnan(), x, (x > 1).to(x.dtype))


def independent(weights: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """ln p(x, z=k) (n, K) of columns (n, K, d) that are independent given z, NaN where missing."""
    return np.log(weights) + np.nansum(log_density, 2)


def seen_as(x: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Log-densities (n, K, d) with NaN where x (n, d) has it."""
    return np.where(np.isnan(x)[:, None], np.nan, log_density)


def bernoulli_log_joint(model: BernoulliMixture, x: np.ndarray) -> np.ndarray:
    log_density = bernoulli.logpmf(np.nan_to_num(x)[:, None], model.probabilities_)
    return independent(model.weights_, seen_as(x, log_density))


COUNTS_CHECKED = LABELS_ARE_READ | {
    "check_sample_weight_equivalence_on_dense_data": "brings fractions, which are an error for counts"
}


def bernoulli_mixture() -> Case:
    def make() -> BernoulliMixture:
        return BernoulliMixture(n_components=3, alpha=0.5, random_state=0, tol=1e-9, max_iter=2000)

    def log_prior(model: BernoulliMixture, rows: np.ndarray) -> float:
        return float(beta.logpdf(model.probabilities_, 1.5, 1.5).sum()) / len(rows)

    return Case(
        "bernoulli-mixture",
        make,
        yes_or_no(),
        bernoulli_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, model.probabilities_),
        spreads=lambda model: np.stack([np.diag(p * (1 - p)) for p in model.probabilities_]),
        draw=lambda means, spreads, rng: (rng.random(means.shape) < means).astype(float),
        log_prior=log_prior,
        objective=lambda model: model.lower_bound_,
        arrays=("weights_", "probabilities_"),
        for_checks=OfAnyCounts,
        has_location=False,
        has_units=False,
        expected_failed_checks=COUNTS_CHECKED,
    )


def some_counts() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(np.repeat([[8.0, 1.0, 2.0], [1.0, 9.0, 2.0], [3.0, 3.0, 15.0]], 30, axis=0)).astype(float)


def poisson_log_joint(model: PoissonMixture, x: np.ndarray) -> np.ndarray:
    return independent(model.weights_, seen_as(x, poisson.logpmf(np.nan_to_num(x)[:, None], model.rates_)))


def poisson_mixture() -> Case:
    return Case(
        "poisson-mixture",
        lambda: PoissonMixture(n_components=3, random_state=0, tol=1e-9, max_iter=2000),
        some_counts(),
        poisson_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, model.rates_),
        spreads=lambda model: np.stack([np.diag(rates) for rates in model.rates_]),
        draw=lambda means, spreads, rng: rng.poisson(means).astype(float),
        objective=lambda model: model.lower_bound_,
        arrays=("weights_", "rates_"),
        for_checks=PoissonMixture,
        has_location=False,
        has_units=False,
        expected_failed_checks=COUNTS_CHECKED,
    )


def three_levels() -> np.ndarray:
    """Levels 0, 1, 2, whose mean and variance determine their probabilities."""
    rng = np.random.default_rng(8)
    shares = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.15, 0.15, 0.7]]
    columns = [[rng.choice(3, p=np.roll(shares[k], j)) for j in range(3)] for k in np.repeat(range(3), 30)]
    return np.array(columns, dtype=float)


def level_moments(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (K,) of the levels 0, 1, ... with probabilities (K, L)."""
    level = np.arange(p.shape[1])
    return p @ level, p @ level**2 - (p @ level) ** 2


def draw_levels(mean: np.ndarray, variance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of the levels 0, 1, 2 with E[x] = p_1 + 2 p_2 and E[x²] = p_1 + 4 p_2."""
    twos = (variance + mean**2 - mean) / 2
    u = rng.random(mean.shape)
    return np.where(u < twos, 2.0, np.where(u < mean - twos, 1.0, 0.0))


def log_levels(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """ln p_k(x) (n, K) of one column of levels, NaN where missing."""
    return np.where(np.isnan(x)[:, None], np.nan, np.log(p.T[np.nan_to_num(x).astype(int)]))


def classes_log_joint(model: LatentClassAnalysis, x: np.ndarray) -> np.ndarray:
    columns = [log_levels(p, x[:, j]) for j, p in enumerate(model.probabilities_.values())]
    return independent(model.weights_, np.stack(columns, 2))


def latent_class_analysis() -> Case:
    def make() -> LatentClassAnalysis:
        return LatentClassAnalysis(n_components=3, alpha=0.5, random_state=0, tol=1e-9, max_iter=2000)

    def moments(model: LatentClassAnalysis) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = zip(*map(level_moments, model.probabilities_.values()), strict=True)
        return np.stack(mean, 1), np.stack(variance, 1)

    def log_prior(model: LatentClassAnalysis, rows: np.ndarray) -> float:
        ps = [p for table in model.probabilities_.values() for p in table]
        return float(sum(dirichlet.logpdf(p / p.sum(), np.full(len(p), 1.5)) for p in ps)) / len(rows)

    return Case(
        "latent-class-analysis",
        make,
        three_levels(),
        classes_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, moments(model)[0]),
        spreads=lambda model: np.stack([np.diag(v) for v in moments(model)[1]]),
        draw=lambda means, spreads, rng: draw_levels(means, np.diagonal(spreads, axis1=1, axis2=2), rng),
        log_prior=log_prior,
        objective=lambda model: model.lower_bound_,
        arrays=("weights_",),
        tables=("probabilities_",),
        for_checks=LatentClassAnalysis,
        has_units=False,
        has_means=False,
        expected_failed_checks=LABELS_ARE_READ,
    )


def mixed_columns() -> np.ndarray:
    """A number, a yes/no and a level of 0, 1, 2."""
    return np.column_stack([three_clusters()[:, 0], yes_or_no()[:, 1], three_levels()[:, 2]])


def naive_bayes_parameters(model: NaiveBayes) -> list[dict[str, np.ndarray]]:
    return list(model.parameters_.values())


def naive_bayes_log_joint(model: NaiveBayes, x: np.ndarray) -> np.ndarray:
    number, answer, level = naive_bayes_parameters(model)
    columns = [
        norm.logpdf(x[:, :1], number["mean"], np.sqrt(number["variance"])),
        log_levels(np.stack([1 - answer["probability"], answer["probability"]], 1), x[:, 1]),
        log_levels(level["probabilities"], x[:, 2]),
    ]
    return independent(model.weights_, np.stack(columns, 2))


def column_moments(model: Any) -> tuple[np.ndarray, np.ndarray]:
    number, answer, level = naive_bayes_parameters(model)
    p, (mean, variance) = answer["probability"], level_moments(level["probabilities"])
    return np.stack([number["mean"], p, mean], 1), np.stack([number["variance"], p * (1 - p), variance], 1)


def draw_columns(means: np.ndarray, spreads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    variance = np.diagonal(spreads, axis1=1, axis2=2)
    number = rng.normal(means[:, 0], np.sqrt(variance[:, 0]))
    answer = rng.random(len(means)) < means[:, 1]
    return np.column_stack([number, answer, draw_levels(means[:, 2], variance[:, 2], rng)])


def of_columns(name: str, make: Callable[[], Any], for_checks: Callable[[], Any], **arguments: Any) -> Case:
    """A model of a number, a yes/no and a level."""
    return Case(
        name,
        make,
        mixed_columns(),
        naive_bayes_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, column_moments(model)[0]),
        spreads=lambda model: np.stack([np.diag(v) for v in column_moments(model)[1]]),
        draw=draw_columns,
        objective=lambda model: model.lower_bound_,
        arrays=("weights_",),
        tables=("parameters_",),
        for_checks=for_checks,
        has_units=False,
        has_means=False,
        **arguments,
    )


def naive_bayes() -> Case:
    def make() -> NaiveBayes:
        return NaiveBayes(unlabelled=-1, random_state=0, tol=1e-9, max_iter=2000)

    return of_columns("naive-bayes", make, NaiveBayes, y=some_labels(), needs_distinct=False)


def mixture_of_columns() -> Case:
    def make() -> Mixture:
        return Mixture(n_components=3, random_state=0, tol=1e-9, max_iter=2000)

    return of_columns("mixture-columns", make, Mixture, expected_failed_checks=LABELS_ARE_READ)


# The third column of the next case is below it.
HIGH = 20.0


def bounded_columns() -> np.ndarray:
    """A number above 0, one without bounds and one below 20: three clusters by the logarithms of the distances."""
    x = three_clusters()
    return np.column_stack([np.exp(0.2 * x[:, 0]), x[:, 1], HIGH - np.exp(0.2 * x[:, 2])])


def of_logs(model: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of ln x, x and ln(20 - x), from those of ln x, x and -ln(20 - x)."""
    gaussians, sign = model.theta_.components.parts[0], np.array([1, 1, -1])
    return sign * gaussians.means.numpy(), np.outer(sign, sign) * gaussians.covariances.numpy()


def bounded_log_joint(model: Mixture, x: np.ndarray) -> np.ndarray:
    """Gaussians of these, with the derivatives of the logarithms."""
    logs = np.column_stack([np.log(x[:, 0]), x[:, 1], np.log(HIGH - x[:, 2])])
    return gaussians_log_joint(model.weights_, *of_logs(model), logs) - np.nansum(logs[:, ::2], 1)[:, None]


def bounded_moments(model: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """E e^u = e^(m+v/2), Cov(e^u, e^w) = E e^u E e^w (e^c - 1) and Cov(e^u, w) = c E e^u of Gaussians (u, w)."""
    m, cov = of_logs(model)
    grown = np.exp(m + np.diagonal(cov, axis1=1, axis2=2) / 2) * [1, 0, -1] + [0, 0, HIGH]
    mean = np.where([True, False, True], grown, m)
    slope = mean * [1, 0, 1] + [0, 1, -HIGH]
    spread = slope[:, :, None] * slope[:, None] * np.where(BOTH_BOUNDED, np.expm1(cov), cov)
    return mean, spread


BOTH_BOUNDED = np.outer([True, False, True], [True, False, True])


def draw_bounded(mean: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Undo `bounded_moments`, and draw."""
    slope = mean * [1, 0, 1] + [0, 1, -HIGH]
    ratio = spread / (slope[:, :, None] * slope[:, None])
    cov = np.where(BOTH_BOUNDED, np.log1p(np.where(BOTH_BOUNDED, ratio, 0)), ratio)
    variance = np.diagonal(cov, axis1=1, axis2=2)
    m = np.where([True, False, True], np.log(np.abs(np.where([True, False, True], slope, 1))) - variance / 2, mean)
    logs = gaussian_rows(m, cov, rng)
    return np.column_stack([np.exp(logs[:, 0]), logs[:, 1], HIGH - np.exp(logs[:, 2])])


def mixture_of_bounded_columns() -> Case:
    def make() -> Mixture:
        bounds = {0: {"low": 0.0}, 2: {"high": HIGH}}
        return Mixture(n_components=3, columns=bounds, random_state=0, tol=1e-9, max_iter=2000)

    return Case(
        "mixture-bounds",
        make,
        bounded_columns(),
        bounded_log_joint,
        is_exact=True,
        components=lambda model: (model.weights_, bounded_moments(model)[0]),
        spreads=lambda model: bounded_moments(model)[1],
        draw=draw_bounded,
        objective=lambda model: model.lower_bound_,
        arrays=("weights_",),
        tables=("parameters_",),
        for_checks=Mixture,
        has_location=False,
        has_units=False,
        # Of the law, which sums over counts where there are no units; test_bounds.py has the integrals.
        has_means=False,
        expected_failed_checks=LABELS_ARE_READ,
    )


def blend() -> Case:
    """A Gaussian and a probabilistic PCA, each of them one Gaussian."""

    def make() -> Blend:
        parts = [GaussianMixture(tol=1e-9), ProbabilisticPCA(n_components=1, tol=1e-9)]
        return Blend(parts, random_state=0, tol=1e-10)

    def components(model: Blend) -> tuple[np.ndarray, np.ndarray]:
        one, other = model.models_.values()
        return model.weights_, np.stack([one.means_[0], other.mean_])

    def spreads(model: Blend) -> np.ndarray:
        one, other = model.models_.values()
        around = other.noise_variance_ * np.eye(model.n_features_in_)
        return np.stack([one.covariances_[0], other.loadings_ @ other.loadings_.T + around])

    return Case(
        "blend",
        make,
        three_clusters(),
        lambda model, x: gaussians_log_joint(*components(model), spreads(model), x),
        is_exact=True,
        components=components,
        spreads=spreads,
        objective=lambda model: model.held_out_score_,
        arrays=("weights_",),
        for_checks=Blend,
        needs_distinct=False,
    )


def short_documents() -> np.ndarray:
    """Up to five words of three, of which most documents have mainly the first or the last."""
    rng = np.random.default_rng(9)
    shares = np.repeat([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.4, 0.2, 0.4]], 30, axis=0)
    return np.array([rng.multinomial(rng.integers(1, 6), p) for p in shares]).astype(float)


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(1, keepdims=True)


def of_words(topics: np.ndarray, prior: np.ndarray, words: list[int]) -> float:
    """ln p of words in order, given topics (K, V): a sum over the topics of all words, whose shares are integrated."""
    values = []
    for z in product(range(len(topics)), repeat=len(words)):
        count = np.bincount(z, minlength=len(topics)) if z else np.zeros(len(topics))
        of_topics = gammaln(prior.sum()) - gammaln(prior.sum() + count.sum()) + gammaln(prior + count).sum()
        values.append(
            of_topics - gammaln(prior).sum() + sum(np.log(topics[k, w]) for k, w in zip(z, words, strict=True))
        )
    return float(logsumexp(values))


def ordered_words(row: np.ndarray) -> list[int]:
    return np.repeat(np.arange(len(row)), row.astype(int)).tolist()


def word_evidence(model: LatentDirichletAllocation, x: np.ndarray) -> np.ndarray:
    prior = np.full(model.n_components, model.doc_topic_prior_)
    return np.array([of_words(normalised(model.components_), prior, ordered_words(row)) for row in x])


def variational_bound(log_topics: np.ndarray, prior: np.ndarray, row: np.ndarray) -> float:
    """ELBO of a document by its definition, word by word, after many rounds of its two updates."""
    words, gamma = ordered_words(row), prior + row.sum() / len(prior)
    for _ in range(5000):
        log_shares = psi(gamma) - psi(gamma.sum())
        phi = np.array([np.exp(log_shares + log_topics[:, w]) for w in words]).reshape(-1, len(prior))
        phi = phi / phi.sum(1, keepdims=True)
        before, gamma = gamma, prior + phi.sum(0)
        if np.abs(gamma - before).max() < 1e-13:
            break
    log_shares = psi(gamma) - psi(gamma.sum())
    total = sum(p @ (log_topics[:, w] + log_shares - np.log(p)) for p, w in zip(phi, words, strict=True))
    total += gammaln(prior.sum()) - gammaln(prior).sum() + (prior - 1) @ log_shares
    return float(total - (gammaln(gamma.sum()) - gammaln(gamma).sum() + (gamma - 1) @ log_shares))


def topic_bounds(model: LatentDirichletAllocation, log_topics: np.ndarray, x: np.ndarray) -> np.ndarray:
    prior = np.full(model.n_components, model.doc_topic_prior_)
    found = {tuple(row): variational_bound(log_topics, prior, row) for row in np.unique(x, axis=0)}
    return np.array([found[tuple(row)] for row in x])


def topics_log_prior(model: LatentDirichletAllocation, rows: np.ndarray) -> float:
    """What training has beside the scores: E ln β instead of ln E β, and the divergence of the topics, per row."""
    topics, eta = model.components_, np.full(rows.shape[1], model.topic_word_prior_)
    log_topics = psi(topics) - psi(topics.sum(1, keepdims=True))
    kl = gammaln(topics.sum(1)) - gammaln(topics).sum(1) + gammaln(eta).sum() - gammaln(eta.sum())
    kl = kl + ((topics - eta) * log_topics).sum(1)
    given_topics = topic_bounds(model, np.log(normalised(topics)), rows)
    return float(topic_bounds(model, log_topics, rows).mean() - given_topics.mean() - kl.sum() / len(rows))


def draw_documents(model: LatentDirichletAllocation, n: int, rng: np.random.Generator) -> np.ndarray:
    shares = rng.dirichlet(np.full(model.n_components, model.doc_topic_prior_), n)
    length = rng.poisson(short_documents().sum(1).mean(), n)
    return np.array(
        [rng.multinomial(m, p) for m, p in zip(length, shares @ normalised(model.components_), strict=True)]
    )


def topics() -> Case:
    def make() -> LatentDirichletAllocation:
        return LatentDirichletAllocation(
            2,
            doc_topic_prior=0.7,
            topic_word_prior=0.5,
            random_state=0,
            tol=1e-13,
            max_iter=500,
            mean_change_tol=1e-11,
            max_doc_update_iter=5000,
        )

    def mean(model: LatentDirichletAllocation) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(1), short_documents().sum(1).mean() * normalised(model.components_).mean(0, keepdims=True)

    return Case(
        "topics",
        make,
        short_documents(),
        None,
        is_exact=False,
        components=mean,
        draw_rows=draw_documents,
        claimed=lambda model, x: topic_bounds(model, np.log(normalised(model.components_)), x),
        evidence=word_evidence,
        log_prior=topics_log_prior,
        objective=lambda model: model.lower_bound_,
        arrays=("components_",),
        for_checks=LatentDirichletAllocation,
        needs_distinct=False,
        has_location=False,
        has_units=False,
        has_means=False,
        expected_failed_checks=LABELS_ARE_READ
        | dict.fromkeys(
            ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
            "reads the tags of a classifier where there is a predict_proba, which a fit with labels has",
        ),
    )


CASES = [
    gaussian_mixture("mixture-full"),
    gaussian_mixture("mixture-tied", covariance_type="tied"),
    gaussian_mixture("mixture-diag", covariance_type="diag"),
    gaussian_mixture("mixture-spherical", covariance_type="spherical"),
    gaussian_mixture("mixture-EVI", covariance_type="EVI"),
    gaussian_mixture("mixture-VVE", covariance_type="VVE"),
    gaussian_mixture("mixture-labels", y=some_labels()),
    mixture_with_noise(),
    discriminant_analysis(),
    your_own_model(),
    bernoulli_mixture(),
    poisson_mixture(),
    latent_class_analysis(),
    naive_bayes(),
    mixture_of_columns(),
    mixture_of_bounded_columns(),
    kmeans("kmeans"),
    kmeans("kmeans-depot", depot=Depot([0.0, 0.0, 0.0], weight=0.5), raises_bound=False),
    kmedians(),
    spherical_kmeans(),
    kmedoids(),
    gower_medoids(),
    subspace_mixture("mixture-of-ppca", MixtureOfPPCA),
    subspace_mixture("mixture-of-ppca-labels", MixtureOfPPCA, y=some_labels()),
    subspace_mixture("mixture-of-factor-analysers", MixtureOfFactorAnalysers),
    linear_latent(
        "ppca",
        lambda: ProbabilisticPCA(n_components=1, random_state=0, tol=1e-9),
        ("mean_", "components_", "loadings_", "explained_variance_", "explained_variance_ratio_"),
        is_closed=True,
        for_checks=ProbabilisticPCA,
    ),
    linear_latent(
        "factor-analysis",
        lambda: FactorAnalysis(n_components=1, random_state=0, tol=1e-5),
        ("mean_", "components_", "noise_variance_"),
        is_closed=False,
        for_checks=FactorAnalysis,
    ),
    latent_curve("latent-curve", n_grid=30, n_basis=4),
    latent_curve("latent-curve-prior", n_grid=20, n_basis=5, penalty=5.0),
    given_curve(),
    latent_curve("latent-surface", n_latent=2, n_grid=6, n_basis=2),
    autoencoder(),
    vae("vae"),
    vae("vae-labels", y=some_labels()),
    vae_of_counts(),
    vae_of_pixels(),
    diffusion("diffusion"),
    diffusion("diffusion-learned", variance="learned", objective="variational", prediction="noise"),
    diffusion("diffusion-labels", y=some_labels()),
    diffusion("diffusion-holes", share_missing=0.2),
    diffusion("diffusion-masks", imputation="masks"),
    latent_diffusion("latent-diffusion"),
    latent_diffusion("latent-diffusion-joint", training="joint"),
    blend(),
    topics(),
]

IRIS = load_iris()
