"""Grid, basis, magnification and M-step of a latent curve against quadrature, finite differences and scikit-learn."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.linear_model import Ridge

from jensen.models.clusters.centres import CentreMoments
from jensen.models.curves.em import CurveTheta
from jensen.models.curves.mapping import (
    LatentSpace,
    coefficients_of,
    magnification_of,
    midpoints,
    noise_variance_of,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_theta(rng, space, d):
    return CurveTheta(torch.tensor(rng.normal(size=(space.n_features, d))), 0.2, space)


def density(x, theta, z):
    """N(x; f(z), σ²I) by scipy."""
    place = theta.at(torch.tensor(np.array([z])))[0].numpy()
    return np.exp(norm.logpdf(x, place, theta.variance**0.5).sum())


def moments(x, q, seen):
    """Brute force: one row, grid point and feature at a time."""
    filled = np.where(seen, x, 0.0)
    mass = np.einsum("ig,ij->gj", q, seen)
    first = np.einsum("ig,ij->gj", q, filled)
    second = np.einsum("ig,ij->g", q, filled**2)
    return CentreMoments(*(torch.tensor(values) for values in (q.sum(0), mass, first, second)))


class TestGrid:
    def test_midpoints_of_equal_cells(self):
        assert_allclose(midpoints(4, 1)[:, 0], [0.125, 0.375, 0.625, 0.875])
        assert_allclose(midpoints(2, 2), [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]])

    def test_a_finer_grid_approaches_the_integral_over_a_curve(self, rng):
        """p(x) = ∫ N(x; f(z), σ²I) dz; the error of the midpoint rule falls with the square of the step."""
        theta = random_theta(rng, LatentSpace(1, 5, 5, 1.0), 2)
        x = rng.normal(size=2)
        expected, _ = quad(lambda z: density(x, theta, [z]), 0, 1)
        errors = []
        for n in (20, 40, 80):
            points = midpoints(n, 1).numpy()
            errors.append(abs(np.mean([density(x, theta, z) for z in points]) - expected))
        assert errors[2] < 1e-3 * expected
        assert errors[1] < errors[0] / 3
        assert errors[2] < errors[1] / 3

    def test_a_finer_grid_approaches_the_integral_over_a_surface(self, rng):
        theta = random_theta(rng, LatentSpace(2, 5, 2, 1.0), 3)
        x = theta.at(torch.tensor([[0.3, 0.6]]).double())[0].numpy() + 0.3 * rng.normal(size=3)
        expected, _ = dblquad(lambda u, v: density(x, theta, [u, v]), 0, 1, 0, 1)
        found = np.mean([density(x, theta, z) for z in midpoints(30, 2).numpy()])
        assert_allclose(found, expected, rtol=1e-2)


class TestBasis:
    @pytest.mark.parametrize(("n_latent", "n_basis"), [(1, 6), (1, 1), (1, 0), (2, 3), (2, 0)])
    def test_a_constant_the_coordinates_and_the_bumps(self, rng, n_latent, n_basis):
        space = LatentSpace(n_latent, 4, n_basis, 1.5)
        z = torch.tensor(rng.random((7, n_latent)))
        features = space.features_at(z)
        assert features.shape == (7, space.n_features) == (7, 1 + n_latent + n_basis**n_latent)
        assert_allclose(features[:, 0], 1)
        assert_allclose(features[:, 1 : 1 + n_latent], z - 0.5)
        spacing = 1 / (n_basis - 1) if n_basis > 1 else 1.0
        for number, centre in enumerate(space.bumps):
            expected = norm.pdf(z, centre, 1.5 * spacing).prod(1) / norm.pdf(0, 0, 1.5 * spacing) ** n_latent
            assert_allclose(features[:, 1 + n_latent + number], expected)

    def test_bumps_stand_from_end_to_end(self):
        assert_allclose(LatentSpace(1, 4, 3, 1.0).bumps[:, 0], [0, 0.5, 1])
        assert_allclose(LatentSpace(1, 4, 1, 1.0).bumps[:, 0], [0.5])

    @pytest.mark.parametrize("n_latent", [1, 2])
    def test_the_jacobian_by_finite_differences(self, rng, n_latent):
        theta = random_theta(rng, LatentSpace(n_latent, 4, 3, 1.0), 3)
        z, step = torch.tensor(rng.random((5, n_latent))), 1e-6
        jacobian = theta.jacobian(z)
        for axis in range(n_latent):
            moved = step * torch.eye(n_latent).double()[axis]
            slope = (theta.at(z + moved) - theta.at(z - moved)) / (2 * step)
            assert_allclose(jacobian[:, :, axis], slope, rtol=1e-6, atol=1e-8)


class TestMagnification:
    def test_its_integral_is_the_length_of_the_curve(self, rng):
        theta = random_theta(rng, LatentSpace(1, 4, 5, 1.0), 3)
        points = theta.at(torch.linspace(0, 1, 20_001).double()[:, None])
        length = (points[1:] - points[:-1]).norm(dim=1).sum()
        assert_allclose(theta.magnification(midpoints(1000, 1)).mean(), length, rtol=1e-5)

    def test_its_integral_is_the_area_of_the_surface(self, rng):
        """By Heron's formula for small triangles."""
        theta = random_theta(rng, LatentSpace(2, 4, 2, 1.0), 3)
        n = 200
        u = torch.linspace(0, 1, n + 1).double()
        points = theta.at(torch.cartesian_prod(u, u)).reshape(n + 1, n + 1, 3)

        def area(a, b, c):
            x, y, z = (b - a).norm(dim=-1), (c - b).norm(dim=-1), (a - c).norm(dim=-1)
            s = (x + y + z) / 2
            return (s * (s - x) * (s - y) * (s - z)).clamp(min=0).sqrt().sum()

        p, q, r, s = points[:-1, :-1], points[1:, :-1], points[:-1, 1:], points[1:, 1:]
        assert_allclose(theta.magnification(midpoints(n, 2)).mean(), area(p, q, r) + area(s, q, r), rtol=1e-3)

    def test_a_surface_that_is_folded_to_a_line_has_none(self):
        assert_allclose(magnification_of(torch.ones(1, 3, 2).double()), 0, atol=1e-7)


class TestMaximisation:
    @pytest.fixture
    def space(self):
        return LatentSpace(1, 9, 4, 1.0)

    @pytest.fixture
    def rows(self, rng):
        """Rows, weighted responsibilities, and what is observed."""
        return (
            rng.normal(size=(30, 3)),
            2 * rng.random((30, 1)) * rng.dirichlet(np.ones(9), 30),
            rng.random((30, 3)) < 0.7,
        )

    def test_the_coefficients_are_a_weighted_ridge_regression(self, space, rows):
        """Every row stands at every grid point, weighted by its responsibility; scikit-learn fits one feature each."""
        x, q, seen = rows
        found = coefficients_of(moments(x, q, seen), space, ridge=0.3).numpy()
        features = space.features.numpy()
        for j in range(x.shape[1]):
            i, g = np.nonzero(q * seen[:, [j]])
            # The straight part has no penalty: its columns are made long, so that their coefficients are short.
            scale = np.where(space.is_penalised.numpy() == 1, 1.0, 1e6)
            ridge = Ridge(alpha=0.3, fit_intercept=False, solver="cholesky")
            ridge.fit(features[g] * scale, x[i, j], sample_weight=q[i, g])
            assert_allclose(found[:, j], ridge.coef_ * scale, rtol=1e-5)

    def test_complete_rows_are_one_system(self, space, rows):
        x, q, _ = rows
        complete = moments(x, q, np.ones_like(x, dtype=bool))
        nearly = CentreMoments(complete.weight, complete.mass * (1 + 1e-15), complete.first, complete.second)
        nearly.mass[0, 0] *= 1 + 1e-12
        assert_allclose(coefficients_of(complete, space, 0.1), coefficients_of(nearly, space, 0.1), rtol=1e-8)

    @pytest.mark.parametrize("ridge", [0.0, 0.3])
    def test_no_other_coefficients_have_a_smaller_loss(self, space, rows, ridge):
        x, q, seen = rows
        penalised = space.is_penalised.numpy().astype(bool)

        def loss(vector):
            w = vector.reshape(space.n_features, -1)
            residual = x[:, None] - space.features.numpy() @ w
            return np.einsum("ig,ij,igj->", q, seen, residual**2) + ridge * (w[penalised] ** 2).sum()

        found = coefficients_of(moments(x, q, seen), space, ridge).numpy().ravel()
        best = minimize(loss, found, method="L-BFGS-B").fun
        assert_allclose(loss(found), best, rtol=1e-9)

    def test_the_noise_is_the_mean_squared_residual_of_what_is_observed(self, space, rows):
        x, q, seen = rows
        stats = moments(x, q, seen)
        points = space.features @ coefficients_of(stats, space, 0.1)
        residual = (x[:, None] - points.numpy()) ** 2 * seen[:, None]
        expected = (q[:, :, None] * residual).sum() / (q[:, :, None] * seen[:, None]).sum()
        assert_allclose(noise_variance_of(stats, points), expected)

    def test_one_grid_point_leaves_the_other_directions_alone(self, space):
        """All rows at one place of z say nothing of the slope; the solution of least length has no surprises."""
        x, q = np.full((5, 2), 3.0), np.zeros((5, 9))
        q[:, 4] = 1
        coefficients = coefficients_of(moments(x, q, np.ones((5, 2), dtype=bool)), space, 0.0)
        assert_allclose(space.features[4] @ coefficients, [3, 3])
        assert coefficients.abs().max() < 3
