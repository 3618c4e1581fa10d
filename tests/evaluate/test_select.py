"""Choosing the number of clusters: every criterion against its definition, and what a user may get wrong."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances, silhouette_samples, silhouette_score
from sklearn.mixture import GaussianMixture as SklearnMixture
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jensen import (
    ConjugatePrior,
    GaussianMixture,
    KMeans,
    KMedoids,
    ProbabilisticPCA,
    RidgeRegression,
    Selection,
    select,
)
from jensen.engines.em import loop as em
from jensen.evaluate import criteria
from jensen.evaluate.criteria import Criterion, Score, first_within_error, silhouette

IRIS = load_iris().data
K = {"n_components": range(1, 5)}
CLUSTERS = {"n_clusters": range(1, 6)}


def blobs(n_clusters: int, n_each: int = 40) -> np.ndarray:
    """Clusters around a circle, more than ten deviations apart."""
    angle = np.repeat(np.arange(n_clusters), n_each) * 2 * np.pi / n_clusters
    return np.random.default_rng(0).standard_normal((len(angle), 2)) + 15 * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    )


def table_of(selection: Selection) -> pd.DataFrame:
    """All but the time, which never repeats."""
    return selection.table.drop(columns="seconds")


class TestBic:
    def test_agrees_with_scikit_learn_at_the_same_optimum(self):
        tight = {"tol": 1e-9, "max_iter": 5000}
        chosen = select(GaussianMixture(**tight), IRIS, K)
        theirs = []
        for k in K["n_components"]:
            ours = GaussianMixture(k, random_state=0, **tight).fit(IRIS)
            start = {"weights_init": ours.weights_, "means_init": ours.means_, "precisions_init": ours.precisions_}
            theirs.append(SklearnMixture(k, reg_covar=1e-9, **tight, **start).fit(IRIS).bic(IRIS))
        # Both stop when a step gains less than 1e-9 nats per row, and EM may still have 1e-6 to go.
        np.testing.assert_allclose(chosen.table["bic"], theirs, atol=1e-3)
        assert chosen.best_params == {"n_components": 1 + int(np.argmin(theirs))}

    def test_the_winner_is_fitted_to_all_rows(self):
        chosen = select(GaussianMixture(), IRIS, K)
        by_hand = GaussianMixture(chosen.best_params["n_components"], random_state=0).fit(IRIS)
        np.testing.assert_array_equal(chosen.winner.means_, by_hand.means_)
        assert chosen.table["n_parameters"].tolist() == [14, 29, 44, 59]
        assert chosen.table["bic"].iloc[chosen.best_index] == chosen.winner.bic(IRIS) == chosen.table["bic"].min()

    def test_takes_missing_values(self):
        X = np.where(np.random.default_rng(0).random(IRIS.shape) < 0.2, np.nan, IRIS)
        chosen = select(GaussianMixture(), X, K)
        assert chosen.table["bic"].iloc[chosen.best_index] == chosen.winner.bic(X)


class TestSilhouette:
    def test_is_scikit_learns(self):
        chosen = select(GaussianMixture(), IRIS, K, "silhouette")
        for k, value in zip(K["n_components"], chosen.table["silhouette"], strict=True):
            if k > 1:
                labels = GaussianMixture(k, random_state=0).fit(IRIS).predict(IRIS)
                assert value == pytest.approx(silhouette_score(IRIS, labels), rel=1e-12)
        assert chosen.best_params == {"n_components": 2}

    def test_of_one_cluster_has_a_reason_instead_of_a_value(self):
        table = select(GaussianMixture(), IRIS, K, "silhouette").table
        assert np.isnan(table["silhouette"].iloc[0])
        assert table["failure"].iloc[0] == "the silhouette compares clusters, and all rows are in one"
        assert (table["failure"].iloc[1:] == "").all()

    @pytest.mark.parametrize(
        ("metric", "params"), [("manhattan", None), ("minkowski", {"p": 3}), ("seuclidean", None), ("cosine", None)]
    )
    def test_uses_the_models_metric(self, metric, params):
        model = KMedoids(metric=metric, metric_params=params)
        chosen = select(model, IRIS, {"n_clusters": [2, 3]}, "silhouette")
        own = chosen.winner.metric_params_
        expected = silhouette_score(IRIS, chosen.winner.labels_, metric=metric, **own)
        assert chosen.table["silhouette"].iloc[chosen.best_index] == pytest.approx(expected, rel=1e-9)

    def test_takes_given_distances(self):
        distances = pairwise_distances(IRIS, metric="manhattan")
        given = select(KMedoids(metric="precomputed"), distances, {"n_clusters": [2, 3]}, "silhouette")
        expected = silhouette_score(distances, given.winner.labels_, metric="precomputed")
        assert given.table["silhouette"].iloc[given.best_index] == pytest.approx(expected, rel=1e-12)

    def test_takes_holes_where_the_metric_does(self):
        X = IRIS.copy()
        X[3, 1] = np.nan
        chosen = select(KMedoids(metric="nan_euclidean"), X, {"n_clusters": [2, 3]}, "silhouette")
        distances = pairwise_distances(X, metric="nan_euclidean")
        expected = silhouette_score(distances, chosen.winner.labels_, metric="precomputed")
        assert chosen.table["silhouette"].iloc[chosen.best_index] == pytest.approx(expected, rel=1e-12)

    def test_of_rows_alone_or_equal_is_zero(self):
        X, labels = np.array([[0.0], [0.0], [0.0], [1.0], [5.0]]), np.array([0, 1, 1, 1, 2])
        assert silhouette(X, labels) == pytest.approx(silhouette_samples(X, labels).mean(), rel=1e-12)
        assert silhouette(np.zeros((4, 1)), np.array([0, 0, 1, 1])) == 0

    def test_of_many_rows_is_of_some_drawn_with_the_seed(self, monkeypatch):
        monkeypatch.setattr(criteria, "SILHOUETTE_ROWS", 60)
        distances = pairwise_distances(IRIS)
        some = [select(GaussianMixture(), IRIS, K, "silhouette", random_state=s).table["silhouette"] for s in (0, 0, 1)]
        given = select(KMedoids(metric="precomputed"), distances, {"n_clusters": [2]}, "silhouette")
        rows = select(KMedoids(), IRIS, {"n_clusters": [2]}, "silhouette")
        pd.testing.assert_series_equal(some[0], some[1])
        assert not some[0].equals(some[2])
        # Silhouettes of iris have a deviation of about 0.2.
        assert some[0].max() == pytest.approx(0.687, abs=4 * 0.2 / math.sqrt(60))
        assert given.table["silhouette"].iloc[0] == pytest.approx(rows.table["silhouette"].iloc[0], rel=1e-9)

    def test_of_labelled_fits_takes_classes_of_any_kind(self):
        y = np.where(np.arange(150) % 3, "", load_iris().target_names[load_iris().target])
        # A fourth component is beyond the classes, and predicts None.
        chosen = select(GaussianMixture(), IRIS, {"n_components": [3, 4]}, "silhouette", y=y)
        labels = pd.factorize(chosen.winner.predict(IRIS), use_na_sentinel=False)[0]
        value = chosen.table["silhouette"].iloc[chosen.best_index]
        assert value == pytest.approx(silhouette_score(IRIS, labels), rel=1e-12)


class TestGap:
    def test_is_that_of_the_paper(self):
        """Tibshirani, Walther & Hastie (2001), step by step, with their W of all pairs of rows."""
        X, n_references = blobs(3), 6

        def log_dispersion(rows: np.ndarray, labels: np.ndarray) -> float:
            square = pairwise_distances(rows) ** 2
            return math.log(
                sum(square[labels == r][:, labels == r].sum() / (2 * (labels == r).sum()) for r in set(labels))
            )

        mean = X.mean(0)
        axes = np.linalg.svd(X - mean)[2]
        along = (X - mean) @ axes.T
        chosen = select(KMeans(n_init=3, tol=0), X, CLUSTERS, "gap", n_references=n_references, random_state=7)
        for k, gap, error in zip(
            CLUSTERS["n_clusters"], chosen.table["gap"], chosen.table["standard_error"], strict=True
        ):
            model, references = KMeans(k, n_init=3, tol=0, random_state=7), []
            for b in range(n_references):
                box = np.random.default_rng([7, b]).uniform(along.min(0), along.max(0), X.shape)
                reference = mean + box @ axes
                references.append(log_dispersion(reference, model.fit_predict(reference)))
            assert gap == pytest.approx(np.mean(references) - log_dispersion(X, model.fit_predict(X)), abs=1e-9)
            assert error == pytest.approx(np.std(references) * math.sqrt(1 + 1 / n_references), abs=1e-9)

    @pytest.mark.parametrize("n_clusters", [1, 2, 3, 4])
    def test_finds_clusters_that_are_apart(self, n_clusters):
        assert select(KMeans(), blobs(n_clusters), CLUSTERS, "gap").best_params == {"n_clusters": n_clusters}

    def test_of_uniform_rows_finds_one_cluster(self):
        X = np.random.default_rng(0).uniform(size=(200, 2)) @ np.array([[3.0, 1.0], [1.0, 1.0]])
        assert select(KMeans(), X, CLUSTERS, "gap").best_params == {"n_clusters": 1}

    def test_takes_other_models_with_an_inertia(self):
        assert select(KMedoids(), blobs(3), CLUSTERS, "gap").best_params == {"n_clusters": 3}

    def test_takes_sparse_rows(self):
        X = np.where(np.arange(2) == 1, 0, blobs(2))
        table = table_of(select(KMeans(), csr_matrix(X), CLUSTERS, "gap", n_references=3))
        # The compiled loop sums sparse rows in another order.
        np.testing.assert_allclose(
            table["gap"], select(KMeans(), X, CLUSTERS, "gap", n_references=3).table["gap"], atol=1e-8
        )

    def test_rule_takes_the_smallest_within_a_standard_error_of_the_next(self):
        gaps, errors = np.array([1.0, 3.0, 2.9, 3.05]), np.array([0.1, 0.1, 0.1, 0.1])
        settings = [{"n_clusters": k, "tol": 1e-3} for k in (1, 2, 3, 4)]
        assert first_within_error(settings, gaps, errors) == 1
        order = [3, 1, 0, 2]
        assert order[first_within_error([settings[i] for i in order], gaps[order], errors[order])] == 1
        # Without K=3, K=2 is compared with K=4.
        assert first_within_error(settings, np.array([1.0, 3.0, np.nan, 3.05]), errors) == 1
        assert first_within_error(settings[:1], gaps[:1], errors[:1]) == 0

    def test_that_still_rises_takes_the_largest_and_says_so(self):
        with pytest.warns(UserWarning, match=r"the gap still rises at the end of the grid, {'n_clusters': 3}"):
            chosen = select(KMeans(), blobs(3), {"n_clusters": [1, 3, 2]}, "gap")
        assert chosen.best_params == {"n_clusters": 3}
        assert chosen.table["n_clusters"].tolist() == [1, 3, 2]

    def test_without_inertia_is_a_failure(self):
        X = np.array([[0.0], [1.0], [2.0], [3.0]])
        table = select(KMeans(), X, {"n_clusters": [1, 4]}, "gap").table
        assert "inertia_, which is 0.0: every row is at a centre" in table["failure"].iloc[1]


class TestCrossValidation:
    def test_is_a_loop_over_folds(self):
        chosen = select(GaussianMixture(), IRIS, K, "cv", cv=4, random_state=3)
        for k, value, error in zip(K["n_components"], chosen.table["cv"], chosen.table["standard_error"], strict=True):
            held_out = np.concatenate(
                [
                    GaussianMixture(k, random_state=3).fit(IRIS[train]).score_samples(IRIS[test])
                    for train, test in KFold(4, shuffle=True, random_state=3).split(IRIS)
                ]
            )
            assert value == pytest.approx(held_out.mean(), rel=1e-12)
            assert error == pytest.approx(held_out.std(ddof=1) / math.sqrt(150), rel=1e-12)
        assert chosen.table["cv"].iloc[chosen.best_index] == chosen.table["cv"].max()
        by_hand = GaussianMixture(**chosen.best_params, random_state=3).fit(IRIS)
        np.testing.assert_array_equal(chosen.winner.means_, by_hand.means_)

    def test_passes_labels_and_weights_of_the_rows_it_learns_from(self):
        y, rng = load_iris().target.copy(), np.random.default_rng(0)
        y[::2] = -1
        weight = rng.integers(0, 3, 150)
        scores = np.empty(150)
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        for train, test in folds.split(IRIS, y):
            scores[test] = (
                GaussianMixture(3, random_state=0).fit(IRIS[train], y[train], weight[train]).score_samples(IRIS[test])
            )
        chosen = select(GaussianMixture(3), IRIS, {"tol": [1e-3]}, "cv", y=y.tolist(), sample_weight=weight, cv=folds)
        repeated = scores.repeat(weight)
        assert chosen.table["cv"].iloc[0] == pytest.approx(repeated.mean(), rel=1e-12)
        expected = repeated.std(ddof=1) / math.sqrt(len(repeated))
        assert chosen.table["standard_error"].iloc[0] == pytest.approx(expected, rel=1e-12)
        assert chosen.winner.classes_.tolist() == [0, 1, 2]

    def test_counts_a_row_once_however_often_it_is_held_out(self):
        folds = RepeatedKFold(n_splits=2, n_repeats=3, random_state=0)
        chosen = select(GaussianMixture(), IRIS, {"n_components": [1]}, "cv", cv=folds)
        scores = np.zeros(150)
        for train, test in folds.split(IRIS):
            scores[test] += GaussianMixture(1).fit(IRIS[train]).score_samples(IRIS[test]) / 3
        assert chosen.table["standard_error"].iloc[0] == pytest.approx(scores.std(ddof=1) / math.sqrt(150), rel=1e-9)

    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, torch.as_tensor, np.ndarray.tolist])
    def test_takes_every_kind_of_table(self, kind):
        expected = select(GaussianMixture(), IRIS, {"n_components": [2]}, "cv", cv=2)
        found = select(GaussianMixture(), kind(IRIS), {"n_components": [2]}, "cv", cv=2)
        pd.testing.assert_frame_equal(table_of(found), table_of(expected))


@pytest.mark.parametrize("criterion", ["bic", "silhouette"])
def test_a_weight_of_two_is_the_row_twice(criterion):
    weight = np.random.default_rng(0).integers(0, 3, len(IRIS))
    weighted = select(GaussianMixture(), IRIS, K, criterion, sample_weight=weight)
    repeated = select(GaussianMixture(), IRIS.repeat(weight, axis=0), K, criterion)
    # The fits agree to rounding, which EM may enlarge.
    np.testing.assert_allclose(weighted.table[criterion], repeated.table[criterion], rtol=1e-6)
    assert weighted.best_params == repeated.best_params


def test_rows_of_weight_zero_do_not_count_for_the_gap():
    X = np.concatenate([blobs(2), [[1e3, -1e3]]])
    weight = np.append(np.ones(80), 0)
    without = select(KMeans(), X[:80], CLUSTERS, "gap", n_references=4)
    weighted = select(KMeans(), X, CLUSTERS, "gap", n_references=4, sample_weight=weight)
    np.testing.assert_allclose(weighted.table["gap"], without.table["gap"], atol=1e-9)


@pytest.mark.parametrize("criterion", ["bic", "silhouette", "gap", "cv"])
def test_a_seed_gives_one_result_and_changes_nothing_given(criterion):
    X = IRIS.copy()
    X.flags.writeable = False
    frame, model = pd.DataFrame(X), KMeans(n_init=1)
    options = {"criterion": criterion, "n_references": 3}
    first = select(model, frame, CLUSTERS, random_state=5, **options)
    pd.testing.assert_frame_equal(table_of(first), table_of(select(model, X, CLUSTERS, random_state=5, **options)))
    assert frame.equals(pd.DataFrame(IRIS))
    assert model.random_state is None
    assert not hasattr(model, "theta_")
    assert first.winner.random_state == 5


def test_a_seed_of_the_models_own_stays():
    kept = select(GaussianMixture(random_state=9), IRIS, {"n_components": [2]})
    assert kept.winner.random_state == 9
    drawn = [
        select(GaussianMixture(), IRIS, {"n_components": [2]}, random_state=np.random.RandomState(1)) for _ in "ab"
    ]
    assert drawn[0].winner.random_state == drawn[1].winner.random_state
    varied = select(GaussianMixture(2), IRIS, {"random_state": [4, 5]})
    assert varied.winner.random_state in (4, 5)


def test_the_table_follows_the_grid():
    grid = [{"n_components": np.arange(1, 3), "covariance_type": ["full", "diag"]}, {"n_components": [5]}]
    chosen = select(GaussianMixture(covariance_type="tied"), IRIS, grid)
    assert chosen.table.columns.tolist() == [
        "covariance_type",
        "n_components",
        "bic",
        "behind",
        "n_parameters",
        "seconds",
        "degenerate",
        "failure",
    ]
    # Where a mapping does not name a parameter, the model's own value holds.
    assert chosen.table["covariance_type"].tolist() == ["full", "full", "diag", "diag", "tied"]
    assert chosen.table["n_components"].tolist() == [1, 2, 1, 2, 5]
    assert chosen.best_params == {"covariance_type": "full", "n_components": 2}
    assert type(chosen.winner.n_components) is int
    assert (chosen.table["seconds"] > 0).all()


def test_none_stays_beside_numbers():
    chosen = select(GaussianMixture(), IRIS, {"n_components": [2, None]})
    assert chosen.table["n_components"].tolist() == [2, None]
    assert chosen.plot(Figure().subplots()).get_xlabel() == "n_components"


def test_parameters_of_parameters():
    grid = {"prior__mean_precision": [0.01, 10.0]}
    chosen = select(GaussianMixture(2, prior=ConjugatePrior()), IRIS, grid)
    assert chosen.winner.prior.mean_precision == chosen.best_params["prior__mean_precision"]
    chosen = select(GaussianMixture(2), IRIS, {"prior": [ConjugatePrior()], **grid})
    assert chosen.winner.prior.mean_precision == chosen.best_params["prior__mean_precision"]
    chosen = select(GaussianMixture(2), IRIS, [{"prior": [ConjugatePrior()], **grid}, {"prior": [None]}])
    assert chosen.table["prior__mean_precision"].tolist() == [0.01, 10.0, None]
    with pytest.raises(ValueError, match="grid names 'prior__mean_precision', which GaussianMixture does not have"):
        select(GaussianMixture(2), IRIS, grid)


def test_parameters_of_a_pipeline():
    model = make_pipeline(StandardScaler(), GaussianMixture())
    chosen = select(model, IRIS, {"gaussianmixture__n_components": [1, 2]}, "cv", cv=2, random_state=3)
    assert chosen.winner[-1].random_state == 3
    assert chosen.best_params == {"gaussianmixture__n_components": 2}


def test_a_class_is_no_model():
    with pytest.raises(TypeError, match=r"model=GaussianMixture is a class; give an estimator, GaussianMixture\(\)"):
        select(GaussianMixture, IRIS, K)


def test_an_entry_that_fails_is_a_row_with_its_reason():
    X = np.array([[0.0], [0.0], [1.0], [5.0]])
    chosen = select(GaussianMixture(), X, {"n_components": [0, 1, 4]})
    assert np.isnan(chosen.table["bic"]).tolist() == [True, False, True]
    assert "'n_components' parameter of GaussianMixture must be" in chosen.table["failure"].iloc[0]
    assert chosen.table["failure"].iloc[1] == ""
    assert "n_components=4 needs at least 4 distinct rows, got 3" in chosen.table["failure"].iloc[2]
    assert chosen.best_params == {"n_components": 1}


def test_if_all_entries_fail_the_first_reason_is_the_error():
    with pytest.raises(
        ValueError, match=r"every entry .* failed, the first with {'n_components': 8}: n_components=8 needs"
    ):
        select(GaussianMixture(), np.eye(3), {"n_components": [8, 9]})


def test_a_value_that_is_no_number_is_a_failure():
    nothing = Criterion("nothing", "larger", (), lambda estimator, task: Score(math.nan))
    with pytest.raises(ValueError, match="nothing is not a number"):
        select(GaussianMixture(), IRIS, K, nothing)


def test_a_bug_in_a_fit_keeps_its_traceback():
    class Broken(GaussianMixture):
        def fit(self, X, y=None, sample_weight=None):
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        select(Broken(), IRIS, K)


def test_an_interrupt_ends_the_search(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(em, "check_rise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        select(GaussianMixture(), IRIS, {"n_components": [2, 3]})


def test_warnings_made_errors_are_not_taken_for_an_interrupt():
    class Warning_(GaussianMixture):  # noqa: N801
        def fit(self, X, y=None, sample_weight=None):
            raise RuntimeWarning("overflow")

    with pytest.raises(RuntimeWarning, match="overflow"):
        select(Warning_(), IRIS, K)


@pytest.mark.parametrize("criterion", ["bic", "cv"])
def test_a_warning_of_all_fits_is_given_once(criterion):
    x = np.column_stack([IRIS, np.ones(len(IRIS))])
    with pytest.warns(UserWarning, match="X has columns with one value: 4") as heard:
        select(GaussianMixture(), x, {"n_components": [1, 2, 3, 4]}, criterion)
    assert sum("one value" in str(one.message) for one in heard) == 1


def test_a_criterion_of_ones_own():
    def measure_aic(estimator, task):
        fitted = task.fit(estimator)
        return Score(fitted.aic(task.X), model=fitted)

    chosen = select(GaussianMixture(), IRIS, K, Criterion("aic", "smaller", ("aic",), measure_aic))
    assert chosen.table["aic"].iloc[chosen.best_index] == chosen.winner.aic(IRIS) == chosen.table["aic"].min()


class Uncertain(BaseEstimator):
    """Has predict or not, by a parameter."""

    def __init__(self, n_clusters=2, predicts=True):
        self.n_clusters = n_clusters
        self.predicts = predicts

    def __getattr__(self, name):
        if name == "predict" and self.predicts:
            return lambda X: np.arange(len(X)) % self.n_clusters
        raise AttributeError(name)

    def fit(self, X, y=None):
        return self


def test_what_only_some_entries_lack_fails_only_there():
    table = select(Uncertain(), IRIS, {"predicts": [True, False]}, "silhouette").table
    assert table["failure"].iloc[0] == ""
    assert table["failure"].iloc[1] == "criterion='silhouette' needs predict, which Uncertain does not have"


NO_DENSITY = "a dissimilarity has no density"


@pytest.mark.parametrize(
    ("model", "criterion", "message"),
    [
        (GaussianMixture(), "aicc", r"criterion='aicc' is unknown; choose among 'auto', 'bic', .*'gap' or"),
        (
            GaussianMixture(),
            "gap",
            r"needs inertia_, which GaussianMixture does not have; use 'bic', 'icl', 'held_out', 'cv' or 'silhouette'",
        ),
        (
            KMedoids(),
            "cv",
            rf"criterion='cv' needs score_samples, .* KMedoids does not have: {NO_DENSITY}.*; use 'silhouette'",
        ),
        (KMedoids(), "bic", r"criterion='bic' needs bic, which KMedoids does not have.*; use 'silhouette' or 'gap'"),
        (DBSCAN(), "gap", r"inertia_, which a fit of DBSCAN does not have"),
        (
            KMedoids(metric="precomputed"),
            "gap",
            r"draws reference rows, which metric='precomputed' lacks; use 'silhouette'",
        ),
    ],
)
def test_a_model_that_lacks_what_a_criterion_needs(model, criterion, message):
    name = {"GaussianMixture": "n_components", "KMedoids": "n_clusters", "DBSCAN": "min_samples"}[type(model).__name__]
    with pytest.raises(ValueError, match=message):
        select(model, pairwise_distances(IRIS), {name: [2, 3]}, criterion)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            {"n_clusters": [2]},
            r"grid names 'n_clusters', which GaussianMixture does not have; there are acceleration, ",
        ),
        ({}, r"grid={} is empty; give at least one parameter"),
        ([], r"grid=\[\] is empty"),
        ({"n_components": []}, r"grid={'n_components': \[\]} must map parameters to lists"),
        ({"n_components": 3}, r"grid={'n_components': 3} must map parameters to lists"),
        ({"covariance_type": "full"}, r"grid={'covariance_type': 'full'} must map parameters to lists"),
        (3, r"grid=3 must map parameters to lists"),
    ],
)
def test_mistakes_in_the_grid(grid, message):
    with pytest.raises(ValueError, match=message):
        select(GaussianMixture(), IRIS, grid)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"criterion": "cv", "cv": 1}, "cv=1 is no number of folds for 150 rows; give 2 to 150"),
        ({"criterion": "cv", "cv": 151}, "cv=151 is no number of folds"),
        ({"criterion": "cv", "cv": "five"}, "five"),
        ({"criterion": "gap", "n_references": 0}, "n_references=0 must be a whole number, 1 or more"),
        ({"y": [0, 1]}, "y has 2 labels, but X has 150 rows; give one per row"),
        ({"sample_weight": [1.0]}, r"sample_weight has shape \(1,\), but X has 150 rows"),
        (
            {"criterion": "gap", "grid": {"n_clusters": [2, 3], "tol": [0.1, 1]}},
            "the grid varies n_clusters and tol; give one",
        ),
        (
            {"criterion": "gap", "grid": {"init": ["random", "k-means++"]}},
            "one numeric parameter, but the grid varies init;",
        ),
    ],
)
def test_mistakes_in_the_other_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        select(KMeans(), IRIS, **{"grid": CLUSTERS, **arguments})


@pytest.mark.parametrize("criterion", ["silhouette", "gap"])
def test_distances_between_rows_with_holes_are_refused(criterion):
    X = IRIS.copy()
    X[3, 1] = np.nan
    message = f"X contains NaN, and criterion='{criterion}' needs complete rows; use 'bic', 'held_out' or 'cv', or "
    message += "impute X first"
    with pytest.raises(ValueError, match=message):
        select(KMeans(), pd.DataFrame(X), CLUSTERS, criterion)
    with pytest.raises(ValueError, match=f"criterion='{criterion}' needs complete rows; impute X first"):
        select(KMedoids(), X, CLUSTERS, criterion)


class TestPlot:
    def test_draws_the_criterion_and_marks_the_winner(self):
        chosen = select(GaussianMixture(), IRIS, {"n_components": [3, 1, 2]}, "cv", cv=2)
        ax = chosen.plot(Figure().subplots())
        line, mark = ax.lines[0], ax.lines[-1]
        assert line.get_xdata().tolist() == [1, 2, 3]
        assert line.get_ydata().tolist() == chosen.table.sort_values("n_components")["cv"].tolist()
        assert mark.get_xydata().tolist() == [[chosen.best_params["n_components"], chosen.table["cv"].max()]]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("n_components", "cv (larger is better)")
        (bars,) = (c for c in ax.containers)
        assert bars.has_yerr

    def test_draws_a_line_for_every_combination_of_the_others(self):
        grid = {"covariance_type": ["full", "diag"], "n_components": [1, 2], "tol": [1e-3]}
        ax = select(GaussianMixture(), IRIS, grid).plot(Figure().subplots())
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert labels == ["full", "diag", "chosen"]
        assert ax.get_xlabel() == "n_components"

    def test_draws_words_as_words_and_one_entry_as_a_point(self):
        ax = select(GaussianMixture(2), IRIS, {"covariance_type": ["tied", "diag"]}).plot(Figure().subplots())
        assert [text.get_text() for text in ax.get_xticklabels()] == ["tied", "diag"]
        ax = select(GaussianMixture(), IRIS, {"n_components": [2]}).plot(Figure().subplots())
        assert ax.get_xlabel() == "n_components"

    def test_makes_its_own_axes(self):
        import matplotlib.pyplot as plt

        backend = plt.get_backend()
        plt.switch_backend("agg")
        ax = select(GaussianMixture(), IRIS, {"n_components": [1, 2]}).plot()
        assert ax.figure.number in plt.get_fignums()
        plt.close(ax.figure)
        plt.switch_backend(backend)


def test_a_notebook_shows_the_table_with_the_winner_marked():
    chosen = select(GaussianMixture(), IRIS, {"n_components": [1, 2]})
    text = repr(chosen)
    assert text.startswith("Selection by bic (smaller is better): n_components=2\n")
    assert [line.strip().startswith("*") for line in text.splitlines()[2:]] == [False, True]
    assert "failure" not in text
    failed = select(GaussianMixture(), IRIS[:3], {"n_components": [1, 8]})
    assert "n_components=8 needs at least 8 distinct rows" in repr(failed)
    page = failed._repr_html_()
    assert "<table" in page
    assert "Selection by bic" in page


def test_a_bar_stays_away_where_there_is_no_terminal(capsys):
    select(GaussianMixture(), IRIS, {"n_components": [1, 2]}, verbose=1)
    assert capsys.readouterr() == ("", "")


def test_regressions_are_not_models_of_rows():
    with pytest.raises(TypeError, match="select compares models of rows, and RidgeRegression is a regression"):
        select(RidgeRegression(), load_iris().data, {"alpha": [1.0]}, "cv")


def test_of_equal_models_the_first_is_kept():
    found = select(ProbabilisticPCA(), load_iris().data, {"n_components": [1, 3, 4]}, "bic")
    assert found.best_params == {"n_components": 3}
