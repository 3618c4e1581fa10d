"""FasterPAM: every change it computes is the change of the loss, and where it ends no swap lowers the loss."""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from jensen.engines.em.seeding import draw_different
from jensen.formulas import neighbours as nearest
from jensen.models.clusters import faster_pam as swaps

TEXTBOOK = np.array(
    [[0, 2, 3, 4, 5], [2, 0, 6, 7, 8], [3, 6, 0, 9, 10], [4, 7, 9, 0, 11], [5, 8, 10, 11, 0]], dtype=np.float64
)


def problem(n, seed=0, dtype=np.float64):
    """Distances and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    weight = rng.integers(0, 4, size=n).astype(np.float64)
    weight[: n // 2] = rng.random(n // 2) + 0.1
    return cdist(x, x).astype(dtype), weight


def loss(distances, weight, medoids):
    return float(distances[list(medoids)].min(0).astype(np.float64) @ weight)


def all_swaps(medoids, candidates):
    for place, new in itertools.product(range(len(medoids)), candidates):
        if new not in medoids:
            yield [*medoids[:place], new, *medoids[place + 1 :]]


def start(weight, k, seed=0):
    return draw_different(weight, k, torch.Generator().manual_seed(seed))


@pytest.fixture(params=["product with memberships", "near distances only"])
def _either_way(request, monkeypatch):
    monkeypatch.setattr(nearest, "FEW_MEDOIDS", 10**9 if request.param == "product with memberships" else 1)


# The change of a swap


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_change_is_the_difference_of_two_losses(k, dtype):
    distances, weight = problem(20, dtype=dtype)
    medoids = start(weight, k)
    changes = swaps.neighbours(distances, weight, medoids).changes(distances)
    before = loss(distances, weight, medoids)
    for j, m in itertools.product(range(20), range(k)):
        after = loss(distances, weight, [*medoids[:m], j, *medoids[m + 1 :]])
        # Sums are float64 whatever the matrix is.
        assert changes[j, m] == pytest.approx(after - before, abs=1e-12 * before)


@pytest.mark.parametrize("k", [1, 2, 6])
def test_neighbours_after_a_swap_are_those_found_anew(k):
    distances, weight = problem(30)
    state = swaps.neighbours(distances, weight, start(weight, k))
    for rows in (np.array([3, 17]), np.arange(30), np.array([9, 21, 4])):
        state = swaps.best_swap(distances, state, rows, distances[rows]) or state
        anew = swaps.neighbours(distances, weight, state.medoids)
        for name in ("medoids", "nearest", "near", "runner_up", "second"):
            assert_array_equal(getattr(state, name), getattr(anew, name), err_msg=name)
    assert state.loss == pytest.approx(loss(distances, weight, state.medoids))


# Where it ends


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("block_rows", [1, 4, 64])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_no_swap_lowers_the_loss_in_the_end(k, block_rows, monkeypatch):
    monkeypatch.setattr(swaps, "BLOCK_ROWS", block_rows)
    for seed in range(5):
        distances, weight = problem(25, seed)
        found = swaps.faster_pam(distances, weight, start(weight, k, seed), max_iter=100)
        assert found.converged
        assert found.loss == pytest.approx(loss(distances, weight, found.medoids))
        candidates = np.flatnonzero(weight > 0).tolist()
        others = [loss(distances, weight, other) for other in all_swaps(found.medoids.tolist(), candidates)]
        assert min(others) >= found.loss * (1 - 1e-10)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_few_starts_reach_the_global_optimum_of_small_problems(k):
    for seed in range(10):
        distances, weight = problem(12, seed)
        sets = itertools.combinations(np.flatnonzero(weight > 0).tolist(), k)
        best = min(loss(distances, weight, medoids) for medoids in sets)
        found = [swaps.faster_pam(distances, weight, start(weight, k, s), max_iter=100).loss for s in range(8)]
        assert min(found) == pytest.approx(best, rel=1e-10)


def test_the_textbook_matrix():
    weight = np.ones(5)
    best = min(loss(TEXTBOOK, weight, pair) for pair in itertools.combinations(range(5), 2))
    for pair in itertools.permutations(range(5), 2):
        assert swaps.faster_pam(TEXTBOOK, weight, np.array(pair), max_iter=10).loss == best == 9


def test_a_weight_is_a_repetition():
    distances, _ = problem(30)
    count = np.random.default_rng(1).integers(0, 4, size=30)
    copies = np.repeat(np.arange(30), count)
    one = swaps.faster_pam(distances, count.astype(np.float64), copies[[0, 9, -1]], max_iter=100)
    other = swaps.faster_pam(
        distances[np.ix_(copies, copies)], np.ones(len(copies)), np.array([0, 9, len(copies) - 1]), max_iter=100
    )
    assert one.loss == pytest.approx(other.loss, rel=1e-12)
    assert (count[one.medoids] > 0).all()


@pytest.mark.usefixtures("_either_way")
def test_points_that_are_all_the_same():
    found = swaps.faster_pam(np.zeros((30, 30)), np.ones(30), np.arange(20), max_iter=10)
    assert (found.loss, found.n_swaps, found.converged) == (0, 0, True)


def test_as_many_medoids_as_points_have_no_loss():
    distances, _ = problem(9)
    found = swaps.faster_pam(distances, np.ones(9), np.arange(9), max_iter=10)
    assert found.loss == 0
    assert found.n_swaps == 0


@pytest.mark.usefixtures("_either_way")
def test_clusters_so_far_apart_that_rounding_exceeds_the_loss():
    """It ends, and finds one medoid in each: the sums of far distances have an error of 1e-4, the loss is 1e-6."""
    rng = np.random.default_rng(0)
    x = np.concatenate([1e-9 * rng.normal(size=(200, 2)), 1e-9 * rng.normal(size=(200, 2))])
    distances = cdist(x, x)
    far = np.arange(400) < 200
    distances[np.ix_(far, ~far)] = distances[np.ix_(~far, far)] = 1e9
    for seed in range(5):
        found = swaps.faster_pam(distances, np.ones(400), start(np.ones(400), 2, seed), max_iter=100)
        assert found.converged
        assert sorted(far[found.medoids]) == [False, True]


def test_rounds_are_limited_and_counted():
    distances, _ = problem(400)
    weight = np.ones(400)
    first = np.arange(20)
    none = swaps.faster_pam(distances, weight, first, max_iter=0)
    assert_array_equal(none.medoids, first)
    assert (none.n_iter, none.n_swaps, none.converged) == (0, 0, False)
    one = swaps.faster_pam(distances, weight, first, max_iter=1)
    assert (one.n_iter, one.converged) == (1, False)
    assert swaps.faster_pam(distances, weight, first, max_iter=100).loss <= one.loss < none.loss


def test_an_interrupted_search_keeps_the_best_so_far(monkeypatch):
    distances, _ = problem(50)
    calls, original = [], swaps.best_swap

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(swaps, "best_swap", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted after 3 swaps; the best medoids so far are kept"):
        found = swaps.faster_pam(distances, np.ones(50), np.arange(10), max_iter=100)
    assert found.interrupted
    assert found.loss == pytest.approx(loss(distances, np.ones(50), found.medoids))


# Starts


def naive_build(distances, weight, k):
    medoids = []
    for _ in range(k):
        others = [j for j in range(len(distances)) if weight[j] > 0 and j not in medoids]
        losses = [loss(distances, weight, [*medoids, j]) for j in others]
        medoids.append(others[int(np.argmin(losses))])
    return medoids


@pytest.mark.parametrize("block_rows", [1, 5, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_build_is_the_greedy_search(dtype, block_rows, monkeypatch):
    monkeypatch.setattr(swaps, "BLOCK_ROWS", block_rows)
    for seed in range(5):
        distances, weight = problem(40, seed, dtype)
        assert swaps.build(distances, weight, 12).tolist() == naive_build(distances, weight, 12)


def test_build_takes_no_point_twice_where_nothing_is_gained():
    distances = np.repeat(np.repeat(TEXTBOOK, 3, axis=0), 3, axis=1)
    assert len(set(swaps.build(distances, np.ones(15), 15).tolist())) == 15


def test_random_medoids_differ_and_follow_the_weights():
    weight = np.array([0.0, 1.0, 2.0, 7.0])
    generator = torch.Generator().manual_seed(0)
    drawn = np.array([draw_different(weight, 2, generator) for _ in range(4000)])
    assert (drawn[:, 0] != drawn[:, 1]).all()
    # Four standard deviations of a share of 4000 draws.
    assert_allclose(np.bincount(drawn[:, 0], minlength=4) / 4000, weight / 10, atol=4 * np.sqrt(0.21 / 4000))


# Memory


@pytest.mark.parametrize("k", [3, 50, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_matrix_is_neither_copied_nor_changed(k, dtype):
    distances, _ = problem(2000, dtype=dtype)
    distances.flags.writeable = False
    weight = np.ones(2000)
    tracemalloc.start()
    swaps.faster_pam(distances, weight, start(weight, k), max_iter=2)
    swaps.build(distances, weight, min(k, 50))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block in float64 has 64 of 2000 rows; there are a few of them.
    assert peak < 0.2 * distances.nbytes * (8 / distances.itemsize)
