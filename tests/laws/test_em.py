"""A fit never falls, and its statistics add."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jensen.engines.em import loop as em
from jensen.engines.em import sources

pytestmark = pytest.mark.asks("untrained")


def few_steps(case):
    """What is so after every step is seen after twenty of them, where a fit takes hundreds."""
    return case.make().set_params(max_iter=20)


def test_more_steps_never_lower_the_objective(case, some_rows):
    options = {"tol": 0} if case.offers("tol") else {}
    if "init_params" in case.make().get_params():
        # This start takes no steps of its own; a portfolio of starts does, and leaves little to gain.
        options["init_params"] = "kmeans"
    for rows in some_rows:
        fits = [case.make().set_params(max_iter=n, **options).fit(rows, case.y) for n in (1, 2, 3, 5, 9)]
        values = np.array([case.objective(model) for model in fits])
        # Differences of sums in float64.
        assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()


@pytest.mark.asks("score_samples", "fits_without_labels")
def test_the_theta_returned_is_the_theta_scored(case, some_rows, fitted_to):
    for rows in some_rows:
        model = fitted_to(rows, None)
        expected = model.score_samples(rows).mean() + case.log_prior(model, rows)
        assert_allclose(model.lower_bound_, expected, rtol=1e-9)


def test_chunks_add_up_to_the_whole(case, some_rows, parameters, monkeypatch):
    for rows in some_rows:
        whole = few_steps(case).fit(rows, case.y)
        with monkeypatch.context() as patch:
            patch.setattr(sources, "FEWEST_ROWS", 4)
            patch.setattr(sources, "MOST_ROWS", 23)
            chunked = few_steps(case).fit(rows, case.y)
        assert_allclose(case.objective(chunked), case.objective(whole), rtol=1e-9)
        assert_allclose(parameters(chunked), parameters(whole), rtol=1e-5, atol=1e-7)


def test_weight_two_is_the_row_twice(case, some_rows, parameters):
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, size=len(case.x))
    for rows in some_rows:
        weighted = few_steps(case).fit(rows, case.y, sample_weight=weight)
        labels = None if case.y is None else np.repeat(case.y, weight)
        repeated = few_steps(case).fit(np.repeat(rows, weight, axis=0), labels)
        assert_allclose(parameters(weighted), parameters(repeated), rtol=1e-6, atol=1e-9)
        assert_allclose(case.objective(weighted), case.objective(repeated), rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter(case, some_rows, parameters):
    order = np.random.default_rng(3).permutation(len(case.x))
    for rows in some_rows:
        one = few_steps(case).fit(rows, case.y)
        other = few_steps(case).fit(rows[order], None if case.y is None else case.y[order])
        assert_allclose(parameters(other), parameters(one), rtol=1e-6, atol=1e-9)


@pytest.mark.asks("score_samples", "raises_bound", "units")
def test_the_units_of_the_data_do_not_matter(case, model):
    """ln p(ax + b) = ln p(x) - d ln a, at any offset and scale."""
    d = case.x.shape[1]
    expected = model.score_samples(case.x).mean()
    for scale, offset in ((1e-12, 0.0), (1e-3, 1e4), (1e6, -1e8)):
        moved = scale * case.x + (offset if case.has_location else 0.0)
        found = case.make().fit(moved, case.y).score_samples(moved).mean()
        # The offset itself rounds the data, by about ε offset / scale of their spread.
        tolerance = 1e-6 + 1e-12 * abs(offset) / scale
        assert found == pytest.approx(expected - d * np.log(scale), abs=tolerance)


def test_a_seed_gives_one_result(case, model, parameters):
    assert_allclose(parameters(case.fitted()), parameters(model), rtol=0)


@pytest.mark.asks("partial_fit", "iterates")
def test_max_iter_zero_returns_the_start_and_steps_count(case):
    start = case.make().set_params(max_iter=0).fit(case.x, case.y)
    assert start.n_iter_ == 0
    few = case.make().set_params(max_iter=2, tol=0).fit(case.x, case.y)
    assert 1 <= few.n_iter_ <= 2
    assert case.objective(few) >= case.objective(start) - 1e-9


@pytest.mark.asks("partial_fit", "raises_bound")
def test_stepwise_em_learns_from_batches(case, model):
    rng = np.random.default_rng(0)
    stepwise = case.make()
    for _ in range(30):
        chosen = rng.permutation(len(case.x))[:45]
        stepwise.partial_fit(case.x[chosen], None if case.y is None else case.y[chosen])
    # Sampling noise of batches of half the rows, not of EM.
    assert stepwise.score_samples(case.x).mean() > model.score_samples(case.x).mean() - 0.5


@pytest.mark.asks("partial_fit")
@pytest.mark.parametrize("sweep", [1, 2, 4])
def test_ctrl_c_in_the_first_sweeps_ends_a_fit(case, sweep, monkeypatch):
    """EM never goes on, wherever its first sweeps are."""
    real, calls = em.sweep, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == sweep:
            raise KeyboardInterrupt
        # One look at all rows tells the objective of the model that is kept.
        assert len(calls) <= sweep + 1, "EM goes on after Ctrl-C"
        return real(*arguments)

    monkeypatch.setattr(em, "sweep", interrupted)
    model = case.make()
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model.fit(case.x, case.y)
    except KeyboardInterrupt:
        assert not hasattr(model, "theta_")
        return
    if len(calls) >= sweep:  # a closed form has none
        assert any(re.search("interrupted .* kept", str(one.message)) for one in heard)
    assert np.isfinite(model.score_samples(case.x)).all()


@pytest.mark.asks("partial_fit")
def test_ctrl_c_keeps_the_best_so_far(case, holes, monkeypatch):
    real, calls = em.sweep, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    model = case.make().set_params(tol=0, max_iter=50)
    if "init_params" in model.get_params():
        # This start takes no steps of its own.
        model.set_params(init_params="kmeans")
    monkeypatch.setattr(em, "sweep", interrupted)
    with pytest.warns(
        RuntimeWarning, match="interrupted after 1 EM steps; the best parameters so far are kept"
    ) as heard:
        model.fit(holes, case.y)
    assert {warning.filename for warning in heard} == {__file__}
    assert model.n_iter_ == 1
    assert np.isfinite(model.score_samples(case.x)).all()
