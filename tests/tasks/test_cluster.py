"""`jensen.cluster`: what is found, described and returned."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import xlogy
from scipy.stats import ks_2samp
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import adjusted_rand_score, jaccard_score

import jensen
from jensen import GaussianMixture
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.tasks.clustering import search
from jensen.tasks.clustering.merging import merged, mergers, overlap_of_pairs
from jensen.tasks.clustering.profiles import difference, differences
from jensen.tasks.clustering.rows import Scaled, find_rows, in_units
from jensen.tasks.clustering.stability import assigned, best_jaccard, word_of


def three_groups(n=150, seed=0):
    """Numbers, text, yes/no, missing values and a running number, in three groups."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "number": np.arange(n),
            "age": rng.normal(20 + 15 * z, 3),
            "town": np.where(rng.random(n) < 0.9, np.array(["Rome", "Bonn", "Oslo"])[z], "Paris"),
            "smokes": rng.random(n) < 0.1 + 0.4 * z,
            "planet": "Earth",
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    return frame, z


@pytest.fixture(scope="module")
def mixed():
    frame, z = three_groups()
    return frame, z, jensen.cluster(frame, effort="quick")


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(1)
    centres = np.array([[0, 0], [8, 0], [0, 8]])
    z = np.repeat([0, 1, 2], [70, 50, 30])
    return centres[z] + rng.normal(size=(150, 2)), z


class TestMixedTable:
    def test_groups_are_found(self, mixed):
        _, z, found = mixed
        assert adjusted_rand_score(z, found.labels) > 0.95
        assert found.clusters["size"].is_monotonic_decreasing

    def test_columns_that_tell_nothing_are_left_out(self, mixed):
        _, _, found = mixed
        assert set(found.rows.ignored) == {"number", "planet"}
        assert "left out: number, planet" in str(found)

    def test_the_table_comes_back_with_one_more_column(self, mixed):
        frame, _, found = mixed
        pd.testing.assert_frame_equal(found.table.drop(columns="cluster"), frame)
        assert (found.table["cluster"] == found.labels).all()
        assert "cluster" not in frame

    def test_every_cluster_is_described_by_its_town(self, mixed):
        _, z, found = mixed
        towns = np.array(["Rome", "Bonn", "Oslo"])
        for k, text in enumerate(found.clusters["sets_apart"]):
            town = towns[np.bincount(z[found.labels == k]).argmax()]
            assert f"town mostly {town} (" in text

    def test_the_model_predicts_the_same_clusters(self, mixed):
        frame, _, found = mixed
        assert (found.predict(frame) == found.labels).all()

    def test_typical_rows_are_near_the_centre(self, mixed):
        _, _, found = mixed
        for k in range(3):
            ages = found.frame["age"][found.labels == k]
            typical = found.frame["age"][found.typical(k)]
            assert (typical - ages.mean()).abs().max() < ages.std()

    def test_a_page_and_a_picture(self, mixed, tmp_path):
        _, _, found = mixed
        found.report(tmp_path / "page.html", "Towns")
        text = (tmp_path / "page.html").read_text()
        assert "<h1>Towns</h1>" in text
        assert "What was tried" in text
        assert "town mostly Oslo" in text
        assert len(found.plot().axes) >= 1

    def test_what_was_tried_has_one_winner_with_the_best_bic(self, mixed):
        _, _, found = mixed
        good = found.tried[(found.tried["degenerate"] == "") & (found.tried["failure"] == "")]
        assert found.tried["chosen"].sum() == 1
        assert found.tried["chosen"][good["bic"].idxmin()]
        assert found.tried["noise"].any()


class TestUnits:
    def test_do_not_matter(self, blobs):
        """In other units every structure finds the same clusters, and BIC changes by 2 n ln of the factors."""
        X, _ = blobs
        factors = np.array([1000.0, 0.01])
        one, other = jensen.cluster(X, effort="quick"), jensen.cluster(X * factors + 5, effort="quick")
        assert (one.labels == other.labels).all()
        apart = other.tried["bic"] - one.tried["bic"]
        np.testing.assert_allclose(apart.dropna(), 2 * len(X) * np.log(factors).sum(), rtol=1e-6)

    @pytest.mark.parametrize("name", ["EII", "VEV", "EEE", "EVI"])
    def test_a_mixture_of_standardised_rows_is_the_same_density_in_units(self, name):
        X = load_iris().data
        rows = find_rows(X)
        scaled = Scaled.of(rows)
        fitted = GaussianMixture(3, covariance_type=name, random_state=0).fit(scaled.X)
        moved = in_units(fitted, rows, scaled)
        expected = fitted.score_samples(scaled.X) - np.log(X.std(0)).sum()
        np.testing.assert_allclose(moved.score_samples(X), expected, rtol=1e-6)
        np.testing.assert_allclose(moved.predict_proba(X), fitted.predict_proba(scaled.X), atol=1e-6)


def test_one_cluster_has_nothing_to_be_compared_with_also_in_dates():
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=5), "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    found = differences(frame, np.ones(5, dtype=bool))
    assert [(one.text, one.distance) for one in found] == [("when", 0), ("x", 0)]


class TestMerging:
    def test_overlap_is_the_share_of_rows_that_change_sides(self):
        """By hand: of the two rows that go to a, b has 0.2 + 0.4; of those that go to b, a has 0.3."""
        q = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
        b_to_a, a_to_b = 0.6 / 1.3, 0.3 / 1.7
        np.testing.assert_allclose(overlap_of_pairs(q), [[0, max(b_to_a, a_to_b)], [max(b_to_a, a_to_b), 0]])

    def test_clusters_that_do_not_overlap_at_all_are_merged_one_by_one(self):
        path = mergers(np.eye(4)[np.arange(20) % 4])
        assert [one.n_clusters for one in path] == [4, 3, 2, 1]
        assert [one.overlap for one in path] == [0, 0, 0, 0]

    def test_entropy_falls_with_every_merger(self):
        q = np.random.default_rng(0).dirichlet(np.ones(5), 40)
        path = mergers(q)
        assert [one.n_clusters for one in path] == [5, 4, 3, 2, 1]
        assert (np.diff([one.entropy for one in path]) < 0).all()
        assert path[0].entropy == pytest.approx(-xlogy(q, q).sum())
        np.testing.assert_allclose(merged(q, path[2].cluster_of).sum(1), 1)

    def test_moons_are_two_clusters_of_several_components(self):
        X, y = make_moons(300, noise=0.05, random_state=0)
        found = jensen.cluster(X, effort="quick", n_clusters=2, noise=False)
        assert len(found.cluster_of) > 2
        assert adjusted_rand_score(y, found.labels) > 0.9
        apart = jensen.cluster(X, effort="quick", merge=False, noise=False)
        assert len(apart.names) == len(apart.cluster_of) > 2


class TestNoise:
    def test_rows_far_from_all_groups_are_noise(self):
        rng = np.random.default_rng(0)
        groups = np.concatenate([rng.normal([0, 0], 0.5, (100, 2)), rng.normal([10, 10], 0.5, (100, 2))])
        X = np.concatenate([groups, rng.uniform(-20, 30, (30, 2))])
        found = jensen.cluster(X, effort="quick")
        assert len(found.names) == 2
        assert (found.labels[200:] == -1).mean() > 0.8
        assert (found.labels[:200] == -1).mean() < 0.05
        assert "that fit nowhere (noise)" in str(found)
        assert (jensen.cluster(X, effort="quick", noise=False).labels >= 0).all()


class TestStability:
    def test_groups_that_are_apart_are_very_stable(self, blobs):
        X, z = blobs
        found = jensen.cluster(X, effort="quick")
        assert adjusted_rand_score(z, found.labels) > 0.95
        assert found.stability.agreement > 0.95
        assert found.stability.word == "very stable"
        assert found.stability.of_clusters.shape == (3,)

    def test_one_group_has_no_clusters(self):
        X = np.random.default_rng(0).normal(size=(200, 3))
        found = jensen.cluster(X, effort="quick")
        assert len(found.names) == 1
        assert np.isnan(found.stability.agreement)
        assert "show no groups" in str(found)

    def test_jaccard_is_scikit_learns(self):
        rng = np.random.default_rng(0)
        a, b = rng.integers(0, 3, 60), rng.integers(-1, 3, 60)
        expected = [max(jaccard_score(a == i, b == j) for j in range(3)) for i in range(3)]
        np.testing.assert_allclose(best_jaccard(a, b, 3), expected)

    def test_words(self):
        assert [word_of(v) for v in (0.9, 0.8, 0.7, 0.1, -0.1, np.nan)] == [
            "very stable",
            "stable",
            "uncertain",
            "unstable",
            "unstable",
            "not measured",
        ]


class TestDifferences:
    def test_the_distance_of_levels_is_total_variation(self):
        column = pd.Series(["a", "a", "b", "b", "b", "c"])
        inside = np.array([True, True, True, False, False, False])
        found = difference(column, "x", inside)
        # ½ (|2/3 - 0| + |1/3 - 2/3| + |0 - 1/3|)
        assert found.distance == pytest.approx(2 / 3)
        assert found.text == "x mostly a (67 %, elsewhere 0 %)"

    def test_the_distance_of_numbers_is_at_least_that_of_kolmogorov_at_a_bin(self):
        rng = np.random.default_rng(0)
        inside = np.arange(400) < 150
        x = np.where(inside, rng.normal(1.5, 1, 400), rng.normal(0, 1, 400))
        distance = difference(pd.Series(x), "x", inside).distance
        # Bins of a tenth of the rows miss the place of the greatest difference by less than 0.1.
        assert ks_2samp(x[inside], x[~inside]).statistic - 0.1 < distance <= 1

    def test_texts(self):
        inside = np.arange(100) < 50
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {
                "same": np.tile([1.0, 2.0, 3.0, 4.0], 25),
                "gone": np.where(inside, np.nan, rng.normal(size=100)),
                "mean": np.where(inside, 1.46, 4.91) + np.tile([-0.25, 0.25], 50),
                "spread": np.where(inside, 0.1, 5.0) * np.tile([-1, 1, -0.5, 0.5], 25),
                "day": pd.to_datetime(np.where(inside, "2020-01-01", "2021-06-01")) + pd.to_timedelta(range(100), "h"),
            }
        )
        found = {one.column: one.text for one in differences(frame, inside)}
        assert found["gone"] == "gone missing (100 %, elsewhere 0 %)"
        assert found["mean"] == "mean 1.46 instead of 4.91"
        here, elsewhere = (np.std(frame["spread"][part]) for part in (inside, ~inside))
        assert found["spread"] == f"spread spread less, ± {here:.3g} instead of ± {elsewhere:.3g}"
        assert found["day"].startswith("day around 2020-01-02 instead of 2021-06-04")
        assert differences(frame, inside)[-1].column == "same"


class TestSearch:
    def test_an_interrupted_search_keeps_the_best_so_far(self, blobs, monkeypatch):
        original = search.measured

        def interrupted(name, *others):
            if name == "VEV":
                raise KeyboardInterrupt
            return original(name, *others)

        monkeypatch.setattr(search, "measured", interrupted)
        with pytest.warns(InterruptedFitWarning, match="interrupted after 2 structures"):
            found = jensen.cluster(blobs[0], effort="quick")
        assert adjusted_rand_score(blobs[1], found.labels) > 0.95
        effort = search.Effort(1000, ("VEV",), 3, 5, 1, False, 2)
        monkeypatch.setattr("jensen.tasks.cluster.EFFORTS", {"quick": effort})
        with pytest.raises(KeyboardInterrupt):
            jensen.cluster(blobs[0], effort="quick")

    def test_more_components_are_tried_where_the_best_number_is_the_largest(self):
        rng = np.random.default_rng(0)
        z = np.arange(240) % 6
        X = 12 * np.array([np.cos(z), np.sin(z)]).T + rng.normal(size=(240, 2))
        found = jensen.cluster(X, effort="quick", noise=False)
        assert adjusted_rand_score(z, found.labels) > 0.95
        assert found.tried["n_components"].max() > 4

    def test_a_wide_table_gets_subspaces(self):
        rng = np.random.default_rng(0)
        z = np.repeat([0, 1], 60)
        X = rng.normal(size=(120, 1)) * rng.normal(size=25) + 4 * z[:, None] * (np.arange(25) < 8)
        X = X + 0.5 * rng.normal(size=X.shape)
        found = jensen.cluster(X, effort="quick")
        assert adjusted_rand_score(z, found.labels) > 0.95
        assert "1 factors" in set(found.tried["structure"])


class TestInput:
    def test_the_same_seed_gives_the_same_clusters(self, blobs):
        X, _ = blobs
        one, other = (jensen.cluster(X, effort="quick", random_state=3) for _ in range(2))
        assert (one.labels == other.labels).all()
        assert one.stability.agreement == other.stability.agreement

    def test_large_tables_are_searched_on_some_rows_and_fitted_to_all(self):
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(0, 1, (2000, 2)), rng.normal(9, 1, (1000, 2))])
        found = jensen.cluster(X, effort="quick")
        assert sorted(np.bincount(found.labels)) == [1000, 2000]
        assert found.model.total_weight_ == 3000

    def test_polars_and_files(self, blobs, tmp_path):
        X, _ = blobs
        frame = pl.DataFrame(X, schema=["a", "b"])
        found = jensen.cluster(frame, effort="quick")
        assert isinstance(found.table, pl.DataFrame)
        assert found.table.columns == ["a", "b", "cluster"]
        frame.write_csv(tmp_path / "x.csv")
        again = jensen.cluster(tmp_path / "x.csv", effort="quick")
        assert adjusted_rand_score(again.labels, found.labels) == 1
        assert jensen.cluster(X, effort="quick").table.shape == (150, 3)

    def test_a_column_of_that_name_stays(self, blobs):
        X, _ = blobs
        frame = pd.DataFrame(X, columns=["a", "cluster"])
        assert jensen.cluster(frame, effort="quick").table.columns.tolist() == ["a", "cluster", "cluster_2"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"effort": "fast"}, "effort='fast' is not known; choose 'quick', 'normal', 'thorough'"),
            ({"n_clusters": 0}, "n_clusters=0 is no number of clusters"),
            ({"table": np.ones((5, 2))}, "no column to find clusters in"),
            ({"table": np.random.default_rng(0).normal(size=(6, 2))}, "table has 6 rows"),
            ({"y": np.zeros(150), "n_clusters": 2}, "the clusters are the classes of y"),
            ({"y": np.zeros(150)}, "y has one class"),
        ],
    )
    def test_errors_name_the_argument(self, blobs, options, message):
        given = {"table": blobs[0]} | options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=message):
                jensen.cluster(given.pop("table"), **given)

    def test_noise_is_the_last_probability(self):
        q = np.array([[0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
        assert assigned(q, np.array([0, 0])).tolist() == [0, -1]


def test_a_value_that_only_some_rows_show_does_not_make_noise_of_the_others():
    """One negative income among zeros, outside of the searched rows, is enough for the column to have no bound."""
    rng, n = np.random.default_rng(0), 1300
    income = np.where(rng.random(n) < 0.3, 0, np.exp(rng.normal(9, 0.5, n)).round(1))
    table = pd.DataFrame({"income": income, "height": rng.normal(170, 8, n).round(1)})
    table.loc[:25] = np.c_[rng.uniform(2e5, 1e6, 26), rng.uniform(100, 250, 26)]
    searched = set(np.random.default_rng(0).choice(n, 1000, replace=False).tolist())
    table.loc[next(i for i in range(30, n) if i not in searched), "income"] = -5000
    found = jensen.cluster(table, effort="quick")
    assert (found.labels == -1).mean() < 0.05
