"""Dirichlet formulas beside scipy and beside samples."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import psi
from scipy.stats import dirichlet

from jensen.formulas.dirichlet import (
    concentration_of_logs,
    dirichlet_kl,
    expected_log,
    log_beta,
    symmetric_concentration_of_logs,
)

C = torch.tensor([0.3, 2.0, 5.5], dtype=torch.float64)
A = torch.tensor([1.2, 0.4, 0.9], dtype=torch.float64)


def test_logs_and_the_divergence_are_means_over_samples():
    draws = np.random.default_rng(0).dirichlet(C.numpy(), 400_000)
    # Means of 400 000 draws, whose deviations are at most 4: five errors are 0.03.
    assert_allclose(expected_log(C), np.log(draws).mean(0), atol=0.03)
    ratio = dirichlet.logpdf(draws.T, C.numpy()) - dirichlet.logpdf(draws.T, A.numpy())
    assert_allclose(dirichlet_kl(C, A), ratio.mean(), atol=0.03)
    assert dirichlet_kl(C, C) == pytest.approx(0, abs=1e-14)


def test_the_normaliser_is_that_of_the_density():
    x = np.array([0.2, 0.5, 0.3])
    expected = dirichlet.logpdf(x, C.numpy()) - ((C.numpy() - 1) * np.log(x)).sum()
    assert_allclose(-log_beta(C), expected)


@pytest.mark.parametrize("start", [0.01, 1.0, 50.0])
def test_newtons_method_finds_the_concentration_of_its_own_logs(start):
    assert_allclose(concentration_of_logs(expected_log(C), torch.full_like(C, start)), C, rtol=1e-8)
    logs = float(expected_log(torch.full((40,), 0.07, dtype=torch.float64)).mean())
    assert symmetric_concentration_of_logs(torch.tensor(logs, dtype=torch.float64), start, 40) == pytest.approx(
        0.07, rel=1e-8
    )


def test_the_concentration_is_the_maximum_by_scipy():
    mean = torch.from_numpy(np.log(np.random.default_rng(1).dirichlet([0.5, 3.0, 1.0], 30)).mean(0))

    def loss(log_a):
        a = torch.from_numpy(np.exp(log_a))
        return -float(((a - 1) * mean).sum() - log_beta(a))

    best = np.exp(minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).x)
    assert_allclose(concentration_of_logs(mean, torch.ones(3, dtype=torch.float64)), best, rtol=1e-5)
    one = symmetric_concentration_of_logs(mean.mean(), 1.0, 3)
    assert psi(one) - psi(3 * one) == pytest.approx(float(mean.mean()), rel=1e-9)
