"""Every law runs on every case that offers what the law asks: `pytestmark = pytest.mark.asks("score_samples")`."""

from copy import deepcopy

import numpy as np
import pytest

from cases import CASES


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        asked = {what for mark in metafunc.definition.iter_markers("asks") for what in mark.args}
        if "holes" in metafunc.fixturenames:
            asked.add("holes")
        cases = [case for case in CASES if all(case.offers(what) for what in asked)]
        metafunc.parametrize("case", cases, ids=lambda case: case.name)


@pytest.fixture(scope="session")
def fits():
    return {}


@pytest.fixture
def fitted_to(case, fits):
    """The case's model fitted to rows, once for all laws that ask for it; each has a copy of its own."""

    def of(rows, y):
        key = (case.name, rows.shape, rows.tobytes(), y is None)
        if key not in fits:
            fits[key] = case.make().fit(rows, y)
        return deepcopy(fits[key])

    return of


@pytest.fixture
def model(case, fitted_to):
    return fitted_to(case.learnt, case.y)


@pytest.fixture
def holes(case):
    """The case's rows with a fifth of the entries missing, one row with nothing left."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(case.x.shape) < 0.2, np.nan, case.x)
    x[7] = np.nan
    return x


@pytest.fixture
def some_rows(case, request):
    """Complete rows, and rows with holes where the model takes them."""
    return [case.x, request.getfixturevalue("holes")] if case.offers("holes") else [case.x]


@pytest.fixture
def scored_rows(case, request):
    """Complete rows, and rows with holes where they have a score."""
    return [case.x, request.getfixturevalue("holes")] if case.offers("scores_holes") else [case.x]


@pytest.fixture
def parameters(case):
    """All parameters of a fitted model in one vector."""

    def of(model):
        if hasattr(model, "module_"):
            return np.concatenate([np.ravel(weight) for weight in model.module_.state_dict().values()])
        found = [getattr(model, name) for name in (*case.arrays, *case.tables)]
        return np.concatenate([np.ravel(array) for value in found for array in arrays_in(value)])

    return of


def arrays_in(value):
    """The arrays of a dictionary of them, or of dictionaries."""
    return [array for part in value.values() for array in arrays_in(part)] if isinstance(value, dict) else [value]
