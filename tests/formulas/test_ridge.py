"""Ridge regression beside brute force: normal equations, scipy's Gaussian density, simulation, finite differences."""

from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from jensen.formulas import ridge
from jensen.models.regression.evidence import maximise_evidence

# Tall, square, wide, and a column twice and another constant: s has zeros in the last two.
SHAPES = {"tall": (30, 4), "square": (6, 6), "wide": (5, 9), "deficient": (30, 5)}


def data(shape="tall", n_targets=2, seed=0):
    rng = np.random.default_rng(seed)
    n, p = SHAPES[shape]
    x = rng.normal(size=(n, p)) * np.arange(1, p + 1) + 3
    if shape == "deficient":
        x[:, 1], x[:, 2] = x[:, 0], 7.1
    y = x @ rng.normal(size=(p, n_targets)) + rng.normal(size=(n, n_targets)) - 5
    return x, y


def spectrum_of(x, y, weight=None, intercept=True):
    x, y = torch.tensor(x), torch.tensor(y)
    weight = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    zeros = ridge.Centred(torch.zeros(x.shape[1], dtype=x.dtype), torch.zeros(y.shape[1], dtype=x.dtype))
    centred = ridge.centre(x, y, weight) if intercept else zeros
    return ridge.decompose(x, y, weight, centred, intercept)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def log_density_of(x, y, intercept=True):
    """scipy's density of the contrasts Hy, a function of λ and σ².

    H has the orthonormal rows that are orthogonal to 1; H = I without an intercept.
    """
    h = null_space(np.ones((1, len(x)))).T if intercept else np.eye(len(x))
    hy, gram = h @ y, h @ x @ x.T @ h.T
    return lambda lam, noise: multivariate_normal.logpdf(hy, cov=noise * np.eye(len(h)) + noise / lam * gram)


# The decomposition


@pytest.mark.parametrize("shape", SHAPES)
def test_the_spectrum_is_that_of_the_centred_rows(shape):
    x, y = data(shape)
    spectrum = spectrum_of(x, y)
    xc, yc = x - x.mean(0), y - y.mean(0)
    s, v = spectrum.singular.numpy(), spectrum.directions.numpy()
    assert_allclose(s, np.linalg.svd(xc, compute_uv=False), atol=1e-12 * s[0])
    assert spectrum.rank == np.linalg.matrix_rank(xc)
    # XᵀX = V s² Vᵀ, Xᵀy = V s c and yᵀy = ‖c‖² + rest: all that any formula uses.
    assert_allclose(v * s**2 @ v.T, xc.T @ xc, atol=1e-10)
    assert_allclose(v * s @ spectrum.targets.numpy().T, xc.T @ yc, atol=1e-10)
    assert_allclose(spectrum.targets.square().sum(1) + spectrum.rest, (yc**2).sum(0), rtol=1e-12)


def test_blocks_of_rows_are_all_rows(monkeypatch):
    x, y = data()
    whole = spectrum_of(x, y, weight=np.arange(30.0))
    monkeypatch.setattr(ridge, "BLOCK", 7)
    parts = spectrum_of(x, y, weight=np.arange(30.0))
    assert_allclose(parts.singular, whole.singular, rtol=1e-12)
    assert_allclose(parts.rest, whole.rest, rtol=1e-12)
    lam = tensor(0.5, 2)
    assert_allclose(ridge.coefficients(parts, lam), ridge.coefficients(whole, lam), rtol=1e-10)


def test_small_singular_values_keep_their_digits():
    """XᵀX would have lost everything: its condition number is 1e20."""
    rng = np.random.default_rng(0)
    u, v = np.linalg.qr(rng.normal(size=(200, 3)))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    s = np.array([1e5, 1.0, 1e-5])
    spectrum = spectrum_of(u * s @ v.T, u @ s[:, None], intercept=False)
    # Rounding moves a singular value by eps · s₁ = 1e-11, here a millionth of the smallest.
    assert_allclose(spectrum.singular, s, rtol=1e-5)


# Coefficients


@pytest.mark.parametrize("shape", SHAPES)
def test_a_path_solves_the_normal_equations_of_every_penalty(shape):
    x, y = data(shape)
    xc, yc = x - x.mean(0), y - y.mean(0)
    lambdas = [1e-3, 1.0, 50.0]
    path = ridge.coefficients(spectrum_of(x, y), tensor(*lambdas)[:, None])
    for lam, beta in zip(lambdas, path, strict=True):
        assert_allclose(beta.T, np.linalg.solve(xc.T @ xc + lam * np.eye(x.shape[1]), xc.T @ yc), atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_penalty_is_the_shortest_least_squares_solution(shape):
    x, y = data(shape)
    expected = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=1e-12)[0]
    assert_allclose(ridge.coefficients(spectrum_of(x, y), tensor(0, 0)).T, expected, atol=1e-9)


def test_degrees_of_freedom_are_the_trace_of_the_hat_matrix():
    x, y = data("wide")
    xc = x - x.mean(0)
    hat = xc @ np.linalg.solve(xc.T @ xc + 3 * np.eye(9), xc.T)
    assert_allclose(ridge.effective_dof(spectrum_of(x, y), tensor(3.0)), np.trace(hat))


# Evidence


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_evidence_is_scipys_density_of_the_contrasts(shape, intercept):
    x, y = data(shape)
    for lam, noise in ((0.3, 2.0), (20.0, 0.5)):
        found = ridge.log_evidence(spectrum_of(x, y, intercept=intercept), tensor(lam), tensor(noise))
        assert_allclose(found, [log_density_of(x, target, intercept)(lam, noise) for target in y.T], rtol=1e-9)


def test_the_contrasts_have_the_density_of_a_flat_intercept():
    """∫ N(y; b1, C) db = p(contrasts) / √n; here the integral is a sum over a fine grid of b."""
    x, y = data("wide", n_targets=1)
    cov = 2.0 * (np.eye(5) + (x - x.mean(0)) @ (x - x.mean(0)).T / 3)
    grid = np.linspace(-60, 60, 20_001)
    flat = np.sum(multivariate_normal.pdf(y[:, 0] - grid[:, None], cov=cov)) * (grid[1] - grid[0])
    found = ridge.log_evidence(spectrum_of(x, y), tensor(3.0), tensor(2.0))
    assert float(found) == pytest.approx(np.log(flat) + 0.5 * np.log(5), rel=1e-9)


def test_a_weight_is_a_row_that_many_times():
    x, y = data()
    count = np.random.default_rng(1).integers(1, 4, size=30)
    one, other = spectrum_of(x, y, weight=count), spectrum_of(np.repeat(x, count, axis=0), np.repeat(y, count, axis=0))
    lam, noise = tensor(2.0), tensor(0.7)
    assert one.n_contrasts == other.n_contrasts == count.sum() - 1
    assert_allclose(ridge.log_evidence(one, lam, noise), ridge.log_evidence(other, lam, noise), rtol=1e-12)
    assert_allclose(ridge.coefficients(one, lam), ridge.coefficients(other, lam), rtol=1e-10)


def test_the_noise_variance_has_the_largest_evidence():
    spectrum, lam = spectrum_of(*data(n_targets=1)), tensor(2.0)
    noise = ridge.noise_variance(spectrum, lam)
    best = ridge.log_evidence(spectrum, lam, noise)
    for factor in (0.99, 1.01):
        assert ridge.log_evidence(spectrum, lam, factor * noise) < best


def test_without_a_penalty_the_noise_variance_is_unbiased():
    x, y = data("deficient", n_targets=1)
    residual = (y - y.mean(0)) - (x - x.mean(0)) @ np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=1e-12)[0]
    # 30 rows, an intercept and 3 directions.
    assert_allclose(ridge.noise_variance(spectrum_of(x, y), tensor(0)), (residual**2).sum() / 26)
    assert ridge.noise_variance(spectrum_of(*data("square")), tensor(0)).isnan().all()


@pytest.mark.parametrize("shape", SHAPES)
def test_em_never_lowers_the_evidence(shape):
    spectrum = spectrum_of(*data(shape, n_targets=3))
    lam, noise = tensor(1e-3, 1.0, 1e3), tensor(10.0, 1.0, 0.1)
    values = [ridge.log_evidence(spectrum, lam, noise)]
    for _ in range(200):
        lam, noise = ridge.em_update(spectrum, lam, noise)
        values.append(ridge.log_evidence(spectrum, lam, noise))
    steps = torch.stack(values).diff(dim=0)
    # Rounding of a sum of some tens of nats.
    assert (steps >= -1e-11).all()
    assert (steps[0] > 0).all()


def test_an_em_step_is_the_expectation_written_out():
    x, y = data(n_targets=1)
    xc, yc, lam, noise = x - x.mean(0), (y - y.mean(0))[:, 0], 2.0, 0.7
    inverse = np.linalg.inv(xc.T @ xc + lam * np.eye(4))
    m, cov = inverse @ xc.T @ yc, noise * inverse
    slope = (m @ m + np.trace(cov)) / 4
    expected = (np.sum((yc - xc @ m) ** 2) + np.trace(xc @ cov @ xc.T)) / 29
    found_lam, found_noise = ridge.em_update(spectrum_of(x, y), tensor(lam), tensor(noise))
    assert_allclose([float(found_lam), float(found_noise)], [expected / slope, expected])


@pytest.mark.parametrize("noise", [None, 1.5])
def test_newtons_step_has_the_slope_and_curvature_of_the_evidence(noise):
    """-g'/g'' in u = ln λ, both by differences of the evidence; their error is of the order 1e-5."""
    spectrum, lam, d = spectrum_of(*data(n_targets=1)), 4.0, 1e-3

    def evidence(u):
        at = tensor(np.exp(u))
        return float(
            ridge.log_evidence(spectrum, at, ridge.noise_variance(spectrum, at) if noise is None else tensor(noise))
        )

    low, mid, high = (evidence(np.log(lam) + step) for step in (-d, 0, d))
    step = -((high - low) / (2 * d)) / ((high - 2 * mid + low) / d**2)
    found = ridge.newton_step(spectrum, tensor(lam), None if noise is None else tensor(noise))
    assert float(found) == pytest.approx(step, rel=1e-4)


@pytest.mark.parametrize("noise", [None, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_the_maximum_of_the_evidence_is_that_of_a_brute_force_search(seed, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(25, 6))
    y = x @ rng.normal(size=6) + 2 * rng.normal(size=25)
    log_density = log_density_of(x, y)

    def loss(logs):
        return -log_density(np.exp(logs[0]), np.exp(logs[1]) if noise is None else noise)

    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    starts = product((-3.0, 1.0, 5.0), (-1.0, 2.0)) if noise is None else product((-3.0, 1.0, 5.0))
    best = min((minimize(loss, start, method="Nelder-Mead", options=options) for start in starts), key=lambda r: r.fun)
    given = None if noise is None else tensor(noise)
    found = maximise_evidence(spectrum_of(x, y[:, None]), given, tol=1e-10, max_iter=100)
    assert found.converged
    assert log_density(float(found.alpha), float(found.noise)) == pytest.approx(-best.fun, abs=1e-8)
    assert float(found.alpha) == pytest.approx(np.exp(best.x[0]), rel=1e-3)


def test_the_higher_of_two_maxima_is_found():
    """A strong direction without signal and a weak one with it: the evidence has two maxima in λ."""
    spectrum = ridge.Spectrum(
        tensor(100.0, 0.1), torch.eye(2, dtype=torch.float64), tensor(30.0, 40.0)[None], tensor(20.0), 22.0
    )
    lambdas = torch.logspace(-8, 12, 4001, dtype=torch.float64)[:, None]
    values = ridge.log_evidence(spectrum, lambdas, ridge.noise_variance(spectrum, lambdas))
    is_peak = (values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])
    assert is_peak.sum() == 2
    found = maximise_evidence(spectrum, None, tol=1e-10, max_iter=100)
    assert float(ridge.log_evidence(spectrum, found.alpha, found.noise)) >= float(values.max())


# Bias, variance and risk


def risk(spectrum, lam, beta, noise):
    bias = ridge.bias(spectrum, tensor(lam), torch.tensor(beta)[None])
    return float(bias.square().sum() + ridge.variance(spectrum, tensor(lam), tensor(noise)).sum())


@pytest.mark.parametrize("lam", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("shape", ["tall", "wide", "deficient"])
def test_bias_and_variance_are_those_of_the_matrix(shape, lam):
    """β̂ = Ay, so its bias is AXβ - β and its covariance σ²AAᵀ."""
    x, y = data(shape)
    xc, p = x - x.mean(0), x.shape[1]
    a = np.linalg.pinv(xc, rcond=1e-12) if lam == 0 else np.linalg.solve(xc.T @ xc + lam * np.eye(p), xc.T)
    beta, spectrum = np.random.default_rng(1).normal(size=p), spectrum_of(x, y)
    assert_allclose(ridge.bias(spectrum, tensor(lam), torch.tensor(beta)[None])[0], a @ xc @ beta - beta, atol=1e-9)
    assert_allclose(ridge.variance(spectrum, tensor(lam), tensor(1.7)), 1.7 * np.trace(a @ a.T))


def test_bias_variance_and_risk_are_those_of_simulated_fits():
    rng = np.random.default_rng(0)
    x, beta, noise, n_draws = rng.normal(size=(20, 3)), np.array([1.0, -2.0, 0.5]), 4.0, 40_000
    y = (x @ beta)[:, None] + 7 + np.sqrt(noise) * rng.normal(size=(20, n_draws))
    spectrum = spectrum_of(x, y)
    for lam in (0.0, 2.0, 10.0):
        fits = ridge.coefficients(spectrum, tensor(lam)).numpy()
        error = fits.std(0) / np.sqrt(n_draws)
        bias = ridge.bias(spectrum, tensor(lam), torch.tensor(beta)[None])[0].numpy()
        assert (np.abs(fits.mean(0) - beta - bias) < 4 * error).all()
        assert_allclose(fits.var(0).sum(), float(ridge.variance(spectrum, tensor(lam), tensor(noise))), rtol=0.02)
        losses = ((fits - beta) ** 2).sum(1)
        assert abs(losses.mean() - risk(spectrum, lam, beta, noise)) < 4 * losses.std() / np.sqrt(n_draws)


def test_a_small_penalty_lowers_the_risk_by_the_theorem():
    """d risk/dλ at 0 is -2σ² Σ s⁻⁴, whatever β is."""
    x, y = data()
    spectrum = spectrum_of(x, y)
    slope = -2 * 1.5 * float(spectrum.singular.pow(-4).sum())
    smallest = float(spectrum.singular[-1] ** 2)
    for seed in range(3):
        beta = 3 * np.random.default_rng(seed).normal(size=4)
        values = [risk(spectrum, step * smallest * 1e-4, beta, 1.5) for step in (0, 1, 2)]
        # A one-sided difference of second order: its error is of the order of the step squared, 1e-8.
        difference = (-3 * values[0] + 4 * values[1] - values[2]) / (2 * smallest * 1e-4)
        assert difference == pytest.approx(slope, rel=1e-6)


def test_the_theorem_holds_in_simulation():
    """The mean loss falls from λ = 0 to a small λ as the slope says; both λ see the same draws of the noise."""
    rng = np.random.default_rng(0)
    x, beta, n_draws, lam = rng.normal(size=(12, 3)), np.array([1.0, -1.0, 2.0]), 100_000, 0.02
    y = (x @ beta)[:, None] + rng.normal(size=(12, n_draws))
    spectrum = spectrum_of(x, y)
    ols, shrunk = (((ridge.coefficients(spectrum, tensor(at)).numpy() - beta) ** 2).sum(1) for at in (0.0, lam))
    gain = ols - shrunk
    expected = lam * 2 * float(spectrum.singular.pow(-4).sum())
    assert gain.mean() > 0
    # 4 standard errors, and what the second order in λ adds.
    curvature = abs(risk(spectrum, lam, beta, 1.0) - risk(spectrum, 0.0, beta, 1.0) + expected)
    assert abs(gain.mean() - expected) < 4 * gain.std() / np.sqrt(n_draws) + curvature
    assert curvature < 0.2 * expected


def test_no_linear_unbiased_estimator_has_less_variance():
    """Gauss-Markov: (A + D)y with DX = 0 and D1 = 0 is unbiased, too, and its variance is larger by σ²‖D‖²."""
    x, y = data()
    xc = x - x.mean(0)
    least = float(ridge.variance(spectrum_of(x, y), tensor(0.0), tensor(1.0)))
    away = null_space(np.column_stack([np.ones(30), x]).T)
    for seed in range(5):
        d = np.random.default_rng(seed).normal(size=(4, away.shape[1])) @ away.T
        other = np.linalg.pinv(xc) + d
        assert_allclose(other @ x, np.eye(4), atol=1e-9)
        assert_allclose(np.trace(other @ other.T), least + (d**2).sum())


# The posterior


@pytest.mark.parametrize("shape", SHAPES)
def test_covariance_and_quadratic_forms_are_those_of_the_inverse(shape):
    x, y = data(shape)
    xc, p = x - x.mean(0), x.shape[1]
    lam, noise, rows = tensor(0.5, 8.0), tensor(1.5, 0.2), np.random.default_rng(2).normal(size=(3, p))
    root = ridge.covariance_cholesky(spectrum_of(x, y), lam, noise)
    forms = ridge.quadratic_forms(spectrum_of(x, y), lam, torch.tensor(rows))
    for t in range(2):
        inverse = np.linalg.inv(xc.T @ xc + float(lam[t]) * np.eye(p))
        assert_allclose(root[t] @ root[t].T, float(noise[t]) * inverse, atol=1e-10)
        assert_allclose(forms[t], np.einsum("ni,ij,nj->n", rows, inverse, rows), rtol=1e-8)
        assert (root[t].diagonal() > 0).all()
        assert torch.equal(root[t], root[t].tril())
