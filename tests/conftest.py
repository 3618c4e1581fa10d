"""One torch thread per worker: the suite runs two workers on two cores."""

import warnings

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _short_fits_may_not_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
