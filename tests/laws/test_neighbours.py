"""Estimates by draws depend on random_state and the content of a row, not on the rows beside it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jensen.contract.gradient as contract

# A product of matrices rounds differently for other numbers of rows, in single precision; logarithms of small
# probabilities and sums over levels make more of it.
CLOSE = {"rtol": 2e-4, "atol": 2e-4}


def few_steps(model, resamplings):
    """Fewer steps than the default of a diffusion, which rounding would carry far."""
    if not hasattr(model, "sample_path"):
        return {}
    return {"steps": 3} if model.imputation == "masks" else {"steps": 3, "resamplings": resamplings}


def estimates(case, model, rows):
    """What is estimated by draws, by name, an array with a row per row."""
    holed = rows.copy()
    holed[:, 0] = np.nan
    found = {}
    if case.offers("score_samples"):
        bound = model.bound(rows)
        found |= {"score": model.score_samples(rows), "bound": bound.total, "error": bound.standard_error}
        found |= {f"kl {name}": kl for name, kl in bound.kl.items()}
    if case.offers("scores_holes") and case.offers("score_samples"):
        found["score with missing values"] = model.score_samples(holed)
    if case.offers("impute") and case.offers("holes"):
        found["impute"] = model.impute(holed, **few_steps(model, 2))
    for name in ("predict_proba", "transform", "bound_by_level"):
        if case.offers(name):
            found[name] = getattr(model, name)(rows)
    if case.offers("ode_log_prob") and set(model.columns_.kinds) == {"number"}:
        found["ode"] = model.ode_log_prob(rows).value
    return found


@pytest.mark.asks("trained")
def test_estimates_of_a_row_do_not_depend_on_its_neighbours(case, model, monkeypatch):
    x = case.x[:40]
    whole = estimates(case, model, x)
    order = np.random.default_rng(0).permutation(len(x))
    few = np.r_[5, 17]
    for rows in (order, few, few[:1]):
        for name, values in estimates(case, model, x[rows]).items():
            assert_allclose(values, whole[name][rows], **CLOSE, err_msg=name)
    # Blocks of a few rows at a time, of pairs of a row and a level, too.
    monkeypatch.setattr(contract, "ROOM", 2**11)
    for name, values in estimates(case, model, x).items():
        assert_allclose(values, whole[name], **CLOSE, err_msg=name)


@pytest.mark.asks("trained")
def test_equal_rows_have_equal_estimates_and_other_seeds_other_ones(case, model):
    x = np.repeat(case.x[:2], 3, axis=0)
    found = estimates(case, model, x)
    for name, values in found.items():
        assert_allclose(values[:3], values[[0, 0, 0]], **CLOSE, err_msg=name)
    if not case.is_sampled:
        return
    again = estimates(case, model, x)
    for name, values in again.items():
        assert_array_equal(values, found[name], err_msg=name)
    other = model.set_params(random_state=1).score_samples(x)
    assert (np.abs(other - found["score"]) > 0).all()


@pytest.mark.asks("trained", "impute_draws")
def test_equal_rows_have_draws_of_their_own(case, model, holes):
    """Multiple imputation needs them: their spread is that of the posterior."""
    x = np.repeat(holes[np.isnan(holes).any(1) & ~np.isnan(holes).all(1)][:1], 30, axis=0)
    (drawn,) = model.impute_draws(x, 1, **few_steps(model, 1))
    hidden = np.isnan(x[0])
    assert len(np.unique(drawn[:, hidden], axis=0)) > 1
