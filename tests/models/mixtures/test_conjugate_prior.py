"""The objective with a prior is the mean of ln p(x) plus ln prior(θ) per unit of weight, all in the units of X."""

import numpy as np
import pytest
from scipy.stats import dirichlet, invgamma, invwishart, multivariate_normal

from jensen import (
    ConjugatePrior,
    FactorAnalysis,
    GaussianMixture,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
)

D = 3
UNITS = np.array([1.0, 1000.0, 0.01])


def rows(holes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, D)) @ rng.normal(size=(D, D)) + np.repeat([[0.0], [6.0]], 30, axis=0)
    x[rng.random(x.shape) < 0.2 * holes] = np.nan
    # Fast paths differ for complete rows, and a round model has one unit.
    return x * UNITS + 5.0


WEIGHT = np.random.default_rng(1).integers(1, 4, 60)
MEAN, KAPPA, FREEDOM = UNITS * [1.0, -1.0, 2.0], 0.7, 6.5


def full_scale():
    half = np.random.default_rng(2).normal(size=(D, 5)) * UNITS[:, None]
    return half @ half.T


SCALES = {"full": full_scale(), "tied": full_scale(), "diag": UNITS**2 * [1.0, 2.0, 3.0], "spherical": 40.0}


def prior_of(scale, concentration=1.0):
    return ConjugatePrior(concentration, MEAN, KAPPA, FREEDOM, scale)


def log_means(means, covariances):
    pairs = zip(means, covariances, strict=True)
    return sum(multivariate_normal.logpdf(mean, MEAN, cov / KAPPA) for mean, cov in pairs)


def log_covariances(covariances, scale):
    return sum(invwishart.logpdf(cov, FREEDOM, scale) for cov in covariances)


def check(model, x, log_prior):
    found = model.fit(x, sample_weight=WEIGHT).lower_bound_
    expected = np.average(model.score_samples(x), weights=WEIGHT) + log_prior(model) / WEIGHT.sum()
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("concentration", [1.0, 2.5])
@pytest.mark.parametrize("structure", SCALES)
def test_of_a_mixture_with_every_structure(structure, concentration, holes):
    scale = SCALES[structure]

    def log_prior(model):
        covariances = {
            "full": lambda c: c,
            "tied": lambda c: np.tile(c, (2, 1, 1)),
            "diag": lambda c: [np.diag(v) for v in c],
            "spherical": lambda c: [v * np.eye(D) for v in c],
        }[structure](model.covariances_)
        value = dirichlet.logpdf(model.weights_, np.full(2, concentration)) + log_means(model.means_, covariances)
        if structure in ("full", "tied"):
            return value + log_covariances(covariances[: 2 if structure == "full" else 1], scale)
        return value + invgamma.logpdf(model.covariances_, FREEDOM / 2, scale=np.asarray(scale) / 2).sum()

    model = GaussianMixture(2, covariance_type=structure, prior=prior_of(scale, concentration), random_state=0)
    check(model, rows(holes), log_prior)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", [ProbabilisticPCA, FactorAnalysis])
def test_of_one_subspace(kind, holes):
    scale = 40.0 if kind is ProbabilisticPCA else SCALES["diag"]

    def log_prior(model):
        covariances = model.get_covariance()[None]
        return log_means(model.mean_[None], covariances) + log_covariances(covariances, scale * np.eye(D))

    check(kind(1, prior=prior_of(scale)), rows(holes), log_prior)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", [MixtureOfPPCA, MixtureOfFactorAnalysers])
def test_of_several_subspaces(kind, holes):
    scale = 40.0 if kind is MixtureOfPPCA else SCALES["diag"]

    def log_prior(model):
        noise = [np.diag(np.broadcast_to(value, D)) for value in model.noise_variance_]
        covariances = model.loadings_ @ np.swapaxes(model.loadings_, 1, 2) + noise
        value = dirichlet.logpdf(model.weights_, np.full(2, 1.5)) + log_means(model.means_, covariances)
        return value + log_covariances(covariances, scale * np.eye(D))

    check(kind(2, 1, prior=prior_of(scale, 1.5), random_state=0), rows(holes), log_prior)


def test_other_units_move_it_by_the_volume_of_rows_and_parameters():
    """ln p of d features moves by d ln 1000, and the prior of d means and d(d+1)/2 covariances by its own powers."""
    x = rows(False)
    one, other = (GaussianMixture(prior=ConjugatePrior()).fit(unit * x) for unit in (1.0, 1000.0))
    shift = D + (D + D * (D + 1)) / len(x)
    assert one.lower_bound_ - other.lower_bound_ == pytest.approx(shift * np.log(1000), rel=1e-9)


def test_rows_without_any_spread_have_a_mode():
    """Λ of a first batch whose rows are all alike is 1: (n S + Λ) / (n + ν + d + 2) = 1 / 16."""
    model = ProbabilisticPCA(prior=ConjugatePrior()).partial_fit(np.ones((10, 1)))
    assert model.get_covariance() == pytest.approx(1 / 16)
    assert model.lower_bound_ == pytest.approx(
        FactorAnalysis(prior=ConjugatePrior()).partial_fit(np.ones((10, 1))).lower_bound_
    )


@pytest.mark.parametrize("structure", ["full", "diag", "spherical"])
def test_a_pooled_scale_is_the_mean_variance_of_the_features(structure):
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1e-3, 1.0, 10.0]
    usual = x.var(0).mean()
    scale = {"full": usual * np.eye(3), "diag": np.full(3, usual), "spherical": usual}[structure]
    pooled, given = (
        GaussianMixture(covariance_type=structure, prior=ConjugatePrior(scale=one)).fit(x) for one in ("pooled", scale)
    )
    np.testing.assert_allclose(pooled.covariances_, given.covariances_, rtol=1e-7)


def test_a_scale_with_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="scale='common' is not known; give 'pooled', numbers or None"):
        GaussianMixture(prior=ConjugatePrior(scale="common")).fit(np.eye(4))
