"""Statistics of several sites make the EM step on all their rows, and steps again and again are the fit to all rows."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import jensen
from jensen.engines.em import loop as em

pytestmark = pytest.mark.asks("statistics", "untrained")


def pick(values, chosen):
    return None if values is None else values[chosen]


def as_frame(rows, **more):
    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])]).assign(**more)


def in_blocks(rows, y, size=7):
    """A scan of data frames with so many rows each."""
    named = {} if y is None else {"label": y}
    frame = as_frame(rows, **named)
    blocks = [frame.iloc[i : i + size] for i in range(0, len(frame), size)]
    return jensen.scan(lambda: iter(blocks), block_rows=size, **{name: name for name in named})


FIRST = {}


@pytest.fixture
def first(case, tmp_path):
    """A model with the right columns and classes but other parameters than those of a fit, read from a file."""
    if case.name not in FIRST:
        weight = np.random.default_rng(0).integers(1, 4, size=len(case.x))
        FIRST[case.name] = case.brief().fit(as_frame(case.x), case.y, sample_weight=weight)
    FIRST[case.name].save(tmp_path / "m.jensen")
    return jensen.load(tmp_path / "m.jensen", recipes=case.classes)


def steps_on_all(case, first, rows, weight, n_steps):
    """EM on all rows in memory, from the parameters of a model."""
    name = type(first).__name__
    if name == "KMeans" and first.depot is None:
        start = first.cluster_centers_
        return first.set_params(init=start, n_init=1, max_iter=n_steps, tol=0).fit(rows, sample_weight=weight)
    if case.is_closed and not np.isnan(rows.to_numpy()).any():
        return case.make().fit(rows, sample_weight=weight)
    if "warm_start" in first.get_params() and name != "LatentDirichletAllocation":
        return first.set_params(warm_start=True, max_iter=n_steps, tol=0).fit(rows, case.y, sample_weight=weight)
    for _ in range(n_steps):
        own = deepcopy(first)
        read = own._read_rows(rows, case.y if own.capabilities.labels else None, weight, reset=False)
        stream, source = own._resume(own._varying(read, is_first=False))
        total = em.sweep(stream.verbs, stream.theta, source)
        first.theta_ = first._presented(stream.verbs.m_step(stream.theta, total.stats).outside(stream.frame))
        if name == "KMeans":
            new = em.Running(total.stats * (1 / total.weight), float(total.weight))
            first._keep_stream(stream.__class__(stream.frame, stream.verbs, new, stream.theta))
        if first._keeps_units:
            first.units_ = np.stack([stream.frame.origin, stream.frame.scale])
        first._stream = None
    return first


@pytest.mark.filterwarnings("ignore")  # few steps, few rows, and rows with nothing observed
def test_a_merge_is_the_step_on_all_rows(case, first, some_rows, parameters):
    if case.name == "kmeans-depot":
        pytest.skip("stores do not choose their customers: test_sites.py of the contract compares it")
    # Without a row at its edge, the box of the noise in a fit would be another one.
    weights = np.random.default_rng(1).integers(0 if case.name != "mixture-noise" else 1, 3, size=len(case.x))
    sites = [np.arange(0, 5), np.arange(5, 40), np.arange(40, len(case.x))]
    for rows in map(as_frame, some_rows):
        for weight in (None, weights):
            model, oracle = deepcopy(first), deepcopy(first)
            found = [model.statistics(rows.iloc[own], pick(case.y, own), pick(weight, own)) for own in sites]
            model.merge(found)
            oracle = steps_on_all(case, oracle, rows, weight, 1)
            # Sums in another order, and in other units: at most 3e-13 apart.
            assert_allclose(parameters(model), parameters(oracle), rtol=1e-11, atol=1e-11)


@pytest.mark.filterwarnings("ignore")
def test_merging_again_and_again_raises_the_objective_of_all_rows(case, first, some_rows, parameters):
    if case.name == "kmeans-depot":
        pytest.skip("a step can lower what is no likelihood")
    halves = [slice(None, 50), slice(50, None)]
    for rows in map(as_frame, some_rows):
        model, bounds = deepcopy(first), []
        for _ in range(8):
            model.merge([model.statistics(rows.iloc[own], pick(case.y, own)) for own in halves])
            bounds.append(model.lower_bound_)
        assert (np.diff(bounds) > -1e-9).all()
        assert bounds[-1] > bounds[0]
        oracle = steps_on_all(case, deepcopy(first), rows, None, 8)
        assert_allclose(parameters(model), parameters(oracle), rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore")
def test_blocks_of_a_scan_have_the_statistics_of_the_table(case, first, some_rows):
    for rows in some_rows:
        whole = first.statistics(as_frame(rows), case.y)
        streamed = first.statistics(in_blocks(rows, case.y))
        assert (streamed.n_rows, streamed.weight) == (whole.n_rows, whole.weight)
        assert streamed.bound == pytest.approx(whole.bound, rel=1e-10)
        for name, sums in whole.sums.items():
            assert_allclose(streamed.sums[name], sums, rtol=1e-9, atol=1e-10 * whole.weight)


@pytest.mark.filterwarnings("ignore")
def test_the_bound_of_a_merge_is_that_of_the_fit(case, model):
    if case.name == "latent-curve-prior":
        pytest.skip("the penalty of a merge is in the units of the model, and that of a fit in those of its rows")
    before = model.lower_bound_
    model.merge([model.statistics(case.learnt, case.y)])
    assert model.lower_bound_ == pytest.approx(before, rel=1e-8)
