"""An argument that was set, and that a fit does not use, is a warning with the reason."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from jensen import FactorAnalysis, GaussianMixture, LatentCurve, MixtureOfPPCA

X, Y = load_iris(return_X_y=True)
START = {"weights_init": [1.0], "means_init": X[:1], "precisions_init": [np.eye(4)]}


def warned(model, y=None):
    """The warnings of one fit but for that of no convergence."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert all(warning.filename == __file__ for warning in found)
    return [text for warning in found if "converge" not in (text := str(warning.message))]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (GaussianMixture(learning_rate=0.1), "learning_rate=0.1 is not used: algorithm='em' has no steps of that size"),
        (GaussianMixture(label_weight=3.0), "label_weight=3.0 is not used: no row has a label; give y to fit"),
        (MixtureOfPPCA(label_weight=3.0), "label_weight=3.0 is not used: no row has a label"),
        (GaussianMixture(**START, n_init=4), "n_init=4 is not used: weights_init, means_init and precisions_init"),
        (GaussianMixture(**START, init_params="kmeans"), "init_params='kmeans' is not used: weights_init, means_init"),
        (GaussianMixture(**START, freeze=["covariances"], reg_covar=0.1), "reg_covar=0.1 is not used: freeze keeps"),
        (FactorAnalysis(1, svd_method="lapack", iterated_power=5), "iterated_power=5 is not used: svd_method='lapack'"),
        (
            LatentCurve(n_basis=0, penalty=2.0, max_iter=2),
            "penalty=2.0 is not used: with n_basis=0 f has no basis functions",
        ),
        (
            LatentCurve(n_basis=0, basis_width=2, max_iter=2),
            "basis_width=2 is not used: with n_basis=0 f has no basis functions",
        ),
    ],
)
def test_an_argument_without_use_is_a_warning(model, text):
    (found,) = warned(model)
    assert found.startswith(text)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (GaussianMixture(), None),
        (GaussianMixture(learning_rate=1, label_weight=1, n_init=1), None),
        (GaussianMixture(**START), None),
        (GaussianMixture(learning_rate=0.1, algorithm="gradient", max_iter=3), None),
        (GaussianMixture(label_weight=3.0), Y),
        (FactorAnalysis(1, iterated_power=5), None),
        (LatentCurve(n_basis=0, max_iter=2), None),
    ],
)
def test_defaults_and_arguments_with_a_use_are_none(model, y):
    assert not warned(clone(model), y)
