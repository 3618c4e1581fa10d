"""`jensen.outliers(...).cells`: odd cells of a table, and what was expected there."""

import warnings

import numpy as np
import pandas as pd
import pytest

import jensen
from jensen import VAE, GaussianMixture, Mixture
from jensen.evaluate.blame import given_rest, one_by_one, without
from jensen.tasks.odd_cells import ends_of, is_lone_level, limits_of
from odd_people import people


@pytest.fixture(scope="module")
def found():
    return jensen.outliers(people(), effort="quick")


def test_cells_name_what_was_expected(found):
    cells = found.cells.set_index(["row", "column"])
    worst = cells.loc[(7, "weight")]
    height = people().loc[7, "height"]
    assert worst["value"] == 20.0
    assert worst["expected"] == pytest.approx(height - 100, abs=3)
    assert worst["low"] < height - 100 < worst["high"]
    # Four standard deviations of 4 kg to either side hold more than 90 %.
    assert 8 < worst["high"] - worst["low"] < 20
    assert worst["tail"] == 1e-6
    assert worst["is_outlier"]
    assert found.cells["tail"].is_monotonic_increasing
    assert found.cells["tail"].max() <= found.level
    assert "id" not in set(found.cells["column"])


# One wrong cell of a row


def correlated(n=400, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    return common + 0.4 * rng.normal(size=(n, 4))


def test_only_the_corrupted_cell_of_a_row_is_named():
    X = correlated()
    wrong = {(10 * i, i % 4) for i in range(20)}
    for row, column in wrong:
        X[row, column] = 50.0 + row
    found = jensen.outliers(X, effort="quick")
    rows = {row for row, _ in wrong}
    cells = found.cells[found.cells["is_outlier"]]
    named = {(row, column) for row, column in zip(cells["row"], cells["column"], strict=True) if row in rows}
    assert named == wrong
    # With the wrong cell in their condition, the correct cells of these rows are impossible.
    assert (given_rest(found.model, X[sorted(rows)]).tail < 1e-6).all(1).sum() >= 10
    why = found.rows["why"]
    assert {(row, int(why[row])) for row in rows} == wrong


def test_cells_of_a_row_are_compared_with_those_that_are_not_to_blame():
    """By hand: two wrong cells; every cell is that of a row without the wrong ones."""
    X = correlated()
    model = GaussianMixture(random_state=0).fit(X)
    row = X[:1].copy()
    row[0, [1, 3]] = 9.0, -12.0
    found = one_by_one(model, row, 1e-4)
    for j in range(4):
        alone = row.copy()
        alone[0, [k for k in (1, 3) if k != j]] = np.nan
        by_hand = given_rest(model, alone)
        assert found.tail[0, j] == pytest.approx(by_hand.tail[0, j])
        assert found.expected.iat[0, j] == pytest.approx(by_hand.expected[0, j])
    assert ((found.tail < 1e-4) == [[False, True, False, True]]).all()


def test_usual_rows_are_as_given_rest_has_them():
    X = correlated()[:20]
    model = GaussianMixture(random_state=0).fit(X)
    exact, found = given_rest(model, X), one_by_one(model, X, 0.0)
    np.testing.assert_allclose(found.tail, exact.tail)
    np.testing.assert_allclose(found.low.to_numpy(dtype=float), exact.low)


@pytest.mark.parametrize("values", [[1, 2], [True, False], ["a", "b"], pd.to_datetime(["2020-01-01", "2020-01-02"])])
def test_hidden_cells_are_missing_and_the_table_is_not_changed(values):
    table = pd.DataFrame({"x": values, "y": [0.5, 1.5]})
    before = table.copy()
    hidden = without(table, np.array([0, 1]), np.array([[True, False], [False, False]]))
    assert hidden.isna().to_numpy().tolist() == [[True, False], [False, False]]
    assert hidden["x"].iat[1] == values[1]
    pd.testing.assert_frame_equal(table, before)


# What a column can hold


def incomes(n=600):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, size=n)
    income = np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(9 + 0.01 * age, 0.4)))
    table = pd.DataFrame({"age": age, "income": income, "town": rng.choice(["Leeds", "York", "Hull"], size=n)})
    table.loc[40, "income"], table.loc[50, "town"], table.loc[60, "age"] = -5000.0, "Leedz", 430.0
    return table


@pytest.fixture(scope="module")
def wrong_incomes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of values that a fold has not seen, above all
        return jensen.outliers(incomes(), effort="quick")


def test_values_that_a_column_cannot_hold_are_odd_cells(wrong_incomes):
    cells = wrong_incomes.cells.set_index(["row", "column"])
    for cell in [(40, "income"), (50, "town"), (60, "age")]:
        assert cells.loc[cell, "is_outlier"]
        assert cells.loc[cell, "tail"] <= 1 / 601
    assert cells.loc[(50, "town"), "expected"] in ("Leeds", "York", "Hull")
    assert not {(60, "income"), (60, "town")} & {*cells[cells["is_outlier"]].index}


def test_what_is_expected_stays_in_the_range_of_usual_rows(wrong_incomes):
    cells = wrong_incomes.cells
    shown = cells.loc[cells["column"] == "income", ["expected", "low", "high"]].astype(float)
    usual = incomes().drop(40)["income"]
    assert shown.min().min() == 0.0
    assert shown.max().max() <= usual.max()
    ages = cells.loc[cells["column"] == "age", ["expected", "low", "high"]].astype(float)
    assert ages.min().min() >= 20
    assert ages.max().max() <= 80


def test_ends_of_columns():
    rng = np.random.default_rng(0)
    assert ends_of(rng.normal(size=1000)) == (-np.inf, np.inf)
    assert ends_of(np.r_[rng.integers(1, 6, size=500), 6]) == (1.0, 5.0)
    assert ends_of(np.r_[np.zeros(300), rng.exponential(size=300), -1.0, -2.0]) == (-np.inf, np.inf)
    assert ends_of(np.r_[np.zeros(999), 5.0]) == (-np.inf, np.inf)
    assert ends_of(rng.poisson(3, size=2000))[1] == np.inf
    assert ends_of(np.empty(0)) == (-np.inf, np.inf)


def test_lone_levels_are_wrong_only_in_a_closed_list():
    closed = pd.Series(["a"] * 30 + ["b"] * 30 + ["c", None])
    assert np.flatnonzero(is_lone_level(closed)).tolist() == [60]
    assert not is_lone_level(pd.concat([closed, pd.Series(["d", "d"])])).any()
    assert not is_lone_level(pd.concat([closed, pd.Series(["d", "e"])])).any()
    assert not is_lone_level(pd.Series([f"name {i}" for i in range(50)])).any()


def test_limits_of_an_array():
    X = np.r_[np.zeros(30), np.arange(1.0, 31.0), -3.0][:, None]
    limits = limits_of(X, ("number",), np.ones(61, dtype=bool))
    assert np.flatnonzero(limits.is_impossible[:, 0]).tolist() == [60]
    assert limits.ranges == {0: (0.0, 30.0)}


# Cells by draws


def test_cells_by_draws_agree_with_the_exact_ones():
    model = GaussianMixture(1, random_state=0).fit(people()[["height", "weight"]].dropna())
    X = people()[["height", "weight"]].iloc[:10]
    exact, drawn = given_rest(model, X), given_rest(Imputes(model), X)
    # Near the top of a density the order of values by a kernel is noise, and the tail with it.
    usual = (exact.tail > 0.02) & (exact.tail < 0.5)
    assert usual.sum() >= 4
    # 200 draws and a kernel: standard errors of 0.04 in a probability, and of σ/14 in a mean.
    np.testing.assert_allclose(drawn.tail[usual], exact.tail[usual], atol=0.12)
    np.testing.assert_allclose(drawn.expected.astype(float), exact.expected, atol=1.5)
    assert drawn.tail[7, 1] == 1 / 201
    assert drawn.nats[7, 1] < -10


class Imputes:
    """A model that imputes and has nothing in closed form."""

    def __init__(self, model):
        self.model = model

    def impute_draws(self, X, n_draws, random_state):
        return self.model.impute_draws(X, n_draws, random_state)


def test_cells_of_levels_by_draws():
    table = people()[["height", "town"]]
    model = Mixture(2, random_state=0).fit(table)
    exact, drawn = given_rest(model, table[:15]), given_rest(Imputes(model), table[:15])
    np.testing.assert_allclose(np.exp(drawn.nats[:, 1]), np.exp(exact.nats[:, 1]), atol=0.12)


@pytest.mark.slow
def test_cells_of_a_network_are_found_by_draws():
    X = people()[["height", "weight"]].dropna().to_numpy()
    model = VAE(1, max_epochs=30, random_state=0).fit(X)
    assert given_rest(model, X[:8]).tail[7, 1] < 0.05
