"""Negative binomial columns: the Poisson limit, counts that are not in the table."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import nbinom

from column_families import CASES, COUNTS, K, batch_of, log_density, tensor
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs
from jensen.models.mixtures.families.negative_binomial import LADDER, NegativeBinomialFamily, NegativeBinomials


def fitted(x, family=None, n_steps=1):
    family = family or NegativeBinomialFamily.of(tensor(x))
    components, batch = family.standard(1, x.shape[1]), batch_of(x)
    for _ in range(n_steps):
        ones = torch.ones(1, len(x), dtype=torch.float64)
        components = family.m_step(components, components.moments(ones, components.view(batch)))
    return components


def test_probabilities_sum_to_1_over_all_counts():
    """Few of these counts are in the table."""
    case = CASES["negative binomial"]
    x = np.zeros((3000, 2))
    x[:, 0] = np.arange(3000)
    found = log_density(case.components, x) - log_density(case.components, np.full((1, 2), [np.nan, 0.0]))
    torch.testing.assert_close(found.exp().sum(0), torch.ones(K, dtype=torch.float64), rtol=1e-9, atol=0)


def test_one_component_is_the_maximum_of_the_likelihood():
    x = COUNTS[:, :1]
    best = minimize(
        lambda t: -nbinom.logpmf(x, np.exp(t[1]), 1 / (1 + np.exp(t[0] - t[1]))).sum(),
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 2000},
    )
    found = fitted(x)
    assert float(log_density(found, x).sum()) >= -best.fun - 1e-9
    np.testing.assert_allclose([found.means[0, 0], found.sizes[0, 0]], np.exp(best.x), rtol=1e-5)


def test_a_variance_that_is_not_above_the_mean_gives_poisson():
    found = fitted(np.array([[2.0, 0.0], [3.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    assert torch.isinf(found.sizes).all()
    assert found.means.tolist() == [[2.75, 0.0]]
    value = log_density(found, [[2.0, 0.0], [2.0, 1.0]])[:, 0]
    assert float(value[0]) == pytest.approx(2 * np.log(2.75) - 2.75 - np.log(2))
    assert torch.isneginf(value[1])
    family = NegativeBinomialFamily(found.counts)
    back = family.project(family.unpack(family.pack(found), 1, 2))
    assert torch.isinf(back.sizes).all()
    expected = found.expected_moments(torch.ones(1, dtype=torch.float64))
    assert torch.isinf(found.m_step(expected).sizes).all()


def test_new_counts_have_their_exact_density_with_missing_entries_and_blocks():
    x = np.array([[3.0, 1000.0], [np.nan, 77.0], [12345.0, np.nan], [0.0, 0.0]])
    small = NegativeBinomialFamily(((0, 3), (0, 1)))
    components = NegativeBinomials(tensor([[2.0, 5.0]]), tensor([[0.5, 7.0]]), small.counts)
    entries = nbinom.logpmf(x, [0.5, 7.0], [0.5 / 2.5, 7.0 / 12.0])
    np.testing.assert_allclose(log_density(components, x)[:, 0], np.nansum(entries, 1), rtol=1e-9)


@pytest.mark.parametrize(("size", "mean"), [(0.5, 3.0), (2.0, 700.0), (30.0, 40.0)])
def test_new_counts_are_split_between_their_neighbours(size, mean):
    """The ladder alone: the mean is exact, the size close; counts of the training rows give the exact one."""
    x = np.random.default_rng(0).negative_binomial(size, size / (size + mean), (2000, 1)).astype(float)
    exact, close = fitted(x), fitted(x, NegativeBinomialFamily((LADDER,)))
    torch.testing.assert_close(close.means, exact.means)
    torch.testing.assert_close(close.sizes, exact.sizes, rtol=0.1, atol=0)


def test_a_count_beyond_the_table_is_the_last_one():
    components = NegativeBinomials(tensor([[2.0]]), tensor([[1.0]]), ((0, 2, 5),))
    found = components.moments(tensor([[1.0, 1.0]]), components.view(batch_of([[4.0], [9.0]])))
    torch.testing.assert_close(found.tally, tensor([[0.0, 1 / 3, 2 / 3 + 1]]))
    assert found.total.tolist() == [[13.0]]


def test_a_count_below_the_table_is_the_first_one():
    components = NegativeBinomials(tensor([[2.0, 2.0]]), tensor([[1.0, 1.0]]), ((0, 2), (3, 5)))
    found = components.moments(tensor([[1.0]]), components.view(batch_of([[0.0, 1.0]])))
    assert found.tally.tolist() == [[1.0, 0.0, 1.0, 0.0]]


def test_a_table_may_be_denser_where_there_were_rows():
    counts = tuple(sorted({*LADDER, *range(600, 801)}))
    components = NegativeBinomials(tensor([[700.0]]), tensor([[12.0]]), (counts,))
    expected = components.expected_moments(torch.ones(1, dtype=torch.float64))
    torch.testing.assert_close(components.m_step(expected).sizes, components.sizes)
    # The tallies are those of the distribution, so that nearly all of the weight and the mean is theirs.
    assert abs(float(expected.rest)) < 0.01
    assert float(expected.tally @ tensor(counts)) == pytest.approx(700.0, rel=0.01)
    assert float(expected.tally @ (tensor(counts) - 700.0).square()) == pytest.approx(700 + 700**2 / 12, rel=0.02)


def test_statistics_of_a_distribution_weigh_beside_new_rows():
    """As in `partial_fit` after `load`: half the weight from the distribution, half from its own draws."""
    for size, mean in [(0.5, 3.0), (4.0, 60.0), (50.0, 3000.0), (np.inf, 5.0)]:
        components = NegativeBinomials(tensor([[mean]]), tensor([[size]]), (LADDER,))
        drawn = components.draw(torch.zeros(5000, dtype=torch.int64), torch.Generator().manual_seed(0))
        r = torch.full((1, 5000), 1 / 5000, dtype=torch.float64)
        rows = components.moments(r, components.view(batch_of(drawn)))
        both = components.expected_moments(torch.ones(1, dtype=torch.float64)) + rows
        found = components.m_step(both)
        assert float(found.means) == pytest.approx(mean, rel=0.1)
        assert float(1 / found.sizes) == pytest.approx(1 / size, rel=0.15, abs=0.002)


def test_two_components_are_told_apart():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.negative_binomial(5, 0.5, 500), rng.negative_binomial(40, 0.5, 500)]).astype(float)[:, None]
    family = NegativeBinomialFamily.of(tensor(x))
    verbs, batch = MixtureVerbs(family, 2, 1), batch_of(x)
    theta = MixtureTheta(
        tensor([0.5, 0.5]), NegativeBinomials(tensor([[1.0], [50.0]]), tensor([[1.0], [1.0]]), family.counts)
    )
    values = []
    for _ in range(200):
        summary = verbs.e_step(theta, batch)
        values.append(float(summary.bound))
        theta = verbs.m_step(theta, summary.stats)
    assert (np.diff(values) > -1e-9).all()
    np.testing.assert_allclose(theta.components.means.ravel(), [5.0, 40.0], rtol=0.1)
    np.testing.assert_allclose(theta.components.sizes.ravel(), [5.0, 40.0], rtol=0.5)


def test_draws_have_their_variance():
    components = NegativeBinomials(tensor([[4.0], [4.0]]), tensor([[2.0], [np.inf]]), ((0,),))
    drawn = components.draw(torch.arange(2).repeat_interleave(40_000), torch.Generator().manual_seed(0)).reshape(2, -1)
    # The standard error of a variance is √((m4 - v²)/n).
    for rows, variance in zip(drawn, (4 + 16 / 2, 4.0), strict=True):
        fourth = (rows - rows.mean()).pow(4).mean()
        assert abs(float(rows.var()) - variance) < 4 * float((fourth - variance**2) / 40_000) ** 0.5


def test_a_column_without_values():
    assert NegativeBinomialFamily.of(tensor([[np.nan, 3.0], [np.nan, 1.0]])).counts == (LADDER, LADDER)
    wide = NegativeBinomialFamily.of(tensor([[1000.0], [17.0]]))
    assert {17, 1000} <= {*wide.counts[0]}
    assert [*wide.counts[0]] == sorted({*LADDER, 17, 1000})
