"""NaN is missing: likelihoods are marginal, imputations conditional."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.asks("holes", "score_samples", "impute")


def test_rows_with_holes_are_scored_or_the_reason_is_told(case, model, holes):
    if case.offers("scores_holes"):
        assert np.isfinite(model.score_samples(holes)).all()
        return
    for ask in (model.score_samples, model.bound):
        with pytest.raises(
            ValueError, match=r"X holds NaN in row .* no marginal likelihood for partly observed rows.* impute X first"
        ):
            ask(holes)
    assert np.isfinite(model.score_samples(model.impute(holes))).all()


@pytest.mark.asks("computed")
def test_a_row_with_holes_has_the_marginal_likelihood(case, model, holes):
    assert_allclose(model.score_samples(holes), case.score(model, holes), rtol=1e-8, atol=1e-9)


@pytest.mark.asks("exact")
def test_a_row_with_nothing_has_likelihood_one(case, model):
    row = np.full((1, case.x.shape[1]), np.nan)
    assert_allclose(model.score_samples(row), 0.0, atol=1e-12)
    if case.offers("means"):
        weights, means = case.components(model)
        assert_allclose(model.impute(row)[0], weights @ means, rtol=1e-9)


@pytest.mark.asks("raises_bound", "untrained")
def test_no_holes_is_the_limit_of_holes(case, holes):
    """Rows of NaN add nothing but themselves: the likelihood of the others is maximised as if they were not there."""
    with_nothing = np.vstack([case.x, np.full((5, case.x.shape[1]), np.nan)])
    labels = None if case.y is None else np.append(case.y, [-1] * 5)
    padded = case.make().set_params(tol=1e-9).fit(with_nothing, labels)
    plain = case.make().set_params(tol=1e-9).fit(case.x, case.y)
    assert padded.score_samples(case.x).mean() == pytest.approx(plain.score_samples(case.x).mean(), abs=1e-3)


def test_observed_entries_come_back_bit_for_bit(case, model, holes):
    seen = ~np.isnan(holes)
    for filled in (model.impute(holes), *model.impute_draws(holes, n_draws=2, random_state=0)):
        assert_array_equal(filled[seen], holes[seen])
        assert np.isfinite(filled).all()
    assert_array_equal(model.impute(case.x), case.x)


@pytest.mark.asks("computed", "means")
def test_imputation_is_the_mean_of_its_draws(case, model, holes):
    draws = np.stack(model.impute_draws(holes, n_draws=400, random_state=0))
    error = draws.std(0) / np.sqrt(len(draws))
    missing = np.isnan(holes)
    z = (draws.mean(0) - model.impute(holes))[missing] / error[missing]
    # About 60 entries: 4.5 standard errors happen by chance once in thousands of runs, and the seed is fixed.
    assert np.abs(z).max() < 4.5


@pytest.mark.asks("exact", "means")
def test_imputation_is_the_conditional_mean_by_quadrature(case, model):
    """E[x_0 | the rest] on a fine grid of x_0, or as a sum over counts, through score_samples alone."""
    row = case.x[4]
    spread = case.x[:, 0].std()
    low, high = case.x[:, 0].min() - 10 * spread, case.x[:, 0].max() + 10 * spread
    # Positive numbers have a density that begins at 0, where it may be steep, and a longer tail than Gaussians.
    grid = np.linspace(low, high, 20_001) if case.has_location else np.linspace(0.0, (3 * high) ** 0.5, 20_001) ** 2
    if not case.has_units:
        grid = np.arange(np.ceil(high))
    rows = np.tile(row, (len(grid), 1))
    rows[:, 0] = grid
    density = np.exp(model.score_samples(rows) - model.score_samples(rows).max())
    step = np.gradient(grid) if case.has_units else 1.0
    expected = (density * grid * step).sum() / (density * step).sum()
    hole = row[None].copy()
    hole[0, 0] = np.nan
    assert_allclose(model.impute(hole)[0, 0], expected, rtol=1e-6)
