"""The bound of a diffusion against its formula, with the network's raw outputs and β alone."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import norm

from cases import CASES, diffusion_step, standardisation
from jensen.formulas.noising import Noising
from own_draws import own_draws

DRAWS = 20_000


def fitted(name):
    case = next(case for case in CASES if case.name == name)
    return case, case.make().fit(case.learnt, case.y)


@pytest.mark.parametrize("name", ["diffusion", "diffusion-learned", "diffusion-holes", "latent-diffusion"])
def test_a_step_back_is_what_its_formula_gives(name):
    _, model = fitted(name)
    module = getattr(model.module_, "prior", model.module_)
    points = np.random.default_rng(0).normal(size=(50, module.space.n_dims))
    x = torch.tensor(points, dtype=torch.float32)
    for t in range(1, 5):
        level = torch.full((50,), t)
        with torch.no_grad():
            belief, at = module.belief(x, level), Noising.at(module.table, level)
            found = at.mean(belief.mean, x), (0.5 * belief.log_variance).exp().expand_as(x)
        for ours, expected in zip(found, diffusion_step(module, points, t), strict=True):
            assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["diffusion", "diffusion-learned", "diffusion-labels", "diffusion-holes"])
def test_the_bound_is_what_its_formula_gives(name):
    """ln p(x) ≥ E ln p(x_0|x_1) - KL(q(x_T|x_0) ‖ N(0, I)) - Σ E KL(q(x_{t-1}|x_t,x_0) ‖ p(x_{t-1}|x_t)), by draws."""
    (case, model), rng = fitted(name), np.random.default_rng(0)
    rows = case.x[:3]
    location, scale = standardisation(case.learnt)
    beta = np.asarray(model.schedule)
    bar = np.cumprod(1 - beta)
    bar_before = np.append(1.0, bar[:-1])
    with own_draws():
        found = model.bound(np.repeat(rows, DRAWS, axis=0), levels="all").total.reshape(len(rows), DRAWS)
    for i, x0 in enumerate((rows - location) / scale):
        terms = [0.5 * (bar[-1] * x0**2 - bar[-1] - np.log(1 - bar[-1])).sum() + np.log(scale).sum() + np.zeros(DRAWS)]
        for t in range(1, len(beta) + 1):
            b, a, before = beta[t - 1], bar[t - 1], bar_before[t - 1]
            xt = np.sqrt(a) * x0 + np.sqrt(1 - a) * rng.normal(size=(DRAWS, 2))
            mean, std = diffusion_step(model.module_, xt, t)
            if t == 1:
                terms.append(-norm.logpdf(x0, mean, std).sum(1))
                continue
            own = np.sqrt(1 - b) * (1 - before) / (1 - a) * xt + np.sqrt(before) * b / (1 - a) * x0
            var = b * (1 - before) / (1 - a)
            terms.append((np.log(std) - 0.5 * np.log(var) + (var + (own - mean) ** 2) / (2 * std**2) - 0.5).sum(1))
        expected = -np.sum(terms, axis=0)
        error = np.sqrt((expected.var() + found[i].var()) / DRAWS)
        assert error < 0.05
        assert abs(found[i].mean() - expected.mean()) < 4.5 * error
