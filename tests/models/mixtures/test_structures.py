"""Mixtures with mclust's structures: published values, and what holds of every structure."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import invgamma, invwishart, multivariate_normal
from sklearn.datasets import load_iris

import jensen
from jensen import ConjugatePrior, GaussianMixture, Mixture
from jensen.models.mixtures.gaussians import MCLUST, STRUCTURES

X, Y = load_iris(return_X_y=True)
USUAL = {"VII": "spherical", "VVI": "diag", "EEE": "tied", "VVV": "full"}
NEW = [name for name in MCLUST if name not in USUAL]
# BIC on iris with 2 and 3 components: mclust's own or the best of 140 starts of an independent EM, whichever is less.
BIC = {
    "EII": (1123.4113, 878.7639),
    "EVI": (1007.3082, 797.8329),
    "VEE": (656.3270, 605.3968),
    "EVE": (657.2263, 616.9843),
    "VVE": (604.3858, 588.4467),
    "EVV": (658.3306, 621.5184),
    "EEV": (644.5997, 609.5290),
    "VEV": (561.7285, 562.5507),
}


def tight(name, k=3, **arguments):
    return GaussianMixture(k, covariance_type=name, **{"tol": 1e-9, "max_iter": 5000, "random_state": 0} | arguments)


@cache
def three_of(name):
    return tight(name).fit(X)


def full(model):
    """Σ_k (K, d, d) of a fitted model, from its attribute."""
    k, d = model.means_.shape
    cov, letters = model.covariances_, STRUCTURES[model.covariance_type].letters
    if letters[1] == "I":
        return np.broadcast_to(cov, k)[:, None, None] * np.eye(d)
    if letters[2] == "I":
        return np.broadcast_to(cov, (k, d))[:, :, None] * np.eye(d)
    return np.broadcast_to(cov, (k, d, d))


# Published values


@pytest.mark.parametrize("name", list(BIC))
def test_iris_as_published(name):
    """EEV with three components has many maxima, and `select` finds the best by starts from its neighbours."""
    two, three = BIC[name]
    assert tight(name, 2).fit(X).bic(X) == pytest.approx(two, abs=1e-4)
    if name != "EEV":
        assert three_of(name).bic(X) == pytest.approx(three, abs=1e-4)


def test_log_likelihood_and_parameters_of_the_published_winner():
    model = tight("VEV", 2).fit(X)
    assert model.score_samples(X).sum() == pytest.approx(-215.7260, abs=1e-4)
    assert model.n_parameters_ == 26


@pytest.mark.parametrize(("name", "usual"), USUAL.items())
def test_four_names_are_scikit_learns(name, usual):
    ours, theirs = three_of(name), three_of(usual)
    assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-12)
    assert ours.lower_bound_ == theirs.lower_bound_
    assert ours.n_parameters_ == theirs.n_parameters_


@pytest.mark.parametrize(
    ("name", "n_free"),
    # mclust's nMclustParams(name, d=4, G=3).
    list(zip(MCLUST, [15, 17, 18, 20, 24, 26, 24, 26, 30, 32, 36, 38, 42, 44], strict=True)),
)
def test_parameter_counts_are_mclusts(name, n_free):
    assert three_of(name).n_parameters_ == n_free


# What every structure shares with the four


@pytest.mark.parametrize("name", NEW)
def test_a_fit_has_its_structure(name):
    model = three_of(name)
    values = np.linalg.eigvalsh(full(model))
    volume = np.exp(np.log(values).mean(1))
    if name[0] == "E":
        assert_allclose(volume, volume[0], rtol=1e-8)
    if name[1] == "E":
        shape = values / volume[:, None]
        assert_allclose(shape, np.broadcast_to(shape[0], shape.shape), rtol=1e-8)
    if name[2] == "E":
        one, two, _ = full(model)
        assert_allclose(one @ two, two @ one, rtol=1e-7)
    assert_allclose(model.precisions_, 1 / model.covariances_ if name[2] == "I" else np.linalg.inv(model.covariances_))


@pytest.mark.parametrize("name", NEW)
def test_scores_are_scipys(name):
    model = three_of(name)
    parts = zip(model.weights_, model.means_, full(model), strict=True)
    density = sum(w * multivariate_normal.pdf(X, mean, cov) for w, mean, cov in parts)
    assert_allclose(model.score_samples(X), np.log(density))


@pytest.mark.parametrize("name", NEW)
def test_a_row_of_weight_two_counts_twice_and_missing_entries_are_integrated(name):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    weight = rng.integers(1, 3, len(rows))
    start = three_of(name)

    def fitted(x, w=None):
        model = tight(name, warm_start=True, max_iter=20, tol=0.0)
        model.theta_ = start.theta_
        with pytest.warns(Warning, match="did not converge"):
            return model.fit(x, sample_weight=w)

    one, two = fitted(rows, weight), fitted(np.repeat(rows, weight, axis=0))
    assert one.lower_bound_ == pytest.approx(two.lower_bound_, rel=1e-9)
    assert (np.diff(one.lower_bounds_) > 0).all()
    observed = ~np.isnan(rows[7])
    parts = zip(one.weights_, one.means_, full(one), strict=True)
    cut = np.ix_(observed, observed)
    density = sum(w * multivariate_normal.pdf(rows[7][observed], m[observed], c[cut]) for w, m, c in parts)
    assert one.score_samples(rows[7:8])[0] == pytest.approx(np.log(density))


@pytest.mark.parametrize("name", NEW)
def test_labels_of_all_rows_give_discriminant_analysis(name):
    """The M-step of the classes' own scatter matrices (mclust's EDDA)."""
    model = tight(name, None).fit(X, Y)
    classes = np.split(X, 3)
    assert_allclose(model.means_, [rows.mean(0) for rows in classes])
    scatter = np.stack([50 * np.cov(rows.T, ddof=0) for rows in classes])
    ours = full(model)
    own = np.trace(np.linalg.solve(ours, scatter), axis1=1, axis2=2)
    # At the optimum a common factor of all covariances is right: Σ_k tr W_k Σ_k⁻¹ = N d.
    assert own.sum() == pytest.approx(150 * 4, rel=1e-6)
    assert (model.predict(X) == Y).mean() > 0.9


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("how", [{"acceleration": "squarem"}, {"algorithm": "gradient"}])
def test_other_ways_up_end_at_the_same_maximum(name, how):
    start = three_of(name)
    model = tight(name, warm_start=True, max_iter=300, tol=1e-7, **how)
    model.theta_ = tight(name, max_iter=2, tol=1e-7).set_params(acceleration=None).fit(X).theta_
    model.fit(X)
    assert (np.diff(model.lower_bounds_) >= -1e-12).all()
    assert model.lower_bound_ == pytest.approx(start.lower_bound_, abs=1e-4 if "acceleration" in how else 2e-3)


@pytest.mark.parametrize("name", NEW)
def test_a_joint_is_a_marginal_times_a_conditional(name, tmp_path):
    model, row = three_of(name), X[17]
    marginal, conditional = model.marginal([1, 3]), model.condition({1: row[1], 3: row[3]})
    total = marginal.score_samples(row[None, [1, 3]]) + conditional.score_samples(row[None, [0, 2]])
    assert_allclose(total, model.score_samples(row[None]), rtol=1e-9)
    for part in (marginal, conditional):
        part.save(tmp_path / "part.jensen")
        again = jensen.load(tmp_path / "part.jensen")
        assert_allclose(again.covariances_, part.covariances_)
        assert again.covariance_type == part.covariance_type


@pytest.mark.parametrize("name", NEW)
def test_files_and_attributes(name, tmp_path):
    model = three_of(name)
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen")
    assert_allclose(loaded.score_samples(X), model.score_samples(X), rtol=1e-12)
    same = GaussianMixture.from_parameters(model.weights_, model.means_, model.covariances_, covariance_type=name)
    assert_allclose(same.score_samples(X), model.score_samples(X))
    same.precisions_cholesky_ = model.precisions_cholesky_ / 2
    assert_allclose(same.covariances_, 4 * model.covariances_)
    start = {"weights_init": model.weights_, "means_init": model.means_, "precisions_init": model.precisions_}
    again = tight(name, **start).fit(X)
    assert again.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-8)


@pytest.mark.parametrize("name", [name for name in NEW if name not in ("EII", "EEI")])
def test_covariances_without_the_structure_are_refused(name):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(2, 3, 6))
    cov = factor @ factor.swapaxes(1, 2)
    cov = np.diagonal(cov, axis1=1, axis2=2) if name[2] == "I" else cov
    with pytest.raises(ValueError, match=f"covariances does not have the structure {name} of covariance_type='{name}'"):
        GaussianMixture.from_parameters([0.5, 0.5], np.zeros((2, 3)), cov, covariance_type=name)


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(np.random.default_rng(0).normal(size=(8, 9)), id="fewer rows than features"),
        pytest.param(np.column_stack([X, np.full(150, 7.0)]), id="a constant column"),
        pytest.param(np.full((10, 3), 4.0) + np.eye(3)[np.arange(10) % 3], id="three distinct rows"),
        pytest.param(X + 1e8, id="offset 1e8"),
        pytest.param(X * 1e-12, id="scale 1e-12"),
        pytest.param(np.column_stack([X, X[:, 0] * 2]), id="a redundant column"),
        pytest.param(X * [1e-6, 1.0, 1e6, 1.0], id="units far apart"),
        pytest.param(X[:, :1], id="one column"),
    ],
)
def test_hard_data_fit(rows, name, tmp_path):
    model = GaussianMixture(2, covariance_type=name, random_state=0).fit(rows)
    assert np.isfinite(model.score_samples(rows)).all()
    model.save(tmp_path / "model.jensen")
    assert_allclose(jensen.load(tmp_path / "model.jensen").score(rows), model.score(rows))
    assert (np.diff(model.lower_bounds_) >= -1e-8 * (1 + np.abs(model.lower_bound_))).all()


@pytest.mark.parametrize("name", NEW)
def test_a_floor_that_binds_is_kept_and_the_bound_rises(name):
    """Some eigenvalues end at the floor, and every step is one of the constrained problem."""
    model = tight(name, 4, reg_covar=0.05, max_iter=300, tol=1e-8).fit(X)
    assert (np.diff(model.lower_bounds_) >= -1e-10).all()
    unit = X.std(0) if STRUCTURES[name].is_free_of_units else np.full(4, np.sqrt(X.var(0).mean()))
    least = np.linalg.eigvalsh(full(model) / np.outer(unit, unit)).min()
    assert least > 0.05 * (1 - 1e-6)
    assert least < 0.05 * (1 + 1e-6) or name in ("EII", "EEI")


@pytest.mark.parametrize("name", [name for name in NEW if name[0] == "V"])
def test_a_collapse_without_a_floor_is_an_error(name):
    """A volume of its own shrinks on a point."""
    rows = np.vstack([X[:20], np.tile(X[100], (10, 1))])
    arguments = {"reg_covar": 0, "means_init": [X[:20].mean(0), X[100]], "init_params": "k-means++"}
    with pytest.raises(ValueError, match=r"component 1 collapsed: its covariance is singular and reg_covar=0"):
        GaussianMixture(2, covariance_type=name, **arguments).fit(rows)


@pytest.mark.parametrize("name", ["EVI", "EVE", "EVV"])
def test_a_flat_component_of_equal_volume_is_long(name, tmp_path):
    """Its likelihood stays finite: what ten directions lack the other one has, up to a ceiling."""
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(size=(40, 11)), 20 + np.outer(np.linspace(-1, 1, 10), np.eye(11)[0])])
    model = GaussianMixture(2, covariance_type=name, random_state=0, max_iter=300).fit(rows)
    assert np.isfinite(model.score(rows))
    model.save(tmp_path / "model.jensen")
    assert_allclose(jensen.load(tmp_path / "model.jensen").score(rows), model.score(rows))
    assert_allclose(np.linalg.slogdet(full(model))[1], np.linalg.slogdet(full(model)[0])[1], rtol=1e-3)


# Priors


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("holes", [False, True])
def test_the_posterior_mode_rises_and_its_prior_is_that_of_the_free_structure(name, holes):
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X) if holes else X
    dense, is_round = name[2] != "I", name[1] == "I"
    scale = np.diag([1.0, 2.0, 3.0, 4.0]) if dense else 2.0 if is_round else np.array([1.0, 2.0, 3.0, 4.0])
    mean = X.mean(0) + 0.1
    model = tight(name, 3, prior=ConjugatePrior(1.0, mean, 0.5, 8.0, scale), max_iter=200, tol=1e-7).fit(rows)
    assert (np.diff(model.lower_bounds_) >= -1e-11).all()
    log_prior = np.log(2.0)
    for centre, cov in zip(model.means_, full(model), strict=True):
        log_prior += multivariate_normal.logpdf(centre, mean, cov / 0.5)
    if dense:
        log_prior += sum(invwishart.logpdf(cov, 8.0, scale) for cov in full(model))
    else:
        log_prior += invgamma.logpdf(model.covariances_, 4.0, scale=np.asarray(scale) / 2).sum()
    assert model.lower_bound_ * 150 == pytest.approx(model.score_samples(rows).sum() + log_prior, rel=1e-9)


@pytest.mark.parametrize("name", NEW)
def test_a_prior_keeps_a_component_of_one_row_alive(name):
    rows = np.vstack([X, [[50.0, 50.0, 50.0, 50.0]]])
    model = tight(name, 4, prior=ConjugatePrior(), reg_covar=0, max_iter=200, tol=1e-6).fit(rows)
    assert np.isfinite(model.score(rows))
    assert model.weights_.min() == pytest.approx(1 / 151, rel=1e-3)


# Other arguments, other models


@pytest.mark.parametrize(("before", "after"), [("full", "VEV"), ("VEV", "diag"), ("EII", "EEE"), ("VEV", "EII")])
def test_a_warm_start_takes_over_another_structure(before, after):
    model = three_of(before)
    warm = tight(after, warm_start=True)
    warm.theta_ = model.theta_
    warm.fit(X)
    assert warm.lower_bound_ == pytest.approx(three_of(after).lower_bound_, abs=1e-6)
    assert warm.n_parameters_ == three_of(after).n_parameters_


@pytest.mark.parametrize("after", ["VEE", "EVV", "VEI"])
def test_another_structure_is_taken_over_in_any_units(after):
    rows = X * [1e-6, 1.0, 1e6, 1.0]
    warm = tight(after, warm_start=True)
    warm.theta_ = tight("full").fit(rows).theta_
    warm.fit(rows)
    assert warm.lower_bound_ == pytest.approx(three_of(after).lower_bound_, abs=1e-6)


def test_mixtures_of_any_columns_have_the_structures(tmp_path):
    """With levels beside numbers; marginals have the structure that they keep."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=np.where(Y > 0, "large", "small"))
    table.loc[::7, "b"] = None
    model = Mixture(2, covariance_type="VEV", random_state=0, tol=1e-8, max_iter=500).fit(table)
    assert model.n_parameters_ == 26 + 2
    values = np.linalg.eigvalsh(model.theta_.components.parts[0].full().numpy())
    assert_allclose(values[0] / values[0].sum(), values[1] / values[1].sum(), rtol=1e-8)
    model.save(tmp_path / "model.jensen")
    assert_allclose(jensen.load(tmp_path / "model.jensen").score_samples(table), model.score_samples(table))
    part = model.marginal(["a", "kind"])
    assert part.covariance_type == "full"
    part.save(tmp_path / "part.jensen")
    rows = table[["a", "kind"]]
    assert_allclose(jensen.load(tmp_path / "part.jensen").score_samples(rows), part.score_samples(rows))


@pytest.mark.parametrize("name", ["spherical", "EII", "VEE"])
def test_conditionals_of_any_columns_keep_their_variances(name):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = Mixture(2, covariance_type=name, random_state=0).fit(table)
    given = model.condition({"a": 5.0})
    other = GaussianMixture(2, covariance_type=name, random_state=0).fit(X).condition({0: 5.0})
    rows = table[["b", "c", "d"]]
    assert_allclose(given.score_samples(rows), other.score_samples(rows.to_numpy()), rtol=1e-3)


@pytest.mark.parametrize("name", MCLUST)
def test_labelled_rows_with_missing_values(name):
    """The start is a point of the structure, so no step falls from it."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=80)
    rows = rng.normal(size=(80, 4)) * (1 + y[:, None]) + y[:, None]
    rows[np.arange(80), rng.integers(4, size=80)] = np.nan
    model = GaussianMixture(covariance_type=name, random_state=0).fit(rows, y)
    assert (np.diff(model.lower_bounds_) > -1e-9).all()
    alone = GaussianMixture(1, covariance_type=name, random_state=0).fit(rows)
    assert (np.diff(alone.lower_bounds_) > -1e-9).all()


@pytest.mark.parametrize("name", ["EEE", "VEV", "EVI"])
def test_structures_of_classes(name):
    model = jensen.DiscriminantAnalysis(name).fit(X, Y)
    assert model.score(X, Y) > 0.95
    assert_allclose(model.predict_proba(X).sum(1), 1)
