"""The engine of impute: coordinates, weights, nearest rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import huber
from scipy.stats import iqr, norm

from jensen import ConjugatePrior, GaussianMixture, Mixture, pool
from jensen.data.infer import learn_columns
from jensen.tasks.imputation.candidates import EFFORTS, partners
from jensen.tasks.imputation.coding import Coding
from jensen.tasks.imputation.ensemble import Ensemble
from jensen.tasks.imputation.members import Member, fitted_member
from jensen.tasks.imputation.nearest import Nearest, learn_metric
from jensen.tasks.imputation.search import search
from jensen.tasks.imputation.weighing import losses, weigh, weigh_column, weigh_with_nearest


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 200)
    table = pd.DataFrame({"size": kind + rng.normal(0, 0.3, 200), "kind": np.array(["a", "b", "c"])[kind]})
    table["twice"] = 2 * table["size"] + rng.normal(0, 0.1, 200)
    return table.mask(rng.random(table.shape) < 0.2)


def coded(table):
    columns = learn_columns(table, kinds="all")
    x = columns.codes(table).x.numpy()
    return Coding.of(columns, x), x


def test_coordinates_lead_back_to_codes(mixed):
    coding, x = coded(mixed)
    z = coding.coordinates(x)
    assert z.shape == (200, 5)
    full = ~np.isnan(x).any(1)
    assert_allclose(coding.codes(z[full]), x[full])
    assert_allclose(np.nanmean(z[:, 0]), 0, atol=1e-12)
    assert_array_equal(np.isnan(z[:, 1]), np.isnan(x[:, 1]))


def test_a_member_expects_what_its_mixture_does(mixed):
    """Σ_k q_k p_k(level), against the frequencies of many draws of the model."""
    coding, x = coded(mixed)
    model = Mixture(3, columns={0: "number", 1: "level", 2: "number"}, prior=ConjugatePrior(), random_state=0)
    member = fitted_member("m", (0, 1, 2), coding, model, x)
    z, drawn = member.expected(x), member.drawn(x, 2000, 0)
    gaps = np.isnan(x[:, 1])
    shares = np.stack([(drawn[:, gaps, 1] == level).mean(0) for level in range(3)], 1)
    assert_allclose(z[gaps, 1:4], shares, atol=0.06)  # five standard errors of 2000 draws
    gaps = np.isnan(x[:, 0])
    seen = np.nanmin(x[:, 0]), np.nanmax(x[:, 0])
    assert_allclose(coding.codes(z)[gaps, 0], model.impute(x)[gaps, 0].clip(*seen))


def test_weights_find_the_model_that_is_right():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(100, 1))
    good, bad = truth + rng.normal(0, 0.1, (100, 1)), np.zeros((100, 1))
    assert weigh([bad, good], truth, is_level=False)[1] > 0.8
    missing = np.full((100, 1), np.nan)
    assert_array_equal(weigh([missing, good], truth, is_level=False), [0, 1])


def test_an_average_is_better_than_its_parts_if_their_errors_are_independent():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(2000, 1))
    parts = [truth + rng.normal(0, 1, (2000, 1)) for _ in range(4)]
    weights = weigh(parts, truth, is_level=False)
    assert (weights > 0.1).all()


def test_few_entries_give_nearest_rows_about_half():
    truth = np.zeros((4, 1))
    weights = weigh_with_nearest([truth + 1.0, truth], truth, is_level=False)
    assert_allclose(weights, [1 - 29 / 54, 29 / 54])  # (4 · 1 + 50 · ½) / 54


def test_the_loss_of_numbers_is_that_of_huber():
    rng = np.random.default_rng(0)
    truth, guess = rng.normal(size=(500, 1)), 4 * rng.normal(size=(500, 1))
    limit = 3 * iqr(truth) / (2 * norm.ppf(0.75))
    assert_allclose(losses(guess, truth, is_level=False), 2 * huber(limit, guess - truth)[:, 0], rtol=1e-3)
    zeros = np.append(np.zeros(9), 5.0)[:, None]  # no deviation by quartiles: squares
    assert_allclose(losses(zeros + 7.0, zeros, is_level=False), 49.0)


def test_a_corrupted_entry_does_not_decide_the_weights():
    """One model is right but for the corrupted entry, and the other is wrong by a deviation towards it."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 1))
    right, wrong = truth + 0.1 * rng.normal(size=truth.shape), truth + 1.0
    truth[0] = 300.0
    right[0], wrong[0] = 0.0, 1.0
    weights, _ = weigh_column([np.zeros(truth.shape), right, wrong], truth, is_level=False, seed=0, has_nearest=False)
    assert weights[1] > 0.8
    assert np.square(right - truth).mean() > np.square(wrong - truth).mean()


@pytest.mark.parametrize("has_nearest", [False, True])
def test_a_column_that_no_model_knows_better_is_filled_by_its_own_values(has_nearest):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 1))
    models = [np.zeros(truth.shape), *(rng.normal(size=truth.shape) for _ in range(3))]
    weights, average = weigh_column(models, truth, is_level=False, seed=0, has_nearest=has_nearest)
    assert_array_equal(weights, [1, 0, 0, 0])
    assert_array_equal(average, models[0])


def test_nearest_rows_by_hand():
    """Two donors at distances 0 and 1 in the only other column have shares 1 and e^-1."""
    coding = Coding(("number", "number"), (1, 1), np.zeros(2), np.ones(2))
    codes = np.array([[0.0, 10.0], [1.0, 20.0]])
    near = Nearest(coding, codes, codes, {1: np.array([1.0, 0.0])})
    share = np.exp(-1) / (1 + np.exp(-1))
    z = np.zeros((1, 2))
    assert_allclose(near.expected(z, 1), [[10 + 10 * share]], rtol=1e-6)
    drawn = near.drawn(z, 1, torch.Generator().manual_seed(0), 4000)
    assert_allclose((drawn == 20).mean(), share, atol=0.03)
    heavy = Nearest(coding, codes, codes, {1: np.array([1.0, 0.0])}, weight=np.array([1.0, np.e]))
    assert_allclose(heavy.expected(z, 1), [[15.0]], rtol=1e-6)


def test_the_metric_ignores_what_is_irrelevant():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    x[:, 2] = np.sin(2 * x[:, 0]) + rng.normal(0, 0.05, 400)
    coding = Coding(("number",) * 3, (1,) * 3, x.mean(0), x.std(0))
    metric = learn_metric(coding, x, coding.coordinates(x), 2, 60, 0, np.ones(3))
    assert metric[2] == 0
    assert metric[0] > 5 * metric[1]


def test_partners_are_those_that_depend_most():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    x[:, 3] = x[:, 1] ** 2  # not correlated, but not independent
    coding = Coding(("number",) * 4, (1,) * 4, np.zeros(4), np.ones(4))
    assert partners(coding, x, range(4))[3][0] == 1


def test_a_single_model_draws_all_cells_of_a_row_at_once():
    """The two cells of an empty row are as correlated as in the model, which draws cell by cell would lose."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 500)
    coding = Coding(("number",) * 2, (1,) * 2, x.mean(0), x.std(0))
    member = fitted_member("m", (0, 1), coding, GaussianMixture(1), x)
    whole = Ensemble(coding, (member,), None, np.ones((1, 2)), np.array([[1.0, 1.0], [0.0, 0.0]]))
    empty = np.full((2000, 2), np.nan)
    assert np.corrcoef(whole.drawn(empty, 1, 0)[0].T)[0, 1] > 0.85
    # An average of two equal models draws by turns: the cells fit each other after some rounds.
    twin = Ensemble(coding, (member, member), None, np.full((2, 2), 0.5), np.array([[0.5] * 2, [0.5] * 2, [0.0] * 2]))
    assert 0.6 < np.corrcoef(twin.drawn(empty, 1, 0)[0].T)[0, 1] < 0.95


def test_every_column_has_weights_of_its_own():
    coding = Coding(("number",) * 2, (1,) * 2, np.zeros(2), np.ones(2))
    low, high = (Member(name, (0, 1), coding, values=np.full((3, 2), v)) for name, v in (("low", 0.0), ("high", 8.0)))
    weights = np.array([[0.75, 0.0], [0.25, 1.0], [0.0, 0.0]])
    whole = Ensemble(coding, (low, high), None, weights[:2], weights)
    assert_allclose(whole.expected(np.array([[np.nan, np.nan], [1.0, np.nan]])), [[2, 8], [1, 8]])


def test_draws_of_models_that_disagree_stay_near_the_data():
    """Each of two models triples the other cell: without bounds the cells grow 9 times in each of 3 rounds."""
    rng = np.random.default_rng(0)
    one = rng.normal(size=500)
    wide, tall = np.c_[3 * one, one], np.c_[one, 3 * one]
    noise = rng.normal(0, 0.1, (500, 2))
    coding = Coding(("number",) * 2, (1,) * 2, np.zeros(2), np.ones(2), np.array([[-4.0, -4.0], [4.0, 4.0]]))
    models = (
        fitted_member(name, (0, 1), coding, GaussianMixture(1), x + noise) for name, x in (("w", wide), ("t", tall))
    )
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    whole = Ensemble(coding, tuple(models), None, weights[:2], weights)
    empty = np.full((200, 2), np.nan)
    drawn = whole.drawn(empty, 1, 0)
    assert np.abs(drawn).max() <= 4
    assert np.abs(replace(whole, coding=replace(coding, bounds=None)).drawn(empty, 1, 0)).max() > 40


def test_the_bounds_of_draws_are_a_standard_deviation_outside_the_data(mixed):
    coding, x = coded(mixed)
    low, high = np.nanmin(x[:, 0]), np.nanmax(x[:, 0])
    far = np.array([low - 9, low, high + 9])
    assert_allclose(coding.bounded(far, 0), [low - np.nanstd(x[:, 0]), low, high + np.nanstd(x[:, 0])])
    assert_array_equal(coding.bounded(np.array([0.0, 2.0]), 1), [0, 2])


def test_new_weights_change_the_models():
    """With all weight on half of the rows, the mean is theirs."""
    x = np.array([[0.0], [0.1], [10.0], [10.1]]) + np.zeros((4, 1))
    coding = Coding(("number",), (1,), np.zeros(1), np.ones(1))
    member = fitted_member("m", (0,), coding, GaussianMixture(1), x)
    moved = member.refitted(x, np.array([2.0, 2.0, 1e-12, 1e-12]))
    assert_allclose(moved.expected(np.array([[np.nan]])), 0.05, atol=1e-6)
    base = Member("own values", (0,), coding, values=x).refitted(x, np.array([2.0, 2.0, 0.0, 0.0]))
    assert_allclose(base.expected(np.array([[np.nan]])), 0.05)
    assert set(base.drawn(np.full((50, 1), np.nan), 1, 0)[0].ravel()) <= {0.0, 0.1}


def test_what_cannot_be_fitted_is_left_out_with_its_reason(mixed, monkeypatch):
    coding, x = coded(mixed)

    def refuse(self, *_, **__):
        raise ValueError("no fit today")

    monkeypatch.setattr(Mixture, "fit", refuse)
    found = search(coding, x, range(3), EFFORTS["quick"], 0)
    assert set(found.failed.values()) == {"no fit today"}
    assert np.isfinite(found.ensemble.expected(x)).all()


def test_ctrl_c_keeps_what_was_tried(mixed, monkeypatch):
    coding, x = coded(mixed)
    fit, fits = Mixture.fit, []

    def interrupted(self, *arguments, **options):
        fits.append(1)
        if len(fits) > 2:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(Mixture, "fit", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted after 1 of 2 models"):
        found = search(coding, x, range(3), EFFORTS["quick"], 0)
    assert "mixture, K=3" in found.names
    assert np.isfinite(found.ensemble.expected(x)).all()


@pytest.mark.slow
def test_intervals_of_a_mean_cover_it():
    """60 rows of two correlated numbers, half of one missing at random: the 95 % interval of its mean, 200 times.

    In 122 trials with other seeds, drawn parameters covered it in 0.93, and fixed ones in 0.89.
    The standard error of a share of 0.95 in 200 trials is 0.015.
    """
    rng, covered = np.random.default_rng(0), []
    coding = Coding(("number",) * 2, (1,) * 2, np.zeros(2), np.ones(2))
    for _ in range(200):
        x = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 60)
        x[rng.random(60) < 1 / (1 + np.exp(-x[:, 0])), 1] = np.nan
        member = fitted_member("m", (0, 1), coding, GaussianMixture(1), x)
        whole = Ensemble(coding, (member,), None, np.ones((1, 2)), np.array([[1.0, 1.0], [0.0, 0.0]]))
        weights = [60 * rng.dirichlet(np.ones(60)) for _ in range(20)]
        tables = [whole.reweighted(x, one).drawn(x, 1, int(rng.integers(2**31)))[0] for one in weights]
        means, variances = [table[:, 1].mean() for table in tables], [table[:, 1].var(ddof=1) / 60 for table in tables]
        low, high = pool(means, variances, degrees_of_freedom=59).interval()
        covered.append(low <= 0 <= high)
    assert 0.95 - 4 * 0.015 < np.mean(covered) < 0.995
