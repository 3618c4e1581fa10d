"""Factor analysis beside scikit-learn's, and its place in the family."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from jensen import ConjugatePrior, FactorAnalysis, GaussianMixture, MixtureOfFactorAnalysers, ProbabilisticPCA


def factors(n=2000, d=8, m=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)) @ rng.normal(size=(m, d)) + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, size=d)


@pytest.mark.parametrize("x", [load_iris().data, load_wine().data, load_breast_cancer().data, factors()])
def test_the_likelihood_is_no_less_than_scikit_learns(x):
    for m in (1, 2):
        peer = sklearn.decomposition.FactorAnalysis(m, tol=1e-6, max_iter=3000, svd_method="lapack").fit(x)
        # Both stop short of a maximum on the boundary, where a noise variance goes to 0.
        assert FactorAnalysis(m, tol=1e-6, max_iter=3000).fit(x).score(x) > peer.score(x) - 1e-3


def test_where_the_maximum_is_plain_the_parameters_are_scikit_learns():
    x = factors()
    peer = sklearn.decomposition.FactorAnalysis(2, tol=1e-10, max_iter=5000, svd_method="lapack").fit(x)
    model = FactorAnalysis(2, tol=1e-10, max_iter=5000).fit(x)
    assert_allclose(model.noise_variance_, peer.noise_variance_, atol=1e-4)
    assert_allclose(np.abs(model.components_), np.abs(peer.components_), atol=1e-4)
    assert_allclose(np.abs(model.transform(x)), np.abs(peer.transform(x)), atol=1e-3)
    assert_allclose(model.get_precision(), peer.get_precision(), atol=1e-4)


def test_scaling_a_feature_changes_nothing_but_its_units():
    x = factors()
    scale = 10.0 ** np.arange(-4, 4)
    one, other = FactorAnalysis(2, tol=1e-8).fit(x), FactorAnalysis(2, tol=1e-8).fit(x * scale)
    assert_allclose(other.score(x * scale), one.score(x) - np.log(scale).sum(), rtol=1e-9)
    assert_allclose(other.get_covariance(), one.get_covariance() * np.outer(scale, scale), rtol=1e-4, atol=1e-12)


def test_independent_features_are_the_diagonal_gaussian():
    x = factors()
    x[::7, 2] = np.nan
    assert FactorAnalysis(0).fit(x).score(x) == pytest.approx(
        GaussianMixture(1, covariance_type="diag").fit(x).score(x)
    )


def test_equal_noise_is_probabilistic_pca_at_best():
    x = factors()
    assert FactorAnalysis(2).fit(x).score(x) > ProbabilisticPCA(2).fit(x).score(x)


def test_a_mixture_of_one_is_one():
    x = factors(300)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    one = FactorAnalysis(2, tol=1e-7).fit(x)
    mixture = MixtureOfFactorAnalysers(1, 2, tol=1e-10, max_iter=2000, random_state=0).fit(x)
    assert mixture.score(x) == pytest.approx(one.score(x), abs=1e-5)


def test_complete_rows_are_fitted_through_their_covariance():
    """A row of NaN changes nothing but sends the fit through the rows themselves."""
    x = factors(200)
    through = FactorAnalysis(2, tol=1e-9, max_iter=5000).fit(x)
    rows = FactorAnalysis(2, tol=1e-9, max_iter=5000).fit(np.vstack([x, np.full((1, 8), np.nan)]))
    assert_allclose(rows.get_covariance(), through.get_covariance(), atol=1e-4)
    assert_allclose(rows.mean_, through.mean_, atol=1e-6)


@pytest.mark.parametrize(
    "prior", [ConjugatePrior(), ConjugatePrior(mean=np.ones(8), mean_precision=5.0, scale=np.ones(8))]
)
def test_the_posterior_mode_is_one_either_way(prior):
    x = factors(100)
    through = FactorAnalysis(2, prior=prior, tol=1e-9, max_iter=5000).fit(x)
    rows = FactorAnalysis(2, prior=prior, tol=1e-9, max_iter=5000).fit(np.vstack([x, np.full((1, 8), np.nan)]))
    # The default scale is the spread of the rows, to which the empty one adds a hundredth.
    assert_allclose(rows.get_covariance(), through.get_covariance(), rtol=0.02, atol=0.02)


def test_rotations_turn_and_do_not_change_the_density():
    x = factors(d=10, m=3)
    plain = FactorAnalysis(3).fit(x)
    simplicity = {None: (plain.components_**4).sum()}
    for rotation in ("varimax", "quartimax"):
        turned = FactorAnalysis(3, rotation=rotation).fit(x)
        assert turned.score(x) == pytest.approx(plain.score(x))
        assert not np.allclose(turned.components_, plain.components_)
        assert_allclose(turned.get_covariance(), plain.get_covariance(), rtol=1e-7)
        simplicity[rotation] = (turned.components_**4).sum()
    assert simplicity["quartimax"] >= max(simplicity.values()) - 1e-9


def test_batches_of_complete_rows_add_up():
    x = factors()
    model = FactorAnalysis(2, tol=1e-8)
    for part in np.array_split(x, 5):
        model.partial_fit(part)
    assert_allclose(model.get_covariance(), FactorAnalysis(2, tol=1e-8).fit(x).get_covariance(), atol=1e-4)


def test_constant_columns_do_no_harm():
    x = load_digits().data
    model = FactorAnalysis(7).fit(x)
    assert model.lower_bound_ == pytest.approx(model.score(x))
    assert np.ptp(model.noise_variance_[[0, 32, 39]]) == 0.0


def test_a_constant_column_has_a_prior_too():
    x = np.random.default_rng(0).normal(size=(200, 4))
    x[:, 3] = 0.0
    for model in (FactorAnalysis(2, prior=ConjugatePrior()), MixtureOfFactorAnalysers(1, 2, prior=ConjugatePrior())):
        assert np.isfinite(model.fit(x).score(x))


def test_batches_end_no_lower_than_a_fit():
    x = load_wine().data[np.random.default_rng(0).permutation(178)]
    model = FactorAnalysis(3)
    for part in np.array_split(x, 3):
        model.partial_fit(part)
    assert model.score(x) > FactorAnalysis(3).fit(x).score(x) - 1e-3


def test_the_start_is_what_was_asked_for():
    x = factors(d=30)
    few = {"max_iter": 0}
    exact = FactorAnalysis(2, svd_method="lapack", **few).fit(x)
    rough = FactorAnalysis(2, svd_method="randomized", iterated_power=0, **few).fit(x)
    given = FactorAnalysis(2, noise_variance_init=np.full(30, 0.5), **few).fit(x)
    assert_allclose(given.noise_variance_, 0.5)
    assert not np.allclose(exact.components_, rough.components_)
    assert len(FactorAnalysis(2, max_iter=4, tol=0).fit(x).loglike_) == 4


def test_a_second_start_where_the_first_ends_lower():
    """Two features are nearly the same, so that one factor holds all of them, and there are several maxima."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=(1000, 2))[:, :1]
    x = z * np.linspace(0.5, 1.0, 7) + 0.3 * rng.normal(size=(1000, 7))
    x[:, 1] = x[:, 0] + 0.02 * rng.normal(size=1000)
    peer = sklearn.decomposition.FactorAnalysis(3, tol=1e-6, max_iter=5000).fit(x).score(x)
    assert FactorAnalysis(3).fit(x).score(x) > peer - 1e-3


def test_mistakes_have_a_way_out():
    x = factors(50)
    with pytest.raises(ValueError, match="n_components=9 is more than the 8 features of X; lower it"):
        FactorAnalysis(9).fit(x)
    with pytest.warns(UserWarning, match="n_components=8 factors hold all of the rows"):
        FactorAnalysis(8).fit(x[:3])
    with pytest.raises(ValueError, match=r"noise_variance_init has shape \(2,\), but \(8,\) is needed"):
        FactorAnalysis(2, noise_variance_init=[1.0, 1.0]).fit(x)


def test_a_noise_floor_is_a_share_of_the_mean_variance_and_keeps_the_rest():
    x = factors()
    x[:, 3] = 1e-3 * np.random.default_rng(1).normal(size=len(x))
    plain, kept = (FactorAnalysis(2, tol=1e-8, max_iter=3000, noise_floor=share).fit(x) for share in (0.0, 1e-3))
    least = 1e-3 * x.var(0).mean()
    assert plain.noise_variance_[3] < least
    assert_allclose(kept.noise_variance_.min(), least)
    others = np.arange(8) != 3
    # A feature below the floor tells nothing about the factors; the rest is equal up to where EM stopped.
    alone = FactorAnalysis(2, tol=1e-8, max_iter=3000).fit(x[:, others])
    assert_allclose(kept.noise_variance_[others], alone.noise_variance_, rtol=1e-3)
    far = x[:5] + np.eye(8)[3]
    assert (kept.score_samples(far) > plain.score_samples(far) + 100).all()
    holes = x.copy()
    holes[::7, 0] = np.nan
    assert FactorAnalysis(2, noise_floor=1e-3).fit(holes).noise_variance_[3] >= 0.99 * least
