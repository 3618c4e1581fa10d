"""Discriminant analysis: scikit-learn's LDA and QDA, several components per class, unlabelled rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import jensen
from jensen import DiscriminantAnalysis, GaussianMixture

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def rings() -> tuple[np.ndarray, np.ndarray]:
    """Four blobs of two classes, each in opposite corners: one Gaussian per class cannot tell them apart."""
    rng = np.random.default_rng(0)
    corner = rng.integers(4, size=400)
    rows = np.array([[0, 0], [6, 6], [0, 6], [6, 0]])[corner] + rng.normal(size=(400, 2))
    return rows, np.where(corner < 2, "even", "odd")


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_one_covariance_is_linear_discriminant_analysis(data):
    rows, y = data(return_X_y=True)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(rows, y)
    ours = DiscriminantAnalysis("tied", reg_covar=0.0).fit(rows, y)
    assert_allclose(ours.covariances_, theirs.covariance_, rtol=1e-9)
    assert_allclose(ours.means_, theirs.means_, rtol=1e-12)
    assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), atol=1e-8)
    assert ours.score(rows, y) == theirs.score(rows, y)


def test_a_covariance_per_class_is_quadratic_discriminant_analysis():
    theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, Y)
    ours = DiscriminantAnalysis("full", reg_covar=0.0).fit(X, Y)
    assert_allclose(ours.covariances_, [np.cov(X[c == Y].T, bias=True) for c in range(3)], rtol=1e-9)
    # Older versions of scikit-learn divide by n - 1.
    ours.covariances_ = np.stack(theirs.covariance_)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_labelled_rows_end_in_one_step():
    assert DiscriminantAnalysis().fit(X, Y).n_iter_ <= 2


def test_a_class_with_several_components(rings):
    rows, y = rings
    assert DiscriminantAnalysis("spherical").fit(rows, y).score(rows, y) < 0.8
    model = DiscriminantAnalysis("spherical", components_per_class=2, random_state=0).fit(rows, y)
    assert model.score(rows, y) > 0.98
    assert model.class_of_.tolist() == [0, 0, 1, 1]
    assert_allclose(model.class_prior_, [(y == name).mean() for name in ("even", "odd")], atol=1e-6)
    # The centres are the corners, each of its own class.
    assert {tuple(centre) for centre in model.means_.round(-0).astype(int)[:2]} == {(0, 0), (6, 6)}


def test_several_components_are_a_mixture_per_class(rings):
    rows, y = rings
    model = DiscriminantAnalysis("full", components_per_class=2, random_state=0, tol=1e-10).fit(rows, y)
    log_joint = []
    for number, name in enumerate(model.classes_):
        own = GaussianMixture(2, random_state=0, tol=1e-10, max_iter=500).fit(rows[y == name])
        log_joint.append(np.log(model.class_prior_[number]) + own.score_samples(rows))
    log_joint = np.stack(log_joint, 1)
    expected = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True))
    assert_allclose(model.predict_proba(rows), expected, atol=1e-5)
    assert_allclose(model.score_samples(rows), np.logaddexp.reduce(log_joint, axis=1), atol=1e-5)


def test_unlabelled_rows_help(rings):
    rows, y = rings
    known = y.astype(object)
    few = np.concatenate([np.flatnonzero(y == name)[:12] for name in ("even", "odd")])
    known[np.setdiff1d(np.arange(len(y)), few)] = None
    model = DiscriminantAnalysis("full", components_per_class={"even": 2, "odd": 2}, random_state=0).fit(rows, known)
    alone = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(rows[few], y[few])
    assert model.score(rows, y) >= alone.score(rows, y)
    assert model.score(rows, y) > 0.98


def test_missing_values_and_frames(rings):
    rows, y = rings
    holes = rows.copy()
    holes[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    frame = pd.DataFrame(holes, columns=["a", "b"])
    model = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.85
    assert not model.impute(frame).isna().any().any()
    assert_allclose(model.predict_proba(frame.head(1) * np.nan), model.class_prior_[None], atol=1e-12)


def test_samples_of_a_class(rings):
    model = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(*rings)
    rows, classes = model.sample(200, y="odd", random_state=0)
    assert set(classes) == {"odd"}
    assert (model.predict(rows) == "odd").mean() > 0.95
    corner = (rows[:, 0] > 3) ^ (rows[:, 1] > 3)
    assert corner.mean() > 0.95
    assert 60 < (rows[:, 0] > 3).sum() < 140


def test_saved_and_continued(rings, tmp_path):
    rows, y = rings
    model = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(rows[:300], y[:300])
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen")
    assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert_array_equal(loaded.class_of_, model.class_of_)
    loaded.partial_fit(rows[300:], y[300:])
    assert loaded.score(rows, y) > 0.98


def test_tensors_come_back(rings):
    rows, y = torch.from_numpy(rings[0]), (rings[1] == "odd").astype(int)
    predicted = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(rows, y).predict(rows)
    assert isinstance(predicted, torch.Tensor)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({0: 1}, r"components_per_class=\{0: 1\} must give a positive number for every class, \[0, 1, 2\]"),
        ({0: 1, 1: 0, 2: 1}, "must give a positive number for every class"),
        (60, "gives class 0 60 components, but it has 50 labelled rows; give fewer"),
    ],
)
def test_impossible_sizes_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        DiscriminantAnalysis(components_per_class=asked).fit(X, Y)


def test_labels_are_needed():
    with pytest.raises(ValueError, match="DiscriminantAnalysis requires y to be passed"):
        DiscriminantAnalysis().fit(X)
    with pytest.raises(ValueError, match="y has no label"):
        DiscriminantAnalysis().fit(X, [None] * len(X))


def test_a_classifier_of_some_features(rings):
    rows, y = rings
    model = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(rows, y)
    holes = np.column_stack([rows[:, 0], np.full(len(rows), np.nan)])
    assert_allclose(model.marginal([0]).predict_proba(rows[:, :1]), model.predict_proba(holes), atol=1e-12)
    given = model.condition({0: 0.0})
    whole = np.column_stack([np.zeros(len(rows)), rows[:, 1]])
    assert_allclose(given.predict_proba(rows[:, 1:]), model.predict_proba(whole), atol=1e-9)


def test_a_constant_column_changes_nothing(rings):
    rows, y = rings
    wide = np.column_stack([rows[:, 0], np.full(len(rows), 7.0), rows[:, 1]])
    alone = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(rows, y)
    with pytest.warns(UserWarning, match="one value"):
        model = DiscriminantAnalysis("full", components_per_class=2, random_state=0).fit(wide, y)
    assert_allclose(model.predict_proba(wide), alone.predict_proba(rows), atol=1e-12)
    assert (model.sample(5, random_state=0)[0][:, 1] == 7).all()


def test_one_class_is_an_error():
    with pytest.raises(ValueError, match=r"y has 1 class, \['a'\], and DiscriminantAnalysis needs at least 2 classes"):
        DiscriminantAnalysis().fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        DiscriminantAnalysis().fit(X, [None, *["a"] * (len(X) - 1)])


def test_a_fit_from_a_mixture_has_its_components_and_needs_few_labels(rings):
    rows, y = rings
    few = np.concatenate([np.flatnonzero(y == name)[:3] for name in np.unique(y)])
    known = np.full(len(y), None, dtype=object)
    known[few] = y[few]
    mixture = GaussianMixture(4, random_state=0).fit(rows)
    part = mixture.predict(rows)
    numbers = np.searchsorted(np.unique(y), y)
    class_of = np.array([np.bincount(numbers[part == k]).argmax() for k in range(4)])
    model = DiscriminantAnalysis("full", random_state=0).fit_from(mixture, class_of, rows, known)
    assert model.class_of_.tolist() == class_of.tolist()
    assert model.score(rows, y) > 0.97
    assert not model.warm_start
    assert "warm_start" not in vars(model)


@pytest.mark.parametrize(
    ("class_of", "message"),
    [
        ([0, 1, 0], r"class_of has shape \(3,\); give a class for each of the mixture's 4 components"),
        ([0, 0, 0, 0], r"class_of=\[0, 0, 0, 0\] must give every class of y a component, 0 to 1"),
        ([0, 1, 2, 0], "and no other number"),
    ],
)
def test_classes_of_components_that_do_not_fit_are_errors(rings, class_of, message):
    mixture = GaussianMixture(4, random_state=0).fit(rings[0])
    with pytest.raises(ValueError, match=message):
        DiscriminantAnalysis("full").fit_from(mixture, class_of, *rings)
