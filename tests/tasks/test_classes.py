"""`jensen.cluster` with labels: classes from a few of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import jensen
from jensen import DiscriminantAnalysis
from jensen.tasks.clustering.classes import classes_of_components, folds_of


def two_modes(n=300, seed=0):
    """Two classes of two modes, in turn along a line: one Gaussian per class cannot tell them apart."""
    rng = np.random.default_rng(seed)
    mode = rng.integers(0, 4, n)
    centres = np.array([[0, 0], [12, 0], [6, 0], [18, 0]])
    return centres[mode] + rng.normal(size=(n, 2)), mode // 2


def some_labels(y, n_each, seed=0):
    rng = np.random.default_rng(seed)
    out = np.full(len(y), -1)
    for c in np.unique(y):
        rows = rng.choice(np.flatnonzero(y == c), n_each, replace=False)
        out[rows] = c
    return out


def test_several_components_per_class_are_chosen_where_classes_have_several_modes():
    X, y = two_modes()
    given = some_labels(y, 6)
    found = jensen.cluster(X, given, effort="quick")
    one_each = DiscriminantAnalysis("full", unlabelled=-1).fit(X, given)
    assert (found.labels == y).mean() > 0.98
    assert (one_each.predict(X) == y).mean() < 0.7
    assert found.tried["components_per_class"][0] > 1
    assert found.accuracy > 0.7


def test_names_of_classes_and_known_labels_stay():
    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    given = pd.Series(np.where(some_labels(iris.target.to_numpy(), 6) >= 0, names, None))
    found = jensen.cluster(iris.data, given, effort="quick")
    known = given.notna().to_numpy()
    assert (found.labels[known] == given[known]).all()
    assert (found.labels == names).mean() > 0.9
    assert found.clusters["cluster"].tolist() == ["setosa", "versicolor", "virginica"]
    assert "of the labels are right when they are held out" in str(found)
    assert (found.predict(iris.data) == names).mean() > 0.9


def test_a_mixed_table_with_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    frame = pd.DataFrame({"x": rng.normal(3 * y, 1), "town": np.where(rng.random(200) < 0.9, y, 1 - y)})
    frame["town"] = frame["town"].map({0: "Rome", 1: "Oslo"})
    found = jensen.cluster(frame, some_labels(y, 5), effort="quick")
    assert (found.labels == y).mean() > 0.9


def test_folds_hold_out_every_label_once_but_the_only_one_of_a_class():
    label = np.array([0, 0, 0, -1, 1, 2, 2, -1])
    rows = np.sort(np.concatenate(folds_of(label, 0)))
    assert rows.tolist() == [0, 1, 2, 5, 6]


def test_every_class_gets_a_component():
    q = np.eye(3)
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    assert classes_of_components(q, p, np.ones(3)).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="a class has no component"):
        classes_of_components(np.ones((3, 1)), p, np.ones(3))
