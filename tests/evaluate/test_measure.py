"""Densities and probabilities: a fact of every fitted model, column by column, that decides who is ranked with whom."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import jensen
from jensen import MLP, VAE, Diffusion, GaussianMixture, KMeans, LatentDiffusion, ResidualMLP, compare
from jensen.data.codes import UnseenValueWarning
from jensen.evaluate.agreement import agreed, disagreement, scored_by_all
from jensen.evaluate.entry import Entry

RNG = np.random.default_rng(0)
NETWORK = MLP(hidden=(8,))
NUMBERS = pd.DataFrame({"a": RNG.normal(size=80), "f": np.arange(80) % 3, "b": RNG.normal(size=80)})
MIXED = NUMBERS.assign(town=np.where(RNG.random(80) < 0.5, "Bonn", "Oslo"), flag=RNG.integers(0, 2, 80))
COUNTS = pd.DataFrame(RNG.poisson(2, (80, 3)).clip(0, 4), columns=["a", "b", "f"])


# Two rows with a count that no other row has.
RARE = np.tile(np.arange(4.0)[:, None], (20, 2))
RARE[[3, 77], [0, 1]] = 9.0, 8.0


def vae(likelihood="auto"):
    return VAE(1, likelihood=likelihood, encoder=NETWORK, decoder=NETWORK, max_epochs=2, random_state=0)


def diffusion(**options):
    return Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=2, random_state=0, **options)


def latent_diffusion(likelihood):
    return LatentDiffusion(vae(likelihood), diffusion(objective="variational"), random_state=0)


class TestAFittedModel:
    @pytest.mark.parametrize(
        "model",
        [
            GaussianMixture(1),
            vae(),
            vae({"f": "categorical"}),
            vae("categorical"),
            latent_diffusion({"f": "categorical"}),
            diffusion(),
        ],
        ids=["mixture", "auto", "dict", "categorical", "latent", "diffusion"],
    )
    def test_gives_a_density_what_moves_with_the_unit(self, model):
        """In another unit of column j, ln p falls by ln of the unit if it is a density, and a probability stays."""
        X = NUMBERS.round(1)
        fitted = clone(model).fit(X)
        moved = [
            (fitted.score_samples(X) - clone(model).fit(other).score_samples(other)).mean()
            for other in (X.assign(**{name: 8.0 * X[name]}) for name in X)
        ]
        is_density = [word == "density" for word in fitted.measure_]
        assert_allclose(moved, math.log(8) * np.array(is_density), atol=1e-4)

    @pytest.mark.parametrize(
        ("model", "X", "measure"),
        [
            (KMeans(2), COUNTS, "ddd"),
            (vae(), MIXED, "dddpp"),
            (vae("categorical"), MIXED, "ppppp"),
            (diffusion(), MIXED, "dddpp"),
            (diffusion(), COUNTS, "ppp"),
            (diffusion(data_levels=None), COUNTS, "ddd"),
            (latent_diffusion({"a": "categorical"}), COUNTS, "pdd"),
        ],
        ids=["kmeans", "auto", "categorical", "diffusion", "grid", "no grid", "latent"],
    )
    def test_reports_one_word_per_column_and_keeps_it_in_a_file(self, model, X, measure, tmp_path):
        expected = tuple({"d": "density", "p": "probability"}[letter] for letter in measure)
        assert model.find_measure(X) == expected
        assert not hasattr(model, "n_features_in_")
        model.fit(X).save(tmp_path / "m")
        assert model.measure_ == jensen.load(tmp_path / "m").measure_ == expected

    def test_has_a_score_of_rows_with_other_levels_but_not_of_such_images(self):
        X = MIXED.drop(columns="flag")
        new = X.iloc[:5].assign(town=["Bonn", "Rome", None, "Oslo", "Bonn"], a=[1.0, 1.0, 1.0, np.nan, 1.0])
        assert vae().fit(X).can_score(new).tolist() == [True, True, True, True, True]
        assert diffusion().fit(X).can_score(new).tolist() == [True, True, False, False, True]
        images = RNG.integers(0, 3, (50, 2, 2))
        odd = np.array([[[0, 1], [2, 2]], [[0, 1], [3, 2]], [[0, 1], [1, 1]]])
        for model in (vae("categorical"), diffusion()):
            assert model.fit(images).can_score(odd).tolist() == [True, False, True]
        assert GaussianMixture(1).fit(COUNTS).can_score(COUNTS + 9).all()


class TestRanking:
    def test_probabilities_do_not_stand_among_densities(self):
        models = {
            "mixture": GaussianMixture(1),
            "auto": vae(),
            "dict": vae({"f": "categorical"}),
            "latent": latent_diffusion({"f": "categorical"}),
        }
        board = compare(NUMBERS, models, cv=2)
        reason = (
            "it gives column 'f' a probability, where ranked models give a density; these scores have different units: "
            "compare it with models that do the same"
        )
        assert board.failures == {"dict": reason, "latent": reason}
        assert board.table["nats"].isna().tolist() == [False, False, True, True]
        assert f"latent is not ranked: {reason}" in repr(board)

    def test_nor_on_a_table_with_text(self):
        board = compare(MIXED, {"auto": vae(), "levels": vae("categorical"), "diffusion": diffusion()}, cv=2)
        assert list(board.failures) == ["levels"]
        assert "it gives columns 'a', 'f', 'b' a probability" in board.failures["levels"]
        assert "columns of text, categories and flags (town, flag) have probabilities, numbers a" in board.caption

    def test_models_that_agree_with_each_other_are_ranked(self):
        board = compare(NUMBERS, {"a": vae({"f": "categorical"}), "b": latent_diffusion({"f": "categorical"})}, cv=2)
        assert not board.failures
        assert "every ranked model gives column 'f' a probability, and other columns a density" in board.caption
        with pytest.raises(ValueError, match="every model failed, VAE with: it gives column 'f' a probability, where"):
            compare(NUMBERS, [vae({"f": "categorical"})], cv=2, discrete=False)

    @pytest.mark.parametrize("has_flag", [False, True])
    def test_on_a_grid_only_columns_with_a_density_have_noise(self, has_flag):
        X = COUNTS.assign(flag=np.arange(80) % 2 == 0) if has_flag else COUNTS
        model = vae({"f": "categorical"})
        board = compare(X, {"dict": model, "mixture": GaussianMixture(1)}, cv=2)
        assert not board.failures
        fitted = board.models["dict"]
        assert fitted.columns_.levels[2] == (0, 1, 2, 3, 4)
        assert set(fitted.measure_) == {"density", "probability"}
        assert board.table.set_index("model").loc["dict", "value"] == "bound, 100 importance samples, dequantised"
        rows = board.held_out.rows
        at = {
            name: rows[name] + 0.5 if word == "density" else rows[name]
            for name, word in zip(X, fitted.measure_, strict=True)
        }
        # The middle of a cell stands for its mean; cells have size 1.
        own = np.asarray(fitted.score_samples(pd.DataFrame(at)))
        assert_allclose(board.scores["dict"].loc[rows.index].mean(), own.mean(), atol=0.1)

    def test_grey_values_have_no_probability_of_their_own(self):
        X = RNG.integers(0, 5, (60, 2, 2)) / 4
        board = compare(X, {"grey": vae("bernoulli"), "levels": vae("categorical")}, cv=2)
        assert "it reads values between 0 and 1 as probabilities of a 1" in board.failures["grey"]

    def test_a_flag_that_a_fold_has_one_value_of_is_one_for_all_models(self):
        X = MIXED.assign(flag=(np.arange(80) < 2).astype(int))
        board = compare(X, {"vae": vae(), "diffusion": diffusion()}, cv=[(np.arange(40, 80), np.arange(40))])
        assert not board.failures

    def test_the_table_decides_unless_no_model_agrees_with_it(self):
        d, p = ("density",), ("probability",)
        assert agreed({"a": p, "b": p, "c": d}, d) == d
        assert agreed({"a": p, "b": p}, d) == p
        assert agreed({"a": p}, d, is_asked=True) == d
        assert disagreement(d, d, ["x"]) == ""


class TestRows:
    """Held-out rows are never trained on; those that some model has no score of are left out for all."""

    def test_among_densities_all_rows_are_scored(self):
        board = compare(RARE, {"mixture": GaussianMixture(1), "kmeans": KMeans(2)}, cv=4)
        assert sorted(board.scores.index) == list(range(80))
        assert "left out" not in board.caption

    def test_a_row_that_one_model_has_no_score_of_counts_for_none(self):
        X = RARE.reshape(80, 1, 2)
        board = compare(X, {"mixture": GaussianMixture(1), "levels": vae("categorical")}, cv=4)
        assert sorted(set(range(80)) - set(board.scores.index)) == [3, 77]
        words = "2 of 80 held-out rows are left out for all models: they have values that levels cannot score"
        assert words in board.caption
        assert words in repr(board)
        alone = compare(X, {"mixture": GaussianMixture(1)}, cv=4)
        # The mixture has the same fits and scores as without the other model.
        assert_array_equal(board.scores["mixture"].sort_index(), alone.scores["mixture"].drop([3, 77]).sort_index())

    def test_levels_that_a_network_alone_has_leave_room_for_others(self):
        """Among n = 40 training entries per column a seen level has 40/41 times its probability."""
        models = {"mixture": GaussianMixture(1), "levels": vae("categorical")}
        board = compare(RARE, models, cv=[(np.arange(40), np.arange(40, 80))])
        assert sorted(board.scores.index) == list(range(40, 80))
        seen = np.isin(RARE[40:], RARE[:40]).sum(1)
        assert seen.min() < 2
        with pytest.warns(UnseenValueWarning):
            own = board.models["levels"].score_samples(RARE[40:])
        assert_allclose(board.scores["levels"].sort_index() - own, seen * np.log(40 / 41), atol=1e-5)
        alone = compare(RARE, {"mixture": GaussianMixture(1)}, cv=[(np.arange(40), np.arange(40, 80))])
        assert_array_equal(board.scores["mixture"], alone.scores["mixture"])

    def test_if_no_row_is_left_there_is_an_error(self):
        is_first = np.arange(4) < 2
        nats = {"a": np.where(is_first, np.nan, 0.0), "b": np.where(is_first, 0.0, np.nan), "c": np.zeros(4)}
        entries = [Entry(name, None, values, "", None, 0.0, 0.0) for name, values in nats.items()]
        with pytest.raises(ValueError, match="of 4 rows a cannot score 2, b cannot score 2; leave one of these"):
            scored_by_all(entries)

    def test_no_model_is_trained_on_held_out_rows(self):
        seen = []

        class Watched(GaussianMixture):
            def fit(self, X, y=None):
                seen.append(np.floor(X))
                return super().fit(X)

        compare(RARE, {"watched": Watched(1), "levels": vae("categorical")}, cv=[(np.arange(40), np.arange(40, 80))])
        (learnt,) = seen
        assert_array_equal(learnt, RARE[:40])

    def test_the_report_shows_rows_that_have_scores(self, tmp_path):
        images = RARE.reshape(80, 1, 2)
        board = compare(images, {"levels": vae("categorical")}, cv=[(np.arange(40), np.arange(40, 80))])
        assert 77 not in board.held_out.numbers
        assert len(board.held_out.rows) == 39
        board.report(tmp_path / "page.html")
        assert "1 of 40 held-out rows are left out for all models" in (tmp_path / "page.html").read_text()
