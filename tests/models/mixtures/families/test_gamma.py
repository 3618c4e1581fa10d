"""Gamma and exponential columns against scipy's fit; equal values and zeros, which have no density."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from column_families import batch_of, log_density, tensor
from jensen.models.mixtures.families.gamma import GammaFamily, Gammas


def fitted(x, family, r=None):
    standard = family.standard(1, x.shape[1])
    r = torch.ones(1, len(x), dtype=torch.float64) if r is None else r
    return family.m_step(standard, standard.moments(r, standard.view(batch_of(x))))


@pytest.mark.parametrize("shape", [0.2, 1.0, 7.0, 900.0])
def test_one_component_is_scipys_fit(shape):
    x = np.random.default_rng(0).gamma(shape, 3.0, (300, 1))
    found = fitted(x, GammaFamily())
    a, _, scale = stats.gamma.fit(x, floc=0)
    np.testing.assert_allclose([found.shapes[0, 0], found.scales[0, 0]], [a, scale], rtol=1e-6)


def test_an_exponential_has_the_mean():
    x = np.random.default_rng(0).gamma(2.0, 3.0, (50, 2))
    found = fitted(x, GammaFamily(shape=1.0))
    np.testing.assert_allclose(found.scales[0], x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(log_density(found, x)[:, 0], stats.expon.logpdf(x, scale=x.mean(0)).sum(1), rtol=1e-10)
    assert found.n_parameters == 2
    assert fitted(x, GammaFamily()).n_parameters == 4


def test_the_density_integrates_to_1():
    components = Gammas(tensor([[0.7], [4.0]]), tensor([[2.0], [0.5]]))
    for k in range(2):
        mass, _ = quad(lambda x, k=k: float(log_density(components, [[x]])[0, k].exp()), 0, np.inf)
        assert mass == pytest.approx(1.0, abs=1e-6)


def test_the_prior_on_rates():
    """The mode is (N a + α - 1) / (Σ x + β), and the prior is scipy's density of the rates."""
    x, family = np.array([[1.0], [2.0], [6.0]]), GammaFamily(shape=1.0, a=3.0, b=0.5)
    found = fitted(x, family)
    assert float(1 / found.scales) == pytest.approx((3 + 2) / (9 + 0.5))
    assert float(family.log_prior(found)) == pytest.approx(stats.gamma.logpdf(5 / 9.5, 3.0, scale=2.0))
    with pytest.raises(ValueError, match=r"b=0\.5 is a prior on rates, but the shapes are fitted, too; give shape"):
        GammaFamily(a=3.0, b=0.5)
    with pytest.raises(ValueError, match="shape=0 is not a shape"):
        GammaFamily(shape=0)


def test_equal_values_stop_at_the_largest_shape():
    found = fitted(np.full((5, 1), 3.7), GammaFamily())
    assert float(found.shapes) == pytest.approx(1e6)
    assert float(found.expectation) == pytest.approx(3.7)
    assert torch.isfinite(log_density(found, [[3.7], [100.0], [1e-9]])).all()
    assert 0 < found.resolution() < 1e-6
    assert found.collapsed(2e-6).tolist() == [True]
    assert float(found.roughness()) == pytest.approx(1e6, rel=1e-4)
    assert GammaFamily(largest_shape=1e9).gentle() == GammaFamily()
    fixed = fitted(np.full((5, 1), 3.7), GammaFamily(shape=1.0))
    assert fixed.collapsed(1.0).tolist() == [False]
    assert float(fixed.roughness()) == 0


def test_the_bound_is_the_constrained_maximum():
    x = np.random.default_rng(0).gamma(50.0, 1.0, (40, 1))
    found = fitted(x, GammaFamily(largest_shape=10.0))
    assert float(found.shapes) == 10.0
    assert float(found.expectation) == pytest.approx(x.mean())
    best = max(stats.gamma.logpdf(x, 10.0, scale=s).sum() for s in np.linspace(3, 7, 2001))
    assert float(log_density(found, x).sum()) >= best


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_only_positive_numbers_have_a_density(value):
    components = Gammas(tensor([[2.0]]), tensor([[1.0]]))
    assert torch.isneginf(log_density(components, [[value]])).all()
    with pytest.raises(ValueError, match=f"column 'wait' holds {value:g}, but a gamma column has only numbers above 0"):
        GammaFamily().check(tensor([[1.0], [value]]), ["wait"])


def test_an_exponential_has_zeros():
    x = np.array([[0.0], [0.0], [5.0]])
    family = GammaFamily.of(tensor(x), shape=1.0)
    family.check(tensor(x), ["wait"])
    found = fitted(x, family)
    np.testing.assert_allclose(log_density(found, x)[:, 0], stats.expon.logpdf(x[:, 0], scale=5 / 3))
    zeros = fitted(x, family, tensor([[1.0, 1.0, 0.0]]))
    assert float(zeros.scales) == pytest.approx(1e-6 * 5 / 3)
    assert torch.isfinite(log_density(zeros, x)).all()
    assert torch.isfinite(log_density(fitted(x, GammaFamily(shape=1.0), tensor([[1.0, 1.0, 0.0]])), x[:2])).all()
    with pytest.raises(
        ValueError, match="column 'wait' holds -1, but an exponential column has only numbers of 0 or more"
    ):
        family.check(tensor([[-1.0]]), ["wait"])


def test_draws_have_their_variance():
    components = Gammas(tensor([[0.5], [9.0]]), tensor([[2.0], [3.0]]))
    drawn = components.draw(torch.arange(2).repeat_interleave(40_000), torch.Generator().manual_seed(0)).reshape(2, -1)
    for rows, variance in zip(drawn, (0.5 * 4, 9.0 * 9), strict=True):
        fourth = (rows - rows.mean()).pow(4).mean()
        assert abs(float(rows.var()) - variance) < 4 * float((fourth - variance**2) / 40_000) ** 0.5
