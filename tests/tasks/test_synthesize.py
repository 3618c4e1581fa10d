"""`jensen.synthesize`: rows like those of a table, under conditions, and how good they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.stats import chisquare, kstest
from sklearn.datasets import load_iris, load_wine

from jensen import synthesize
from jensen.data.functions import by_chance, find_functions
from jensen.tasks.synthesis.conditions import draw
from jensen.tasks.synthesis.scores import NormalScores


def people(n=800, seed=0):
    """A table with all kinds of columns; zip is a function of town, and gain is mostly 0."""
    rng = np.random.default_rng(seed)
    town = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    age = rng.integers(18, 80, n)
    gain = np.where(rng.random(n) < 0.8, 0.0, np.round(np.exp(rng.normal(8, 1, n)), 2))
    return pd.DataFrame(
        {
            "town": np.array(["Bonn", "Oslo", "Rome", "Wien"])[town],
            "zip": np.array([53111, 150, 184, 1010])[town],
            "age": age,
            "gain": gain,
            "weight": np.where(rng.random(n) < 0.1, np.nan, np.round(70 + 0.2 * age + rng.normal(0, 5, n), 1)),
            "insured": rng.random(n) < 0.3 + 0.4 * (town == 0),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )


@pytest.fixture(scope="module")
def made():
    return synthesize(people(), 4000, label="insured", effort="quick")


class TestRows:
    def test_they_have_the_types_of_the_table(self, made):
        assert made.table.dtypes.equals(people().dtypes)
        assert len(made.table) == 4000

    def test_numbers_stay_in_the_observed_range_and_do_not_pile_up_at_its_ends(self, made):
        for name in ("age", "gain", "weight"):
            real, new = people()[name], made.table[name]
            assert real.min() <= new.min() <= new.max() <= real.max()
            at_ends = [(column == real.max()).mean() for column in (real, new)]
            assert at_ends[1] < at_ends[0] + 0.01

    def test_whole_numbers_rounded_numbers_and_atoms_come_back(self, made):
        assert (made.table["gain"] == 0).mean() == pytest.approx((people()["gain"] == 0).mean(), abs=0.03)
        weight = made.table["weight"].dropna()
        assert np.array_equal(weight, weight.round(1))

    def test_cells_are_missing_as_often(self, made):
        assert made.table["weight"].isna().mean() == pytest.approx(people()["weight"].isna().mean(), abs=0.03)

    def test_a_function_of_a_column_stays_one(self, made):
        real = people()
        assert dict(zip(made.table["town"], made.table["zip"], strict=True)) == dict(
            zip(real["town"], real["zip"], strict=True)
        )
        assert "'zip' is computed from 'town'" in str(made)

    def test_columns_depend_on_each_other_as_in_the_table(self, made):
        real, new = people(), made.table
        assert new["age"].corr(new["weight"]) == pytest.approx(real["age"].corr(real["weight"]), abs=0.1)
        insured = [table.loc[table["town"] == "Bonn", "insured"].mean() for table in (real, new)]
        assert insured[1] == pytest.approx(insured[0], abs=0.08)

    def test_the_job_repeats(self):
        first, second = (synthesize(people(200), 20, effort="quick").table for _ in range(2))
        pd.testing.assert_frame_equal(first, second)

    def test_the_table_is_not_changed(self):
        table = people(200)
        before = table.copy()
        synthesize(table, 5, effort="quick")
        pd.testing.assert_frame_equal(table, before)

    @pytest.mark.parametrize("kind", [np.asarray, torch.tensor, pl.DataFrame])
    def test_they_come_in_the_container_of_the_table(self, kind):
        X = load_iris().data
        new = synthesize(kind(X), 30, effort="quick").table
        assert type(new) is type(kind(X))
        assert tuple(new.shape) == (30, 4)

    def test_few_levels_have_few_distinct_rows(self):
        table = people(2000)[["town", "insured"]]
        made = synthesize(table, 2000)
        assert made.tried["n_components"].max() <= 4
        shares = [t.value_counts(normalize=True) for t in (table, made.table)]
        # Eight shares, each within four standard errors of two samples.
        assert shares[1].sub(shares[0], fill_value=0).abs().max() < 4 * np.sqrt(2 * 0.25 / 2000)
        assert made.quality.table.loc["C2ST", "synthetic"] > 0.8

    def test_a_file(self, tmp_path):
        people(200).drop(columns="since").to_csv(tmp_path / "people.csv", index=False)
        assert len(synthesize(tmp_path / "people.csv", 7, effort="quick").table) == 7

    def test_wrong_arguments_are_errors(self):
        with pytest.raises(ValueError, match="effort='much' is unknown; choose 'quick'"):
            synthesize(people(50), 5, effort="much")
        with pytest.raises(ValueError, match="column 'salary' is not among"):
            synthesize(people(50), 5, label="salary")
        with pytest.raises(ValueError, match="n=0"):
            synthesize(people(50), 0)
        with (
            pytest.warns(UserWarning, match="columns with one value"),
            pytest.raises(ValueError, match="table has one row"),
        ):
            synthesize(people(1), 5)


class TestConditions:
    def test_all_rows_meet_them(self, made):
        since = (pd.Timestamp("2021-01-01"), None)
        given = {"town": ["Oslo", "Rome"], "age": (30, 40), "weight": (70, 80), "insured": True, "since": since}
        new = made.sample(200, given)
        assert set(new["town"]) == {"Oslo", "Rome"}
        assert set(new["zip"]) == {150, 184}
        assert new["age"].between(30, 40).all()
        assert new["weight"].between(70, 80).all()
        assert new["insured"].all()
        assert (new["since"] >= since[0]).all()

    def test_a_condition_on_a_function_is_one_on_its_source(self, made):
        assert set(made.sample(50, {"zip": 184})["town"]) == {"Rome"}
        assert set(made.sample(50, {"zip": (100, 1000)})["town"]) == {"Oslo", "Rome"}

    def test_a_single_number_need_not_be_observed(self, made):
        assert (made.sample(20, {"weight": 81.23})["weight"] == 81.23).all()
        assert (made.sample(20, {"gain": 0})["gain"] == 0).all()

    def test_an_interval_with_an_atom_keeps_its_share(self, made):
        new, plain = made.sample(3000, {"gain": (0, 1000)}), made.sample(20000)["gain"]
        share = (plain == 0).sum() / plain.between(0, 1000).sum()
        assert (new["gain"] == 0).mean() == pytest.approx(share, abs=0.03)

    def test_the_draws_are_those_that_rejection_gives(self, made):
        """Two intervals and a set of levels: rows that meet them among rows drawn without conditions."""
        given = {"age": (30, 60), "weight": (75, 85), "town": ["Bonn", "Wien"]}
        plain = made.sample(100_000, random_state=5)
        meets = plain["age"].between(30, 60) & plain["weight"].between(75, 85) & plain["town"].isin(["Bonn", "Wien"])
        expected, new = plain[meets], made.sample(3000, given)
        assert kstest(new["weight"], expected["weight"]).pvalue > 1e-3
        assert kstest(new["age"], expected["age"]).pvalue > 1e-3
        counts = [(table["town"] == "Bonn").mean() for table in (expected, new)]
        assert (
            chisquare([3000 * counts[1], 3000 * (1 - counts[1])], [3000 * counts[0], 3000 * (1 - counts[0])])[1] > 1e-3
        )

    def test_weights_of_components_are_their_posterior(self, made):
        """P(component | condition on a level), by Bayes' rule from the density of the model."""
        place = made.maker.drawn.index(0)
        rows = draw(made.model, 4000, made.maker.conditions({"town": "Wien"}), {}, np.random.default_rng(0))
        expected = made.model.condition({place: 3}).weights_
        known = np.full((1, rows.shape[1]), np.nan)
        known[0, place] = 3
        assert made.model.predict_proba(known)[0] == pytest.approx(expected)
        assert made.model.predict_proba(rows).mean(0) == pytest.approx(expected, abs=0.03)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"town": "Paris"}, "'Paris' is not a level of column 'town'; its levels are 'Bonn'"),
            ({"age": (100, 120)}, r"given\['age'\]=\(100, 120\), but no row has such a value.*between 18 and 79"),
            ({"age": (40, 30)}, "the first end is above the second one; swap them"),
            ({"town": ("Bonn", "Rome")}, "an interval has two ends.*give a list for several values"),
            ({"salary": 1}, "column 'salary' is not among"),
            ({"zip": 184, "town": "Bonn"}, "no value of column 'town' meets all of it"),
            ({"age": (18, 18), "weight": (95, None)}, "too few for n=300; widen an interval or lower n"),
            (["age"], "must be a dictionary of values by column"),
        ],
    )
    def test_what_cannot_be_met_is_an_error(self, made, given, message):
        with pytest.raises(ValueError, match=message):
            made.sample(300, given)


class TestScores:
    def test_repeated_values_come_back_exactly(self):
        x = np.random.default_rng(0).poisson(4, 500).astype(float)
        x[:20] = np.nan
        scores = NormalScores.of(x)
        kept = np.isin(x, scores.values[scores.counts > 1]) | np.isnan(x)
        back = scores.backward(scores.forward(x, np.random.default_rng(1)))
        assert np.array_equal(back[kept], x[kept], equal_nan=True)

    def test_scores_are_standard_normal_whatever_the_column(self):
        x = np.round(np.random.default_rng(0).exponential(3, 5000) ** 2, 0)
        z = NormalScores.of(x).forward(x, np.random.default_rng(1))
        assert kstest(z, "norm").pvalue > 0.01

    def test_gaussian_draws_have_the_distribution_of_the_column(self):
        x = np.random.default_rng(0).gamma(2, 3, 4000)
        new = NormalScores.of(x).backward(np.random.default_rng(1).normal(size=4000))
        assert kstest(new, x).pvalue > 0.01
        assert x.min() <= new.min() <= new.max() <= x.max()

    def test_the_share_below_an_end_is_that_of_draws(self):
        x = np.r_[np.random.default_rng(0).normal(size=40), np.ones(30)]
        scores = NormalScores.of(x)
        new = scores.backward(np.random.default_rng(1).normal(size=200_000))
        # Three standard errors of 200 000 draws.
        for end in (-1.0, 0.3, 1.0, 1.5):
            assert scores.below(end, True) == pytest.approx((new <= end).mean(), abs=0.004)
            assert scores.below(end, False) == pytest.approx((new < end).mean(), abs=0.004)


class TestFunctions:
    def test_many_to_one_and_one_to_one(self):
        a = np.arange(600.0) % 6
        x = np.stack([a // 2, a, a * 10, np.random.default_rng(0).integers(0, 3, 600)], 1)
        found = {one.target: one.source for one in find_functions(x, np.array([True, False, True, True]))}
        assert found == {0: 2, 1: 2}

    def test_an_identifier_explains_nothing(self):
        x = np.stack([np.arange(300.0), np.arange(300) % 4], 1)
        assert find_functions(x, np.array([True, True])) == ()

    def test_a_value_once_in_a_while_proves_nothing(self):
        """Ten values occur twice, with the same target; by chance this happens with probability .74."""
        source = np.repeat(np.arange(190.0), [2] * 10 + [1] * 180)
        target = np.r_[np.zeros(197), np.ones(3)]
        assert find_functions(np.stack([source, target], 1), np.array([True, True])) == ()

    def test_missing_is_a_value(self):
        a = np.arange(400.0) % 4
        b = np.where(a == 0, np.nan, a % 2)
        a[a == 3] = np.nan
        (one,) = find_functions(np.stack([a, b], 1), np.array([True, True]))
        assert np.array_equal(one(np.array([0, 1, 2, np.nan])), [np.nan, 1, 0, 1], equal_nan=True)

    def test_the_probability_of_a_coincidence(self):
        """Groups of 3, 2 and 1 rows, two values with shares 1/3 and 2/3."""
        source, target = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
        p, q = 1 / 3, 2 / 3
        assert by_chance(source, target) == pytest.approx(np.log((p**3 + q**3) * (p**2 + q**2) * 1))


class TestQuality:
    def test_a_good_model_lies_between_floor_and_ceiling(self):
        wine = load_wine(as_frame=True).frame
        quality = synthesize(wine, 10, label="target", effort="quick").quality
        assert list(quality.table.index) == ["Shape", "Trend", "C2ST", "Utility", "Nearest"]
        scores = quality.table
        for name in ("Trend", "Utility"):
            assert scores.loc[name, "floor"] < scores.loc[name, "synthetic"] < scores.loc[name, "ceiling"] + 0.05
        assert scores.loc["Nearest", "ceiling"] == pytest.approx(0.5, abs=0.15)
        assert quality.shapes.index.tolist() == wine.columns.tolist()
        assert "ceiling" in str(quality)

    def test_it_needs_rows(self):
        with pytest.raises(ValueError, match="quality needs at least 50 rows to split, the table has 40"):
            synthesize(people(40), 5, effort="quick").quality  # noqa: B018

    def test_page_and_picture(self, made, tmp_path):
        made.report(tmp_path / "page.html", "Rows <of> people")
        text = (tmp_path / "page.html").read_text()
        assert "Rows &lt;of&gt; people" in text
        assert "no guarantee of privacy" in text
        assert all(name in text for name in ("Shape", "Trend", "C2ST", "Utility", "Nearest", "&#x27;zip&#x27; of"))
        assert len(made.plot().axes) == 7


def test_what_was_tried_is_listed(made):
    assert list(made.tried.columns) == ["n_components", "covariance_type", "nats", "seconds", "chosen"]
    assert made.tried["chosen"].sum() == 1
    assert made.tried.loc[made.tried["chosen"], "nats"].item() == made.tried["nats"].max()
    assert len(made.model.weights_) == made.tried.loc[made.tried["chosen"], "n_components"].item()


def test_no_score_lies_beyond_the_quantiles_that_so_many_rows_can_tell():
    scores, rng = NormalScores.of(np.arange(10.0)), np.random.default_rng(0)
    drawn = np.concatenate([scores.forward(np.arange(10.0), rng) for _ in range(200)])
    # Half a row of ten: Φ(-1.6449) = 0.05.
    assert np.abs(drawn).max() == pytest.approx(1.6449, abs=1e-4)
