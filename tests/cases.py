"""One small case per model and variant: the laws run on every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, make_blobs

from jensen import GaussianMixture

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """
    Args:
        name: for the test's identifier.
        make: an unfitted model.
        x: rows to fit.
        log_joint: ln p(x, z=k) of a fitted model by brute force, (n, K), for models with a discrete z.
        y: labels to fit with, or None.
        expected_failed_checks: of scikit-learn's check_estimator, with the reason.
    """

    name: str
    make: Callable[[], Any]
    x: np.ndarray
    log_joint: Callable[[Any, np.ndarray], np.ndarray]
    y: np.ndarray | None = None
    expected_failed_checks: dict[str, str] = field(default_factory=dict)

    def fitted(self) -> Any:
        return self.make().fit(self.x, self.y)


def full_covariances(model: GaussianMixture) -> np.ndarray:
    k, d = model.means_.shape
    covariances = model.covariances_
    return {
        "full": lambda: covariances,
        "tied": lambda: np.tile(covariances, (k, 1, 1)),
        "diag": lambda: np.array([np.diag(v) for v in covariances]),
        "spherical": lambda: np.array([v * np.eye(d) for v in covariances]),
    }[model.covariance_type]()


def gaussian_mixture_log_joint(model: GaussianMixture, x: np.ndarray) -> np.ndarray:
    """scipy's density of the observed features of every row, one row and component at a time."""
    out = np.tile(np.log(model.weights_), (len(x), 1))
    covariances = full_covariances(model)
    for i, row in enumerate(x):
        seen = ~np.isnan(row)
        for k, (mean, cov) in enumerate(zip(model.means_, covariances, strict=True)):
            if seen.any():
                out[i, k] += multivariate_normal.logpdf(row[seen], mean[seen], cov[np.ix_(seen, seen)])
    return out


def log_likelihood(case: Case, model: Any, x: np.ndarray) -> np.ndarray:
    return logsumexp(case.log_joint(model, x), axis=1)


# scikit-learn's checks that set n_components = 1 and then pass y with more classes: here y holds labels, and more
# classes than components is an error on purpose.
LABELS_ARE_READ = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "sets n_components=1 and passes y of several classes, which are labels here",
)


def gaussian_mixture(name: str, *, y: np.ndarray | None = None, **arguments: Any) -> Case:
    x, _ = make_blobs(90, centers=3, n_features=3, random_state=1)
    x[:, 1] *= 5.0
    x[:30, 2] += x[:30, 0]
    return Case(
        name,
        lambda: GaussianMixture(n_components=3, random_state=0, tol=1e-6, max_iter=500, **arguments),
        x,
        gaussian_mixture_log_joint,
        y,
        LABELS_ARE_READ,
    )


def some_labels() -> np.ndarray:
    _, y = make_blobs(90, centers=3, n_features=3, random_state=1)
    return np.where(np.arange(90) % 5 == 0, y, -1)


CASES = [
    gaussian_mixture("mixture-full"),
    gaussian_mixture("mixture-tied", covariance_type="tied"),
    gaussian_mixture("mixture-diag", covariance_type="diag"),
    gaussian_mixture("mixture-spherical", covariance_type="spherical"),
    gaussian_mixture("mixture-labels", y=some_labels()),
]

IRIS = load_iris()
