"""Divergence, conditioning and eigenvalue floors against brute force."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.distributions import MultivariateNormal, kl_divergence

from jensen import gaussian_kl
from jensen.formulas.gaussian import Observed, clip_eigenvalues


def random_covariance(rng, d, *lead):
    factor = rng.normal(size=(*lead, d, 2 * d))
    return torch.tensor(factor @ np.swapaxes(factor, -1, -2) / d)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_divergence_against_torch(rng):
    mean0, mean1 = torch.tensor(rng.normal(size=(2, 5, 3)))
    cov0, cov1 = random_covariance(rng, 3, 5), random_covariance(rng, 3, 5)
    expected = kl_divergence(MultivariateNormal(mean0, cov0), MultivariateNormal(mean1, cov1))
    assert_allclose(gaussian_kl(mean0, cov0, mean1, cov1), expected)


def test_nothing_diverges_from_itself_and_nothing_by_less_than_zero(rng):
    mean, cov = torch.tensor(rng.normal(size=(5, 3))), random_covariance(rng, 3, 5)
    assert (gaussian_kl(mean, cov, mean, cov) == 0).all()
    for size in (1e-16, 1e-12, 1e-8):
        near = cov * (1 + size)
        divergence = gaussian_kl(mean, cov, mean, near)
        assert (divergence >= 0).all()
        # ½ Σ (λ - 1 - ln λ) with every λ = 1 / (1 + size), which is known to rounding.
        assert_allclose(divergence, 3 * size**2 / 4, rtol=1e-6, atol=1e-15 * size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([0, 0], [[1, 1], [1, 1]], [0, 0], np.eye(2)),
            "cov0 is singular or not positive definite, with an eigenvalue",
        ),
        (([0, 0], np.eye(2), [0, 0], np.diag([1.0, 0])), "cov1 is singular .*; leave out the features that depend on"),
        (([0, 0], np.diag([1.0, -1]), [0, 0], np.eye(2)), "cov0 is singular or not positive definite, .* of -1"),
        (([0, 0], [[1, 0.5], [0, 1]], [0, 0], np.eye(2)), "cov0 is not symmetric: it differs by 0.5"),
        (([0, 0], [1, 1], [0, 0], np.eye(2)), r"mean0 has shape \(2,\) and cov0 \(2,\); give \(..., d\)"),
        (([0, 0], np.eye(2), [0], np.eye(1)), "mean0 has 2 features and mean1 1; give both the same"),
        (([0, np.nan], np.eye(2), [0, 0], np.eye(2)), "mean0 and cov0 must be finite"),
        ((["a", "b"], np.eye(2), [0, 0], np.eye(2)), "mean0 and cov0 must hold numbers"),
    ],
)
def test_covariances_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        gaussian_kl(*arguments)


def test_a_singular_covariance_that_rounding_lets_pass(rng):
    x = rng.normal(size=(20, 3))
    cov = np.cov(np.column_stack([x, x.sum(1)]).T)
    with pytest.raises(ValueError, match="cov0 is singular"):
        gaussian_kl(np.zeros(4), cov, np.zeros(4), np.eye(4))


def test_divergence_by_sampling(rng):
    p = MultivariateNormal(torch.tensor([0.0, 1.0]).double(), random_covariance(rng, 2))
    q = MultivariateNormal(torch.tensor([1.0, 0.0]).double(), random_covariance(rng, 2))
    torch.manual_seed(0)
    x = p.sample((200_000,))
    ratio = p.log_prob(x) - q.log_prob(x)
    error = 4 * ratio.std() / len(x) ** 0.5
    assert abs(gaussian_kl(p.mean, p.covariance_matrix, q.mean, q.covariance_matrix) - ratio.mean()) < error


def test_observed_blocks_equal_the_marginals_and_conditionals(rng):
    cov = random_covariance(rng, 4)
    seen = torch.tensor([1.0, 0.0, 1.0, 0.0]).double()
    observed = Observed(cov, seen)
    o, m = [0, 2], [1, 3]
    marginal = cov[o][:, o]
    assert_allclose(observed.log_det, torch.logdet(marginal))
    assert_allclose(observed.precision[o][:, o], torch.linalg.inv(marginal))
    assert_allclose(observed.precision[m], 0)
    gain = cov[m][:, o] @ torch.linalg.inv(marginal)
    assert_allclose(observed.gain[m][:, o], gain)
    assert_allclose(observed.gain[o], torch.eye(4).double()[o])
    assert_allclose(observed.residual[m][:, m], cov[m][:, m] - gain @ cov[o][:, m], atol=1e-12)
    assert_allclose(observed.residual[o], 0)


def test_a_floor_is_the_constrained_maximum(rng):
    """Among covariances with eigenvalues ≥ floor none has a larger -N ln|Σ| - tr(Σ⁻¹S)."""
    scatter = random_covariance(rng, 3) * torch.tensor([1.0, 1.0, 1e-4]).diag()
    scatter = (scatter + scatter.T) / 2 + 1e-6 * torch.eye(3)
    floor = 0.05

    def likelihood(cov):
        return -torch.logdet(cov) - torch.trace(torch.linalg.solve(cov, scatter))

    best = clip_eigenvalues(scatter, floor)
    assert torch.linalg.eigvalsh(best)[0] >= floor * (1 - 1e-12)
    for _ in range(200):
        step = torch.tensor(rng.normal(size=(3, 3)))
        rival = clip_eigenvalues(best + rng.choice([1e-1, 1e-3]) * (step + step.T), floor)
        assert likelihood(rival) <= likelihood(best) + 1e-12


def test_a_covariance_above_the_floor_is_untouched(rng):
    cov = random_covariance(rng, 3, 2)
    assert clip_eigenvalues(cov, 1e-9) is cov
