"""Transport against scipy's linear assignment and the whole linear programme."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment, linprog

from jensen.models.clusters.transport import transport


def check_feasible(flow, supply, lower, upper):
    assert (flow >= -1e-12).all()
    assert_allclose(flow.sum(1), supply, rtol=1e-9)
    assert (flow.sum(0) >= lower - 1e-7).all()
    assert (flow.sum(0) <= upper + 1e-7).all()


@pytest.mark.parametrize("seed", range(4))
def test_equal_sizes_are_a_linear_assignment(seed):
    rng = np.random.default_rng(seed)
    cost = rng.random((60, 4)) ** 3
    flow = transport(cost, np.ones(60), 15, 15)
    slots = np.repeat(cost, 15, axis=1)
    check_feasible(flow, np.ones(60), 15, 15)
    assert_allclose((flow * cost).sum(), slots[linear_sum_assignment(slots)].sum())
    assert_allclose(flow, flow.round(), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_weights_and_limits_against_the_whole_programme(seed):
    rng = np.random.default_rng(seed)
    n, k = 40, 5
    centres = rng.normal(size=(k, 2)) * 0.3
    cost = ((rng.normal(size=(n, 1, 2)) - centres) ** 2).sum(2)
    supply = rng.integers(1, 9, size=n).astype(float)
    lower, upper = 0.8 * supply.sum() / k, 1.1 * supply.sum() / k
    flow = transport(cost, supply, lower, upper)
    check_feasible(flow, supply, lower, upper)
    per_store = np.tile(np.eye(k), n)
    expected = linprog(
        cost.ravel(),
        A_eq=np.repeat(np.eye(n), k, axis=1),
        b_eq=supply,
        A_ub=np.vstack([per_store, -per_store]),
        b_ub=np.r_[np.full(k, upper), np.full(k, -lower)],
    )
    assert_allclose((flow * cost).sum(), expected.fun, rtol=1e-6)
    # A vertex of the programme splits fewer rows than there are stores.
    assert ((flow > 1e-9).sum(1) > 1).sum() < k


def test_loose_limits_leave_everyone_at_the_cheapest_store():
    cost = np.random.default_rng(0).random((30, 3))
    flow = transport(cost, np.ones(30), 0, 30)
    assert_allclose((flow * cost).sum(), cost.min(1).sum())


def test_a_store_nobody_wants_is_filled_to_its_lower_limit():
    cost = np.column_stack([np.zeros(20), np.arange(20.0) + 100])
    flow = transport(cost, np.ones(20), 4, 20)
    assert_allclose(flow[:, 1], np.arange(20) < 4)


def test_whole_weights_keep_to_whole_limits_exactly():
    rng = np.random.default_rng(0)
    supply = rng.integers(10_000, 10**7, size=300).astype(float)
    upper = np.ceil(1.05 * supply.sum() / 4)
    flow = transport(rng.random((300, 4)), supply, 0, upper)
    assert (flow.sum(0) <= upper).all()
    assert (flow.sum(1) == supply).all()


def test_equal_costs_everywhere():
    check_feasible(transport(np.ones((12, 3)), np.ones(12), 4, 4), np.ones(12), 4, 4)
