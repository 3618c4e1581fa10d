"""Mixtures of probabilistic PCA and of factor analysers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, load_iris

from jensen import (
    ConjugatePrior,
    FactorAnalysis,
    GaussianMixture,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
)

IRIS = load_iris().data
BOTH = [MixtureOfPPCA, MixtureOfFactorAnalysers]


def pancakes(n=600, d=10, m=2, seed=0):
    """Three flat clusters, each in its own plane."""
    rng = np.random.default_rng(seed)
    k = rng.integers(3, size=n)
    loadings, centres = 2 * rng.normal(size=(3, m, d)), 4 * rng.normal(size=(3, d))
    x = np.einsum("nm,nmd->nd", rng.normal(size=(n, m)), loadings[k]) + centres[k] + 0.3 * rng.normal(size=(n, d))
    return x, k


@pytest.mark.parametrize("kind", BOTH)
def test_planes_are_found(kind):
    x, k = pancakes()
    model = kind(3, 2, random_state=0).fit(x)
    table = np.array([[(model.predict(x)[k == i] == j).sum() for j in range(3)] for i in range(3)])
    assert (table.max(1) == table.sum(1)).all()
    assert_allclose(np.sqrt(model.noise_variance_).reshape(3, -1).mean(1), 0.3, atol=0.02)


@pytest.mark.parametrize("kind", BOTH)
def test_one_dimension_less_than_features_is_the_full_mixture(kind):
    start = MixtureOfPPCA(2, 3, random_state=0, tol=1e-9, max_iter=3000).fit(IRIS)
    full = GaussianMixture(2, random_state=0, tol=1e-9, max_iter=3000).fit(IRIS)
    model = kind(2, 3, random_state=0, tol=1e-9, max_iter=3000).fit(IRIS)
    assert start.score(IRIS) == pytest.approx(full.score(IRIS), abs=1e-4)
    assert model.score(IRIS) == pytest.approx(full.score(IRIS), abs=1e-3)


@pytest.mark.parametrize("kind", BOTH)
def test_every_class_has_a_subspace_of_its_own(kind):
    x, y = pancakes()
    model = kind(n_latent=2, tol=1e-9, max_iter=2000, random_state=0).fit(x, y)
    for c in range(3):
        alone = kind(1, 2, tol=1e-9, max_iter=2000).fit(x[y == c])
        assert_allclose(model.means_[c], alone.means_[0], atol=1e-6)
        assert_allclose(model.noise_variance_[c], alone.noise_variance_[0], rtol=1e-3)
    assert (model.predict(x) == y).mean() > 0.99
    assert_allclose(model.weights_, np.bincount(y) / len(y))


def test_a_few_labels_name_the_clusters():
    x, y = pancakes()
    partly = np.where(np.arange(len(y)) % 20 == 0, y, -1)
    model = MixtureOfPPCA(3, 2, random_state=0).fit(x, partly)
    assert (model.predict(x) == y).mean() > 0.99
    rows, component = model.sample(20, y=1, random_state=0)
    assert (component == 1).all()
    assert (model.predict(rows) == 1).all()


@pytest.mark.parametrize("kind", BOTH)
def test_holes_are_filled_from_the_plane(kind):
    x, _ = pancakes()
    holes = np.where(np.random.default_rng(1).random(x.shape) < 0.3, np.nan, x)
    model = kind(3, 2, random_state=0).fit(holes)
    missing = np.isnan(holes)
    error = np.sqrt(((model.impute(holes) - x)[missing] ** 2).mean())
    assert error < 0.3 * x.std()
    reconstruction = model.reconstruct(x)
    assert np.sqrt(((reconstruction - x) ** 2).mean()) < 0.4


def test_the_bound_names_both_latent_variables():
    x, _ = pancakes(100)
    model = MixtureOfPPCA(3, 2, random_state=0).fit(x)
    bound = model.bound(x)
    assert set(bound.kl) == {"component", "latent"}
    posterior = model.posterior(x)
    assert_allclose(posterior.mixture_distribution.probs, model.predict_proba(x), atol=1e-12)
    z = posterior.component_distribution
    kl = 0.5 * (
        z.mean.square().sum(-1)
        + z.covariance_matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        - 2
        - z.covariance_matrix.logdet()
    )
    assert_allclose(bound.kl["latent"], (model.predict_proba(x) * kl.numpy()).sum(1), atol=1e-9)
    holes = x.copy()
    holes[0, :3] = np.nan
    assert model.posterior(holes).component_distribution.scale_tril.shape == (100, 3, 2, 2)


@pytest.mark.parametrize("kind", BOTH)
def test_acceleration_and_priors(kind):
    x, _ = pancakes(150)
    plain = kind(3, 2, random_state=0, tol=1e-7, max_iter=2000).fit(x)
    fast = kind(3, 2, random_state=0, tol=1e-7, max_iter=2000, acceleration="squarem").fit(x)
    assert fast.score(x) == pytest.approx(plain.score(x), abs=1e-3)
    prior = kind(3, 2, random_state=0, prior=ConjugatePrior(weight_concentration=5.0), max_iter=500).fit(x)
    assert np.ptp(prior.weights_) < np.ptp(plain.weights_)
    assert (np.diff(prior.lower_bounds_) >= -1e-9).all()
    with_dirichlet = prior.score(x)
    assert with_dirichlet < plain.score(x)


def test_wide_rows_cost_no_square_matrix():
    """More features than a covariance of them could be held for, and fewer rows than features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5000)) + rng.normal(size=(60, 5000))
    for model in (MixtureOfPPCA(2, 2, random_state=0, max_iter=3), FactorAnalysis(2, max_iter=3)):
        assert np.isfinite(model.fit(x).score(x))


def test_a_row_whose_square_overflows_is_refused():
    x, _ = pancakes(100)
    model = MixtureOfPPCA(3, 2, random_state=0).fit(x)
    with pytest.raises(ValueError, match=r"X contains 1e\+160 in row 0, column 0, too large to square"):
        model.score_samples(np.full((1, 10), 1e160))


def test_reconstructions_are_those_of_probabilistic_pca():
    one, mixture = ProbabilisticPCA(2).fit(IRIS), MixtureOfPPCA(1, 2, tol=1e-12, max_iter=2000).fit(IRIS)
    assert_allclose(mixture.reconstruct(IRIS), one.reconstruct(IRIS), atol=1e-4)


def test_warm_start_goes_on():
    x, _ = pancakes(200)
    model = MixtureOfPPCA(3, 2, random_state=0, max_iter=1, tol=0, warm_start=True).fit(x)
    first = model.lower_bound_
    assert model.fit(x).lower_bound_ >= first


def test_digits_are_classified_by_their_subspaces():
    x, y = load_digits(return_X_y=True)
    model = MixtureOfPPCA(n_latent=8, random_state=0).fit(x[::2], y[::2])
    assert (model.predict(x[1::2]) == y[1::2]).mean() > 0.95


@pytest.mark.parametrize("kind", BOTH)
def test_mistakes_have_a_way_out(kind):
    with pytest.raises(ValueError, match="n_latent=5 is more than the 4 features of X; lower it"):
        kind(2, 5).fit(IRIS)
    with pytest.raises(ValueError, match="y has 3 classes, but n_components=2; raise n_components"):
        kind(2).fit(IRIS, load_iris().target)
    line = np.linspace(0, 1, 50)[:, None] * np.ones((1, 3))
    with pytest.raises(
        ValueError, match="component 0 collapsed: its covariance is singular and reg_covar=0 sets no floor"
    ):
        kind(1, 1, reg_covar=0).fit(line)
