"""Every law runs on every case."""

import pytest

from cases import CASES


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def model(case):
    return case.fitted()


@pytest.fixture
def holes(case):
    """The case's rows with a fifth of the entries missing, one row with nothing left."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = np.where(rng.random(case.x.shape) < 0.2, np.nan, case.x)
    x[7] = np.nan
    return x
