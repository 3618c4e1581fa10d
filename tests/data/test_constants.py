"""Which columns are constant, and rows without and with them."""

import numpy as np
import pytest
import scipy.sparse
import torch

from jensen.data.constants import Constants, find_constants


def rows(n=200):
    x = np.random.default_rng(0).normal(size=(n, 4))
    x[:, 1], x[:, 3] = 2.5, 0.0
    x[:-1, 2] = 1.0
    x[:150, 3] = np.nan
    return x


def test_columns_with_one_observed_value():
    """The third one varies in the last row alone."""
    found = find_constants(rows())
    np.testing.assert_array_equal(found.values, [np.nan, 2.5, np.nan, 0.0])
    assert found.n_observed.tolist() == [0, 200, 0, 50]
    assert found.columns.tolist() == [1, 3]
    assert found.varying.tolist() == [0, 2]
    assert find_constants(np.eye(3)) is None


def test_zeros_have_no_sign():
    assert find_constants(np.array([[0.0], [-0.0]])).columns.tolist() == [0]


def test_sparse_rows():
    x = np.nan_to_num(rows())
    found, dense = find_constants(scipy.sparse.csr_matrix(x)), find_constants(x)
    np.testing.assert_array_equal(found.values, dense.values)
    np.testing.assert_array_equal(found.n_observed, dense.n_observed)
    np.testing.assert_array_equal(found.beside(scipy.sparse.csr_matrix(x)), dense.beside(x))
    np.testing.assert_array_equal(found.narrowed(scipy.sparse.csr_matrix(x), 1).toarray(), dense.narrowed(x, 1))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (-2, -1)])
def test_widened_undoes_narrowed(axes):
    found = Constants(torch.tensor([torch.nan, 2.0, torch.nan]).double(), torch.tensor([0, 5, 0]))
    x = torch.arange(9.0).reshape(3, 3).double()
    wide = found.widened(found.narrowed(x, *axes), *axes, fill=-1.0)
    expected = x.clone()
    for axis in axes:
        expected.select(axis, 1).fill_(-1.0)
    torch.testing.assert_close(wide, expected)


def test_nats():
    """ln 1/(5+1) for another value, 0 for the value and for a missing one."""
    found = Constants(torch.tensor([torch.nan, 2.0]).double(), torch.tensor([0, 5]))
    beside = torch.tensor([[2.0], [3.0], [torch.nan]]).double()
    np.testing.assert_allclose(found.log_unseen(found.unseen(beside)), [0.0, -np.log(6), 0.0])
    np.testing.assert_allclose(found.differences(beside), [[0.0], [1.0], [0.0]])
    np.testing.assert_allclose(found.completed(beside), [[2.0], [3.0], [2.0]])


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"values": torch.zeros(3).double()},
        {"values": torch.zeros(2).double(), "n_observed": torch.zeros(2, dtype=torch.int64)},
        {"values": torch.zeros(3), "n_observed": torch.zeros(3, dtype=torch.int64)},
        {"values": torch.zeros(3).double(), "n_observed": -torch.ones(3, dtype=torch.int64)},
    ],
)
def test_a_damaged_record(record):
    with pytest.raises(ValueError, match="do not describe 3 columns; the file is damaged"):
        Constants.from_record(record, 3)
