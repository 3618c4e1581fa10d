"""Tables of mixtures like mclust's, and starts from neighbours in the grid: no entry gets worse, and ln p never falls
with the number of components.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as SklearnMixture

from jensen import ConjugatePrior, GaussianMixture, MixtureOfFactorAnalysers, MixtureOfPPCA, Selection, select
from jensen.evaluate import warm_starts as neighbours
from jensen.evaluate.trial import Task
from jensen.evaluate.warm_starts import chains, nested, refined, starts
from jensen.models.mixtures.neighbours import least_needed, longest_axes, parts_of, slice_means, split
from your_own_model import ExponentialMixture

IRIS = load_iris().data
K = list(range(1, 7))
# Mclust(iris[, -5], G=1:6) of mclust 5, with its sign changed: VVV, EEE, VVI and VII are our four structures.
MCLUST = {
    "full": [829.9782, 574.0178, 580.8396, 630.6000, 676.6061, 754.7938],
    "tied": [829.9782, 688.0972, 632.9647, 646.0258, 604.8131, 609.8543],
    "diag": [1522.1202, 857.5515, 744.6382, 751.0198, 711.4502, 707.2901],
    "spherical": [1804.0854, 1012.2352, 853.8144, 812.6048, 742.6083, 705.7811],
}


@pytest.fixture(scope="module")
def chosen() -> Selection:
    return select(GaussianMixture(), IRIS, {"n_components": K, "covariance_type": list(MCLUST)})


def log_likelihoods(selection: Selection, n: int) -> np.ndarray:
    """ln p of every entry, from bic = -2 ln p + k ln n."""
    table = selection.table
    return (table["n_parameters"].to_numpy(float) * math.log(n) - table["bic"].to_numpy()) / 2


class TestMclust:
    # mclust stops when ln p changes by 1e-5 of itself, and some hundredths may be left to gain.
    CLOSE = 0.01

    def test_has_found_nothing_better(self, chosen):
        assert (chosen.pivot().to_numpy() <= pd.DataFrame(MCLUST).to_numpy() + self.CLOSE).all()

    @pytest.mark.parametrize("structure", list(MCLUST))
    def test_agrees_where_there_is_one_maximum_to_find(self, chosen, structure):
        np.testing.assert_allclose(chosen.pivot()[structure].iloc[:2], MCLUST[structure][:2], atol=self.CLOSE)

    def test_agrees_about_the_winner_and_the_next(self, chosen):
        assert chosen.best_params == {"covariance_type": "full", "n_components": 2}
        next_one = chosen.runners_up(1).iloc[0]
        assert (next_one["covariance_type"], next_one["n_components"]) == ("full", 3)
        assert next_one["behind"] == pytest.approx(580.8396 - 574.0178, abs=self.CLOSE)


class TestStructures:
    # The best of 140 starts of an independent EM, with 2 and 3 components; mclust has 610.0853 for EEV.
    BEST: ClassVar = {"EEV": (644.5997, 609.5290), "VEV": (561.7285, 562.5507), "EVV": (658.3306, 621.5184)}

    def test_starts_from_neighbours_find_the_best_known_values_and_mclusts_winner(self):
        grid = {"n_components": [1, 2, 3, 4], "covariance_type": [*self.BEST, "VVV"]}
        chosen = select(GaussianMixture(), IRIS, grid)
        assert chosen.best_params == {"covariance_type": "VEV", "n_components": 2}
        assert chosen.table["bic"].min() == pytest.approx(561.7285, abs=1e-4)
        found = chosen.pivot().loc[[2, 3], list(self.BEST)]
        assert (found.to_numpy() <= pd.DataFrame(self.BEST).to_numpy() + TestMclust.CLOSE).all()
        assert (chosen.table["degenerate"] == "").all()


class TestBicOfTheWinner:
    def test_is_that_of_scipys_densities(self, chosen):
        model = chosen.winner
        parts = zip(model.weights_, model.means_, model.covariances_, strict=True)
        joint = [math.log(w) + multivariate_normal(mean, cov).logpdf(IRIS) for w, mean, cov in parts]
        n_parameters = 1 + 2 * 4 + 2 * 10
        bic = -2 * logsumexp(joint, axis=0).sum() + n_parameters * math.log(150)
        assert chosen.table["bic"].min() == pytest.approx(bic, rel=1e-12)

    def test_is_scikit_learns_at_the_same_parameters(self, chosen):
        theirs = SklearnMixture(2)
        for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
            setattr(theirs, name, getattr(chosen.winner, name))
        assert chosen.table["bic"].min() == pytest.approx(theirs.bic(IRIS), rel=1e-12)


class TestViews:
    def test_pivot_has_a_row_for_every_number_and_a_column_for_every_structure(self, chosen):
        matrix = chosen.pivot()
        assert (matrix.index.name, matrix.index.tolist()) == ("n_components", K)
        assert (matrix.columns.name, matrix.columns.tolist()) == ("covariance_type", list(MCLUST))
        for row in chosen.table.to_dict("records"):
            assert matrix.loc[row["n_components"], row["covariance_type"]] == row["bic"]
        assert chosen.pivot("n_parameters").loc[3, "tied"] == 2 + 3 * 4 + 10

    def test_pivot_of_one_parameter_is_a_column_and_of_failures_empty(self):
        matrix = select(GaussianMixture(), IRIS[:3], {"n_components": [8, 1]}).pivot()
        assert (matrix.index.tolist(), matrix.columns.tolist()) == ([1, 8], ["bic"])
        assert matrix["bic"].isna().tolist() == [False, True]

    def test_runners_up_are_those_behind_the_winner_in_order(self, chosen):
        runners = chosen.runners_up(5)
        assert runners["bic"].tolist() == sorted(chosen.table["bic"])[1:6]
        np.testing.assert_allclose(runners["behind"], runners["bic"] - chosen.table["bic"].min())
        assert chosen.table["behind"][chosen.best_index] == 0
        assert len(chosen.runners_up(100)) == len(chosen.table) - 1

    @pytest.mark.parametrize("how", ["repr", "html", "rich"])
    def test_people_see_the_matrix_the_star_and_the_lead(self, chosen, how):
        if how == "rich":
            console = Console(record=True, width=80, file=open("/dev/null", "w"))  # noqa: SIM115
            console.print(chosen.rich())
            text = console.export_text()
        else:
            text = repr(chosen) if how == "repr" else chosen._repr_html_()
        assert "Selection by bic (smaller is better)" in text
        assert text.count("574.0178*") == text.count("*") == 1
        assert "In the lead" in text
        assert f"{chosen.runners_up(1)['behind'].iloc[0]:.4f}" in text
        assert "spherical" in text
        assert "Failed" not in text

    def test_people_see_what_failed(self):
        text = repr(select(GaussianMixture(), IRIS[:4], {"n_components": [1, 8], "covariance_type": ["diag", "tied"]}))
        assert text.count("n_components=8 needs at least 8 distinct rows") == 2

    def test_numbers_keep_their_name_and_their_digits(self):
        grid = {"n_components": [1, 2], "tol": [1e-2, 1e-5]}
        text = repr(select(GaussianMixture(), IRIS, grid, warm_start=False))
        assert "n_components / tol" in text
        assert "1e-05" in text


class TestLaws:
    """Random starts leave much to gain."""

    # By them, the one or the other fit with more components is worse than one with fewer.
    STARTS = (("random", "diag", 2), ("random_from_data", "full", 5), ("k-means++", "tied", 11))

    @pytest.mark.parametrize(("init", "structure", "seed"), STARTS)
    def test_the_likelihood_never_falls_with_the_number_of_components(self, init, structure, seed):
        model = GaussianMixture(covariance_type=structure, init_params=init, random_state=seed)
        cold = log_likelihoods(select(model, IRIS, {"n_components": K}, warm_start=False), 150)
        warm = log_likelihoods(select(model, IRIS, {"n_components": K}), 150)
        assert np.diff(cold).min() < -1
        assert np.diff(warm).min() > -1e-9 * np.abs(warm).max()
        assert (warm >= cold).all()

    def test_no_entry_gets_worse_and_some_get_better(self, chosen):
        cold = select(
            GaussianMixture(), IRIS, {"n_components": K, "covariance_type": ["full", "tied"]}, warm_start=False
        )
        gain = cold.pivot().to_numpy() - chosen.pivot()[["full", "tied"]].to_numpy()
        assert gain.min() == 0
        assert gain.max() > 1

    @pytest.mark.parametrize("model", [MixtureOfPPCA(n_latent=1), MixtureOfFactorAnalysers(n_latent=1)])
    def test_hold_for_mixtures_of_subspaces(self, model):
        model.set_params(init_params="kmeans")
        cold, warm = (select(model, IRIS, {"n_components": K[:5]}, warm_start=w).table["bic"] for w in (False, True))
        assert (warm <= cold).all()
        assert (warm < cold - 1).any()

    def test_hold_with_weights_holes_and_a_prior(self):
        rng = np.random.default_rng(0)
        X, weight = np.where(rng.random(IRIS.shape) < 0.1, np.nan, IRIS), rng.integers(0, 3, len(IRIS)).astype(float)
        task = Task(X, None, weight, 5, 20, 0)
        entry, smaller = (GaussianMixture(k, prior=ConjugatePrior(), random_state=0) for k in (3, 2))
        poor = task.fit(entry.set_params(init_params="random", max_iter=3))
        better = refined(entry.set_params(max_iter=100), poor, [task.fit(smaller)], task)
        assert better.lower_bound_ > poor.lower_bound_ + 0.1
        assert better.total_weight_ == weight.sum()

    def test_labelled_classes_keep_their_components(self):
        y = np.where(np.arange(150) % 5, -1, load_iris().target)
        model = GaussianMixture(init_params="random", random_state=0)
        found = select(model, IRIS, {"n_components": [3, 4, 5]}, y=y)
        assert found.winner.classes_.tolist() == [0, 1, 2]
        assert (found.winner.predict(IRIS)[y >= 0] == y[y >= 0]).mean() > 0.9
        task = Task(IRIS, y, None, 5, 20, 0)
        (start,) = starts(task.fit(GaussianMixture(4, random_state=0)), 3, task, task.counted)
        means = [IRIS[load_iris().target == c].mean(0) for c in range(3)]
        distances = np.linalg.norm(start.components.means.numpy()[:, None] - means, axis=-1)
        assert distances.argmin(1).tolist() == [0, 1, 2]


class TestStarts:
    def test_slices_of_a_normal_have_these_means(self):
        np.testing.assert_allclose(slice_means(2), [-math.sqrt(2 / math.pi), math.sqrt(2 / math.pi)])
        for m in (3, 4):
            edges = norm.ppf(np.arange(m + 1) / m)
            expected = [m * norm.expect(lambda z: z, lb=a, ub=b) for a, b in pairwise(edges)]
            np.testing.assert_allclose(slice_means(m), expected, atol=1e-9)

    def test_the_longest_axis_is_the_first_principal_one(self):
        fit = GaussianMixture(2, random_state=0).fit(IRIS)
        scale = fit.theta_.frame().scale.numpy()
        axes = longest_axes(fit.theta_, IRIS, fit.predict_proba(IRIS)).numpy()
        for axis, cov in zip(axes, fit.covariances_, strict=True):
            values, vectors = np.linalg.eigh(cov / np.outer(scale, scale))
            expected = math.sqrt(values[-1]) * vectors[:, -1] * scale
            # The mixture has converged up to tol, and ten steps of the power method up to the ratio of eigenvalues.
            np.testing.assert_allclose(axis * np.sign(axis @ expected), expected, atol=0.02)

    @pytest.mark.parametrize("structure", list(MCLUST))
    def test_copies_are_the_same_density_and_the_first_keeps_its_number(self, structure):
        fit = GaussianMixture(2, covariance_type=structure, random_state=0).fit(IRIS)
        parts = parts_of(fit.theta_, 5)
        copies = split(fit.theta_, parts, torch.zeros(2, 4, dtype=torch.float64))
        larger = GaussianMixture(5, covariance_type=structure, warm_start=True, max_iter=0)
        larger.theta_ = copies
        assert larger.fit(IRIS).score(IRIS) == pytest.approx(fit.score(IRIS), rel=1e-12)
        np.testing.assert_allclose(larger.means_[:2], fit.means_)
        # Two thirds of the rows in one component of two: it becomes three.
        assert sorted(parts.tolist()) == [2, 3]

    def test_what_is_least_needed_is_one_of_two_that_overlap(self):
        q = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        weight = np.ones(3)
        assert least_needed(q, weight, 0, 1, 0) == [0]
        assert least_needed(q, weight, 1, 1, 0) == [1]
        # Of two to be left out, not both of the pair: without the one the other is needed.
        assert least_needed(q, weight, 0, 2, 0) == [0, 2]

    def test_a_fit_that_falls_behind_a_smaller_one_starts_from_its_copies(self):
        task = Task(IRIS, None, None, 5, 20, 0)
        entry = GaussianMixture(4, random_state=0)
        small, poor = GaussianMixture(2, random_state=0).fit(IRIS), GaussianMixture(4, init_params="random", max_iter=0)
        found = nested(entry, poor.set_params(random_state=0).fit(IRIS), small, task)
        # Sums over four components and over two round differently.
        assert found.lower_bound_ > small.lower_bound_ - 1e-12
        assert found.get_params() == entry.get_params()
        assert nested(entry, found, small, task) is None

    def test_a_component_shrunk_on_two_rows_is_not_taken_for_a_better_fit(self, monkeypatch):
        X = np.append(np.random.default_rng(0).standard_normal(60), [0.5, 0.5 + 1e-9])[:, None]
        entry, task = GaussianMixture(2, random_state=0), Task(X, None, None, 5, 20, 0)
        fit = task.fit(entry)
        spurious = GaussianMixture(2, means_init=[[0.0], [0.5]], precisions_init=[[[1.0]], [[1e6]]]).fit(X)
        assert spurious.covariances_.min() < 1e-5
        assert spurious.lower_bound_ > fit.lower_bound_ + entry.tol
        monkeypatch.setattr(neighbours, "starts", lambda *_: [spurious.theta_])
        assert refined(entry, fit, [fit], task) is None

    @pytest.mark.parametrize("n_components", [2, 4, 5])
    def test_fits_with_fewer_and_more_components_both_help(self, n_components):
        angle = np.repeat(np.arange(3), 40) * 2 * np.pi / 3
        X = np.random.default_rng(0).standard_normal((120, 2)) + 9 * np.column_stack([np.cos(angle), np.sin(angle)])
        entry, task = GaussianMixture(3, random_state=0), Task(X, None, None, 5, 20, 0)
        poor = GaussianMixture(3, init_params="random", max_iter=0, random_state=0).fit(X)
        better = refined(entry, poor, [GaussianMixture(n_components, random_state=0).fit(X)], task)
        assert better.lower_bound_ == pytest.approx(task.fit(entry).lower_bound_, abs=1e-3)

    def test_neighbours_differ_in_the_number_of_components_alone(self):
        settings = [{"n_components": k, "covariance_type": s} for s in ("full", "diag") for k in (4, 1, 2)]
        entries = [GaussianMixture(**setting) for setting in settings]
        assert chains(entries, settings) == [[1, 2, 0], [4, 5, 3]]
        assert chains([SklearnMixture(**setting) for setting in settings], settings) == []
        frozen = [entry.set_params(freeze=("means",)) for entry in entries]
        assert chains(frozen, settings) == []

    def test_a_mixture_without_warm_start_is_fitted_as_it_is(self):
        """As on the page on one's own model."""
        X = np.random.default_rng(0).exponential([[1.0, 5.0]] * 100)
        model, grid = ExponentialMixture(random_state=0), {"n_components": [1, 2]}
        assert not hasattr(model, "warm_start")
        assert (
            select(model, X, grid).table["bic"].tolist()
            == select(model, X, grid, warm_start=False).table["bic"].tolist()
        )

    def test_many_rows_are_tried_by_some_of_them(self, monkeypatch):
        monkeypatch.setattr(neighbours, "SHORT_ROWS", 50)
        seen = []
        run = neighbours.run
        monkeypatch.setattr(neighbours, "run", lambda *a: (seen.append(None if len(a) < 4 else len(a[3])), run(*a))[1])
        select(GaussianMixture(), IRIS, {"n_components": [1, 2]})
        assert set(seen) == {50, None}
