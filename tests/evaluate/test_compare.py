"""Many models in one table: footing, pairing, failures."""

import io
import math
import re
import signal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture as Theirs
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.neighbors import KernelDensity

import jensen
from jensen import VAE, Autoencoder, Diffusion, GaussianMixture, KMeans, ProbabilisticPCA, ResidualMLP, compare
from jensen.data.codes import UnseenValueWarning
from jensen.evaluate.candidates import entrants
from jensen.evaluate.compare import count_classes
from jensen.evaluate.footing import find_footing
from jensen.evaluate.sizing import EFFORTS, Effort
from jensen.models.autoencoders.module import VAEModule
from jensen.runtime.interrupt import Interrupted

IRIS = load_iris().data
TWO = [GaussianMixture(1), ProbabilisticPCA(1)]


class TestFooting:
    def test_whole_numbers_of_few_levels_are_a_grid(self):
        found = find_footing(load_digits().data, "auto")
        assert (found.unit, found.n_levels) == ("probability", 17)
        assert_allclose(found.steps, 1.0)
        assert "whole numbers with at most 17 levels" in found.reason

    def test_scaled_pixels_are_a_grid_of_their_step(self):
        found = find_footing(load_digits().images / 16, "auto")
        assert found.unit == "probability"
        assert_allclose(found.steps, 1 / 16)

    @pytest.mark.parametrize(
        ("X", "reason"),
        [(IRIS, "column 0 has numbers that are not whole"), (np.array([[0.0], [256.0]]), "column 0 has 257 levels")],
    )
    def test_other_numbers_have_a_density(self, X, reason):
        found = find_footing(X, "auto")
        assert found.unit == "density"
        assert reason in found.reason
        with pytest.raises(ValueError, match=reason):
            find_footing(X, True)

    def test_text_is_mixed(self):
        X = pd.DataFrame({"age": [1.0, 2.0], "town": ["Bonn", "Oslo"]})
        assert find_footing(X, "auto").unit == "mixed"
        with pytest.raises(ValueError, match="X has columns of text"):
            find_footing(X, True)

    def test_a_dequantised_density_is_the_probability_where_it_is_flat(self):
        """A density that is constant on every cell: ln P(x) = ln p(x + u) + ln h exactly."""

        class Flat(GaussianMixture):
            def score_samples(self, X):
                return -np.log(6 * 0.5) * np.ones(len(X))  # uniform on [0, 3) in steps of 0.5

        X = np.random.default_rng(0).integers(0, 6, (60, 1, 1)) * 0.5
        board = compare(X, {"flat": Flat()}, cv=2)
        assert_allclose(board.table["nats"], -math.log(6))
        assert_allclose(board.table["bits_per_dimension"], math.log2(6))

    def test_missing_entries_have_no_cell(self):
        X = load_digits().images[:100] / 16
        X[0, 0] = np.nan
        found = find_footing(X, "auto")
        assert_allclose(found.log_cell(X)[:2], [56 * math.log(1 / 16), 64 * math.log(1 / 16)])
        assert found.n_observed(X)[:2].tolist() == [56, 64]

    @pytest.mark.parametrize("dtype", ["Int64", "Float64"])
    def test_nullable_columns_are_numbers(self, dtype):
        X = pd.DataFrame({"a": pd.array([1, None, 3] * 20, dtype=dtype), "b": np.arange(60.0) % 4})
        found = find_footing(X, "auto")
        assert (found.unit, found.n_levels) == ("probability", 4)
        assert found.n_observed(X)[:3].tolist() == [2, 1, 2]
        board = compare(X, [GaussianMixture(1)], cv=2)
        assert np.isfinite(board.scores).all(axis=None)

    def test_what_has_no_rows_or_is_sparse_is_refused(self):
        with pytest.raises(ValueError, match=r"X has shape \(0, 4\), which is empty"):
            find_footing(IRIS[:0], "auto")
        with pytest.raises(TypeError, match=r"X is sparse, .* give X.toarray\(\)"):
            find_footing(csr_array(IRIS), "auto")

    def test_asked_for_densities_every_model_says_one(self):
        """In other units all densities of d numbers move by d ln of the unit, and probabilities do not."""
        X = np.random.default_rng(0).poisson(4, (60, 3)).astype(float)
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(flag=np.arange(60) % 2)
        options = {"max_epochs": 2, "random_state": 0}
        models = [GaussianMixture(1), VAE(1, **options), Diffusion(n_steps=10, network=ResidualMLP(8, 1), **options)]
        for rows, unit in ((X, 8.0), (frame, 2.0)):
            own, other = (compare(x, models, discrete=False, cv=2).scores.mean() for x in (rows, rows * unit))
            assert len(own) == 3
            assert_allclose(own - other, rows.shape[1] * math.log(unit), atol=1e-3)

    def test_a_model_of_probabilities_does_not_stand_among_densities(self):
        X = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)
        models = {
            "mixture": GaussianMixture(1),
            "all": VAE(1, likelihood="bernoulli"),
            "one": VAE(1, likelihood={1: "categorical"}),
            "grid": Diffusion(data_levels=2),
        }
        failures = compare(X, models, discrete=False, cv=2).failures
        said = "it gives {} a probability, where ranked models give a density"
        assert {name: reason.partition(";")[0] for name, reason in failures.items()} == {
            "all": said.format("columns 0, 1, 2"),
            "one": said.format("column 1"),
            "grid": said.format("columns 0, 1, 2"),
        }

    def test_nor_on_a_table_with_text(self):
        X = pd.DataFrame({"a": np.arange(60) % 7, "town": ["Bonn", "Oslo"] * 30})
        models = {"auto": VAE(1, max_epochs=1), "levels": VAE(1, likelihood="categorical")}
        board = compare(X, models, cv=2)
        assert board.failures["levels"].startswith("it gives column 'a' a probability, where ranked models give")
        assert list(board.scores) == ["auto"]


class TestRareLevels:
    """A level that no other row has is unseen: it has the probability 1/(n+1) in models with levels."""

    def test_of_text(self):
        X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60), "town": ["Bonn", "Oslo"] * 30})
        X.loc[7, "town"] = "Rome"
        board = compare(X, [VAE(1, max_epochs=1)], cv=3)
        assert not board.failures
        assert set(board.scores.index) == set(range(60))
        # 39 or 40 of the training rows are observed; a density of the number beside it.
        rest = board.scores["VAE"][7] + math.log(41)
        assert abs(rest - norm.logpdf(X["a"][7], X["a"].mean(), X["a"].std())) < 1

    def test_of_counts(self):
        X = np.random.default_rng(1).poisson(4, (120, 3)).astype(float)
        models = [GaussianMixture(1), VAE(1, likelihood="categorical", max_epochs=1)]
        diffusion = Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=1)
        board = compare(X, [*models, diffusion], cv=5)
        assert not board.failures
        counts = [np.unique(column, return_counts=True) for column in X.T]
        alone = [row for row in range(120) if any(n[v == x] == 1 for (v, n), x in zip(counts, X[row], strict=True))]
        assert alone
        assert set(board.scores.index) == set(range(120))

    def test_names_are_left_out(self):
        X = pd.DataFrame({"a": range(60), "name": [f"n{i}" for i in range(60)], "town": ["Bonn", "Oslo"] * 30})
        board = compare(X, [VAE(1, max_epochs=1)], cv=3)
        assert "left out for all models: a, name (identifies rows, or free text)" in board.caption
        assert board.models["VAE"].columns_.names == ("town",)


class TestTable:
    def test_scores_are_those_of_rows_that_were_held_out(self):
        board = compare(IRIS, TWO, cv=KFold(3))
        expected = np.concatenate(
            [
                multivariate_normal.logpdf(IRIS[test], IRIS[train].mean(0), np.cov(IRIS[train].T, bias=True))
                for train, test in KFold(3).split(IRIS)
            ]
        )
        assert_allclose(board.scores["GaussianMixture"].sort_index(), expected, rtol=1e-6)
        row = board.table.set_index("model").loc["GaussianMixture"]
        assert_allclose(row["nats"], expected.mean())
        assert_allclose(row["standard_error"], expected.std(ddof=1) / math.sqrt(150))
        assert_allclose(row["bits_per_dimension"], -expected.mean() / (4 * math.log(2)))
        assert row["n_parameters"] == 14
        assert row["value"] == "exact"

    def test_differences_are_taken_row_by_row(self):
        board = compare(IRIS, TWO)
        assert board.best == "GaussianMixture"
        behind = board.scores["ProbabilisticPCA"] - board.scores["GaussianMixture"]
        row = board.table.set_index("model").loc["ProbabilisticPCA"]
        error = behind.std(ddof=1) / math.sqrt(len(behind))
        assert_allclose(
            [row["behind"], row["behind_low"], row["behind_high"]], behind.mean() + error * np.array([0, -1.96, 1.96])
        )
        first = board.table.iloc[0]
        assert (first["behind"], first["behind_low"], first["behind_high"]) == (0, 0, 0)

    def test_a_row_held_out_several_times_counts_once(self):
        board = compare(IRIS, TWO, cv=RepeatedKFold(n_splits=3, n_repeats=4, random_state=0))
        assert len(board.scores) == 150
        row = board.table.set_index("model").loc["ProbabilisticPCA"]
        scores = board.scores["ProbabilisticPCA"]
        assert_allclose(row["standard_error"], scores.std(ddof=1) / math.sqrt(150))
        assert board._repr_html_().count("<tr") == 3

    def test_names_that_are_given_stay(self):
        board = compare(
            IRIS, {"PPCA 2": ProbabilisticPCA(2), "PPCA": ProbabilisticPCA(1), "PPCA big": ProbabilisticPCA(3)}
        )
        assert set(board.models) == {"PPCA 2", "PPCA", "PPCA big"}
        listed = compare(IRIS, [ProbabilisticPCA(1), " probabilistic-pca ", ProbabilisticPCA(2), "kmeans", "kmeans"])
        assert set(listed.models) == {
            "ProbabilisticPCA",
            "probabilistic-pca",
            "ProbabilisticPCA 2",
            "kmeans",
            "kmeans 2",
        }

    def test_an_unlabelled_row_has_no_class(self):
        assert count_classes(np.array([0.0, 1.0, -1.0, np.nan])) == 2
        assert count_classes(["a", "b", "-1", None, -1]) == 2

    def test_a_seed_gives_one_result(self):
        boards = [compare(IRIS, [KMeans(3), VAE(2, max_epochs=2)], cv=2, random_state=3) for _ in range(2)]
        assert_allclose(boards[0].scores, boards[1].scores, rtol=0)

    def test_a_failure_is_a_row_with_its_reason(self):
        board = compare(IRIS, [GaussianMixture(1), GaussianMixture(1000), Autoencoder(1, max_epochs=1)])
        assert list(board.table["model"]) == ["GaussianMixture", "GaussianMixture 2", "Autoencoder"]
        assert "n_components=1000 needs at least 1000 distinct rows" in board.failures["GaussianMixture 2"]
        assert "Autoencoder" in board.failures
        assert set(board.models) == {"GaussianMixture"}
        assert "Autoencoder is not ranked: " in repr(board)
        assert "Autoencoder is not ranked: " in board._repr_html_()

    def test_an_interrupted_fit_ends_the_comparison(self):
        class Stopped(GaussianMixture):
            def fit(self, X, y=None):
                return Interrupted("the best parameters so far are kept", super().fit(X)).kept()

        with pytest.raises(KeyboardInterrupt):
            compare(IRIS, [Stopped(1)], cv=2)

    def test_ctrl_c_while_a_network_is_trained_ends_the_comparison(self, monkeypatch):
        forward, calls = VAEModule.forward, []

        def interrupted(module, *batch):
            calls.append(1)
            if len(calls) == 2:
                signal.raise_signal(signal.SIGINT)
            return forward(module, *batch)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            monkeypatch.setattr(VAEModule, "forward", interrupted)
            with pytest.raises(Interrupted, match="interrupted after step 1 of epoch 2"):
                compare(IRIS, [VAE(1, max_epochs=9, random_state=0)], cv=2)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_if_all_fail_there_is_an_error(self):
        with pytest.raises(ValueError, match="every model failed, GaussianMixture with: n_components=1000 needs"):
            compare(IRIS, [GaussianMixture(1000)])

    def test_models_of_scikit_learn_may_take_part(self):
        board = compare(IRIS, {"ours": GaussianMixture(1, reg_covar=0), "theirs": Theirs(1, reg_covar=0)})
        assert_allclose(board.scores["ours"], board.scores["theirs"], rtol=1e-6)

    def test_holes_and_frames(self):
        X = load_iris(as_frame=True).data
        X.iloc[::4, 1] = np.nan
        board = compare(X, [*TWO, Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=1)])
        assert (
            "NaN, first in row 0, and Diffusion scores complete rows only; impute X first"
            in board.failures["Diffusion"]
        )
        assert np.isfinite(board.scores).all(axis=None)

    def test_what_is_shown(self, tmp_path):
        board = compare(IRIS, TWO)
        from rich.console import Console

        with (tmp_path / "out").open("w") as file:
            Console(file=file, width=160).print(board.rich())
        text = (tmp_path / "out").read_text()
        assert "GaussianMixture" in text
        assert re.search(r"to the best\s.*± 95 %", text, re.DOTALL)
        ax = board.plot()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["ProbabilisticPCA", "GaussianMixture"]


@pytest.fixture(scope="module")
def board():
    return compare(load_digits().images[:200], {"kmeans": KMeans(2), "absent": jensen.KMedoids(2)}, cv=2)


class TestBeforeAFit:
    def test_a_model_without_a_score_is_not_fitted(self):
        class Unfit(Autoencoder):
            def fit(self, X, y=None):
                raise AssertionError("was fitted")

        assert "no likelihood" in compare(IRIS, {"a": GaussianMixture(1), "b": Unfit(1)}, cv=2).failures["b"]

    def test_a_reason_names_a_row_by_its_number_among_all(self):
        class Picky(GaussianMixture):
            def score_samples(self, X):
                if (X[:, 0] == 7.9).any():
                    raise ValueError(f"there is 7.9 in row {int((X[:, 0] == 7.9).argmax())}")
                return super().score_samples(X)

        board = compare(IRIS, {"a": GaussianMixture(1), "b": Picky(1)}, cv=KFold(3, shuffle=True, random_state=1))
        assert board.failures["b"] == f"there is 7.9 in row {int((IRIS[:, 0] == 7.9).argmax())}"

    def test_models_of_numbers_that_text_keeps_out_are_named(self):
        X = pd.DataFrame(IRIS[:, :2], columns=["a", "b"]).assign(town=["Bonn", "Oslo"] * 75)
        few = {name: Effort(1, 1, (8,), (1,), 8) for name in EFFORTS}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("jensen.evaluate.compare.EFFORTS", few)
            caption = compare(X, effort="quick").caption
        assert "columns of text, categories and flags (town) have probabilities" in caption
        assert (
            "k-means, Gaussian mixtures, subspaces and the latent curve take numbers only and are left out" in caption
        )


def test_a_name_is_the_entrant_of_the_effort():
    board = compare(IRIS, ["gaussian-mixture"], effort="quick")
    wanted = entrants(find_footing(IRIS, "auto"), 120, 0, EFFORTS["quick"], 0)["Gaussian mixture"]
    assert isinstance(board.models["gaussian-mixture"].prior, type(wanted.model.prior))
    assert board.models["gaussian-mixture"].n_components in wanted.grid["n_components"]


def test_numbers_that_nobody_reads_are_short():
    # Held-out rows far from all that was learnt.
    X = np.concatenate([IRIS, IRIS[:30] + 1e4])
    split = [(np.arange(150), np.arange(150, 180))]
    shown = compare(X, [GaussianMixture(1)], cv=split).shown()
    assert shown["nats"].str.match(r"-\d\.\d\de\+\d\d").all()


@pytest.mark.parametrize("kind", [torch.tensor, pl.DataFrame, np.ndarray.tolist], ids=lambda f: f.__name__)
def test_rows_of_any_kind_have_one_score(kind):
    expected = compare(IRIS, [ProbabilisticPCA(1)], cv=2).table["nats"]
    assert_allclose(compare(kind(IRIS), [ProbabilisticPCA(1)], cv=2).table["nats"], expected, rtol=1e-12)


class TestShown:
    def test_samples_have_the_shape_of_the_rows(self, board):
        assert {name: rows.shape for name, rows in board.sample(3).items()} == {"kmeans": (3, 8, 8)}

    def test_samples_are_drawn_below_real_rows(self, board):
        real, made = (np.asarray(ax.images[0].get_array()) for ax in (board.plot_samples(4).axes[i] for i in (0, 4)))
        first = board.held_out.rows[0]
        # The darkest and the brightest of the real rows that are shown are black and white.
        shown = board.held_out.rows[:4]
        expected = np.rint((first - shown.min()) / (shown.max() - shown.min()) * 255)
        assert_allclose(real, expected)
        assert made.shape == (8, 8)

    def test_rows_of_a_table_are_no_pictures(self):
        with pytest.raises(ValueError, match="rows of a table cannot be drawn as images"):
            compare(IRIS, TWO, cv=2).plot_samples()

    @pytest.mark.parametrize("width", [80, 200])
    def test_a_terminal_shows_every_model_and_why_one_failed(self, board, width):
        from rich.console import Console

        console = Console(width=width, record=True, file=io.StringIO())
        console.print(board.rich(width))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= width
        assert "kmeans" in text
        assert "absent is not ranked: a dissimilarity has no density" in " ".join(text.split())
        assert ("parameters" in text) == (width == 200)
        # No word is cut.
        assert "…" not in text
        assert "dequantised" in text.partition("200 rows held")[0]


class TestEntrants:
    def test_rows_of_numbers_meet_every_kind(self):
        found = entrants(find_footing(IRIS, "auto"), 120, 0, EFFORTS["quick"], 0)
        assert list(found) == [
            *("k-means", "Gaussian", "Gaussian mixture", "PPCA", "factor analysis", "mixture of PPCA", "latent curve"),
            *("VAE", "diffusion", "latent diffusion"),
        ]

    def test_text_meets_the_mixture_of_columns_and_deep_models(self):
        X = pd.DataFrame({"age": [1.0, 2.0], "town": ["Bonn", "Oslo"]})
        assert list(entrants(find_footing(X, "auto"), 2, 0, EFFORTS["quick"], 0)) == [
            "mixture of columns",
            "VAE",
            "diffusion",
            "latent diffusion",
        ]

    def test_names_of_the_command_line(self):
        assert set(compare(IRIS, ["kmeans", "probabilistic-pca"]).models) == {"kmeans", "probabilistic-pca"}


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"effort": "none"}, "effort='none' is not known; choose 'quick', 'normal' or 'thorough'"),
            ({"discrete": "yes"}, "discrete='yes' is not known"),
            ({"models": []}, "models is empty"),
            ({"models": ["no-such"]}, "there is no model 'no-such'"),
            ({"y": [1, 2]}, "y has 2 labels, but X has 150 rows"),
            ({"cv": 1}, "cv=1 is no number of folds"),
            ({"X": IRIS[:1]}, "X has 1 rows, which is too few to train on some and hold out others"),
        ],
    )
    def test_a_mistake_is_told_before_any_fit(self, options, message):
        with pytest.raises(ValueError, match=message):
            compare(**({"X": IRIS, "models": TWO} | options))

    def test_classes_are_no_estimators(self):
        with pytest.raises(TypeError, match=r"KMeans is a class; give an estimator, KMeans\(\)"):
            compare(IRIS, [KMeans])

    def test_regressions_are_refused(self):
        with pytest.raises(TypeError, match="RidgeRegression is a regression"):
            compare(IRIS, [jensen.RidgeRegression()])

    def test_a_score_that_is_no_likelihood_is_refused(self):
        board = compare(IRIS, [GaussianMixture(1), IsolationForest(n_estimators=5)], cv=2)
        assert board.failures == {"IsolationForest": "its score measures how unusual rows are and is no likelihood"}


class TestOtherLibraries:
    def test_their_word_is_taken_and_said_to_be(self):
        board = compare(IRIS, [KernelDensity(), Theirs(2)], cv=2)
        assert set(board.table["value"]) == {"as reported"}

    def test_their_samples_and_reports(self, tmp_path):
        board = compare(load_iris(as_frame=True).data, [KernelDensity(), Theirs(2)], cv=2)
        assert {name: (rows.shape, list(rows)) for name, rows in board.sample(5).items()} == dict.fromkeys(
            ("KernelDensity", "GaussianMixture"), ((5, 4), load_iris().feature_names)
        )
        board.report(tmp_path / "page.html")
        assert "cannot be shown" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("has_flag", [False, True])
def test_a_frame_of_numbers_stays_one_and_its_report_has_every_panel(tmp_path, has_flag):
    X = load_iris(as_frame=True).data.iloc[::3]
    X = X.assign(flag=np.arange(len(X)) % 2) if has_flag else X
    board = compare(X, [VAE(1, max_epochs=1, random_state=0)], cv=2)
    assert hasattr(board.models["VAE"], "feature_names_in_")
    assert set(board.models["VAE"].columns_.kinds) == {"number"}
    assert list(board.sample(2)["VAE"]) == list(X)
    board.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "A fifth of the entries of" in text
    assert "1 models, evaluated on 25 held-out rows" in text


def test_small_classes_do_not_break_their_gaussians():
    """Ten images of 64 pixels per class: a matrix for each of them would be a guess."""
    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == k)[:10] for k in range(10)])
    board = compare(
        digits.images[rows],
        {"chosen": entrants(find_footing(digits.images, "auto"), 80, 10, EFFORTS["quick"], 0)["Gaussian per class"]},
        digits.target[rows],
        effort="quick",
    )
    assert board.table["bits_per_dimension"][0] < math.log2(17)


def test_names_of_columns_are_no_markup():
    from rich.console import Console

    X = pd.DataFrame(IRIS, columns=["rate [/s]", "speed [m/s]", "c", "d"])
    board = compare(X, [GaussianMixture(1), Autoencoder(1)], cv=2)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(board.rich(100))
    assert "column 'rate [/s]' has numbers that are not whole" in " ".join(console.export_text().split())


def test_a_report_shows_the_rows_of_the_user_and_no_noise(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).poisson(4, (100, 3)), columns=["a", "b", "c"])
    board = compare(X, [GaussianMixture(1)], cv=2)
    board.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    cells = re.findall(r'data-value="([^"]+)"', text.partition("Least likely rows")[2])
    listed = np.array(cells, dtype=float).reshape(-1, 5)
    rows = listed[:, 0].astype(int)
    assert_allclose(listed[:, 1], board.scores["GaussianMixture"].loc[rows])
    assert_array_equal(listed[:, 2:], X.loc[rows])


@pytest.mark.parametrize(
    "name", ["bernoulli-mixture", "poisson-mixture", "latent-class-analysis", "mixture-of-factor-analysers"]
)
def test_a_mixture_entered_by_its_name_chooses_its_components(name):
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=(200, 1))
    X = {
        "poisson-mixture": rng.poisson(1 + 15 * z, (200, 4)),
        "mixture-of-factor-analysers": rng.normal(9 * z, 1, (200, 4)),
    }
    binary = (rng.random((200, 6)) < np.where(z, 0.95, 0.05)).astype(int)
    board = compare(X.get(name, binary), name, effort="quick", random_state=0)
    assert len(board.models[name].weights_) == 2


def test_a_report_is_silent_about_values_that_its_caption_explains(tmp_path):
    X = np.column_stack([load_iris().data, np.full(150, 0.5)])
    X[-1, -1] = 1.5  # constant in the training rows
    board = compare(X, [GaussianMixture(2, random_state=0)], cv=[(np.arange(100), np.arange(100, 150))], discrete=False)
    assert len(board.models) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenValueWarning)
        board.report(tmp_path / "report.html")
