"""Principal axes against numpy and scikit-learn; rotations against scikit-learn."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.decomposition._factor_analysis import _ortho_rotation

from jensen import ProbabilisticPCA
from jensen.models.factors.principal import (
    bic_rank,
    leading_spectrum,
    minka_rank,
    row_moments,
    spectrum_of,
    spectrum_of_rows,
)
from jensen.models.factors.rotation import rotated


def rows(n=400, d=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 100.0


def test_moments_are_numpys_at_any_weight():
    x = rows()
    weight = np.random.default_rng(1).integers(0, 4, size=len(x)).astype(float)
    for w in (None, weight):
        moments = row_moments(torch.from_numpy(x), None if w is None else torch.from_numpy(w))
        assert_allclose(moments.mean, np.average(x, axis=0, weights=w))
        assert_allclose(moments.cov, np.cov(x.T, bias=True, aweights=w), rtol=1e-9)


def test_a_constant_column_has_no_variance():
    x = rows()
    x[:, 2] = 0.1 + 1e6
    assert float(row_moments(torch.from_numpy(x), None).cov[2].abs().max()) == 0.0


def test_one_hole_makes_moments_nan():
    x = rows()
    x[3, 3] = np.nan
    assert row_moments(torch.from_numpy(x), None).cov.isnan().any()


def test_leading_axes_from_products_alone():
    x = rows(d=40) - 100.0
    cov = x.T @ x
    generator = torch.Generator().manual_seed(0)
    found = leading_spectrum(lambda q: torch.from_numpy(cov) @ q, 2.0, np.trace(cov) / 2, 5, 40, generator, n_power=30)
    values, vectors = np.linalg.eigh(cov / 2)
    assert_allclose(found.values, values[::-1][:5], rtol=1e-6)
    assert_allclose(np.abs((found.vectors.numpy() * vectors[:, ::-1][:, :5]).sum(0)), 1, atol=1e-6)


def test_rows_and_their_covariance_have_one_spectrum():
    x = torch.from_numpy(rows(n=30, d=8))
    weight = torch.arange(30, dtype=torch.float64)
    mean, thin = spectrum_of_rows(x, weight)
    moments = row_moments(x, weight)
    whole = spectrum_of(moments.cov)
    assert_allclose(mean, moments.mean)
    assert_allclose(thin.values, whole.values, rtol=1e-8)
    assert thin.total == pytest.approx(whole.total)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
@pytest.mark.parametrize("standardise", [False, True])
def test_minkas_rank_is_scikit_learns(load, standardise):
    x = load().data
    x = x / np.maximum(x.std(0), 1e-9) if standardise else x
    # scikit-learn's eigenvalues have divisor n - 1, which moves the evidence of no rank past another's here.
    assert minka_rank(spectrum_of(row_moments(torch.from_numpy(x), None).cov).values, len(x)) == (
        PCA("mle").fit(x).n_components_
    )


def test_minkas_rank_finds_the_dimensions_of_made_up_rows():
    rng = np.random.default_rng(0)
    x = make_blobs(2000, centers=1, n_features=3, random_state=0)[0] @ rng.normal(size=(3, 12)) * 5
    x = x + rng.normal(size=x.shape)
    assert minka_rank(spectrum_of(row_moments(torch.from_numpy(x), None).cov).values, len(x)) == 3


@pytest.mark.parametrize("method", ["varimax", "quartimax"])
def test_rotations_are_scikit_learns(method):
    loadings = np.random.default_rng(0).normal(size=(12, 4)) ** 3
    ours = rotated(torch.from_numpy(loadings), method, tol=1e-12).numpy()
    theirs = _ortho_rotation(loadings, method=method, tol=1e-12, max_iter=5000).T
    order = np.abs(ours.T @ theirs / np.linalg.norm(ours, axis=0)[:, None] / np.linalg.norm(theirs, axis=0)).argmax(1)
    assert_allclose(np.abs(ours), np.abs(theirs[:, order]), atol=1e-5)
    assert_allclose(ours @ ours.T, loadings @ loadings.T)


def test_the_rank_of_least_bic_is_that_of_the_models():
    """-2 ln p + (parameters) ln n of every closed form, for complete rows."""
    x = load_wine().data[:, :7]
    n, d = x.shape
    spectrum = spectrum_of(torch.from_numpy(np.cov(x.T, ddof=0)))
    found = {most: bic_rank(spectrum, n, d, most) for most in (2, 6)}
    for most, m in found.items():
        values = [ProbabilisticPCA(k).fit(x).bic(x) for k in range(1, most + 1)]
        assert m == 1 + int(np.argmin(values))
