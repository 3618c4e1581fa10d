"""Compiled steps: from given centres to a partition, in either precision."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from jensen.models.clusters import lloyd as module
from jensen.models.clusters.lloyd import lloyd


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(600, 3)) + 4 * rng.normal(size=(5, 3))[rng.integers(5, size=600)]


def loss(x, weight, centres):
    return (weight * ((x[:, None] - centres) ** 2).sum(2).min(1)).sum()


def test_a_step_is_the_weighted_mean_of_the_nearest_rows(rows):
    weight = np.random.default_rng(1).random(len(rows))
    nearest = ((rows[:, None] - rows[:4]) ** 2).sum(2).argmin(1)
    expected = [np.average(rows[nearest == j], axis=0, weights=weight[nearest == j]) for j in range(4)]
    found = lloyd(rows, weight, rows[:4], max_iter=1, tol=0)
    assert_allclose(found.centres, expected)
    assert_allclose(found.inertia, loss(rows, weight, found.centres))
    assert_array_equal(found.labels, ((rows[:, None] - found.centres) ** 2).sum(2).argmin(1))


def test_steps_lower_the_loss_and_refill_an_empty_cluster(rows):
    weight = np.ones(len(rows))
    centres = np.vstack([rows[:3], [[1e3, 1e3, 1e3]]])
    losses = [lloyd(rows, weight, centres, max_iter=n, tol=0).inertia for n in range(1, 8)]
    assert (np.diff(losses) <= 1e-9).all()
    assert set(lloyd(rows, weight, centres, max_iter=8, tol=0).labels) == {0, 1, 2, 3}


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e-30, 0.0), (1e30, 1e32)])
def test_single_precision_first_ends_in_the_same_place(rows, monkeypatch, scale, offset):
    moved = rows * scale + offset
    weight = np.random.default_rng(1).random(len(rows))
    plain = lloyd(moved, weight, moved[:5], max_iter=300, tol=0)
    monkeypatch.setattr(module, "LARGE", 0)
    mixed = lloyd(moved, weight, moved[:5], max_iter=300, tol=0)
    # The offset rounds the data to about 1e-14 of their spread.
    assert_allclose(mixed.centres, plain.centres, rtol=1e-9)
    assert_array_equal(mixed.labels, plain.labels)
    for n in (1, 2, 3):
        assert lloyd(moved, weight, moved[:5], max_iter=n, tol=0).n_iter == n


def test_sparse_rows_move_like_dense_ones(rows):
    sparse = np.where(np.abs(rows) < 1, 0, rows)
    dense = lloyd(sparse, None, sparse[:4], max_iter=20, tol=0)
    assert_allclose(lloyd(scipy.sparse.csr_array(sparse), None, sparse[:4], max_iter=20, tol=0).centres, dense.centres)
