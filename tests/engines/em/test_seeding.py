"""Seeds see the set of distinct rows and their weights, nothing else."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal

from jensen.engines.em import seeding as start
from jensen.runtime.hashing import hash_rows


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 3)).round(1)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[0, 0], x[1, 0] = 0.0, -0.0
    return x


@pytest.mark.parametrize("limit", [50, 400, 10**6])
def test_duplicates_share_their_fate_and_order_does_not_matter(rows, limit):
    ones = np.ones(len(rows))
    numbers, weight, _ = start.distinct_rows(rows, ones, limit, limit)
    order = np.random.default_rng(1).permutation(len(rows))
    again, weight_again, _ = start.distinct_rows(rows[order], ones, limit, limit)
    assert_array_equal(rows[numbers] + 0.0, rows[order][again] + 0.0)
    assert_array_equal(weight, weight_again)
    twice, weight_twice, _ = start.distinct_rows(np.repeat(rows, 2, axis=0), np.ones(2 * len(rows)), limit, limit)
    assert_array_equal(np.repeat(rows, 2, axis=0)[twice] + 0.0, rows[numbers] + 0.0)
    assert_array_equal(weight_twice, 2 * weight)
    assert len(numbers) <= limit


def test_all_distinct_rows_are_found_and_their_weights_add_up(rows):
    weight = np.random.default_rng(2).random(len(rows))
    numbers, total, is_everything = start.distinct_rows(rows, weight, 10**6, 10)
    expected = {tuple(np.nan_to_num(r + 0.0, nan=99.0)) for r in rows}
    assert {tuple(np.nan_to_num(r + 0.0, nan=99.0)) for r in rows[numbers]} == expected
    assert len(numbers) == len(expected)
    assert is_everything
    assert_allclose(total.sum(), weight.sum())
    assert_array_equal(np.lexsort(rows[numbers].T[::-1]), np.arange(len(numbers)))


def test_a_share_of_the_rows_is_taken_when_there_are_many(rows):
    numbers, _, is_everything = start.distinct_rows(rows, np.ones(len(rows)), 400, 200)
    assert 50 < len(numbers) <= 200
    assert not is_everything


def test_greedy_seeding_finds_separated_clusters():
    rng = np.random.default_rng(0)
    centres = np.arange(20) * 100.0
    x = torch.tensor((centres[:, None] + rng.normal(size=(20, 30))).reshape(1, -1))
    found = 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        seeds = start.kmeans_plus_plus(x, torch.ones(600).double(), 20, generator)
        found += len(set((x[0, seeds] / 100).round().int().tolist())) == 20
    assert found >= 19


def test_seeds_beyond_given_centres_go_where_those_are_not():
    x = torch.tensor([[0.0, 0.1, 10.0, 10.1]]).double()
    generator = torch.Generator().manual_seed(0)
    seeds = start.kmeans_plus_plus(x, torch.ones(4).double(), 1, generator, centres=x[:, :1])
    assert int(seeds[0]) >= 2


def test_swaps_find_the_clusters_that_seeds_missed():
    rng = np.random.default_rng(0)
    places = np.arange(6) * 100.0
    x = torch.tensor((places[:, None] + rng.normal(size=(6, 30))).reshape(1, -1))
    weight = torch.tensor(rng.random(180))
    # Two of the clusters have three centres each, four have none.
    centres = x[:, [0, 1, 2, 30, 31, 32]]
    found = start.swap_in(x, weight, centres, 25, torch.Generator().manual_seed(0))
    assert_array_equal(np.sort((found[0].numpy() / 100).round()), np.arange(6))
    # Centres that cannot be improved stay where they are, also a single one.
    assert_array_equal(start.swap_in(x, weight, found, 0, torch.Generator()), found)
    best = torch.tensor([[0.0, 10.0]]).double()
    points = torch.tensor([[0.0, 0.0, 10.0, 10.0]]).double()
    assert_array_equal(start.swap_in(points, torch.ones(4).double(), best, 5, torch.Generator()), best)
    one = start.swap_in(points, torch.tensor([3.0, 3.0, 1.0, 1.0]).double(), best[:, 1:], 5, torch.Generator())
    assert float(one) == 0.0


def test_wide_rows_with_nearly_empty_margins_have_one_order_in_any_units():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 3, size=(300, 60)) * (rng.random(60) < np.linspace(0, 1, 60) ** 4)
    x = np.unique(np.column_stack([rng.random((300, 20)) < 0.003, image]).astype(float), axis=0)
    expected, order = x[start.order_by_content(x)], rng.permutation(len(x))
    assert_array_equal(x[order][start.order_by_content(x[order])], expected)
    unit, origin = rng.uniform(0.1, 10, size=80), rng.normal(size=80)
    assert_array_equal(start.order_by_content(x * unit + origin), start.order_by_content(x))


def test_draws_follow_the_weights():
    mass = torch.tensor([0.0, 1.0, 3.0]).double()
    draws = start.draw(mass, 40_000, torch.Generator().manual_seed(0))
    shares = torch.bincount(draws, minlength=3) / 40_000
    assert_allclose(shares, [0, 0.25, 0.75], atol=0.02)
    assert set(start.draw(mass * 0, 100, torch.Generator().manual_seed(0)).tolist()) == {0, 1, 2}


def test_a_sparse_row_hashes_like_the_same_row_written_out(rows):
    filled = np.where(np.abs(rows) < 1, 0.0, np.nan_to_num(rows))
    assert_array_equal(hash_rows(scipy.sparse.csr_array(filled)), hash_rows(filled))


def test_distinct_sparse_rows_do_not_depend_on_their_order(rows):
    filled = np.nan_to_num(rows)
    order = np.random.default_rng(1).permutation(len(rows))
    numbers, weight, _ = start.distinct_rows(scipy.sparse.csr_array(filled), None, 400, 400)
    again, weight_again, _ = start.distinct_rows(scipy.sparse.csr_array(filled[order]), None, 400, 400)
    assert_array_equal(filled[numbers], filled[order][again])
    assert_array_equal(weight, weight_again)


def test_rows_are_sorted_by_as_many_columns_as_it_takes():
    x = np.zeros((50, 30))
    x[:, 25] = np.random.default_rng(0).permutation(50)
    assert_array_equal(x[start.order_by_content(x), 25], np.arange(50))
