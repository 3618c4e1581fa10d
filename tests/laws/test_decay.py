"""With a decay γ, a batch counts γ^(batches since) times."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from jensen.engines.em import loop as em
from jensen.engines.em.checkpoint import leaves

pytestmark = pytest.mark.asks("partial_fit", "untrained")
DECAY = 0.6


def batches(case):
    """Three batches of different sizes, each with rows of every cluster and class."""
    order = np.random.default_rng(3).permutation(len(case.x))
    parts = [order[:40], order[40:60], order[60:]]
    return [(case.x[own], None if case.y is None else case.y[own]) for own in parts]


def one_component(case):
    """The model with a single component, whose statistics do not depend on its parameters; None if there is none."""
    model = case.make()
    few = {"n_clusters": 1} if "n_clusters" in model.get_params() else {"n_components": 1}
    has_more = getattr(model, "noise", False) or {"n_grid", "n_latent"} & model.get_params().keys()
    if has_more or not few.keys() <= model.get_params().keys():
        return None
    return model.set_params(**few)


@pytest.mark.filterwarnings("ignore")
def test_a_decayed_stream_is_the_fit_with_decayed_weights(case, parameters):
    model = one_component(case)
    if model is None:
        pytest.skip("has no closed form")
    stream, parts = clone(model), [x for x, _ in batches(case)]
    for x in parts:
        stream.partial_fit(x, decay=DECAY)
    weight = np.concatenate([np.full(len(x), DECAY ** (2 - t)) for t, x in enumerate(parts)])
    whole = clone(model).fit(np.concatenate(parts), sample_weight=weight)
    if case.name == "factor-analysis":
        # One factor fits three features without error, so that nearly all directions of it are as good.
        assert_allclose(stream.mean_, whole.mean_, rtol=1e-7)
        assert_allclose(stream.get_covariance(), whole.get_covariance(), rtol=1e-2, atol=0.5)
    else:
        assert_allclose(parameters(stream), parameters(whole), rtol=1e-7, atol=1e-7)
    if hasattr(stream, "total_weight_"):
        assert stream.total_weight_ == pytest.approx(weight.sum())


@pytest.mark.filterwarnings("ignore")
def test_running_statistics_are_an_exponentially_weighted_sum(case):
    (first, y), *rest = batches(case)
    model = case.brief()
    if case.name == "topics":
        pytest.skip("keeps its statistics in λ; the fit with decayed weights compares it")
    model.partial_fit(first, y, decay=DECAY)
    start, _ = model._resume(model._varying(model._read_rows(first, y, None, reset=False), is_first=False))
    terms = [start.running.stats * start.running.weight]
    for x, y in rest:
        rows = model._varying(model._read_rows(x, y, None, reset=False), is_first=False)
        stream, source = model._resume(rows)
        terms.append(em.sweep(stream.verbs, stream.theta, source).stats)
        model.partial_fit(x, y, decay=DECAY)
    expected = terms[0] * DECAY**2 + terms[1] * DECAY + terms[2]
    running, total = model._stream.running, len(first) * DECAY**2 + len(rest[0][0]) * DECAY + len(rest[1][0])
    assert running.weight == pytest.approx(total)
    found = leaves(running.stats * running.weight)
    for name, value in leaves(expected).items():
        assert_allclose(found[name], value, rtol=1e-9, atol=1e-9 * total)


def test_a_wrong_decay_is_refused(case):
    for wrong in (0, -0.5, 1.5, np.nan, True, "half"):
        with pytest.raises(ValueError, match=r"decay=.* must be above 0 and at most 1"):
            case.brief().partial_fit(case.x, case.y, decay=wrong)
