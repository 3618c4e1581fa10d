"""The structures: densities against scipy, M-steps against numerical maximisation, one answer by every form."""

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.testing import assert_allclose

from jensen.engines.em.batch import Batch
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.gaussians import STRUCTURES, Moments, dense, diagonal
from jensen.models.mixtures.gaussians.spread import LEAST_SPREAD, covariance_of_rows, diagonal_of_rows

K, D, N = 3, 4, 60


def random_gaussians(family, seed=0):
    """Covariances of the structure: those that suit random matrices best."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(K, D, 2 * D))
    full = torch.tensor(factor @ np.swapaxes(factor, 1, 2) / D)
    scatter = full if family.is_dense else full.diagonal(dim1=1, dim2=2)
    covariances = family.fitted(scatter, torch.ones(K).double(), 0.0)
    return family(torch.tensor(rng.normal(size=(K, D))), covariances)


def batch_of(x, observed=None):
    lead = x.shape[:-2]
    rows = torch.arange(x.shape[-1]).expand(*lead, -1)
    return Batch(x, rows, None, observed, None, torch.zeros(*lead, 1).double())


@pytest.fixture(params=STRUCTURES.values(), ids=STRUCTURES)
def family(request):
    return request.param


@pytest.fixture
def x():
    return torch.tensor(np.random.default_rng(1).normal(size=(D, N)))


@pytest.fixture
def responsibilities():
    return torch.tensor(np.random.default_rng(2).dirichlet(np.ones(K), size=N).T.copy())


def scipy_densities(gaussians, x):
    full = gaussians.full()
    return np.stack(
        [
            scipy.stats.multivariate_normal.logpdf(x.T.numpy(), m.numpy(), c.numpy())
            for m, c in zip(gaussians.means, full, strict=True)
        ]
    )


def force_direct(monkeypatch):
    """The form for nearly singular covariances and wide rows."""
    monkeypatch.setattr(dense, "LARGEST_EXPANDED_PRECISION", 0.0)
    monkeypatch.setattr(diagonal, "LARGEST_EXPANDED_PRECISION", 0.0)


@pytest.mark.parametrize("direct", [False, True])
def test_densities_against_scipy(family, x, direct, monkeypatch):
    if direct:
        force_direct(monkeypatch)
    gaussians = random_gaussians(family)
    view = gaussians.view(batch_of(x))
    assert_allclose(gaussians.log_density(view), scipy_densities(gaussians, x), rtol=1e-10)


@pytest.mark.parametrize("offset", [1.0, 30.0, 3000.0])
def test_diagonal_densities_of_dark_pixels_against_scipy(offset):
    """Variances near 1e-6 far from the origin: expanded squares lose digits there, so the direct form takes over."""
    rng, d = np.random.default_rng(0), 200
    means = offset * rng.normal(size=(K, d))
    variances = 10 ** rng.uniform(-6, 0, size=(K, d))
    gaussians = STRUCTURES["diag"](torch.tensor(means), torch.tensor(variances))
    assert len(gaussians.ill_conditioned) == (0 if offset == 1.0 else K)
    x = torch.tensor(means[rng.integers(K, size=N)] + np.sqrt(variances[0]) * rng.normal(size=(N, d))).T.contiguous()
    own = gaussians.log_density(gaussians.view(batch_of(x)))
    theirs = scipy.stats.norm.logpdf(x.T.numpy(), means[:, None], np.sqrt(variances)[:, None]).sum(-1)
    # Rows near a component, where a lost digit would show: the others are 1e8 nats away.
    assert_allclose(own.amax(0), theirs.max(0), rtol=0, atol=1e-6)
    assert_allclose(own, theirs, rtol=1e-8)


def test_only_components_that_need_it_are_not_expanded():
    rng, d = np.random.default_rng(0), 200
    means, std = rng.normal(size=(K, d)), np.full((K, d), 1e-2)
    means[1] *= 1e4
    gaussians = STRUCTURES["diag"](torch.tensor(means), torch.tensor(std**2))
    assert gaussians.ill_conditioned.tolist() == [1]
    x = torch.tensor(np.repeat(means, 20, axis=0) + 1e-2 * rng.normal(size=(20 * K, d))).T.contiguous()
    theirs = scipy.stats.norm.logpdf(x.T.numpy(), means[:, None], std[:, None]).sum(-1)
    own = gaussians.log_density(gaussians.view(batch_of(x)))
    assert_allclose(own.amax(0), theirs.max(0), rtol=0, atol=1e-6)
    assert_allclose(own, theirs, rtol=1e-8)


def kept(second, family):
    """What a structure keeps of Σ r x xᵀ (K, d, d)."""
    if family.is_dense:
        return second.sum(0, keepdim=True) if family.is_shared else second
    return second.diagonal(dim1=1, dim2=2)


@pytest.mark.parametrize("direct", [False, True])
def test_moments_are_weighted_sums(family, x, responsibilities, direct, monkeypatch):
    if direct:
        force_direct(monkeypatch)
    gaussians = random_gaussians(family)
    moments = gaussians.moments(responsibilities, gaussians.view(batch_of(x)))
    second = torch.einsum("kn,in,jn->kij", responsibilities, x, x)
    expected = kept(second, family)
    assert_allclose(moments.mass, responsibilities.sum(1))
    assert_allclose(moments.first, responsibilities @ x.T)
    assert_allclose(moments.second, expected)


@pytest.mark.parametrize("direct", [False, True])
def test_holes_add_conditional_means_and_covariances(family, x, responsibilities, direct, monkeypatch):
    """Ghahramani & Jordan, row by row."""
    if direct:
        force_direct(monkeypatch)
    gaussians = random_gaussians(family)
    seen = torch.tensor([True, False, True, False])
    o, m = seen.nonzero().squeeze(1), (~seen).nonzero().squeeze(1)
    full = gaussians.full()
    first, second = torch.zeros(K, D).double(), torch.zeros(K, D, D).double()
    for k in range(K):
        gain = full[k][m][:, o] @ torch.linalg.inv(full[k][o][:, o])
        residual = full[k][m][:, m] - gain @ full[k][o][:, m]
        for i in range(N):
            row = x[:, i].clone()
            row[m] = gaussians.means[k, m] + gain @ (row[o] - gaussians.means[k, o])
            first[k] += responsibilities[k, i] * row
            second[k] += responsibilities[k, i] * torch.outer(row, row)
            second[k][m[:, None], m] += responsibilities[k, i] * residual
    holed = torch.where(seen[:, None], x, 0.0)[None]
    view = gaussians.view(batch_of(holed, seen[None]))
    moments = gaussians.moments(responsibilities[None], view)
    expected = kept(second, family)
    assert_allclose(moments.first, first, atol=1e-12)
    assert_allclose(moments.second, expected, atol=1e-12)
    marginal = scipy.stats.multivariate_normal.logpdf(
        x[o].T.numpy(), gaussians.means[0, o].numpy(), full[0][o][:, o].numpy()
    )
    assert_allclose(gaussians.log_density(view)[0, 0], marginal, rtol=1e-10)


def prior_for(family):
    shape = family.scale_shape(D)
    scale = torch.eye(D).double() * 2 if len(shape) == 2 else torch.full(shape or (1,), 2.0).double()
    return NormalInverseWishart(torch.ones(D).double(), 0.5, D + 3.0, scale)


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("with_means", [False, True])
def test_the_m_step_is_the_maximum(family, x, responsibilities, with_prior, with_means):
    """The gradient of expected log-density plus log-prior is 0 in unconstrained coordinates."""
    gaussians = random_gaussians(family)
    moments = gaussians.moments(responsibilities, gaussians.view(batch_of(x)))
    prior = prior_for(family) if with_prior else None
    given = gaussians.means if with_means else None
    best = family.from_moments(moments, prior, given)
    vector = torch.cat([best.means.flatten(), best.pack()]).requires_grad_()
    trial = family.unpack(vector[: K * D].reshape(K, D), vector[K * D :])
    value = trial.expected_log_density(moments)
    if prior is not None:
        value = value + trial.log_prior(prior)
    (slope,) = torch.autograd.grad(value, vector)
    free = slope[K * D :] if with_means else slope
    assert_allclose(free, 0, atol=1e-9)


def test_expected_log_density_is_a_sum_over_rows(family, x, responsibilities):
    gaussians = random_gaussians(family)
    moments = gaussians.moments(responsibilities, gaussians.view(batch_of(x)))
    expected = (responsibilities.numpy() * scipy_densities(gaussians, x)).sum()
    assert_allclose(gaussians.expected_log_density(moments), expected)


def test_the_prior_against_scipy(family):
    gaussians, prior = random_gaussians(family), prior_for(family)
    full = gaussians.full().numpy()
    expected = sum(
        scipy.stats.multivariate_normal.logpdf(m, prior.mean.numpy(), c / prior.mean_precision)
        for m, c in zip(gaussians.means.numpy(), full, strict=True)
    )
    nu = prior.degrees_of_freedom
    if family.is_dense:
        for cov in gaussians.covariances.numpy():
            expected += scipy.stats.invwishart.logpdf(cov, nu, prior.scale.numpy())
    else:
        scale = prior.scale.expand(gaussians.covariances.shape[1]).numpy()
        expected += scipy.stats.invgamma.logpdf(gaussians.covariances.numpy(), nu / 2, scale=scale / 2).sum()
    assert_allclose(gaussians.log_prior(prior), expected)


def test_packing_round_trips(family):
    gaussians = random_gaussians(family)
    assert_allclose(family.unpack(gaussians.means, gaussians.pack()).covariances, gaussians.covariances)
    full = family.from_full(gaussians.means, gaussians.full())
    assert_allclose(full.covariances, gaussians.covariances)


def test_expected_moments_are_those_whose_m_step_is_the_same(family):
    gaussians = random_gaussians(family)
    again = family.from_moments(gaussians.expected_moments(torch.tensor([0.2, 0.3, 0.5]).double()), None)
    assert_allclose(again.means, gaussians.means)
    assert_allclose(again.covariances, gaussians.covariances)


def test_affine_maps_change_densities_by_the_jacobian(family, x):
    gaussians = random_gaussians(family)
    origin = torch.arange(D).double()
    scale = family.units(torch.tensor([1.0, 4.0, 0.01, 25.0]).double())
    moved = gaussians.affine(origin, scale)
    there = scipy_densities(moved, origin[:, None] + scale[:, None] * x)
    assert_allclose(there + scale.log().sum().item(), scipy_densities(gaussians, x))


def test_precisions_invert_covariances(family):
    gaussians = random_gaussians(family)
    factor = gaussians.precision_factors()
    precision = factor @ factor.mT if family.is_dense else factor**2
    assert_allclose(precision, family.inverse(gaussians.covariances))


def test_an_empty_component_takes_the_mean_and_spread_of_all(family, x, responsibilities):
    gaussians = random_gaussians(family)
    responsibilities[0] = 0
    moments = gaussians.moments(responsibilities, gaussians.view(batch_of(x)))
    revived = family.from_moments(moments, None)
    total = responsibilities.sum()
    assert_allclose(revived.means[0], (responsibilities.sum(0) @ x.T) / total)
    assert revived.full().isfinite().all()
    assert not revived.collapsed().any()


def test_statistics_add_and_scale():
    one = Moments(torch.ones(2), torch.ones(2, 3), torch.ones(2, 3))
    both = one + 2.0 * one
    assert_allclose(both.first, 3)


@pytest.mark.parametrize("has_missing", [False, True])
def test_the_spread_of_diagonal_structures_is_the_diagonal_of_the_covariance(x, has_missing):
    observed = torch.rand(D, N, generator=torch.Generator().manual_seed(0)) < 0.7 if has_missing else None
    source = [batch_of(x if observed is None else x * observed, observed)]
    found = diagonal_of_rows(source, D)
    assert_allclose(found, covariance_of_rows(source, D).diagonal())
    assert_allclose(diagonal_of_rows([batch_of(0 * x)], D), LEAST_SPREAD)
    if not has_missing:
        assert_allclose(found, x.var(1, correction=0))
