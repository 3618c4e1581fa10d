"""Gaussians around a subspace, against scipy and full matrices."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import invwishart, multivariate_normal

from jensen.engines.em.batch import Batch
from jensen.formulas.gaussian import gaussian_kl
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.factors.subspace import SubspaceGaussians, SubspaceStructure, inverse_and_log_det

K, D, M, N = 2, 6, 2, 80
KINDS = ["isotropic", "diagonal"]


def tensor(values):
    return torch.from_numpy(np.asarray(values, dtype=np.float64))


@pytest.fixture(params=KINDS)
def components(request):
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.1, 1.0, size=(K, 1 if request.param == "isotropic" else D))
    return SubspaceGaussians(tensor(rng.normal(size=(K, D))), tensor(rng.normal(size=(K, D, M))), tensor(noise))


@pytest.fixture(params=["complete", "holes"])
def x(request):
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(D, M))
    x = rng.normal(size=(N, M)) @ loadings.T + rng.normal(size=(N, D)) * rng.uniform(0.4, 1.0, size=D)
    if request.param == "holes":
        x[rng.random((N, D)) < 0.3] = np.nan
        x[0] = np.nan
    return x


def batch_of(x):
    values = tensor(x).T
    observed = ~values.isnan()
    return Batch(
        values.nan_to_num(nan=0.0),
        torch.arange(len(x)),
        None,
        None if observed.all() else observed,
        None,
        torch.zeros(1, dtype=torch.float64),
    )


def covariances(components):
    full = components.loadings @ components.loadings.mT + torch.diag_embed(components.noise.expand_as(components.means))
    return full.numpy()


def posterior_by_conditioning(components, k, row):
    """Mean and covariance of z given the observed part of a row, from the joint covariance of (x, z)."""
    seen = ~np.isnan(row)
    cov, w = covariances(components)[k], components.loadings[k].numpy()
    gain = w[seen].T @ np.linalg.inv(cov[np.ix_(seen, seen)])
    return gain @ (row[seen] - components.means[k].numpy()[seen]), np.eye(M) - gain @ w[seen]


@pytest.mark.parametrize("noise_factor", [1.0, 1e-8])
def test_the_density_is_scipys(components, x, noise_factor):
    components = SubspaceGaussians(components.means, components.loadings, components.noise * noise_factor)
    found = components.log_density(components.view(batch_of(x)))
    full = covariances(components)
    for k in range(K):
        for i, row in enumerate(x):
            seen = ~np.isnan(row)
            expected = 0.0
            if seen.any():
                normal = multivariate_normal(components.means[k, seen].numpy(), full[k][np.ix_(seen, seen)])
                expected = normal.logpdf(row[seen])
            # scipy inverts a matrix of condition 1e10; 60-digit arithmetic sides with ours, to 1e-10.
            assert_allclose(found[k, i], expected, rtol=1e-10 if noise_factor == 1 else 1e-5, atol=1e-10)


def test_the_posterior_of_z_and_its_divergence(components, x):
    view = components.view(batch_of(x))
    for k in range(K):
        for i, row in enumerate(x):
            mean, cov = posterior_by_conditioning(components, k, row)
            assert_allclose(view.mean[k, :, i], mean, atol=1e-10)
            assert_allclose(view.cov.expand(-1, -1, -1, N)[k, :, :, i], cov, atol=1e-10)
            kl = gaussian_kl(mean, cov, np.zeros(M), np.eye(M))
            assert_allclose(view.divergence[k, i], kl, atol=1e-9)


def test_moments_are_sums_over_rows(components, x):
    r = np.random.default_rng(2).random((K, N))
    moments = components.moments(tensor(r), components.view(batch_of(x)))
    for k in range(K):
        latent, design = np.zeros((M + 1, M + 1)), np.zeros((D, M + 1, M + 1))
        cross, square = np.zeros((D, M + 1)), np.zeros(D)
        for i, row in enumerate(x):
            mean, cov = posterior_by_conditioning(components, k, row)
            extended = np.append(mean, 1.0)
            products = np.outer(extended, extended)
            products[:M, :M] += cov
            latent += r[k, i] * products
            for j in np.flatnonzero(~np.isnan(row)):
                design[j] += r[k, i] * products
                cross[j] += r[k, i] * row[j] * extended
                square[j] += r[k, i] * row[j] ** 2
        assert_allclose(moments.latent[k], latent, atol=1e-9)
        assert_allclose(moments.design[k].expand(D, -1, -1), design, atol=1e-9)
        assert_allclose(moments.cross[k], cross, atol=1e-9)
        assert_allclose(moments.square[k], square.sum() if components.is_isotropic else square, atol=1e-9)


def objective(components, view, r, prior):
    value = (r * components.log_density(view)).sum()
    return value if prior is None else value + components.log_prior(prior)


def priors(components):
    scale = tensor([0.7]) if components.is_isotropic else tensor(np.linspace(0.3, 1.0, D))
    return [None, NormalInverseWishart(tensor(np.linspace(-1, 1, D)), 2.0, D + 3.0, scale)]


def test_no_step_lowers_the_objective_and_steps_end_where_it_is_flat(components, x):
    r, batch = tensor(np.random.default_rng(3).random((K, N))), batch_of(x)
    for prior in priors(components):
        now, values = components, []
        for _ in range(400):
            view = now.view(batch)
            values.append(float(objective(now, view, r, prior)))
            now = now.m_step(now.moments(r, view), prior)
        assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
        # A noise variance that goes to 0 takes ever shorter steps: what is left of the slope is small beside the first.
        assert slope(now, x, r, prior) < 1e-3 * slope(components, x, r, prior)


def slope(components, x, r, prior):
    """The largest derivative of the objective, by automatic differentiation of full matrices."""
    parts = [t.clone().requires_grad_() for t in (components.means, components.loadings, components.noise.log())]
    moved = SubspaceGaussians(parts[0], parts[1], parts[2].exp())
    value = 0.0 if prior is None else moved.log_prior(prior)
    value = value + log_likelihood(moved, x, r)
    return max(float(gradient.abs().max()) for gradient in torch.autograd.grad(value, parts))


def log_likelihood(moved, x, r):
    """Σ r ln p(x) but for a constant, from full matrices.

    What is missing is put at the mean of a unit normal of its own, whose density is a constant and has no slope.
    """
    full = moved.loadings @ moved.loadings.mT + torch.diag_embed(moved.noise.expand(K, D))
    seen = ~tensor(x).isnan()
    cov = torch.where(seen[:, :, None] & seen[:, None], full[:, None], torch.eye(D, dtype=full.dtype))
    away = torch.where(seen, tensor(x).nan_to_num() - moved.means[:, None], 0.0)
    normal = torch.distributions.MultivariateNormal(torch.zeros(D, dtype=full.dtype), cov)
    return (r * normal.log_prob(away)).sum()


def test_the_gradient_of_the_expected_log_density_is_that_of_the_likelihood(components, x):
    """∇ Σ r ln p(x) = ∇ Σ r E_q[ln p(x|z)] at the parameters that q came from."""
    r, batch = tensor(np.random.default_rng(3).random((K, N))), batch_of(x)
    moments = components.moments(r, components.view(batch))
    gradients = []
    for value in (
        lambda moved: log_likelihood(moved, x, r),
        lambda moved: moved.expected_log_density(moments),
    ):
        parts = [t.clone().requires_grad_() for t in (components.means, components.loadings, components.noise)]
        gradients.append(torch.autograd.grad(value(SubspaceGaussians(*parts)), parts))
    for one, other in zip(*gradients, strict=True):
        assert_allclose(one, other, atol=1e-8)


def test_complete_rows_put_the_mean_at_their_mean(components):
    x = np.random.default_rng(4).normal(size=(N, D))
    r = tensor(np.random.default_rng(5).random((K, N)))
    new = components.m_step(components.moments(r, components.view(batch_of(x))), None)
    assert_allclose(new.means, r @ tensor(x) / r.sum(1, keepdim=True), atol=1e-10)


def test_a_component_without_rows_stays_where_it_is(components, x):
    r = torch.zeros(K, N, dtype=torch.float64)
    r[0] = 1.0
    new = components.m_step(components.moments(r, components.view(batch_of(x))), None)
    assert_allclose(new.means[1], components.means[1])
    assert_allclose(new.feature_variances()[1], components.feature_variances()[1])


def test_the_prior_is_scipys(components):
    _, prior = priors(components)
    scale = prior.scale.expand(D).numpy()
    expected = sum(
        invwishart(prior.degrees_of_freedom, np.diag(scale)).logpdf(cov)
        + multivariate_normal(prior.mean.numpy(), cov / prior.mean_precision).logpdf(mean)
        for mean, cov in zip(components.means.numpy(), covariances(components), strict=True)
    )
    assert_allclose(components.log_prior(prior), expected)


def test_the_canonical_form_has_the_same_covariance(components):
    turned = components.canonical()
    assert_allclose(covariances(turned), covariances(components), atol=1e-12)
    gram = (turned.weighted @ turned.loadings).numpy()
    assert_allclose(gram, gram * np.eye(M), atol=1e-10)
    assert (np.diff(gram.diagonal(axis1=1, axis2=2)) <= 0).all()


def test_roughness_and_affine_maps(components):
    full = covariances(components)
    expected = sum(np.trace(np.linalg.inv(cov)) + np.linalg.slogdet(cov)[1] for cov in full)
    assert_allclose(components.roughness(), expected)
    scale = np.full(D, 3.0) if components.is_isotropic else np.arange(1.0, D + 1)
    moved = components.affine(tensor(np.ones(D)), tensor(scale))
    assert_allclose(covariances(moved), full * np.outer(scale, scale))
    assert_allclose(moved.means, 1 + scale * components.means.numpy())


def test_packed_parameters_come_back(components):
    back = components.structure.unpack(components.means, components.pack())
    assert_allclose(back.loadings, components.loadings)
    assert_allclose(back.noise, components.noise)


def test_small_inverses_side_by_side():
    rng = np.random.default_rng(6)
    root = rng.normal(size=(2, 30, 4, 4))
    h = root @ np.swapaxes(root, 2, 3) + np.eye(4)
    inverse, log_det = inverse_and_log_det(tensor(np.moveaxis(h, 1, 3).copy()))
    assert_allclose(np.moveaxis(inverse.numpy(), 3, 1), np.linalg.inv(h), rtol=1e-9, atol=1e-10)
    assert_allclose(log_det, np.linalg.slogdet(h)[1])


@pytest.mark.parametrize("is_isotropic", [True, False])
@pytest.mark.parametrize(("d", "m"), [(3, 1), (4, 2), (4, 3), (4, 4), (6, 2), (6, 4), (5, 0)])
def test_parameters_are_counted_by_the_directions_they_move_the_density_in(d, m, is_isotropic):
    """The rank of ∂C / ∂(W, ψ) at random W and ψ, and d means."""
    generator = torch.Generator().manual_seed(d * 10 + m)
    w = torch.randn(d, m, generator=generator, dtype=torch.float64)
    noise = 1 + torch.rand(1 if is_isotropic else d, generator=generator, dtype=torch.float64)

    def covariance(w, noise):
        return w @ w.mT + torch.diag(noise.expand(d))

    parts = torch.autograd.functional.jacobian(covariance, (w, noise))
    rank = torch.linalg.matrix_rank(torch.cat([part.reshape(d * d, -1) for part in parts], 1))
    assert SubspaceStructure(m, is_isotropic).n_parameters(2, d) == 2 * (d + int(rank))
