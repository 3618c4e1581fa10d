"""What is special to ridge regression: drop-in answers, the evidence, error bars, weights, targets, files, errors."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import jensen
from jensen import RidgeRegression

DIABETES = load_diabetes(scaled=False)
X, Y = DIABETES.data, DIABETES.target
TWO = np.column_stack([Y, X @ np.arange(10.0) + np.sin(Y)])
RNG = np.random.default_rng(0)
WIDE, WIDE_Y = RNG.normal(size=(20, 50)), RNG.normal(size=20)


# Beside scikit-learn


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("rows", "y"), [(X, Y), (X, TWO), (WIDE, WIDE_Y)], ids=["one", "two", "wide"])
def test_ridge_is_scikit_learns(rows, y, intercept):
    weight = np.random.default_rng(1).random(len(rows))
    for alpha in (0.1, 10.0):
        ours = RidgeRegression(alpha, fit_intercept=intercept).fit(rows, y, sample_weight=weight)
        theirs = Ridge(alpha, fit_intercept=intercept, solver="svd").fit(rows, y, sample_weight=weight)
        assert ours.coef_.shape == theirs.coef_.shape
        assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)
        assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8, atol=1e-10)
        assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-8)
        assert ours.score(rows, y, weight) == pytest.approx(theirs.score(rows, y, weight), rel=1e-9)


@pytest.mark.parametrize(("rows", "y"), [(X, Y), (X, TWO), (WIDE, WIDE_Y)], ids=["one", "two", "wide"])
def test_no_penalty_is_least_squares(rows, y):
    ours, theirs = RidgeRegression(0).fit(rows, y), LinearRegression().fit(rows, y)
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-9)
    assert ours.rank_ == theirs.rank_
    assert_allclose(ours.singular_, theirs.singular_, atol=1e-9 * ours.singular_[0])


def test_a_penalty_per_target_is_a_model_per_target():
    both = RidgeRegression([0.5, 20.0]).fit(X, TWO)
    for t, alpha in enumerate((0.5, 20.0)):
        one = RidgeRegression(alpha).fit(X, TWO[:, t])
        assert_allclose(both.coef_[t], one.coef_)
        for name in ("intercept_", "alpha_", "noise_variance_", "log_evidence_", "effective_dof_"):
            assert_allclose(getattr(both, name)[t], getattr(one, name))


@pytest.mark.parametrize("rows", [X, WIDE], ids=["tall", "wide"])
def test_the_evidence_finds_what_scikit_learns_bayesian_ridge_does(rows):
    """Without intercept and hyperpriors the two have the same objective; theirs stops at its fixed point."""
    y = Y[: len(rows)] - Y.mean() if rows is X else rows[:, 0] + WIDE_Y
    rows = rows - rows.mean(0)
    flat = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
    theirs = BayesianRidge(fit_intercept=False, compute_score=True, tol=1e-10, max_iter=10_000, **flat).fit(rows, y)
    ours = RidgeRegression("evidence", fit_intercept=False).fit(rows, y)
    assert ours.alpha_ == pytest.approx(theirs.lambda_ / theirs.alpha_, rel=1e-5)
    assert ours.noise_variance_ == pytest.approx(1 / theirs.alpha_, rel=1e-5)
    assert ours.log_evidence_ == pytest.approx(theirs.scores_[-1], abs=1e-6)
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-6)
    assert_allclose(ours.posterior().covariance_matrix, theirs.sigma_, rtol=1e-3, atol=1e-6)
    for found, expected in zip(ours.predict(rows, True), theirs.predict(rows, True), strict=True):
        assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_error_bars_count_the_intercept_which_bayesian_ridge_does_not():
    ours = RidgeRegression(2.0, noise_variance=3000.0).fit(X, Y)
    xc = X - X.mean(0)
    inverse = np.linalg.inv(xc.T @ xc + 2 * np.eye(10))
    expected = 3000 * (1 + 1 / len(X) + np.einsum("ni,ij,nj->n", xc, inverse, xc))
    assert_allclose(ours.predict(X, return_std=True)[1] ** 2, expected, rtol=1e-9)


def test_it_works_in_pipelines_and_grid_searches():
    pipeline = make_pipeline(StandardScaler(), RidgeRegression())
    search = GridSearchCV(pipeline, {"ridgeregression__alpha": [0.1, 1, 10, "evidence"]}).fit(X, Y)
    assert search.best_score_ > 0.45


# The model


def test_the_evidence_is_the_density_of_y_under_the_prior():
    """ln p(y) with y the contrasts against the mean: any orthonormal ones."""
    y = Y[:30]
    rows = (X[:30] - X[:30].mean(0)) / X[:30].std(0)
    model = RidgeRegression(5.0, noise_variance=2000.0).fit(rows, y)
    contrasts = np.linalg.qr(np.column_stack([np.ones(30), np.random.default_rng(0).normal(size=(30, 29))]))[0][:, 1:].T
    hx = contrasts @ rows
    cov = 2000 * (np.eye(29) + hx @ hx.T / 5)
    assert model.log_evidence_ == pytest.approx(multivariate_normal.logpdf(contrasts @ y, cov=cov), rel=1e-10)


def test_the_evidence_factors_into_predictive_densities():
    """p(y₁..y_n) = Π p(y_i | y_1..y_{i-1}): the same numbers by another road; the first row fixes the intercept."""
    rows, y = X[:40] / X.std(0), Y[:40]
    fits = [RidgeRegression(3.0, noise_variance=2500.0).fit(rows[:i], y[:i]) for i in range(1, 40)]
    steps = [model.score_samples(rows[i : i + 1], y[i : i + 1])[0] for i, model in enumerate(fits, start=1)]
    # The density of contrasts is √n times that of a flat intercept, which has 1 for the first row.
    expected = RidgeRegression(3.0, noise_variance=2500.0).fit(rows, y).log_evidence_
    assert np.sum(steps) + 0.5 * np.log(40) == pytest.approx(expected, rel=1e-10)


def test_score_samples_is_the_predictive_density():
    model = RidgeRegression("evidence").fit(X[:300], TWO[:300])
    mean, std = model.predict(X[300:], return_std=True)
    assert_allclose(model.score_samples(X[300:], TWO[300:]), norm.logpdf(TWO[300:], mean, std).sum(1))


def test_error_bars_cover_as_they_say():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(300):
        rows, beta = rng.normal(size=(25, 5)), rng.normal(size=5)
        new = rng.normal(size=(20, 5))
        model = RidgeRegression(1.0, noise_variance=1.0).fit(rows, rows @ beta + 9 + rng.normal(size=25))
        mean, std = model.predict(new, return_std=True)
        inside.append(np.abs(new @ beta + 9 + rng.normal(size=20) - mean) < std)
    # 300 fits: the standard error of the share is below 0.01.
    assert np.mean(inside) == pytest.approx(norm.cdf(1) - norm.cdf(-1), abs=0.03)


@pytest.mark.parametrize("rows", [X, WIDE], ids=["tall", "wide"])
def test_the_evidence_never_falls(rows):
    y = Y[: len(rows)]
    values = [RidgeRegression("evidence", max_iter=i, tol=0).fit(rows, y).log_evidence_ for i in range(6)]
    assert (np.diff(values) >= 0).all()
    best = RidgeRegression("evidence").fit(rows, y)
    for factor in (0.9, 1.1):
        assert RidgeRegression(best.alpha_ * factor).fit(rows, y).log_evidence_ < best.log_evidence_


def test_a_true_prior_is_recovered():
    rng = np.random.default_rng(0)
    rows, beta = rng.normal(size=(2000, 400)), 0.5 * rng.normal(size=400)
    model = RidgeRegression("evidence").fit(rows, rows @ beta + 3 + 2 * rng.normal(size=2000))
    assert model.noise_variance_ == pytest.approx(4, rel=0.1)
    # λ = σ²/τ² = 4 / 0.25; τ² is known to √(2/400) = 7 %.
    assert model.alpha_ == pytest.approx(16, rel=0.2)
    assert model.n_iter_ < 10


def test_the_posterior_is_that_of_bayes():
    model = RidgeRegression([2.0, 3.0], noise_variance=[1.0, 4.0]).fit(X, TWO)
    found, xc = model.posterior(), X - X.mean(0)
    assert found.batch_shape == (2,)
    for t, (alpha, noise) in enumerate(((2.0, 1.0), (3.0, 4.0))):
        precision = (xc.T @ xc + alpha * np.eye(10)) / noise
        assert_allclose(found.covariance_matrix[t].numpy() @ precision, np.eye(10), atol=1e-8)
        assert_allclose(found.mean[t], model.coef_[t])
    one = RidgeRegression().fit(WIDE, WIDE_Y).posterior()
    assert one.batch_shape == ()
    assert one.event_shape == (50,)


def test_a_path_is_a_fit_per_penalty():
    alphas = [0.0, 0.3, 5.0]
    for y in (Y, TWO):
        coefs, intercepts = RidgeRegression().fit(X, y).path(alphas)
        assert coefs.shape == (3, *np.shape(y)[1:], 10)
        for alpha, coef, intercept in zip(alphas, coefs, intercepts, strict=True):
            model = RidgeRegression(alpha).fit(X, y)
            assert_allclose(coef, model.coef_, rtol=1e-10)
            assert_allclose(intercept, model.intercept_, rtol=1e-10)


def test_bias_variance_and_risk_have_the_shapes_of_targets_and_penalties():
    one, two = RidgeRegression(2.0).fit(X, Y), RidgeRegression([2.0, 9.0]).fit(X, TWO)
    beta = np.arange(10.0)
    risk = one.risk(beta, 3.0)
    assert isinstance(risk, float)
    assert risk == pytest.approx(np.sum(one.bias(beta) ** 2) + one.variance(3.0))
    assert one.risk(beta, 3.0, [0.0, 2.0]).tolist() == [one.risk(beta, 3.0, 0.0), risk]
    assert one.bias(beta, [0.0, 2.0]).shape == (2, 10)
    assert two.bias([beta, beta]).shape == (2, 10)
    assert_allclose(two.risk([beta, beta], [3.0, 1.0]), [risk, one.risk(beta, 1.0, 9.0)])
    assert two.risk([beta, beta], 3.0, [0.0, 1.0, 2.0]).shape == (3, 2)
    # Least squares has no bias, and the variance σ² tr (XᵀX)⁻¹.
    assert_allclose(one.bias(beta, 0.0), 0, atol=1e-10)
    xc = X - X.mean(0)
    assert one.variance(3.0, 0.0) == pytest.approx(3 * np.trace(np.linalg.inv(xc.T @ xc)))


def test_a_constant_column_gets_no_coefficient():
    rows = np.column_stack([X[:, 0], np.full(len(X), 1e6 + 0.1)])
    for alpha in (0.0, 1.0):
        model = RidgeRegression(alpha).fit(rows, Y)
        assert model.rank_ == 1
        assert model.coef_[1] == 0
        assert model.coef_[0] == pytest.approx(RidgeRegression(alpha).fit(X[:, :1], Y).coef_[0])


def test_a_constant_target_is_no_accident():
    model = RidgeRegression("evidence").fit(X, np.full(len(X), 3.1))
    assert model.log_evidence_ == np.inf
    assert_array_equal(model.coef_, np.zeros(10))
    mean, std = model.predict(X, return_std=True)
    assert_array_equal(mean, np.full(len(X), 3.1))
    assert_array_equal(std, np.zeros(len(X)))
    with pytest.raises(ValueError, match="noise_variance_ is 0: after a perfect fit there is no density; give noise"):
        model.score_samples(X, Y)
    with pytest.raises(ValueError, match="after a perfect fit there is no density"):
        model.posterior()


def test_thousands_of_targets_all_converge():
    """Pure noise has its maximum anywhere, also at infinity and on flat stretches where plain EM crawls."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = RidgeRegression("evidence", max_iter=20).fit(rng.normal(size=(50, 4)), rng.normal(size=(50, 5000)))
    assert (model.effective_dof_ < 1e-6).mean() > 0.3


def test_a_target_of_pure_noise_is_shrunk_away():
    rng = np.random.default_rng(3)
    model = RidgeRegression("evidence").fit(rng.normal(size=(500, 3)), rng.normal(size=500))
    assert model.effective_dof_ < 1


# Weights


@pytest.mark.parametrize("alpha", [0.0, 2.0, "evidence"])
def test_a_weight_is_a_row_that_many_times_and_0_leaves_it_out(alpha):
    count = np.random.default_rng(0).integers(0, 4, size=len(X))
    holes, y = X.copy(), TWO.copy()
    holes[count == 0], y[count == 0] = np.nan, np.nan
    one = RidgeRegression(alpha).fit(holes, y, sample_weight=count)
    other = RidgeRegression(alpha).fit(np.repeat(X, count, axis=0), np.repeat(TWO, count, axis=0))
    names = ["coef_", "intercept_", "alpha_", "noise_variance_", "effective_dof_", "singular_"]
    for name in names if alpha == 0 else [*names, "log_evidence_"]:
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)
    for ours, theirs in zip(one.predict(X, True), other.predict(X, True), strict=True):
        assert_allclose(ours, theirs, rtol=1e-8)
    assert_allclose(one.score_samples(X, TWO), other.score_samples(X, TWO), rtol=1e-8)


# Tables and files


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    model = RidgeRegression().fit(X.astype(dtype), Y)
    for name in ("coef_", "singular_", "intercept_"):
        assert getattr(model, name).dtype == dtype
    for values in (*model.predict(X.astype(dtype), True), model.score_samples(X.astype(dtype), Y), *model.path([1.0])):
        assert values.dtype == dtype


def test_kinds_of_tables():
    reference = RidgeRegression().fit(X, Y)
    names = [f"f{i}" for i in range(10)]
    frame = pd.DataFrame(X, columns=names)
    model = RidgeRegression().fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == names
    assert_allclose(model.predict(frame), reference.predict(X), rtol=1e-12)
    polars = pl.DataFrame(X, schema=names)
    assert_allclose(RidgeRegression().fit(polars, pl.Series(Y)).predict(polars), reference.predict(X), rtol=1e-12)
    assert_allclose(RidgeRegression().fit(X.tolist(), Y.tolist()).coef_, reference.coef_, rtol=1e-12)
    tensors = RidgeRegression().fit(torch.tensor(X), torch.tensor(Y))
    for values in (*tensors.predict(torch.tensor(X), True), tensors.score_samples(torch.tensor(X), torch.tensor(Y))):
        assert isinstance(values, torch.Tensor)
    assert_allclose(tensors.predict(torch.tensor(X)), reference.predict(X), rtol=1e-12)
    assert tensors.score(torch.tensor(X), torch.tensor(Y)) == pytest.approx(reference.score(X, Y), rel=1e-12)


def test_nothing_given_is_changed():
    rows, y, weight = X.copy(), TWO.copy(), np.arange(len(X), dtype=float)
    RidgeRegression("evidence").fit(rows, y, weight).predict(rows, True)
    assert_array_equal(rows, X)
    assert_array_equal(y, TWO)
    assert_array_equal(weight, np.arange(len(X)))


@pytest.mark.parametrize("y", [Y, TWO], ids=["one", "two"])
@pytest.mark.parametrize("alpha", [0.0, "evidence"])
def test_a_file_keeps_everything(alpha, y, tmp_path):
    model = RidgeRegression(alpha).fit(X, y)
    model.save(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen")
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.predict(X, True), model.predict(X, True))
    assert_array_equal(loaded.score_samples(X, y), model.score_samples(X, y))
    assert hasattr(loaded, "log_evidence_") == (alpha != 0)
    assert loaded.target_shape_ == model.target_shape_
    assert_array_equal(loaded.path([1.0])[0], model.path([1.0])[0])


def test_a_file_that_no_fit_wrote_is_refused(tmp_path):
    model = RidgeRegression().fit(X, Y)
    for name, value, message in (
        ("alpha", torch.tensor([-1.0], dtype=torch.float64), "alpha has a negative entry, -1"),
        ("mean_x", torch.zeros(3), r"mean_x has shape \(3,\), but \(10,\) is needed"),
        ("rest", torch.tensor([torch.inf], dtype=torch.float64), "rest holds NaN or infinity"),
    ):
        record = model._theta_record() | {name: value}
        with pytest.raises(ValueError, match=message):
            model._theta_from(record)


# Errors


@pytest.mark.parametrize(
    ("arguments", "y", "message"),
    [
        ({"alpha": -1.0}, Y, "'alpha' parameter of RidgeRegression must be"),
        ({"alpha": "bayes"}, Y, "'alpha' parameter of RidgeRegression must be a float"),
        ({"alpha": [1.0, 2.0]}, Y, r"alpha has shape \(2,\), but y has 1 targets; give one for each"),
        ({"alpha": [1.0, -2.0]}, TWO, r"alpha=\[1.0, -2.0\] must be finite and 0 or more"),
        ({"alpha": ["a", "b"]}, TWO, r"alpha=\['a', 'b'\] must be numbers"),
        ({"noise_variance": 0.0}, Y, "'noise_variance' parameter of RidgeRegression must be"),
        ({"noise_variance": [1.0, 2.0, 3.0]}, TWO, r"noise_variance has shape \(3,\), but y has 2 targets"),
        ({}, None, "a regression requires y to be passed"),
        ({}, Y[:5], r"y has shape \(5,\), but X has 442 rows; give y as \(n,\) or \(n, n_targets\)"),
        ({}, Y + 1j, "y holds complex numbers; give real ones"),
        ({}, ["a"] * 442, "y must hold numbers, one or several per row"),
        ({}, np.where(np.arange(442) == 3, np.nan, Y), "y contains NaN, first in row 3; drop the row"),
        (
            {},
            np.where(np.arange(884).reshape(442, 2) == 11, np.inf, TWO),
            "y contains infinity, first in row 5, column 1",
        ),
    ],
)
def test_mistakes_in_fit(arguments, y, message):
    with pytest.raises(ValueError, match=message):
        RidgeRegression(**arguments).fit(X, y)


def test_missing_values_are_named_and_can_be_imputed():
    holes = pd.DataFrame(X, columns=list("abcdefghij"))
    holes.iloc[7, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"X contains NaN, first in row 7, column 'c'; .*GaussianMixture\(\).fit\(X\).impute"
    ):
        RidgeRegression().fit(holes, Y)
    filled = jensen.GaussianMixture().fit(holes).impute(holes)
    model = RidgeRegression().fit(filled, Y)
    with pytest.raises(ValueError, match="first in row 7, column 'c'"):
        model.predict(holes)


def test_what_a_flat_prior_cannot_say():
    model = RidgeRegression(0).fit(X, Y)
    with pytest.raises(AttributeError, match="alpha=0 is a flat prior, which has no density"):
        _ = model.log_evidence_
    assert not hasattr(model, "log_evidence_")
    model.posterior()
    wide = RidgeRegression(0).fit(WIDE, WIDE_Y)
    assert_allclose(wide.predict(WIDE), WIDE_Y, atol=1e-10)
    assert np.isnan(wide.noise_variance_)
    for ask in (wide.posterior, lambda: wide.predict(WIDE, True), lambda: wide.score_samples(WIDE, WIDE_Y)):
        with pytest.raises(ValueError, match=r"alpha=0 and X of rank 19 leave 31 of 50 directions .* set alpha > 0"):
            ask()
    square = RidgeRegression(0).fit(WIDE[:, :19], WIDE_Y)
    with pytest.raises(ValueError, match=r"noise_variance_ is unknown: 20 rows \(the sum of the weights\) are too"):
        square.predict(WIDE[:, :19], True)
    assert RidgeRegression(0, noise_variance=1.0).fit(WIDE[:, :19], WIDE_Y).predict(WIDE[:, :19], True)[1].min() > 1


def test_one_row_is_its_intercept():
    model = RidgeRegression().fit(X[:1], Y[:1])
    assert model.predict(X[:3]).tolist() == [Y[0]] * 3
    assert not hasattr(model, "log_evidence_")
    with pytest.raises(ValueError, match="differences between rows, got n_samples=1; give more rows"):
        RidgeRegression("evidence").fit(X[:1], Y[:1])


def test_mistakes_in_questions():
    model = RidgeRegression().fit(X, Y)
    with pytest.raises(ValueError, match=r"beta has shape \(3,\), but the coefficients have \(10,\)"):
        model.bias([1, 2, 3])
    with pytest.raises(ValueError, match=r"sigma2=-1 must be finite and 0 or more"):
        model.variance(-1)
    with pytest.raises(ValueError, match=r"alpha has shape \(1, 1\); give one λ, or many in one dimension"):
        model.path([[1.0]])
    with pytest.raises(ValueError, match=r"y has rows of shape \(2,\), but the model was fitted on \(\)"):
        model.score_samples(X, TWO)
    for ask in (lambda m: m.posterior(), lambda m: m.coef_, lambda m: m.log_evidence_, lambda m: m.path([1.0])):
        with pytest.raises(NotFittedError):
            ask(RidgeRegression())


def test_an_unfinished_search_warns():
    with pytest.warns(ConvergenceWarning, match=r"still rose by more than tol=0.0 in step max_iter=1; raise max_iter"):
        RidgeRegression("evidence", tol=0.0, max_iter=1).fit(X, Y)


NEEDS_Y = dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    "calls score_samples without y, whose density it is",
)


@pytest.mark.parametrize("alpha", [0.0, 1.0, "evidence"])
def test_scikit_learns_checks_pass(alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(RidgeRegression(alpha), expected_failed_checks=NEEDS_Y)


def test_a_clone_is_unfitted():
    model = RidgeRegression(alpha=(1.0, 2.0)).fit(X, TWO)
    assert not hasattr(clone(model), "theta_")
    assert_array_equal(clone(model).fit(X, TWO).coef_, model.coef_)


def test_a_target_without_noise_is_pointed_out():
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="target 0 is fitted without any noise, like a constant y"):
        RidgeRegression("evidence").fit(x, np.ones(20))


@pytest.mark.parametrize(("name", "value"), [("tol", 1e-3), ("max_iter", 5)])
def test_a_closed_form_takes_no_steps(name, value):
    with pytest.warns(UserWarning, match=f"{name}={value} is not used: a given alpha has a closed form") as caught:
        RidgeRegression(**{name: value}).fit(X, Y)
    assert [w.filename for w in caught] == [__file__]


def test_images_and_values_without_a_square():
    with pytest.raises(ValueError, match=r"images become rows by X.reshape\(len\(X\), -1\)"):
        RidgeRegression().fit(np.zeros((4, 2, 2)), np.zeros(4))
    with pytest.raises(ValueError, match=r"X varies by .* in column 0, too small to square"):
        RidgeRegression().fit(X * 1e-160, Y)
    with pytest.raises(ValueError, match=r"X contains .* in row 0, column 0, too large to square"):
        RidgeRegression().fit(X * 1e160, Y)
