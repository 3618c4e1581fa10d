"""Distances by blocks are scikit-learn's, and a matrix that is none is refused by name."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS

from jensen.models.clusters.distances import METRICS, all_distances, blocks_to, check_distances, spread_params


def rows(n, d, seed=0):
    return np.random.default_rng(seed).random((n, d))


def distances(x, metric, dtype="float64", **params):
    return all_distances(x, metric, params, dtype, np.arange(len(x)))


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_every_metric_is_scikit_learns(metric):
    x = rows(150, 2 if metric == "haversine" else 5)
    if metric in PAIRWISE_BOOLEAN_FUNCTIONS:
        # Of two rows without any 1, some of these know no distance.
        x = np.round(x + np.eye(5)[0])
    expected = pairwise_distances(x != 0 if metric in PAIRWISE_BOOLEAN_FUNCTIONS else x, metric=metric)
    np.fill_diagonal(expected, 0)
    found = distances(x, metric, **spread_params(metric, x, np.ones(150)))
    assert_allclose(found, expected, atol=1e-7)
    # Only within a block can rounding tell the halves apart.
    assert_allclose(found, found.T, atol=1e-12)
    assert_array_equal(found.diagonal(), 0)


def test_a_function_of_two_rows_and_its_arguments():
    x = rows(70, 3)
    assert_allclose(distances(x, lambda a, b, p: abs(a - b).max() * p, p=2.0), 2 * cdist(x, x, "chebyshev"))
    assert_allclose(distances(x, "minkowski", p=3), cdist(x, x, "minkowski", p=3))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "nan_euclidean"])
@pytest.mark.parametrize("d", [3, 40])
def test_an_offset_costs_no_digits(metric, d):
    # Multiples of 2⁻¹⁰ keep all their bits beside 10⁶.
    x = np.round(rows(80, d) * 1024) / 1024
    assert_allclose(distances(x + 1e6, metric), distances(x, metric), rtol=1e-9)


def test_what_is_missing_of_a_metric_comes_from_the_weighted_rows():
    x, weight = rows(30, 3), np.random.default_rng(1).integers(1, 4, size=30)
    copies = np.repeat(x, weight, axis=0)
    assert_allclose(spread_params("seuclidean", x, weight)["V"], copies.var(0, ddof=1))
    assert_allclose(spread_params("mahalanobis", x, weight)["VI"], np.linalg.inv(np.cov(copies.T)))
    assert spread_params("euclidean", x, weight) == {}


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "nan_euclidean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_stays_at_the_matrix(metric, dtype):
    x = rows(2000, 4)
    distances(x[:10], metric)
    tracemalloc.start()
    matrix = distances(x, metric, dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert matrix.dtype == dtype
    # Blocks are computed in float64, each 64/2000 of the matrix in that type.
    assert peak - matrix.nbytes < 0.2 * 2000**2 * 8


def test_distances_to_medoids_come_in_blocks(monkeypatch):
    monkeypatch.setattr("jensen.models.clusters.distances.NUMBERS_AT_ONCE", 20)
    x = rows(50, 3)
    blocks = list(blocks_to(x, x[:4], "euclidean", {}))
    assert {len(block) for block in blocks} == {5}
    assert_array_equal(np.concatenate(blocks), cdist(x, x[:4]))


def test_a_metric_that_gives_no_distance():
    x = rows(200, 3)
    x[150] = 1.0
    with pytest.raises(ValueError, match=r"metric='correlation' gives nan between rows 0 and 150 of X; a distance"):
        distances(x, "correlation")
    with pytest.raises(ValueError, match=r"gives -1.0 between rows 0 and 1 of X; a distance must be finite and 0"):
        distances(x, lambda a, b: -1.0)
    x[[3, 190]] = [[np.nan, 1, np.nan], [1, np.nan, 1]]
    with pytest.raises(ValueError, match="rows 3 and 190 of X share no observed feature, so metric='nan_euclidean'"):
        distances(x, "nan_euclidean")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:, :299], r"X has shape \(300, 299\), but metric='precomputed' needs the square matrix \(n, n\)"),
        (lambda d: put(d, 1, 299, -1.0), r"X\[1, 299\] is -1.0; a distance must be finite and 0 or more"),
        (lambda d: put(d, 7, 2, np.nan), r"X\[7, 2\] is nan; a distance must be finite"),
        (lambda d: put(d, 7, 2, np.inf), r"X\[7, 2\] is inf; a distance must be finite"),
        (lambda d: put(d, 280, 280, 0.5), r"X\[280, 280\] is 0.5; the distance of a row to itself must be 0"),
        (lambda d: put(d, 280, 3, 5.0), r"X\[3, 280\] is .*, but X\[280, 3\] is 5.0; .* give \(X \+ X.T\) / 2"),
    ],
)
def test_a_matrix_that_holds_no_distances(change, message):
    good = cdist(rows(300, 3), rows(300, 3))
    check_distances(good, "X")
    with pytest.raises(ValueError, match=message):
        check_distances(change(good), "X")


def put(matrix, i, j, value):
    matrix = matrix.copy()
    matrix[i, j] = value
    return matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_an_expanded_square_is_no_error(dtype):
    x = rows(100, 5).astype(dtype)
    squared = (x**2).sum(1)
    check_distances(np.sqrt(np.maximum(squared[:, None] + squared - 2 * x @ x.T, 0)), "X")
