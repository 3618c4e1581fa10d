"""What is special to the Gaussian mixture: known optima, closed forms, drop-in values, hard data."""

import math
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn.mixture
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import dirichlet, entropy, invwishart, multivariate_normal
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import jensen
from jensen import ConjugatePrior, GaussianMixture
from jensen.models.mixtures import partitions

X, Y = load_iris(return_X_y=True)
STRUCTURES = ["full", "tied", "diag", "spherical"]


def tight(**arguments):
    return GaussianMixture(**{"tol": 1e-9, "max_iter": 5000, "random_state": 0} | arguments)


@cache
def three_of(structure="full"):
    """Three components of iris, to be asked and not to be changed."""
    return tight(n_components=3, covariance_type=structure).fit(X)


# Known optima


@pytest.mark.parametrize(
    ("structure", "k", "log_likelihood"),
    [
        ("full", 1, -379.9146),
        ("full", 2, -214.3547),
        ("full", 3, -180.1855),
        ("tied", 2, -296.4476),
        ("tied", 3, -256.3540),
        ("diag", 3, -306.8605),
        ("spherical", 3, -384.3141),
    ],
)
def test_the_known_optima_of_iris(structure, k, log_likelihood):
    model = tight(n_components=k, covariance_type=structure).fit(X)
    assert model.score_samples(X).sum() == pytest.approx(log_likelihood, abs=1e-4)


def test_the_good_optimum_from_every_seed():
    for seed in range(20):
        model = tight(n_components=3, random_state=seed).fit(X)
        assert model.score_samples(X).sum() == pytest.approx(-180.1855, abs=1e-4), seed


@pytest.mark.parametrize("structure", STRUCTURES)
def test_one_component_is_the_gaussian_maximum_likelihood(structure):
    model = GaussianMixture(covariance_type=structure).fit(X)
    cov = np.cov(X.T, ddof=0)
    expected = {"full": cov[None], "tied": cov, "diag": np.diag(cov)[None], "spherical": [np.trace(cov) / 4]}[structure]
    assert_allclose(model.means_[0], X.mean(0))
    assert_allclose(model.covariances_, expected)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_same_as_scikit_learn_from_the_same_start(structure):
    seed = sklearn.mixture.GaussianMixture(3, covariance_type=structure, reg_covar=0, random_state=1, max_iter=1).fit(X)
    start = {"weights_init": seed.weights_, "means_init": seed.means_, "precisions_init": seed.precisions_}
    arguments = {"covariance_type": structure, "tol": 1e-10, "max_iter": 2000, "reg_covar": 0, **start}
    theirs = sklearn.mixture.GaussianMixture(3, **arguments).fit(X)
    ours = GaussianMixture(3, **arguments).fit(X)
    # Both stop when a step gains 1e-10; the parameters are then known to about its square root.
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=2e-3, atol=2e-3, err_msg=name)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-3)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), abs=1e-4)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), abs=1e-4)


def test_icl_adds_the_entropy_of_the_posterior():
    model = three_of()
    q = model.predict_proba(X)
    entropy = -np.where(q > 0, q * np.log(np.maximum(q, 1e-300)), 0).sum()
    assert model.icl(X) == pytest.approx(model.bic(X) + 2 * entropy)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_squarem_and_gradient_em_reach_the_same_place(structure):
    plain = three_of(structure)
    fast = tight(n_components=3, covariance_type=structure, acceleration="squarem").fit(X)
    slow = tight(n_components=3, covariance_type=structure, algorithm="gradient").fit(X)
    assert fast.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-6)
    assert slow.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-5)
    assert (np.diff(fast.lower_bounds_) >= -1e-9).all()
    assert (np.diff(slow.lower_bounds_) >= -1e-9).all()


def test_squarem_saves_steps_where_em_is_slow():
    start = {"init_params": "random", "random_state": 3, "n_components": 3}
    assert tight(**start, acceleration="squarem").fit(X).n_iter_ < tight(**start).fit(X).n_iter_


# Labels


def one_hot(y):
    return np.eye(y.max() + 1)[y]


def test_all_labels_known_and_tied_is_linear_discriminant_analysis():
    model = GaussianMixture(covariance_type="tied").fit(X, Y)
    # LDA's own covariance has the divisor n as well, being the weighted mean of the classes' (1/n convention).
    lda = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, Y)
    assert_allclose(model.means_, lda.means_)
    assert_allclose(model.covariances_, lda.covariance_, rtol=1e-9)
    assert_allclose(model.predict_proba(X), lda.predict_proba(X), atol=1e-8)
    assert model.bound(X, q=one_hot(Y)).total.sum() == pytest.approx(-263.2037, abs=1e-4)
    assert model.lower_bound_ * 150 == pytest.approx(-263.2037, abs=1e-4)


def test_all_labels_known_and_full_is_quadratic_discriminant_analysis():
    model = GaussianMixture().fit(X, Y)
    qda = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, Y)
    assert_allclose(model.means_, qda.means_)
    # The divisor is N_k in both (scikit-learn 1.9; older ones divide by N_k - 1).
    assert_allclose(model.covariances_, qda.covariance_, rtol=1e-9)
    assert_allclose(model.predict_proba(X), qda.predict_proba(X), atol=1e-8)
    assert model.bound(X, q=one_hot(Y)).total.sum() == pytest.approx(-188.3756, abs=1e-4)


def test_all_labels_known_and_diag_is_gaussian_naive_bayes():
    model = GaussianMixture(covariance_type="diag").fit(X, Y)
    bayes = GaussianNB(var_smoothing=0).fit(X, Y)
    assert_allclose(model.means_, bayes.theta_)
    assert_allclose(model.covariances_, bayes.var_)
    assert_allclose(model.predict_proba(X), bayes.predict_proba(X), atol=1e-8)
    assert_array_equal(model.predict(X), bayes.predict(X))


def test_one_m_step_ends_a_fully_labelled_fit():
    model = GaussianMixture().fit(X, Y)
    assert model.n_iter_ <= 2
    assert model.lower_bounds_[0] == pytest.approx(model.lower_bounds_[-1], abs=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 7.0])
def test_the_objective_of_partial_labels(alpha):
    """Σ_unlabelled ln p(x) + α Σ_labelled ln π_c N(x; c), per unit of weight (MATH section 3)."""
    labels = np.where(np.arange(150) % 10 == 0, Y, -1)
    model = tight(label_weight=alpha).fit(X, labels)
    known = labels >= 0
    joint = model.bound(X[known], q=np.eye(3)[labels[known]]).total.sum()
    total = model.score_samples(X[~known]).sum() + alpha * joint
    assert model.lower_bound_ == pytest.approx(total / ((~known).sum() + alpha * known.sum()))
    assert (model.predict(X) == Y).mean() > 0.95


def test_any_label_values_and_their_order():
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[Y]
    names[::2] = None
    model = tight().fit(X, names)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert_allclose(model.means_[0], X[Y == 0].mean(0), atol=0.1)
    assert set(model.predict(X)) <= set(model.classes_)
    texts = np.array(["a", "b", "c"])[Y]
    for mark in ("", "nan", "-1"):
        assert tight().fit(X, np.where(np.arange(150) % 2 == 0, texts, mark)).classes_.tolist() == ["a", "b", "c"]
    assert tight().fit(X, [pd.NA if i % 2 else t for i, t in enumerate(texts)]).classes_.tolist() == ["a", "b", "c"]
    floats = np.where(np.arange(150) % 2 == 0, Y + 10.0, np.nan)
    assert tight().fit(X, floats).classes_.tolist() == [10.0, 11.0, 12.0]


def test_components_beyond_the_classes_are_unlabelled():
    labels = np.where((Y == 0) & (np.arange(150) % 5 == 0), 0, -1)
    model = tight(n_components=3).fit(X, labels)
    assert model.predict_proba(X).shape == (150, 3)
    assert set(model.predict(X[Y == 0])) == {0}
    assert set(model.predict(X[Y != 0])) == {-1}
    names = np.where(labels == 0, "setosa", None)
    assert set(tight(n_components=3).fit(X, names).predict(X)) == {"setosa", None}


def test_a_sample_of_one_class():
    model = GaussianMixture(random_state=0).fit(X, np.array(["a", "b", "c"])[Y])
    rows, component = model.sample(2000, y="c")
    assert set(component) == {2}
    assert_allclose(rows.mean(0), X[Y == 2].mean(0), atol=0.1)
    assert model.sample(3, y=["a", "b", "a"])[1].tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"y has shape \(2,\); give one class, or one for each of n_samples=3 rows"):
        model.sample(3, y=["a", "b"])
    with pytest.raises(ValueError, match=r"y='d' is not among \['a', 'b', 'c'\]"):
        model.sample(1, y="d")


def test_labels_of_rows_that_do_not_count_are_left_out():
    model = GaussianMixture().fit(X, Y, sample_weight=(Y != 2).astype(float))
    assert model.classes_.tolist() == [0, 1]
    assert_allclose(model.means_, GaussianMixture().fit(X[Y != 2], Y[Y != 2]).means_)


def test_bad_labels():
    with pytest.raises(ValueError, match=r"y has 3 classes, but n_components=2; .* or pass y=None to ignore labels"):
        GaussianMixture(2).fit(X, Y)
    with pytest.raises(ValueError, match=r"y has shape \(149,\), but X has 150 rows"):
        GaussianMixture().fit(X, Y[:-1])
    with pytest.raises(ValueError, match=r"Unknown label type: y holds continuous values such as 5.1"):
        GaussianMixture().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="y mixes values of the kinds int, str; give labels of one kind"):
        GaussianMixture(2).fit(X, np.array(["a", 1, None] * 50, dtype=object))
    with pytest.warns(UserWarning, match="y holds only -1 and 1, and -1 means unlabelled"):
        GaussianMixture().fit(X, np.where(Y == 0, 1, -1))


def test_labels_of_a_later_batch_must_be_known():
    model = GaussianMixture(random_state=0).partial_fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=r"y holds the classes \[2\], unseen in the first batch"):
        model.partial_fit(X[100:], Y[100:])


def test_rare_classes_are_seen_by_the_start_of_a_large_fit(monkeypatch):
    monkeypatch.setattr(partitions, "LIMIT", 60)
    rows, y = make_blobs(4000, centers=[[0, 0], [6, 0], [0, 6], [6, 6]], random_state=0)
    labels = np.full(4000, -1)
    for k in range(3):
        labels[np.flatnonzero(y == k)[:3]] = k
    model = GaussianMixture(4, random_state=0).fit(rows, labels)
    assert_array_equal(model.classes_, [0, 1, 2])
    # Centres are six deviations apart: Bayes' own error is about 0.3 %.
    assert (model.predict(rows) == np.where(y < 3, y, -1)).mean() > 0.99


@pytest.mark.parametrize("structure", STRUCTURES)
def test_stepwise_em_goes_on_from_a_fit_and_from_a_file(structure, tmp_path):
    """A few odd rows move a model that has seen many only a little, also after a round trip through a file."""
    rows, _ = make_blobs(3000, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    model = tight(n_components=3, covariance_type=structure).fit(rows)
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen")
    before = model.score(rows)
    odd = rows[:20] + 1.0
    for one in (model, loaded):
        one.partial_fit(odd)
        assert one.total_weight_ == 3020
        assert before > one.score(rows) > before - 0.02
    assert_allclose(loaded.means_, model.means_, rtol=1e-6)
    assert_allclose(loaded.covariances_, model.covariances_, rtol=1e-6)


# The two-class posterior, bad local maxima


def test_two_classes_with_common_variance_have_a_sigmoid_posterior():
    model = GaussianMixture.from_parameters([0.8, 0.2], [[0.0], [1.0]], [1.0, 1.0], covariance_type="spherical")
    x = np.linspace(-5, 5, 41)
    assert_allclose(model.predict_proba(x[:, None])[:, 0], 1 / (1 + np.exp(x - 1.886294)), rtol=1e-6)


def jin(gamma, r=4.0, seed=0, n=2000):
    rng = np.random.default_rng(seed)
    centres = np.array([-r, r, gamma * r])
    rows = np.repeat(centres, n)[:, None] + rng.normal(size=(3 * n, 1))
    fixed = {"weights_init": np.full(3, 1 / 3), "precisions_init": np.ones(3), "freeze": ("weights", "covariances")}
    return rows, {"n_components": 3, "covariance_type": "spherical", "tol": 1e-9, "max_iter": 500, **fixed}


def test_a_bad_local_maximum_has_the_value_of_its_limit():
    r, gamma = 4.0, 30.0
    rows, arguments = jin(gamma, r)
    bad = GaussianMixture(**arguments, means_init=[[0.0], [gamma * r], [gamma * r + 0.1]]).fit(rows)
    good = GaussianMixture(**arguments, random_state=0).fit(rows)
    constant = math.log(3 * math.sqrt(2 * math.pi))
    # Sampling error of 6000 rows, a few hundredths of a nat.
    assert bad.lower_bound_ == pytest.approx(-(2 * r**2 + 3 - 2 * math.log(2)) / 6 - constant, abs=0.1)
    assert good.lower_bound_ == pytest.approx(-0.5 - constant, abs=0.05)
    assert_allclose(bad.weights_, 1 / 3)
    assert_allclose(bad.covariances_, 1.0)


def test_our_start_avoids_it_where_random_rows_fail():
    # The two maxima are -2.5 and -7.6, and 900 rows know them within 0.1.
    rows, arguments = jin(30.0, n=300)
    ours = [GaussianMixture(**arguments, random_state=s).fit(rows).lower_bound_ for s in range(10)]
    theirs = [
        GaussianMixture(**arguments, random_state=s, init_params="random_from_data").fit(rows).lower_bound_
        for s in range(10)
    ]
    assert min(ours) > -3
    assert min(theirs) < -6


# Priors, frozen and given parameters


@pytest.mark.parametrize("max_iter", [0, 100])
def test_a_prior_adds_its_log_density_to_the_objective(max_iter):
    """At any theta, the start's too; test_conjugate_prior has every structure."""
    prior = ConjugatePrior(2.0, X.mean(0), 0.5, 8.0, np.eye(4))
    model = tight(n_components=2, prior=prior, max_iter=max_iter, init_params="kmeans", random_state=0).fit(X)
    log_prior = dirichlet.logpdf(model.weights_, [2.0, 2.0])
    for mean, cov in zip(model.means_, model.covariances_, strict=True):
        log_prior += invwishart.logpdf(cov, 8.0, np.eye(4)) + multivariate_normal.logpdf(mean, X.mean(0), cov / 0.5)
    assert model.lower_bound_ * 150 == pytest.approx(model.score_samples(X).sum() + log_prior, rel=1e-9)


@pytest.mark.parametrize(
    ("freeze", "n_free"),
    [((), 29), (("weights",), 28), (("covariances",), 9), (("weights", "covariances"), 8), (("means", "weights"), 20)],
)
def test_parameters_that_are_kept_are_not_counted(freeze, n_free):
    """Of 1 weight, 2 · 4 means and 2 · 10 covariances; BIC, AIC and ICL follow."""
    given = {
        "weights_init": [0.5, 0.5],
        "means_init": X[[0, 100]],
        "precisions_init": np.tile(np.linalg.inv(np.cov(X.T)), (2, 1, 1)),
    }
    model = GaussianMixture(2, **given, freeze=freeze, max_iter=5, tol=1.0).fit(X)
    total = model.score_samples(X).sum()
    assert model.n_parameters_ == n_free
    assert model.bic(X) == pytest.approx(-2 * total + n_free * np.log(150))
    assert model.aic(X) == pytest.approx(-2 * total + 2 * n_free)
    q = model.predict_proba(X)
    assert model.icl(X) == pytest.approx(model.bic(X) + 2 * entropy(q, axis=1).sum())


def test_the_posterior_mode_of_one_gaussian():
    """Fraley & Raftery's formula in the data's own units."""
    mean, kappa, nu, scale = np.array([5.0, 3.0, 4.0, 1.0]), 3.0, 9.0, np.diag([1.0, 2.0, 3.0, 4.0])
    model = GaussianMixture(prior=ConjugatePrior(1.0, mean, kappa, nu, scale)).fit(X)
    n, d = X.shape
    away = X.mean(0) - mean
    scatter = n * np.cov(X.T, ddof=0)
    expected = (scale + scatter + kappa * n / (kappa + n) * np.outer(away, away)) / (nu + n + d + 2)
    assert_allclose(model.means_[0], (n * X.mean(0) + kappa * mean) / (n + kappa))
    assert_allclose(model.covariances_[0], expected)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_prior_keeps_a_component_of_one_row_alive(structure):
    rows = np.vstack([X, [[50.0, 50.0, 50.0, 50.0]]])
    model = tight(n_components=4, covariance_type=structure, prior=ConjugatePrior(), reg_covar=0).fit(rows)
    assert np.isfinite(model.score(rows))
    assert (np.diff(model.lower_bounds_) >= -1e-9).all()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (ConjugatePrior(0.5), "weight_concentration=0.5 has no mode"),
        (ConjugatePrior(mean_precision=0), "mean_precision=0 is not a precision"),
        (ConjugatePrior(degrees_of_freedom=2), "degrees_of_freedom=2 is too few; give more than 3"),
        (ConjugatePrior(mean=[0.0]), r"the prior's mean has shape \(1,\); X has 4 features"),
        (ConjugatePrior(scale=[1.0]), r"the prior's scale has shape \(1,\); this model needs \(4, 4\)"),
    ],
)
def test_bad_priors(prior, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(2, prior=prior).fit(X)


def test_frozen_parameters_stay_and_the_others_move():
    means = X[[0, 60, 110]]
    model = tight(n_components=3, means_init=means, freeze=("means",)).fit(X)
    assert_allclose(model.means_, means, rtol=1e-12)
    assert (np.diff(model.lower_bounds_) >= -1e-9).all()
    q = model.predict_proba(X)
    about = [(q[:, k, None] * (X - m)).T @ (X - m) / q[:, k].sum() for k, m in enumerate(means)]
    assert_allclose(model.covariances_, about, rtol=1e-3)


@pytest.mark.parametrize("init", ["portfolio", "kmeans", "k-means++", "random", "random_from_data"])
def test_every_start_is_honoured(init):
    starts = [GaussianMixture(3, init_params=init, random_state=0, max_iter=0).fit(X) for _ in range(2)]
    assert_array_equal(starts[0].means_, starts[1].means_)
    assert tight(n_components=3, init_params=init).fit(X).score_samples(X).sum() > -260
    if init == "random":
        # Random responsibilities put every mean near the middle.
        assert_allclose(starts[0].means_, np.tile(X.mean(0), (3, 1)), atol=0.5)


def test_starts_differ_in_what_they_do():
    means = {
        init: np.sort(GaussianMixture(3, init_params=init, random_state=1, max_iter=0).fit(X).means_[:, 0])
        for init in ("portfolio", "kmeans", "k-means++", "random", "random_from_data")
    }
    values = list(means.values())
    assert all(not np.allclose(a, b, atol=1e-6) for i, a in enumerate(values) for b in values[:i])


def test_given_parameters_are_the_start():
    means = X[[0, 60, 110]]
    precisions = np.tile(np.eye(4), (3, 1, 1))
    weights = [0.2, 0.3, 0.5]
    model = GaussianMixture(3, weights_init=weights, means_init=means, precisions_init=precisions, max_iter=0).fit(X)
    assert_allclose(model.means_, means)
    assert_allclose(model.weights_, weights)
    assert_allclose(model.covariances_, precisions)


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    model = GaussianMixture(3, warm_start=True, max_iter=1, tol=0, random_state=0, init_params="random").fit(X)
    first = model.lower_bound_
    assert model.set_params(max_iter=0).fit(X).lower_bound_ == pytest.approx(first, abs=1e-9)
    with pytest.raises(ValueError, match="warm_start: the last fit had 4 features, X has 2"):
        model.fit(X[:, :2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights_init": [0.5, 0.6, 0.1]}, "weights_init must be 0 or more and sum to 1"),
        ({"means_init": [[0.0]]}, r"means_init has shape \(1, 1\), but \(3, 4\) is needed"),
        (
            {"precisions_init": np.tile(-np.eye(4), (3, 1, 1))},
            "precisions_init must be symmetric and positive definite",
        ),
        ({"freeze": ("means",)}, "freeze names 'means', but means_init is None; give the values to keep"),
        ({"freeze": ("colour",)}, "freeze names 'colour'; it can name weights, means, covariances"),
        ({"algorithm": "gradient", "acceleration": "squarem"}, "acceleration='squarem' extrapolates EM's steps"),
        ({"n_components": 0}, "The 'n_components' parameter of GaussianMixture must be an int in the range"),
        ({"covariance_type": "round"}, "'covariance_type' parameter .* Got 'round' instead"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(**{"n_components": 3} | arguments).fit(X)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_attributes_can_be_set_but_not_written_into(structure):
    model = deepcopy(three_of(structure))
    before = model.score_samples(X)
    order = np.argsort(-model.weights_)
    weights, means, covariances = model.weights_[order], model.means_[order], model.covariances_
    model.weights_, model.means_ = weights, means
    model.covariances_ = covariances if structure == "tied" else covariances[order]
    assert_allclose(model.score_samples(X), before)
    factors = model.precisions_cholesky_
    model.precisions_ = model.precisions_ * 4
    assert_allclose(model.precisions_cholesky_, factors * 2)
    model.precisions_cholesky_ = factors
    assert_allclose(model.score_samples(X), before)
    with pytest.raises(ValueError, match="read-only"):
        model.means_[0] = 0
    with pytest.raises(ValueError, match="weights must be 0 or more and sum to 1"):
        model.weights_ = [1.0, 1.0, 1.0]
    with pytest.raises(AttributeError, match=r"build one with GaussianMixture\.from_parameters"):
        GaussianMixture().means_ = means


# Marginals and conditionals


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_joint_is_a_marginal_times_a_conditional(structure):
    model = three_of(structure)
    marginal = model.marginal([1, 3])
    row = X[17]
    conditional = model.condition({1: row[1], 3: row[3]})
    total = marginal.score_samples(row[None, [1, 3]]) + conditional.score_samples(row[None, [0, 2]])
    assert_allclose(total, model.score_samples(row[None]), rtol=1e-9)
    holes = np.full((1, 4), np.nan)
    holes[0, [1, 3]] = row[[1, 3]]
    assert_allclose(marginal.score_samples(row[None, [1, 3]]), model.score_samples(holes), rtol=1e-9)


def test_marginals_and_conditionals_by_name_are_fitted_mixtures(tmp_path):
    frame = load_wine(as_frame=True).data[["alcohol", "hue", "proline"]]
    model = tight(n_components=2).fit(frame)
    part = model.marginal(["proline", "alcohol"])
    assert part.feature_names_in_.tolist() == ["proline", "alcohol"]
    assert list(part.sample(2)[0].columns) == ["proline", "alcohol"]
    part.save(tmp_path / "part.jensen")
    assert np.isfinite(part.score(frame[["proline", "alcohol"]]))
    given = model.condition({"alcohol": 13.0})
    assert given.n_features_in_ == 2
    assert given.weights_.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="column 'colour' is not among"):
        model.marginal(["colour"])
    for columns, message in (([], "at least one feature"), ([0, 0], "none twice"), ("hue", r"such as \['hue'\]")):
        with pytest.raises(ValueError, match=message):
            model.marginal(columns)
    with pytest.raises(ValueError, match="given sets 'hue' to nan; give a finite value"):
        model.condition({"hue": np.nan})
    with pytest.raises(ValueError, match="given names 3 of 3 features"):
        model.condition({0: 1.0, 1: 1.0, 2: 1.0})


# Hard data


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(np.random.default_rng(0).normal(size=(8, 20)), id="fewer rows than features"),
        pytest.param(np.column_stack([X, np.full(150, 7.0)]), id="a constant column"),
        pytest.param(np.full((10, 3), 4.0) + np.eye(3)[np.arange(10) % 3], id="three distinct rows"),
        pytest.param(X + 1e8, id="offset 1e8"),
        pytest.param(X * 1e-12, id="scale 1e-12"),
        pytest.param(np.column_stack([X, X[:, 0] * 2]), id="a redundant column"),
        pytest.param(X * [1e-6, 1.0, 1e6, 1.0], id="units far apart"),
        pytest.param(
            np.where(np.random.default_rng(1).random((60, 12)) < 0.5, np.nan, X[:60, [0, 1, 2, 3] * 3]), id="half"
        ),
    ],
)
def test_hard_data_fit(rows, structure):
    model = GaussianMixture(2, covariance_type=structure, random_state=0, n_init=2).fit(rows)
    assert np.isfinite(model.score_samples(rows)).all()
    assert np.isfinite(model.impute(rows)).all()
    assert (np.diff(model.lower_bounds_) >= -1e-8 * (1 + np.abs(model.lower_bound_))).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_one_row_fits(structure):
    model = GaussianMixture(covariance_type=structure).fit([[3.0, 4.0]])
    assert_allclose(model.means_, [[3.0, 4.0]])
    assert np.isfinite(model.score([[3.0, 4.0]]))


def test_values_too_large_to_square():
    model = GaussianMixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"X contains 1e\+200 in row 0, column 0, too large to square; rescale it"):
        model.score_samples([[1e200] * 4])
    # Each value has a square, and their sum has none.
    with pytest.raises(ValueError, match=r"X reaches 9e\+152, too large to square; rescale it"):
        GaussianMixture(2).fit(np.vstack([X, [[9e152] * 4] * 300, [[-9e152] * 4] * 300]))


def test_a_collapse_without_a_floor_is_an_error_that_says_so():
    rows = np.vstack([X, np.repeat(X[:1] + 100, 5, axis=0)])
    with pytest.raises(ValueError, match=r"component . collapsed: its covariance is singular and reg_covar=0"):
        GaussianMixture(2, reg_covar=0, random_state=0, init_params="kmeans").fit(rows)
    assert np.isfinite(GaussianMixture(2, random_state=0).fit(rows).score(rows))


def test_rounding_near_a_collapse_is_no_bug():
    """Without a floor, or with one that rounding cannot keep, a fit ends well or says that it collapsed."""
    rows = np.random.default_rng(7).normal(size=(50, 2))
    for reg_covar in (0, 1e-15, 1e-12):
        for seed in range(15):
            try:
                GaussianMixture(5, reg_covar=reg_covar, random_state=seed, init_params="kmeans").fit(rows)
            except ValueError as error:
                assert reg_covar == 0
                assert "collapsed" in str(error)  # noqa: PT017 (not every seed raises)


def test_a_start_that_collapses_does_not_end_the_others():
    rows = np.random.default_rng(7).normal(size=(50, 2))
    outcomes = []
    for seed in range(10):
        try:
            GaussianMixture(5, reg_covar=0, random_state=seed, n_init=10, init_params="random_from_data").fit(rows)
            outcomes.append(True)
        except ValueError:
            outcomes.append(False)
    assert sum(outcomes) >= 8


def test_a_spurious_fit_does_not_win():
    """A component on two nearly equal rows has a huge likelihood; with many starts plain EM finds such ones."""
    rng = np.random.default_rng(0)
    rows, y = make_blobs(60, centers=[[0, 0], [6, 6]], random_state=0)
    rows = np.vstack([rows, rows[:3] + 1e-4 * rng.normal(size=(3, 2))])
    model = GaussianMixture(2, n_init=10, init_params="random_from_data", random_state=0).fit(rows)
    assert model.weights_.min() > 0.3
    assert (model.predict(rows)[:60] == y).mean() in (0.0, 1.0)


def test_the_floor_is_a_share_of_each_features_own_spread():
    """Changing a feature's unit changes nothing, even with units 1e12 apart: reg_covar binds nowhere here."""
    scale = np.array([1e-6, 1.0, 1e6, 1.0])
    one, other = three_of(), tight(n_components=3).fit(X * scale)
    assert_allclose(other.means_ / scale, one.means_, rtol=1e-4)


def test_more_rows_than_the_start_looks_at(monkeypatch):
    monkeypatch.setattr(partitions, "LIMIT", 200)
    rows, y = make_blobs(3000, centers=4, n_features=2, cluster_std=0.5, random_state=2)
    one = GaussianMixture(4, random_state=0).fit(rows)
    assert (
        one.score(rows)
        > GaussianMixture.from_parameters(
            np.full(4, 0.25),
            [rows[y == k].mean(0) for k in range(4)],
            [np.cov(rows[y == k].T) for k in range(4)],
        ).score(rows)
        - 0.01
    )
    order = np.random.default_rng(0).permutation(6000)
    twice = GaussianMixture(4, random_state=0).fit(np.repeat(rows, 2, axis=0)[order])
    assert_allclose(twice.means_, one.means_, rtol=1e-5)


def test_many_patterns_of_holes_recover_the_parameters():
    rng = np.random.default_rng(0)
    rows, _ = make_blobs(2000, centers=[[-4] * 6, [4] * 6], random_state=0)
    holes = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    model = GaussianMixture(2, random_state=0).fit(holes)
    assert_allclose(np.sort(model.means_[:, 0]), [-4, 4], atol=0.15)
    truth = rows[np.isnan(holes)]
    # Within a cluster the features are independent with variance 1: no better imputation exists.
    assert np.sqrt(((model.impute(holes)[np.isnan(holes)] - truth) ** 2).mean()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_one_component_of_rows_with_missing_numbers_takes_one_step(covariance_type):
    """Means over the observed entries; a variance per feature, or one for all, about them."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((200, 3)) < 0.4, np.nan, rng.normal(size=(200, 3)) * [1, 2, 3] + [5, 0, -5])
    model = GaussianMixture(1, covariance_type=covariance_type).fit(x)
    assert model.n_iter_ == 1
    squares = np.square(x - np.nanmean(x, 0))
    expected = np.nanmean(squares, 0)[None] if covariance_type == "diag" else [np.nanmean(squares)]
    np.testing.assert_allclose(model.means_[0], np.nanmean(x, 0), rtol=1e-10)
    np.testing.assert_allclose(model.covariances_, expected, rtol=1e-10)
