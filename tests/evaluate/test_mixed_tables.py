"""Tables with columns of any kind: one description of the columns for all models, and probabilities that sum to one."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jensen import (
    MLP,
    VAE,
    Diffusion,
    GaussianMixture,
    KMeans,
    Mixture,
    ProbabilisticPCA,
    ResidualMLP,
    compare,
    outlier_scores,
    select,
)
from jensen.data.codes import UnseenValueWarning
from jensen.evaluate.agreement import disagreement
from jensen.evaluate.footing import find_footing
from jensen.evaluate.kinds import find_ground
from jensen.evaluate.sizing import EFFORTS, Effort
from jensen.evaluate.trial import Task
from jensen.evaluate.warm_starts import starts

N = 240
SPLIT = [(np.arange(160), np.arange(160, N))]
COLUMNS = ("age", "visits", "grade", "town", "smokes", "when")


def table(seed=0):
    """Two groups of rows; text, counts, whole-number levels, truth values, dates, missing values, an identifier."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=N)
    X = pd.DataFrame(
        {
            "id": np.arange(N),
            "age": rng.normal(30 + 30 * z, 5),
            "visits": rng.poisson(1 + 8 * z),
            "grade": rng.integers(1, 6, N),
            "town": np.where(rng.random(N) < 0.2 + 0.6 * z, "Bonn", np.where(rng.random(N) < 0.5, "Oslo", "Rome")),
            "smokes": rng.random(N) < np.where(z, 0.8, 0.1),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, N) + 400 * z, "D"),
            "same": "x",
        }
    )
    X["visits"] = X["visits"].astype("Int64").mask(rng.random(N) < 0.1)
    return X.assign(age=X["age"].mask(rng.random(N) < 0.1), town=X["town"].mask(rng.random(N) < 0.1))


def vae(likelihood="auto"):
    network = MLP(hidden=(8,))
    return VAE(1, likelihood=likelihood, encoder=network, decoder=network, max_epochs=2, random_state=0)


def diffusion():
    return Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=2, random_state=0)


MIXED = table()
KEPT = MIXED[list(COLUMNS)]


@pytest.fixture(scope="module")
def board():
    models = {
        "mixture": Mixture(2, alpha=1.0),
        "vae": vae(),
        "levels": vae({"age": "categorical"}),
        "gaussian": GaussianMixture(2),
        "kmeans": KMeans(2),
    }
    return compare(MIXED, models, cv=SPLIT)


class TestOneDescriptionOfTheColumns:
    def test_models_of_any_columns_are_ranked(self, board):
        assert set(board.scores) == {"mixture", "vae"}
        assert board.best == "mixture"
        assert set(board.scores.index) == set(range(160, N))

    def test_models_of_numbers_are_rows_with_the_reason(self, board):
        words = "takes numbers only, and X has text, categories or dates in columns 'town', 'when'"
        assert board.failures["gaussian"] == f"GaussianMixture {words}"
        assert board.failures["kmeans"] == f"KMeans {words}"

    def test_a_probability_of_a_number_is_not_ranked_among_densities(self, board):
        assert board.failures["levels"].startswith("it gives column 'age' a probability, where ranked models")

    def test_the_caption_explains_columns_and_units(self, board):
        for words in (
            "left out for all models: id (identifies rows, or free text), same (one value)",
            "columns of text, categories, flags and counts (visits, grade, town, smokes) have probabilities, numbers "
            "and dates a density",
            "a level that is not among them has the probability 1/(n+1)",
        ):
            assert words in board.caption

    def test_the_same_columns_are_left_out_for_all(self, board):
        assert tuple(board.held_out.rows.columns) == COLUMNS
        for model in board.models.values():
            assert model.columns_.names == COLUMNS

    def test_a_density_of_a_count_or_a_whole_number_is_dequantised(self, board):
        """Cells have size 1, so the score is the mean of the density over a cell; other columns are as given."""
        assert board.table.set_index("model").loc["vae", "value"].endswith("dequantised")
        fitted = board.models["vae"]
        assert [fitted.measure_[COLUMNS.index(name)] for name in ("visits", "grade")] == ["density"] * 2
        rows = board.held_out.rows
        middle = rows.assign(visits=rows["visits"].astype(float) + 0.5, grade=rows["grade"] + 0.5)
        assert_allclose(board.scores["vae"].mean(), fitted.score_samples(middle).mean(), atol=0.1)

    def test_noise_is_on_the_cells_of_whole_numbers_alone(self):
        given = []

        class Watched(VAE):
            def fit(self, X, y=None):
                given.append(X)
                return super().fit(X, y)

            def score_samples(self, X):
                given.append(X)
                return super().score_samples(X)

        X = KEPT.drop(columns="when")
        compare(X, {"mixture": Mixture(1), "watched": Watched(**vae().get_params(deep=False))}, cv=SPLIT)
        assert len(given) == 5  # the fit, and four draws for the scores
        for rows in given:
            for name in ("visits", "grade"):
                noise = rows[name] - X.loc[rows.index, name].astype(float)
                assert noise.min() >= 0
                assert noise.max() < 1
                assert_allclose(noise.mean(), 0.5, atol=0.1)
            pd.testing.assert_frame_equal(rows[["age", "town", "smokes"]], X.loc[rows.index, ["age", "town", "smokes"]])

    def test_without_identifiers_scores_are_the_same(self, board):
        again = compare(KEPT, {"mixture": Mixture(2, alpha=1.0)}, cv=SPLIT)
        assert "left out for all models" not in again.caption
        assert_array_equal(again.scores["mixture"], board.scores["mixture"])

    def test_kinds_are_those_of_all_rows_in_every_fold(self):
        """In the training rows alone `grade` would be a count or a constant."""
        order = np.argsort(KEPT["grade"].to_numpy(), kind="stable")
        X = KEPT.iloc[order].assign(visits=1)
        board = compare(X, {"mixture": Mixture(1)}, cv=[(np.arange(100), np.arange(100, N))])
        assert board.models["mixture"].columns_.kinds[1] == "level"
        assert not board.failures

    def test_what_a_model_asks_for_is_given_to_all(self):
        models = {"asked": Mixture(2, columns={"visits": "number", "id": "left out"}, alpha=1.0), "plain": Mixture(1)}
        board = compare(MIXED, models, cv=SPLIT)
        assert not board.failures
        for model in board.models.values():
            assert dict(zip(model.columns_.names, model.columns_.kinds, strict=True))["visits"] == "number"
        by_number = compare(MIXED, {"asked": Mixture(2, columns={2: "number"}, alpha=1.0)}, cv=SPLIT)
        assert_allclose(by_number.scores["asked"], board.scores["asked"])

    def test_a_family_asks_for_a_kind(self):
        """A Gaussian has a density, of counts as well."""
        board = compare(KEPT, {"gaussian": Mixture(1, families={"visits": "gaussian", "when": "gaussian"})}, cv=SPLIT)
        assert board.models["gaussian"].measure_[1] == "density"
        assert not board.failures

    def test_a_column_that_nobody_has_is_the_error_of_its_model(self):
        board = compare(KEPT, {"wrong": Mixture(1, columns={"size": "count"}), "right": Mixture(1)}, cv=SPLIT)
        assert "columns names the column 'size', which X does not have" in board.failures["wrong"]

    def test_a_table_of_names_and_constants_has_nothing_to_compare(self):
        X = pd.DataFrame({"name": [f"n{i}" for i in range(60)], "one": "x"})
        with pytest.raises(ValueError, match="X has no column"):
            compare(X, [Mixture(1)])

    def test_without_names_of_rows_a_table_of_numbers_is_left(self):
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
        X["name"] = [f"n{i}" for i in range(80)]
        board = compare(X, [Mixture(1), GaussianMixture(1)], cv=2)
        assert not board.failures
        assert_allclose(board.scores["Mixture"], board.scores["GaussianMixture"])
        assert find_ground(X, "auto", "auto").footing.unit == "density"

    def test_numbers_have_a_density_if_that_is_asked_for(self):
        X = KEPT[["age", "visits", "town"]]
        board = compare(X, {"mixture": Mixture(2, alpha=1.0), "vae": vae()}, cv=SPLIT, discrete=False)
        assert not board.failures
        assert board.models["mixture"].measure_ == ("density", "density", "probability")

    def test_frames_of_polars_have_the_same_scores(self):
        X = KEPT.drop(columns="when")
        models = {"mixture": Mixture(2, alpha=1.0), "vae": vae()}
        one, other = (compare(rows, models, cv=SPLIT).scores for rows in (X, pl.from_pandas(X)))
        assert_allclose(one, other, rtol=1e-6)

    def test_networks_alone_keep_their_densities(self):
        X = KEPT[["visits", "town"]].fillna({"visits": 1})
        assert find_ground(X, "auto", [vae(), diffusion()]).footing.measure == ("density", "probability")
        assert find_ground(X, "auto", [vae(), Mixture()]).footing.measure == ("probability", "probability")


class TestUnseenLevels:
    def test_probabilities_of_all_values_and_the_unseen_slot_sum_to_one(self):
        towns = ["Bonn"] * 50 + ["Oslo"] * 30 + ["Rome"] * 20
        X = pd.DataFrame({"town": [*towns, "Bonn", "Oslo", "Rome", "Paris"]})
        board = compare(
            X, {"two": Mixture(2, alpha=1.0), "one": Mixture(1)}, cv=[(np.arange(100), np.arange(100, 104))]
        )
        scores = board.scores.sort_index()
        assert_allclose(np.exp(scores).sum(), 1.0)
        assert_allclose(scores["one"], np.log([50 / 101, 30 / 101, 20 / 101, 1 / 101]))

    def test_nor_with_missing_values_and_more_columns(self):
        """Over all pairs of levels and unseen slots; n counts observed entries only."""
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"a": rng.choice(["x", "y", "z"], 90), "b": rng.random(90) < 0.3}).astype(object)
        X.loc[:9, "a"] = None
        pairs = pd.DataFrame([(a, b) for a in ("x", "y", "z", "new") for b in (True, False)], columns=["a", "b"])
        board = compare(
            pd.concat([X, pairs], ignore_index=True).assign(b=lambda rows: rows["b"].astype(bool)),
            {"mixture": Mixture(2, alpha=0.5)},
            cv=[(np.arange(90), np.arange(90, 98))],
        )
        # `b` has both values in the training rows: only its unseen slot, 1/91, is not among the pairs.
        assert_allclose(np.exp(board.scores["mixture"]).sum(), 90 / 91)

    def test_every_model_has_the_same_discount(self):
        X = KEPT[["age", "town", "smokes"]].assign(age=KEPT["age"].fillna(40.0))
        models = {"mixture": Mixture(2, alpha=1.0), "vae": vae(), "diffusion": diffusion()}
        board = compare(X, models, cv=SPLIT)
        rows = board.held_out.rows
        n = X["town"][:160].notna().sum()
        discount = math.log(160 / 161) + rows["town"].notna() * math.log(n / (n + 1))
        for name in ("mixture", "vae"):
            own = board.models[name].score_samples(rows)
            assert_allclose(
                board.scores[name].loc[rows.index] - own, discount, atol=1e-9 if name == "mixture" else 1e-5
            )

    def test_a_row_with_an_unseen_level_is_scored_by_all(self):
        X = KEPT.drop(columns="when").dropna().assign(town=lambda rows: rows["town"].where(rows.index != 200, "Paris"))
        models = {"mixture": Mixture(2, alpha=1.0), "vae": vae(), "diffusion": diffusion()}
        split = [(np.flatnonzero(X.index < 160), np.flatnonzero(X.index >= 160))]
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnseenValueWarning)
            board = compare(X, models, cv=split)
        assert not board.failures
        assert len(board.scores) == (X.index >= 160).sum()
        assert "left out for all models" not in board.caption

    def test_a_value_of_probability_0_has_a_way_out(self):
        X = pd.DataFrame({"a": ["x"] * 40 + ["y"] * 40 + ["x"], "b": ["u"] * 40 + ["v"] * 40 + ["v"]})
        y = np.arange(81) >= 40
        models = {"no": Mixture(2), "yes": Mixture(2, alpha=1.0)}
        board = compare(X, models, y, cv=[(np.arange(80), np.arange(80, 81))])
        assert "1 of 1 held-out rows have no finite score; give it alpha=1" in board.failures["no"]


class TestTablesOfNumbers:
    """The rules of numbers stay: the mixture of columns follows them."""

    def test_of_densities(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"a": rng.normal(size=90), "row": np.arange(90), "flag": rng.integers(0, 2, 90)})
        X["gain"] = np.where(rng.random(90) < 0.6, 0.0, rng.normal(5, 1, 90))
        for rows in (X, X.to_numpy()):
            board = compare(rows, [Mixture(1), GaussianMixture(1), ProbabilisticPCA(1)], cv=3)
            assert not board.failures
            assert_allclose(board.scores["Mixture"], board.scores["GaussianMixture"], rtol=1e-6)
            assert "1/(n+1)" not in board.caption

    def test_on_a_grid(self):
        rng = np.random.default_rng(1)
        X = pd.DataFrame({"visits": rng.poisson(2.5, 200), "row": np.arange(200), "grade": rng.integers(1, 4, 200)})
        board = compare(X, {"mixture": Mixture(1), "gaussian": GaussianMixture(1), "chosen": Mixture(2)}, cv=2)
        assert not board.failures
        fitted = board.models["mixture"]
        assert fitted.measure_ == ("probability", "density", "probability")
        assert board.table.set_index("model").loc["mixture", "value"] == "bound, dequantised"

    def test_a_probability_that_is_asked_for_is_no_density(self):
        X = np.random.default_rng(0).normal(size=(90, 2)).round(1)
        X[:, 1] = np.arange(90) % 3
        board = compare(X, {"mixture": Mixture(1, columns={1: "level"}), "gaussian": GaussianMixture(1)}, cv=2)
        assert board.failures["mixture"].startswith("it gives column 1 a probability, where ranked models give a dens")

    def test_a_level_that_is_not_ranked_costs_nothing(self):
        X = np.random.default_rng(0).normal(size=(90, 2)).round(1)
        X[:, 1] = np.arange(90) % 3
        alone = compare(X, {"gaussian": GaussianMixture(1)}, cv=2)
        board = compare(X, {"level": Mixture(1, columns={1: "level"}), "gaussian": GaussianMixture(1)}, cv=2)
        assert_array_equal(board.scores["gaussian"], alone.scores["gaussian"])

    def test_one_family_for_all_columns_is_not_told_otherwise(self):
        X = np.random.default_rng(0).poisson(9, (90, 2)).astype(float)
        board = compare(X, {"poisson": Mixture(1, families="poisson"), "auto": Mixture(1)}, cv=2)
        assert board.models["poisson"].columns is None
        assert not board.failures

    def test_a_name_is_a_mixture_whose_size_is_chosen(self):
        X = np.concatenate([np.random.default_rng(k).normal(9 * k, 1, (60, 2)) for k in range(2)])
        board = compare(X, ["mixture", "gaussian-mixture"], effort="quick", cv=2)
        assert board.models["mixture"].n_components == 2
        assert_allclose(*board.table["nats"], rtol=1e-3)


class TestAtoms:
    GAIN = np.where(np.arange(N) % 5 > 0, 0.0, np.random.default_rng(5).gamma(4.0, 100.0, N))

    def test_all_models_of_any_columns_have_the_same(self):
        X = KEPT[["age", "town"]].assign(gain=self.GAIN)
        alone = compare(X, {"one": Mixture(1), "two": Mixture(2, alpha=1.0)}, cv=SPLIT)
        assert not alone.failures
        assert alone.models["one"].measure_ == ("density", "probability", "both")
        assert "frequent numbers of gain have a probability of their own" in alone.caption
        beside = compare(X, {"one": Mixture(1), "vae": vae()}, cv=SPLIT)
        assert not beside.failures
        assert beside.models["vae"].measure_ == alone.models["one"].measure_
        assert_array_equal(beside.scores["one"], alone.scores["one"])
        networks = compare(X, {"vae": vae()}, cv=SPLIT)
        assert_array_equal(networks.scores["vae"], beside.scores["vae"])
        assert "frequent numbers of gain have a probability of their own" in networks.caption

    def test_numbers_alone_have_none_unless_asked_for(self):
        X = KEPT[["age"]].assign(gain=self.GAIN)
        board = compare(X, {"mixture": Mixture(1), "vae": vae(), "gaussian": GaussianMixture(1)}, cv=SPLIT)
        assert not board.failures
        assert board.models["vae"].measure_ == ("density", "density")
        asked = vae().set_params(columns={"gain": {"kind": "number", "atoms": [0.0]}})
        board = compare(X, {"mixture": Mixture(1), "vae": asked}, cv=SPLIT)
        assert board.models["mixture"].measure_ == board.models["vae"].measure_ == ("density", "both")
        board = compare(X, {"gaussian": GaussianMixture(1), "vae": asked}, cv=SPLIT)
        assert "'gain' a density with a probability for its frequent values" in board.failures["vae"]

    def test_natural_bounds_are_those_of_all_rows_and_change_no_measure(self):
        """Scores are densities of the numbers themselves, with and without bounds; a fold has no bounds of its own."""
        X = KEPT[["age", "town"]].assign(gain=self.GAIN)
        ends = {"bounded": 0, "free": None}
        models = {name: Mixture(1, columns={"gain": {"atoms": [0.0], "low": low}}) for name, low in ends.items()}
        alone = compare(X, models, cv=SPLIT)
        assert not alone.failures
        assert alone.models["bounded"].columns_.support[2].tolist() == [0, np.inf]
        assert not alone.models["free"].columns_.support.isfinite().any()
        assert alone.table["nats"].tolist() == sorted(alone.table["nats"], reverse=True)
        X.loc[SPLIT[0][1][0], "gain"] = -1.0  # a held-out row has the only number below 0
        board = compare(X, {"one": Mixture(1)}, cv=SPLIT)
        assert not board.failures
        assert board.models["one"].columns_.atoms[2] == (0.0,)
        assert not board.models["one"].columns_.support.isfinite().any()

    def test_models_with_different_atoms_are_not_ranked_together(self):
        X = KEPT[["age", "town"]].assign(gain=self.GAIN)
        own = Mixture(1, columns={"gain": {"kind": "number", "atoms": [0.0]}})
        other = Mixture(1, columns={"gain": {"kind": "number", "atoms": [0.0, 1.0]}})
        none = vae().set_params(columns={"gain": {"kind": "number", "atoms": []}})
        board = compare(X, {"own": own, "other": other, "vae": vae(), "none": none}, cv=SPLIT)
        assert set(board.scores) == {"own", "vae"}
        assert "it gives other numbers a probability of their own than own does" in board.failures["other"]
        assert "'gain' a density, where ranked models give a density with a probability" in board.failures["none"]

    def test_a_bound_of_a_mixture_is_an_atom_of_a_network(self):
        X = KEPT[["age", "town"]].assign(gain=self.GAIN)
        own = Mixture(1, columns={"gain": {"kind": "number", "low": 0}})
        board = compare(X, {"own": own, "vae": vae()}, cv=SPLIT)
        assert not board.failures
        assert board.models["vae"].columns_.atoms == ((), (), (0.0,))
        numbers = compare(X.drop(columns="town"), {"own": own, "vae": vae()}, cv=SPLIT)
        assert not numbers.failures
        assert numbers.models["vae"].measure_ == ("density", "both")

    def test_are_a_measure_of_their_own(self):
        reason = disagreement(("both", "density"), ("density", "density"), ["a", "b"])
        assert reason.startswith("it gives column a a density with a probability for its frequent values, where")


class TestAuto:
    def test_enters_the_mixture_of_columns(self):
        few = {name: Effort(1, 1, (8,), (1, 2), 8) for name in EFFORTS}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("jensen.evaluate.compare.EFFORTS", few)
            board = compare(MIXED, effort="quick", random_state=0)
        assert board.best == "mixture of columns"
        fitted = board.models["mixture of columns"]
        assert fitted.n_components == 2
        assert "VAE" in board.scores
        assert "k-means, Gaussian mixtures, subspaces and the latent curve take numbers only" in board.caption
        assert list(board.sample(2)["mixture of columns"].columns) == list(COLUMNS)

    def test_dates_alone_are_a_mixed_table(self):
        assert find_footing(KEPT[["age", "when"]], "auto").unit == "mixed"


class TestSelect:
    @pytest.mark.parametrize("criterion", ["bic", "icl", "cv", "held_out"])
    def test_the_number_of_components_of_a_mixed_table(self, criterion):
        chosen = select(Mixture(alpha=1.0), KEPT, {"n_components": range(1, 4)}, criterion, cv=2)
        assert (chosen.table["failure"] == "").all()
        assert chosen.best_params["n_components"] == 2 or criterion in ("cv", "held_out")
        assert chosen.best_params["n_components"] > 1
        assert chosen.winner.predict(KEPT).shape == (N,)

    def test_icl_is_that_of_the_model_and_counts_weights(self):
        grid = {"n_components": [2]}
        chosen = select(Mixture(alpha=1.0), KEPT, grid, "icl")
        assert chosen.table["icl"].iloc[0] == pytest.approx(chosen.winner.icl(KEPT), rel=1e-12)
        twice = select(Mixture(alpha=1.0), KEPT, grid, "icl", sample_weight=np.full(N, 2.0))
        repeated = twice.winner.icl(pd.concat([KEPT, KEPT], ignore_index=True))
        assert twice.table["icl"].iloc[0] == pytest.approx(repeated, rel=1e-9)

    def test_levels_alone_have_no_equal_components_as_starts(self):
        X = KEPT[["town", "smokes", "grade"]]
        fitted = Mixture(2, alpha=1.0, random_state=0).fit(X)
        other = KEPT[["age", "town"]]
        with_numbers = Mixture(2, random_state=0).fit(other)

        def n_starts(model, rows, n_components):
            return len(list(starts(model, n_components, Task(rows, None, None, 5, 0, 0), np.arange(N))))

        assert [n_starts(fitted, X, k) for k in (1, 3)] == [2, 0]
        assert [n_starts(with_numbers, other, k) for k in (1, 3)] == [2, 2]
        chosen = select(Mixture(alpha=1.0), X, {"n_components": range(1, 4)}, warm_start=True)
        assert (chosen.table["failure"] == "").all()

    def test_likelihood_does_not_fall_with_components_of_levels(self):
        X = KEPT[["town", "smokes", "grade"]]
        chosen = select(Mixture(), X, {"n_components": range(1, 5)})
        ln_p = (chosen.table["n_parameters"] * math.log(N) - chosen.table["bic"]).to_numpy(dtype=float)
        assert (np.diff(ln_p) > -1e-6).all()

    def test_more_parameters_than_entries_are_counted_in_text_as_well(self):
        X = KEPT[["town", "grade"]].iloc[:6]
        chosen = select(Mixture(columns={"grade": "level"}), X, {"n_components": [1, 4]})
        assert "observed entries" in chosen.table["degenerate"].iloc[1]


def test_an_unusual_combination_is_an_outlier():
    model = Mixture(2, alpha=1.0, random_state=0).fit(KEPT)
    odd = KEPT.assign(age=np.where(np.arange(N) == 7, 200.0, KEPT["age"]))
    scores = outlier_scores(model, odd)
    assert scores.shape == (N,)
    assert scores.argmax() == 7
    assert_array_equal(scores, -model.score_samples(odd))
