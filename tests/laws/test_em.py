"""EM never falls, and its statistics add."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from jensen.engines import em, sources


def test_the_objective_never_falls(case, model, holes):
    for rows in (case.x, holes):
        history = np.array(case.make().fit(rows, case.y).lower_bounds_)
        # Differences of sums in float64.
        assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_the_theta_returned_is_the_theta_scored(case, holes):
    for rows in (case.x, holes):
        model = clone(case.make()).set_params(prior=None).fit(rows)
        assert_allclose(model.lower_bound_, model.score(rows), rtol=1e-9)


def test_chunks_add_up_to_the_whole(case, holes, monkeypatch):
    for rows in (case.x, holes):
        whole = case.make().fit(rows, case.y)
        with monkeypatch.context() as patch:
            patch.setattr(sources, "FEWEST_ROWS", 4)
            patch.setattr(sources, "MOST_ROWS", 7)
            chunked = case.make().fit(rows, case.y)
        assert_allclose(chunked.lower_bound_, whole.lower_bound_, rtol=1e-9)
        assert_allclose(chunked.means_, whole.means_, rtol=1e-5, atol=1e-7)


def test_weight_two_is_the_row_twice(case, holes):
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, size=len(case.x))
    for rows in (case.x, holes):
        weighted = case.make().fit(rows, case.y, sample_weight=weight)
        labels = None if case.y is None else np.repeat(case.y, weight)
        repeated = case.make().fit(np.repeat(rows, weight, axis=0), labels)
        assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
        assert_allclose(weighted.lower_bound_, repeated.lower_bound_, rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter(case, holes):
    order = np.random.default_rng(3).permutation(len(case.x))
    for rows in (case.x, holes):
        one = case.make().fit(rows, case.y)
        other = case.make().fit(rows[order], None if case.y is None else case.y[order])
        assert_allclose(other.means_, one.means_, rtol=1e-6)


def test_the_units_of_the_data_do_not_matter(case):
    """ln p(ax + b) = ln p(x) - d ln a, at any offset and scale."""
    d = case.x.shape[1]
    expected = clone(case.make()).set_params(prior=None).fit(case.x, case.y)
    for scale, offset in ((1e-12, 0.0), (1e-3, 1e4), (1e6, -1e8)):
        moved = scale * case.x + offset
        model = clone(case.make()).set_params(prior=None).fit(moved, case.y)
        # The offset itself rounds the data, by about ε offset / scale of their spread.
        tolerance = 1e-6 + 1e-12 * abs(offset) / scale
        assert model.score(moved) == pytest.approx(expected.score(case.x) - d * np.log(scale), abs=tolerance)


def test_a_seed_gives_one_result(case):
    assert_allclose(case.fitted().means_, case.fitted().means_, rtol=0)


def test_max_iter_zero_returns_the_start_and_steps_count(case):
    start = case.make().set_params(max_iter=0).fit(case.x, case.y)
    assert start.n_iter_ == 0
    assert start.lower_bounds_ == []
    few = case.make().set_params(max_iter=2, tol=0).fit(case.x, case.y)
    assert few.n_iter_ == 2
    assert few.lower_bound_ >= start.lower_bound_ - 1e-9


def test_stepwise_em_learns_from_batches(case):
    rng = np.random.default_rng(0)
    model = case.make()
    for _ in range(30):
        chosen = rng.permutation(len(case.x))[:45]
        model.partial_fit(case.x[chosen], None if case.y is None else case.y[chosen])
    whole = case.fitted()
    # Sampling noise of batches of half the rows, not of EM.
    assert model.score(case.x) > whole.score(case.x) - 0.5


def test_ctrl_c_keeps_the_best_so_far(case, monkeypatch):
    real, calls = em.sweep, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    model = case.make().set_params(init_params="kmeans", tol=0, max_iter=50)
    monkeypatch.setattr(em, "sweep", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted after 1 EM steps; the best parameters so far are kept"):
        model.fit(case.x, case.y)
    assert model.n_iter_ == 1
    assert np.isfinite(model.score(case.x))
