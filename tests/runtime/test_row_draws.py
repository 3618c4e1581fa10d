"""Random numbers of rows: functions of a seed and of content, as good as those of a generator."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.stats import chi2, kstest, norm

from jensen.runtime.row_draws import RowDraws, normals, uniforms

N, K = 4000, 500


@pytest.fixture(scope="module")
def rows():
    return torch.tensor(np.random.default_rng(0).normal(size=(N, 3)), dtype=torch.float32)


@pytest.fixture(scope="module", params=["rows", "counts"])
def draws(request, rows):
    """Numbers (N, K) of rows that differ everywhere, or of neighbouring whole numbers alone."""
    x = rows if request.param == "rows" else torch.arange(N, dtype=torch.float32)[:, None]
    return RowDraws.of(x, 0).normal(K).double().numpy()


def test_numbers_depend_on_the_row_and_the_seed_alone(rows):
    whole = RowDraws.of(rows, 7).normal(5, 3)
    order = np.random.default_rng(1).permutation(N)
    assert_array_equal(RowDraws.of(rows[torch.tensor(order)], 7).normal(5, 3), whole[order])
    assert_array_equal(RowDraws.of(rows[17:18], 7).normal(5, 3)[0], whole[17])
    assert_array_equal(RowDraws.of(rows, 7)[100:300].normal(5, 3), whole[100:300])
    assert not np.isclose(RowDraws.of(rows, 8).normal(5, 3), whole).mean() > 0.001


def test_equal_rows_have_equal_numbers_also_with_missing_values():
    x = torch.tensor([[0.0, torch.nan], [-0.0, torch.nan], [0.0, 1.0]])
    found = RowDraws.of(x, 0).uniform(4)
    assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).all()


def test_calls_take_the_next_numbers(rows):
    draws, whole = RowDraws.of(rows, 0), RowDraws.of(rows, 0).uniform(7)
    assert_array_equal(torch.cat([draws.uniform(3), draws[:].uniform(4)], 1), whole)
    draws.uniform(4)
    assert draws.n_used == 7


def test_normal_numbers_are_normal(draws):
    z = draws.ravel()
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
    assert abs((z**3).mean()) < 4 * np.sqrt(15 / z.size)
    assert abs((z**4).mean() - 3) < 4 * np.sqrt(96 / z.size)
    assert kstest(z[::7], "norm").pvalue > 1e-3
    # Both halves of a pair, and the tails.
    assert abs((np.abs(z) > 3.5).mean() / (2 * norm.sf(3.5)) - 1) < 4 / np.sqrt(z.size * 2 * norm.sf(3.5))


def test_numbers_of_different_rows_and_places_are_not_correlated(draws):
    """Σ r² n of all pairs of columns, or of rows, is about χ²."""
    for z in (draws[:, :200], draws[:200].T):
        n, k = z.shape
        r = np.corrcoef(z.T)[np.triu_indices(k, 1)]
        assert 1e-4 < chi2.sf((r**2).sum() * n, len(r)) < 1 - 1e-4
        # The signs alone, and the sizes alone, too.
        r = np.corrcoef(np.abs(z).T)[np.triu_indices(k, 1)]
        assert 1e-4 < chi2.sf((r**2).sum() * n, len(r)) < 1 - 1e-4


def test_uniform_numbers_are_uniform_in_the_square(rows):
    u = RowDraws.of(rows, 3).uniform(2, 50).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram2d(u[:, 0].ravel(), u[:, 1].ravel(), bins=20, range=[[0, 1], [0, 1]])[0]
    expected = counts.sum() / counts.size
    assert 1e-3 < chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1) < 1 - 1e-3


def test_streams_of_pairs_are_new_ones(rows):
    draws = RowDraws.of(rows[:200], 0)
    row, number = np.divmod(np.arange(200 * 50), 50)
    z = draws.own(row, number).normal(2).double().numpy().reshape(200, 100)
    r = np.corrcoef(np.concatenate([z, draws.normal(100).double().numpy()], 1).T)[np.triu_indices(200, 1)]
    assert 1e-4 < chi2.sf((r**2).sum() * 200, len(r)) < 1 - 1e-4
    assert_array_equal(draws[3:4].own(np.array([0]), np.array([49])).normal(2)[0], z[3, 98:].astype(np.float32))
    assert (draws.apart(1).uniform(3) != draws.apart(2).uniform(3)).all()


def test_a_generator_is_a_source_too(rows):
    generator = torch.Generator().manual_seed(0)
    assert normals(generator, 4, 2).shape == normals(RowDraws.of(rows[:4], 0), 4, 2).shape == (4, 2)
    assert uniforms(generator, 4, 2).dtype == uniforms(RowDraws.of(rows[:4], 0), 4, 2).dtype == torch.float64


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5)])
def test_any_shape_is_possible(rows, shape):
    for part in (rows[:0], rows[:3]):
        assert RowDraws.of(part, 0).normal(*shape).shape == (len(part), *shape)
        assert RowDraws.of(part, 0).uniform(*shape).shape == (len(part), *shape)
