"""Laws of every family of columns: densities by scipy, sums row by row, the M-step as the maximum."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from column_families import CASES, K, N, batch_of, log_density, tensor
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs, SmoothMixtureVerbs

R = tensor(np.random.default_rng(1).dirichlet(np.ones(K), N).T)


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def with_missing(case):
    """Rows of two patterns, one of which has nothing."""
    x, rng = case.x.copy(), np.random.default_rng(2)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[0] = np.nan
    return x


def moments_of(case, r, x):
    return case.components.moments(r, case.components.view(batch_of(x)))


def objective(case, components, moments):
    return float(case.family.expected_log_density(components, moments) + case.family.log_prior(components))


def assert_same(one, other, atol=1e-10):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=atol)
        else:
            assert a == b


@pytest.mark.parametrize("missing", [False, True])
def test_the_density_is_the_product_over_observed_entries(case, missing):
    x = with_missing(case) if missing else case.x
    expected = np.zeros((N, K))
    for k in range(K):
        for j in range(x.shape[1]):
            entry = ~np.isnan(x[:, j])
            expected[entry, k] += case.entry(k, j, x[entry, j])
    np.testing.assert_allclose(log_density(case.components, x), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("missing", [False, True])
def test_moments_are_sums_over_rows(case, missing):
    x = with_missing(case) if missing else case.x
    total = moments_of(case, R[:, :1], x[:1])
    for i in range(1, N):
        total = total + moments_of(case, R[:, i : i + 1], x[i : i + 1])
    assert_same(moments_of(case, R, x), total)
    torch.testing.assert_close(total.mass, R.sum(1))


def in_blocks(x, r, entrywise):
    """Rows of one pattern in two blocks, one of them shorter and padded; or any rows, with a mask of entries."""
    half = len(x) // 2
    parts = [batch_of(x[:half]), batch_of(x[half : 2 * half])]
    stacked = torch.stack([part.x for part in parts])
    seen = torch.stack([torch.ones_like(p.x, dtype=torch.bool) if p.observed is None else p.observed for p in parts])
    observed = seen if entrywise else seen[:, :, 0]
    rows = torch.arange(2 * half).reshape(2, half)
    batch = Batch(stacked, rows, None, observed, None, torch.zeros(2, 1))
    return batch, torch.stack([r[:, :half], r[:, half : 2 * half]])


@pytest.mark.parametrize("entrywise", [False, True])
def test_blocks_are_the_flat_rows(case, entrywise):
    x = with_missing(case)
    if not entrywise:
        x = case.x.copy()
        x[: N // 2, 0] = np.nan
    batch, r = in_blocks(x, R, entrywise)
    view = case.components.view(batch)
    found = case.components.log_density(view)
    assert found.shape == (2, K, N // 2)
    flat = log_density(case.components, x)
    torch.testing.assert_close(found.movedim(1, 2).reshape(N, K), flat, rtol=1e-12, atol=1e-11)
    assert_same(case.components.moments(r, view), moments_of(case, R, x))


def test_blocks_without_missing_entries_are_the_flat_rows(case):
    batch, r = in_blocks(case.x, R, True)
    view = case.components.view(replace(batch, observed=None))
    flat = log_density(case.components, case.x)
    found = case.components.log_density(view).movedim(1, 2).reshape(N, K)
    torch.testing.assert_close(found, flat, rtol=1e-12, atol=1e-11)
    assert_same(case.components.moments(r, view), moments_of(case, R, case.x))


@pytest.mark.parametrize("missing", [False, True])
def test_the_expected_log_density_is_the_sum_over_rows(case, missing):
    """Up to terms without a parameter: differences between two values of the parameters agree."""
    x = with_missing(case) if missing else case.x
    moments = moments_of(case, R, x)

    def both(components):
        of_rows = (R.T * log_density(components, x)).sum()
        return case.family.expected_log_density(components, moments), of_rows

    (a, a_rows), (b, b_rows) = both(case.components), both(case.family.m_step(case.components, moments))
    torch.testing.assert_close(b - a, b_rows - a_rows, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_the_m_step_is_the_maximum(case, missing):
    """No point that an optimiser finds is better, and nothing near it."""
    moments = moments_of(case, R, with_missing(case) if missing else case.x)
    found = case.family.m_step(case.components, moments)
    top = objective(case, found, moments)
    assert top >= objective(case, case.components, moments)
    # Probabilities and rates at the maximum lie inside, so there are coordinates.
    start = case.family.pack(found)
    d = found.n_features

    def loss(vector):
        point = tensor(vector).requires_grad_()
        components = case.family.unpack(point, K, d)
        value = -(case.family.expected_log_density(components, moments) + case.family.log_prior(components))
        (slope,) = torch.autograd.grad(value, point)
        return float(value.detach()), slope.numpy()

    for vector in (start, case.family.pack(case.components)):
        best = minimize(loss, vector.numpy(), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15})
        assert -best.fun <= top + 1e-8 * abs(top)
    _, slope = loss(start.numpy())
    np.testing.assert_allclose(slope, 0, atol=1e-5)


def test_the_gradient_is_that_of_the_log_likelihood(case):
    """Fisher's identity: at theta, ∇ Σ r ln π_k p_k = ∇ ln p(x)."""
    x, d = with_missing(case), case.components.n_features
    verbs = SmoothMixtureVerbs(case.family, K, d)
    vector = verbs.pack(MixtureTheta(tensor([0.5, 0.3, 0.2]), case.components)).requires_grad_()
    theta = verbs.unpack(vector)
    joint = log_density(theta.components, x) + theta.log_weights
    (expected,) = torch.autograd.grad(joint.logsumexp(1).sum(), vector, retain_graph=True)
    moments = theta.components.moments(joint.softmax(1).T.detach(), theta.components.view(batch_of(x)))
    (found,) = torch.autograd.grad(verbs.surrogate(theta, moments), vector)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


def test_em_never_lowers_the_objective(case):
    x = with_missing(case)
    verbs, batch = MixtureVerbs(case.family, K, case.components.n_features), batch_of(x)
    theta, values = MixtureTheta(tensor([0.5, 0.3, 0.2]), case.components), []
    for _ in range(30):
        summary = verbs.e_step(theta, batch)
        values.append(float(summary.bound + verbs.log_prior(theta)))
        theta = verbs.m_step(theta, summary.stats)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("name", [name for name in CASES if "," not in name])
def test_without_a_prior_the_objective_is_the_log_likelihood(name):
    assert float(CASES[name].family.log_prior(CASES[name].components)) == 0


def test_pack_and_unpack(case):
    vector = case.family.pack(case.components)
    assert_same(case.family.project(case.family.unpack(vector, K, case.components.n_features)), case.components)


def test_the_m_step_of_expected_moments_is_this_value(case):
    weights = tensor([0.5, 0.3, 0.2])
    assert_same(case.components.m_step(case.components.expected_moments(weights)), case.components, atol=1e-7)


def test_an_empty_component_and_an_empty_column_stay(case):
    """Without a prior; with one they go to its mode."""
    x = case.x.copy()
    r = R.clone()
    r[1] = 0
    found = case.components.m_step(moments_of(case, r, x))
    assert_same(found.pick(torch.tensor([1])), case.components.pick(torch.tensor([1])))
    under_prior = case.family.m_step(case.components, moments_of(case, r, x))
    assert all(torch.isfinite(part).all() for part in tensors(under_prior))
    x[:] = np.nan
    assert_same(case.components.m_step(moments_of(case, R, x)), case.components)


def tensors(components):
    parts = (getattr(components, field.name) for field in fields(components))
    return [part for part in parts if isinstance(part, torch.Tensor)]


def test_pick_takes_components_in_order(case):
    numbers = torch.tensor([2, 0, 2])
    picked = log_density(case.components.pick(numbers), case.x)
    torch.testing.assert_close(picked, log_density(case.components, case.x)[:, numbers])


@pytest.mark.parametrize("columns", [[1, 0], [1]])
def test_selected_columns_are_those_that_are_observed(case, columns):
    x = np.full_like(case.x, np.nan)
    x[:, columns] = case.x[:, columns]
    found = log_density(case.components.select(torch.tensor(columns)), x[:, columns])
    torch.testing.assert_close(found, log_density(case.components, x))


@pytest.mark.parametrize("algorithm", [em.squarem, em.gradient(1.0)])
def test_accelerated_and_gradient_steps_rise_as_well(case, algorithm):
    x, d = with_missing(case), case.components.n_features
    verbs, theta = SmoothMixtureVerbs(case.family, K, d), MixtureTheta(tensor([0.5, 0.3, 0.2]), case.components)
    found = em.fit(verbs, theta, [batch_of(x)], max_iter=20, stop=em.small_gain(0), algorithm=algorithm)
    assert (np.diff(found.history) >= -1e-10).all()
    assert found.history[-1] > found.history[0] + 1 / N
    assert all(
        torch.isfinite(part).all() or part is getattr(found.theta.components, "sizes", None)
        for part in tensors(found.theta.components)
    )


def test_draws_have_the_moments_of_their_component(case):
    n = 20_000
    generator = torch.Generator().manual_seed(0)
    drawn = case.components.draw(torch.arange(K).repeat_interleave(n), generator).reshape(K, n, -1)
    error = drawn.std(1) / n**0.5
    assert ((drawn.mean(1) - case.components.expectation).abs() <= 4 * error + 1e-12).all()
    again = case.components.draw(torch.arange(K).repeat_interleave(n), torch.Generator().manual_seed(0))
    assert torch.equal(drawn.reshape(K * n, -1), again)
    case.family.check(drawn.reshape(K * n, -1), [f"x{j}" for j in range(drawn.shape[2])])


def test_standard_components_are_alike_and_read_every_row(case):
    standard = case.family.standard(K, case.components.n_features)
    found = log_density(standard, with_missing(case))
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, found[:, :1].expand(-1, K))
    assert standard.n_parameters == case.components.n_parameters


def test_a_start_leaves_every_row_possible(case):
    """Even where a component starts from one row, and all rows of the start are alike."""
    standard = case.family.standard(K, case.components.n_features)
    row = np.append(case.x[:, :-1].min(0), case.x[:, -1].max())
    r = torch.zeros(K, 3, dtype=torch.float64)
    r[0, 0] = r[1, 1] = r[2, 2] = 1
    moments = standard.moments(r, standard.view(batch_of(np.tile(row, (3, 1)))))
    first = case.family.first(standard, moments, 0.1)
    assert torch.isfinite(log_density(first, case.x)).all()


def test_outside_the_support_the_density_is_zero(case):
    x = case.x[:3].copy()
    x[1, 0] = -2.0
    found = log_density(case.components, x)
    assert torch.isneginf(found[1]).all()
    assert torch.isfinite(found[[0, 2]]).all()
    with pytest.raises(ValueError, match=r"column 'size' holds -2, but .* column .*;"):
        case.family.check(tensor(x), ["size", "b", "c", "d"][: x.shape[1]])
    # A missing entry is not outside.
    x[1, 0] = np.nan
    case.family.check(tensor(x), ["size", "b", "c", "d"][: x.shape[1]])
