"""The blend in a leaderboard, weights of rows, Ctrl-C, and rows of the table as they are ready."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as TheirMixture

from jensen import BernoulliMixture, FactorAnalysis, GaussianMixture, KMeans, compare
from jensen.evaluate import blending
from jensen.evaluate.attempt import fit
from jensen.runtime.interrupt import InterruptedFitWarning
from shell import run, succeed

IRIS = load_iris().data
PARTS = {
    "a": GaussianMixture(2, random_state=0),
    "b": FactorAnalysis(1),
    "c": KMeans(3, random_state=0),
}


class TestBlend:
    def test_its_row_is_the_mixture_of_the_scores(self):
        board = compare(IRIS, PARTS, cv=3, blend=True)
        assert set(board.table["model"]) == {"a", "b", "c", "blend"}
        blend = board.models["blend"]
        assert board.blend() is blend
        assert list(blend.models_) == ["a", "b", "c"]
        first = board.scores.loc[board.held_out.numbers]
        expected = logsumexp(first[["a", "b", "c"]], axis=1, b=blend.weights_)
        assert_allclose(first["blend"], expected)
        assert_allclose(blend.score_samples(board.held_out.rows), expected)
        assert board.table.set_index("model").loc["blend", "value"] == "bound"

    def test_its_weights_see_no_row_that_is_scored(self, monkeypatch):
        """Neither to train on nor to weigh by: of all rows of a fold, only those that train."""
        seen = []

        def noted(model, task, footing, rows, seed):
            seen.append(rows)
            return fit(model, task, footing, rows, seed)

        scored = []
        real = blending.score
        monkeypatch.setattr(blending, "fit", noted)
        monkeypatch.setattr(
            blending, "score", lambda model, footing, X, seed: scored.append(X) or real(model, footing, X, seed)
        )
        board = compare(IRIS + 1e-6 * np.arange(150)[:, None], PARTS, cv=None, effort="quick", blend=True)
        assert len(seen) == len(scored) == 3
        held_out = set(board.held_out.numbers.tolist())
        for rows, weighed in zip(seen, scored, strict=True):
            assert not held_out & set(rows.tolist())
            assert len(rows) + len(weighed) + len(held_out) == 150
            assert not {row.tobytes() for row in weighed} & {row.tobytes() for row in board.held_out.rows}

    def test_it_can_be_made_later(self):
        later, at_once = compare(IRIS, PARTS, cv=3), compare(IRIS, PARTS, cv=3, blend=True)
        assert "blend" not in later.models
        assert_allclose(later.blend().weights_, at_once.blend().weights_)

    def test_only_models_of_one_measure_are_blended(self):
        with pytest.raises(ValueError, match="there is no blend: no two ranked models have a density for the same"):
            compare(IRIS, [GaussianMixture(), TheirMixture()], cv=2).blend()
        rows = (np.random.default_rng(0).random((120, 4)) < [[0.2, 0.8, 0.4, 0.5]]).astype(float)
        board = compare(rows, [BernoulliMixture(1), GaussianMixture(1), BernoulliMixture(2, alpha=1)], cv=2, blend=True)
        assert list(board.models["blend"].models_) == ["BernoulliMixture", "BernoulliMixture 2"]

    def test_its_name_is_taken_once(self):
        with pytest.raises(ValueError, match="blend=True adds a model of the name 'blend'"):
            compare(IRIS, {"blend": GaussianMixture()}, blend=True)


class TestWeights:
    def test_a_weight_of_two_is_the_row_twice(self):
        weight = np.random.default_rng(0).integers(1, 3, size=150)
        splits = [(np.arange(100), np.arange(100, 150))]
        board = compare(IRIS, [FactorAnalysis(1)], cv=splits, sample_weight=weight)
        repeated = np.repeat(np.arange(150), weight)
        twice = [(np.flatnonzero(repeated < 100), np.flatnonzero(repeated >= 100))]
        other = compare(IRIS[repeated], [FactorAnalysis(1)], cv=twice)
        for name in ("nats", "standard_error", "bits_per_dimension"):
            assert board.table[name][0] == pytest.approx(other.table[name][0], rel=1e-6)
        assert "rows count by their weights" in board.caption
        assert board.table["nats"][0] != pytest.approx(compare(IRIS, [FactorAnalysis(1)], cv=splits).table["nats"][0])

    def test_a_model_that_takes_none_is_listed(self):
        board = compare(IRIS, [KMeans(2), TheirMixture(2)], cv=2, sample_weight=np.arange(150) % 2 + 1)
        assert board.failures["GaussianMixture"].startswith("GaussianMixture takes no sample_weight; leave it out")

    def test_a_column_of_the_command_line(self, tmp_path):
        frame = load_iris(as_frame=True).data.assign(w=np.arange(150) % 3 + 1)
        frame.to_csv(tmp_path / "iris.csv", index=False)
        words = ("compare", tmp_path / "iris.csv", "--models", "probabilistic-pca,factor-analysis", "--weight", "w")
        found = json.loads(succeed(*words, "--blend", "--json"))
        assert "rows count by their weights" in found["caption"]
        assert {row["model"] for row in found["table"]} == {"probabilistic-pca", "factor-analysis", "blend"}


class Stopped(FactorAnalysis):
    """Ctrl-C comes during its fit."""

    def fit(self, X, y=None, sample_weight=None):
        raise KeyboardInterrupt


class TestCtrlC:
    def test_the_table_has_what_is_done(self):
        models = {"a": GaussianMixture(2, random_state=0), "b": Stopped(1), "c": KMeans(2)}
        with pytest.warns(InterruptedFitWarning, match="the table has 1 of 4 models, without b, c, blend"):
            board = compare(IRIS, models, cv=2, blend=True)
        assert board.best == "a"
        assert set(board.failures) == {"b", "c", "blend"}
        assert "interrupted before it was done" in repr(board)

    def test_with_nothing_done_it_is_an_interrupt(self):
        with pytest.raises(KeyboardInterrupt):
            compare(IRIS, {"a": Stopped(1), "b": KMeans(2)}, cv=2)

    def test_the_command_prints_the_table(self, monkeypatch):
        monkeypatch.setattr("jensen.models.factors.factor_analysis.FactorAnalysis.fit", Stopped.fit)
        words = ("compare", "iris", "--models", "probabilistic-pca,factor-analysis", "--effort", "quick")
        result = run(*words)
        assert result.exit_code == 130
        assert "interrupted; the table has 1 of 2 models, without factor-analysis" in result.stderr
        assert "probabilistic-pca" in result.stdout
        assert json.loads(run(*words, "--json").stdout)["interrupted"]


def test_results_appear_as_they_are_ready(capsys):
    board = compare(IRIS, [GaussianMixture(2, random_state=0), TheirMixture(2), KMeans(1000)], cv=2, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    shown = [line for line in lines if "nats per row" in line or "is not ranked" in line]
    nats = board.table.set_index("model").loc["GaussianMixture", "nats"]
    assert shown[0].startswith(f"GaussianMixture: {nats:.3f} ± ")
    assert shown[2].startswith("KMeans is not ranked: n_clusters=1000 needs")


def test_a_table_with_levels_shows_the_same_numbers_at_once(capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=80), "town": rng.choice(["a", "b"], 80)})
    board = compare(table, ["mixture"], cv=2, effort="quick", verbose=1)
    assert f"mixture: {board.table['nats'][0]:.3f} ± " in capsys.readouterr().err
