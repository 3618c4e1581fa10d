"""The expected complete log-likelihood E_q[ln p(x, z)]: what an M-step maximises."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from torch.distributions import Independent, MultivariateNormal, Normal

from jensen import (
    VAE,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentCurve,
    LatentDirichletAllocation,
    MixtureOfPPCA,
    ProbabilisticPCA,
)

RNG = np.random.default_rng(0)
X = np.concatenate(
    [RNG.normal(size=(40, 2)) @ [[1.0, 0.4], [0.0, 0.6]] + offset for offset in ([0, 0], [4, 1], [1, 5])]
)
HOLES = np.where(RNG.random((60, 4)) < 0.2, np.nan, RNG.normal(size=(60, 2)) @ RNG.normal(size=(2, 4)) + 1)
HOLES[5] = np.nan


def changed(model, name, change):
    other = deepcopy(model)
    setattr(other, name, change(np.array(getattr(model, name), dtype=float)))
    return other


def other_weights(weights):
    moved = weights * np.exp(0.02 * RNG.normal(size=weights.shape))
    return moved / moved.sum()


def moved(values):
    return values + 0.02 * RNG.normal(size=values.shape)


def scaled(values):
    return values * np.exp(0.02 * RNG.normal())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("make", "changes", "rows"),
    [
        (
            lambda n: GaussianMixture(3, max_iter=n, tol=0, init_params="random", reg_covar=0, random_state=0),
            {"weights_": other_weights, "means_": moved, "covariances_": scaled},
            X,
        ),
        (lambda n: KMeans(3, max_iter=n, n_init=1, init=X[:3], random_state=0), {"cluster_centers_": moved}, X),
    ],
)
def test_an_m_step_maximises_its_sum(make, changes, rows):
    """At the posterior of theta, no theta' has a larger sum than the next theta."""
    before, after = make(1).fit(rows), make(2).fit(rows)
    q = before.posterior(rows).probs.numpy()
    most, rounding = after.ecll(rows, q).sum(), 1e-9 * len(rows)
    assert most >= before.ecll(rows, q).sum() - rounding
    for (name, change), _ in product(changes.items(), range(10)):
        assert changed(after, name, change).ecll(rows, q).sum() < most


def test_that_of_a_curve_is_maximised_by_the_noise_of_the_next_step():
    before, after = (LatentCurve(mapping=X[::10].tolist(), max_iter=n).fit(X) for n in (3, 4))
    q = before.posterior(X).probs
    most = after.ecll(X, q).sum()
    for factor in (0.9, 0.99, 1.01, 1.1):
        given = LatentCurve(mapping=X[::10].tolist(), noise_variance=factor * after.noise_variance_).fit(X)
        assert given.ecll(X, q).sum() < most


def by_quadrature(model, x, mean, cov):
    """E_q[ln p(x, z)] over the observed features: the integrand is quadratic in z, so 3 Hermite points are exact."""
    points, weights = np.polynomial.hermite_e.hermegauss(3)
    m, total = mean.shape[1], np.zeros(len(x))
    noise = np.broadcast_to(model.noise_variance_, x.shape[1])
    # scikit-learn's components are W as rows, for probabilistic PCA without its scale.
    loadings = model.theta_.components.loadings[0].numpy()
    for i, row in enumerate(x):
        seen, root = ~np.isnan(row), np.linalg.cholesky(cov[i])
        for place in product(range(3), repeat=m):
            z = mean[i] + root @ points[list(place)]
            share = np.prod(weights[list(place)] / np.sqrt(2 * np.pi))
            log_prior = multivariate_normal.logpdf(z, np.zeros(m))
            centre = model.mean_ + loadings @ z
            log_density = -0.5 * (np.log(2 * np.pi * noise) + (row - centre) ** 2 / noise)[seen].sum()
            total[i] += share * (log_prior + log_density)
    return total


@pytest.mark.parametrize("make", [lambda: ProbabilisticPCA(2), lambda: FactorAnalysis(2)])
def test_of_a_gaussian_latent_vector_it_is_that_by_quadrature(make):
    model = make().fit(HOLES)
    own = model.posterior(HOLES)
    wide = torch.eye(2).double() * 0.5 + 0.2
    for q in (own, MultivariateNormal(own.mean + 0.3, wide.expand(len(HOLES), -1, -1))):
        expected = by_quadrature(model, HOLES, q.mean.numpy(), q.covariance_matrix.numpy())
        assert_allclose(model.ecll(HOLES, q), expected, rtol=1e-9, atol=1e-9)
        assert_allclose(model.ecll(HOLES, q) + q.entropy().numpy(), model.bound(HOLES, q).total, rtol=1e-9)
    assert_allclose(model.bound(HOLES, own).total, model.score_samples(HOLES), rtol=1e-9, atol=1e-9)
    assert not model.bound(HOLES, own).is_exact
    # Independent components are Gaussians, too.
    diagonal = Independent(Normal(own.mean, 0.7), 1)
    same = MultivariateNormal(own.mean, 0.49 * torch.eye(2).double().expand(len(HOLES), -1, -1))
    assert_allclose(model.ecll(HOLES, diagonal), model.ecll(HOLES, same), rtol=1e-9)
    assert (model.bound(HOLES, diagonal).total <= model.score_samples(HOLES) + 1e-9).all()


def test_a_mixture_of_subspaces_counts_both_latent_variables():
    """ln p(x, k, z) averaged over z given k, and over k: by the entropy of the Gaussians of each component."""
    model = MixtureOfPPCA(2, n_latent=1, random_state=0).fit(X)
    q = np.random.default_rng(0).dirichlet([1, 1], len(X))
    inside = model.posterior(X).component_distribution.entropy().numpy()
    log_joint = np.log(model.predict_proba(X)) + model.score_samples(X)[:, None]
    expected = (q * (log_joint - inside)).sum(1)
    assert_allclose(model.ecll(X, q), expected, rtol=1e-9)


def test_it_keeps_the_kind_of_the_rows():
    rows = torch.from_numpy(X).float()
    model = GaussianMixture(2, random_state=0).fit(rows)
    found = model.ecll(rows)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("make", [VAE, LatentDirichletAllocation])
def test_other_posteriors_have_none(make):
    model = make()
    assert not hasattr(model, "ecll")
    with pytest.raises(AttributeError) as caught:
        model.ecll  # noqa: B018
    assert "bound takes no q: z can neither be enumerated" in str(caught.value.__cause__)


def test_without_a_bound_there_is_none():
    assert not hasattr(KMedoids(2), "ecll")


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.ones((60, 2)), "q=ndarray is no Gaussian; give a torch MultivariateNormal with one Gaussian per row of X"),
        (MultivariateNormal(torch.zeros(2), torch.eye(2)), r"q has batch_shape \(\) and event_shape \(2,\); expected"),
    ],
)
def test_a_q_that_does_not_fit_is_named(q, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticPCA(2).fit(HOLES).ecll(HOLES, q)
