"""Choices that a criterion alone gets wrong: collapsed fits, and grids that end too early."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as SklearnMixture

from jensen import (
    ConjugatePrior,
    GaussianMixture,
    KMeans,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    select,
)
from jensen.evaluate import warm_starts as neighbours
from jensen.evaluate.flaws import edge_of_grid
from jensen.evaluate.trial import Task

IRIS = load_iris().data
GRID = {"n_components": [1, 2, 3, 9], "covariance_type": ["full", "tied"]}


@pytest.fixture(scope="module")
def wine() -> np.ndarray:
    """Standardised wine, every column twice and one three times, the copies with noise: 178 rows, 27 columns."""
    x = load_wine().data
    x = (x - x.mean(0)) / x.std(0)
    twice = np.concatenate([x, x, x[:, :1]], 1)
    noise = np.random.default_rng(0).normal(0, 0.3, twice.shape)
    noise[:, :13] = 0
    return twice + noise


@pytest.fixture(scope="module")
def chosen(wine):
    return select(GaussianMixture(random_state=0), wine, GRID)


class TestDegenerateFits:
    def test_never_win_while_another_does_not_collapse(self, wine, chosen):
        table = chosen.table.set_index(["covariance_type", "n_components"])
        assert wine.shape == (178, 27)
        assert table["bic"].idxmin() == ("full", 9)
        assert table.loc[("full", 9), "n_parameters"] == 3653
        assert "of 9 components at the floor of reg_covar" in table.loc[("full", 9), "degenerate"]
        assert chosen.best_params == {"covariance_type": "tied", "n_components": 3}
        assert (table.loc["tied", "degenerate"] == "").all()

    def test_and_so_the_clusters_are_no_worse_than_those_of_scikit_learns_best(self, wine, chosen):
        entries = [(k, kind) for k in GRID["n_components"] for kind in GRID["covariance_type"]]
        theirs = [SklearnMixture(k, covariance_type=kind, random_state=0).fit(wine) for k, kind in entries]
        best = min(theirs, key=lambda model: model.bic(wine))
        y = load_wine().target
        own, other = (adjusted_rand_score(y, model.predict(wine)) for model in (chosen.winner, best))
        assert own >= other
        assert own > 0.8

    def test_are_marked_wherever_people_look(self, chosen):
        text = repr(chosen)
        (line,) = (line for line in text.splitlines() if line.split()[:1] == ["9"] and "†" in line)
        assert "†" in line.split()[1]
        assert "† Degenerate" in text
        assert "components at the floor of reg_covar" in text
        assert "†" in chosen._repr_html_()
        ax = chosen.plot(Figure().subplots())
        assert "degenerate" in [label.get_text() for label in ax.get_legend().get_texts()]
        one = select(GaussianMixture(random_state=0), IRIS[:12], {"n_components": [1, 4]})
        assert "of 4 components at the floor" in repr(one)

    def test_come_after_all_others(self, chosen):
        order = chosen.runners_up(10)
        assert order["degenerate"].iloc[-1] != ""
        good = order[order["degenerate"] == ""]["bic"]
        assert good.is_monotonic_increasing
        assert good.index.tolist() == order.index[: len(good)].tolist()

    def test_with_more_parameters_than_entries_are_such_too(self):
        X = np.random.default_rng(0).normal(size=(10, 6))
        X[0, 0] = np.nan
        model = GaussianMixture(prior=ConjugatePrior(), random_state=0)
        table = select(model, X, {"n_components": [1, 2, 3]}).table
        # A Gaussian of 6 numbers has 27 parameters, and a weight more for every further one.
        assert table["n_parameters"].tolist() == [27, 55, 83]
        assert table["degenerate"].tolist() == ["", "", "83 parameters for 59 observed entries"]
        doubled = select(model, X, {"n_components": [1, 2, 3]}, sample_weight=np.full(10, 2.0)).table
        assert doubled["degenerate"].tolist() == ["", "", ""]

    def test_if_all_are_such_the_best_is_taken_with_a_warning(self):
        X = np.repeat(np.eye(4), 3, 0)
        with pytest.warns(
            UserWarning, match="the chosen fit is degenerate, as all others are: [12] of [12] components"
        ):
            found = select(GaussianMixture(random_state=0), X, {"n_components": [1, 2]})
        assert (found.table["degenerate"] != "").all()

    def test_a_warm_start_that_collapses_does_not_replace_a_fit_that_did_not(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(size=(60, 2)), np.tile([3.0, 3.0], (8, 1))])
        entry = GaussianMixture(2, reg_covar=1e-3, random_state=0)
        good = clone(entry).set_params(init_params="random", max_iter=0).fit(X)
        collapsed = clone(entry).fit(X)
        assert (good.at_floor_.any(), collapsed.at_floor_.any()) == (False, True)
        monkeypatch.setattr(neighbours, "run", lambda *arguments: collapsed)
        # As if a floor this high made no difference to how plausible the fit is.
        monkeypatch.setattr(neighbours, "plausibility", lambda fit: fit.lower_bound_)
        task = Task(X, None, None, 5, 1, 0)
        smaller = GaussianMixture(1).fit(X)
        assert collapsed.lower_bound_ > good.lower_bound_ + entry.tol
        assert neighbours.refined(entry, good, [smaller], task) is None


class TestTheFloor:
    @pytest.mark.parametrize("structure", ["full", "tied", "diag", "spherical"])
    def test_is_told_component_by_component(self, structure):
        """One cluster is a single place, the other is round: variances against reg_covar in units of the data's."""
        rng = np.random.default_rng(0)
        X = np.concatenate([np.full((30, 2), 5.0), rng.normal(size=(60, 2))]) * [1.0, 1e3]
        model = GaussianMixture(2, covariance_type=structure, random_state=0).fit(X)
        covariances = [model.covariances_] * 2 if structure == "tied" else model.covariances_
        full = [c if np.ndim(c) == 2 else np.diag(np.broadcast_to(c, 2)) for c in covariances]
        scale = X.std(0) if structure != "spherical" else np.full(2, np.sqrt(X.var(0).mean()))
        least = [np.linalg.eigvalsh(c / np.outer(scale, scale)).min() for c in full]
        assert model.at_floor_.tolist() == (np.array(least) < 1.5e-6).tolist()
        assert model.at_floor_.sum() == (0 if structure == "tied" else 1)

    @pytest.mark.parametrize("family", [MixtureOfPPCA, MixtureOfFactorAnalysers])
    def test_of_noise_around_subspaces(self, family):
        rng = np.random.default_rng(0)
        line = rng.normal(size=(60, 1)) * [1.0, 2.0, 3.0]
        X = np.concatenate([line, 20 + rng.normal(size=(60, 3))])
        model = family(2, n_latent=1, random_state=0).fit(X)
        assert model.at_floor_.tolist() == [bool(mean.max() < 10) for mean in model.means_]

    def test_that_does_not_bind_is_not_met(self):
        assert not GaussianMixture(3, random_state=0).fit(IRIS).at_floor_.any()


class TestEdgeOfTheGrid:
    def test_a_winner_at_the_end_is_a_warning(self):
        with pytest.warns(
            UserWarning, match="at the edge of the grid: n_components=2 is the largest that was tried; gi"
        ):
            select(GaussianMixture(covariance_type="diag"), IRIS, {"n_components": [1, 2]})
        with pytest.warns(UserWarning, match="edge of the grid: n_clusters=7 is the largest"):
            select(KMeans(random_state=0), IRIS, {"n_clusters": [6, 7]})

    def test_one_warning_tells_all(self):
        grid = {"n_components": [2, 3], "reg_covar": [1e-6, 1e-3], "covariance_type": ["diag"]}
        with pytest.warns(UserWarning, match="edge of the grid") as told:
            select(GaussianMixture(), IRIS, grid)
        assert len(told) == 1
        assert "n_components=3 is the largest that was tried and reg_covar=1e-06 is the smallest" in str(
            told[0].message
        )

    def test_within_the_grid_there_is_none(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert select(GaussianMixture(), IRIS, {"n_components": [1, 2, 3]}).best_params == {"n_components": 2}
            # A grid of one value, and the fewest components that there can be, have no edge.
            select(GaussianMixture(), IRIS, {"n_components": [2], "covariance_type": ["full", "diag"]})
            one = np.random.default_rng(0).normal(size=(80, 2))
            assert select(GaussianMixture(), one, {"n_components": [1, 2, 3]}).best_params == {"n_components": 1}

    def test_words_have_no_edge(self):
        settings = [{"a": "x", "b": None, "c": True}, {"a": "y", "b": 1, "c": False}]
        assert edge_of_grid(settings, 0) == ""

    def test_what_failed_or_collapsed_beyond_it_was_tried(self):
        X = pd.DataFrame(IRIS[:12])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = select(GaussianMixture(random_state=0), X, {"n_components": [1, 4, 50]})
        assert found.table["degenerate"][1] != ""
        assert found.table["failure"][2] != ""
