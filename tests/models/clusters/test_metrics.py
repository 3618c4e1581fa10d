"""K-means by other distances: k-medians and spherical k-means against all partitions, scipy and scikit-learn."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

import jensen
from jensen import Depot, KMeans
from jensen.data.codes import UnseenValueWarning
from jensen.models.clusters.alternate import weighted_median

IRIS = load_iris().data
BY = ("manhattan", "cosine")


def directions(seed=0, n=300, k=4, d=6):
    """Rows around k directions, of any length."""
    rng = np.random.default_rng(seed)
    centres = normalize(rng.normal(size=(k, d)))
    label = rng.integers(k, size=n)
    rows = normalize(centres[label] + 0.05 * rng.normal(size=(n, d)))
    return rows * rng.uniform(0.1, 50, size=(n, 1)), label


def partitions(n, k):
    """All ways to put n rows into k groups, each once: a group first appears after the groups before it."""
    for labels in itertools.product(range(k), repeat=n):
        seen = -1
        for label in labels:
            if label > seen + 1:
                break
            seen = max(seen, label)
        else:
            if seen == k - 1:
                yield np.array(labels)


def least_loss(rows, weight, metric):
    """Of one group with the centre that is best for it."""
    if metric == "cosine":
        return weight.sum() - np.linalg.norm(weight @ normalize(rows))
    if metric == "manhattan":
        # The loss is linear between values, so a value is best.
        return sum(min(weight @ np.abs(column - value) for value in column) for column in rows.T)
    mean = np.average(rows, axis=0, weights=weight)
    return weight @ np.square(rows - mean).sum(1)


@pytest.mark.parametrize("metric", ["euclidean", *BY])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_problems_reach_the_optimum_of_all_partitions(metric, weighted):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, weight = rng.normal(size=(9, 2)), rng.uniform(0.5, 3, size=9) if weighted else np.ones(9)
        best = min(
            sum(least_loss(rows[labels == j], weight[labels == j], metric) for j in range(3))
            for labels in partitions(9, 3)
        )
        model = KMeans(3, metric=metric, init="random", n_init=50, random_state=0)
        model.fit(rows, sample_weight=weight if weighted else None)
        assert model.inertia_ == pytest.approx(best, rel=1e-9)
        assert model.score(rows, sample_weight=weight) == pytest.approx(-best, rel=1e-9)


@pytest.mark.parametrize("metric", BY)
def test_distances_are_those_of_scipy(metric):
    rows = directions()[0]
    model = KMeans(4, metric=metric, random_state=0).fit(rows)
    expected = cdist(rows, model.cluster_centers_, {"manhattan": "cityblock"}.get(metric, metric))
    assert_allclose(model.transform(rows), expected, atol=1e-12)
    assert_array_equal(model.labels_, expected.argmin(1))
    assert_array_equal(model.predict(rows), model.labels_)
    assert_allclose(model.inertia_, expected.min(1).sum())
    assert model.transform(pd.DataFrame(rows)).shape == (300, 4)
    assert isinstance(model.transform(torch.from_numpy(rows)), torch.Tensor)


@pytest.mark.parametrize("metric", BY)
def test_each_centre_is_best_for_its_rows(metric):
    rows, weight = directions(1)[0], np.random.default_rng(0).uniform(0.5, 2, size=300)
    model = KMeans(4, metric=metric, random_state=0, tol=0).fit(rows, sample_weight=weight)
    for j, centre in enumerate(model.cluster_centers_):
        own = model.labels_ == j
        best = least_loss(rows[own], weight[own], metric)
        loss = weight[own] @ cdist(rows[own], [centre], {"manhattan": "cityblock"}.get(metric, metric))[:, 0]
        assert loss == pytest.approx(best, rel=1e-9)


class TestCosine:
    def test_separated_directions_have_scikit_learns_clusters_of_normalised_rows(self):
        rows, label = directions()
        unit = normalize(rows)
        ours = KMeans(4, metric="cosine", random_state=0).fit(rows)
        theirs = SklearnKMeans(4, n_init=5, random_state=0).fit(unit)
        assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1
        assert adjusted_rand_score(ours.labels_, label) == 1
        means = normalize(theirs.cluster_centers_)
        assert_allclose(cdist(ours.cluster_centers_, means).min(1), 0, atol=1e-12)
        assert_allclose(np.linalg.norm(ours.cluster_centers_, axis=1), 1)

    def test_lengths_are_nothing(self):
        rows, _ = directions()
        lengths = np.random.default_rng(1).uniform(1e-120, 1e120, size=(300, 1))
        one, other = (KMeans(4, metric="cosine", random_state=0).fit(x) for x in (rows, rows * lengths))
        assert adjusted_rand_score(one.labels_, other.labels_) == 1
        assert one.inertia_ == pytest.approx(other.inertia_)

    def test_sparse_rows_have_the_same_fit(self):
        rows = np.random.default_rng(0).poisson(0.4, size=(200, 30)).astype(float)
        rows = rows[rows.any(1)]
        dense = KMeans(3, metric="cosine", random_state=0).fit(rows)
        sparse = KMeans(3, metric="cosine", random_state=0).fit(scipy.sparse.csr_matrix(rows))
        assert_allclose(sparse.cluster_centers_, dense.cluster_centers_, atol=1e-12)
        assert_array_equal(sparse.predict(scipy.sparse.csr_matrix(rows)), dense.labels_)
        assert_allclose(sparse.transform(scipy.sparse.csr_matrix(rows)), dense.transform(rows), atol=1e-12)

    def test_opposite_rows_keep_a_centre(self):
        model = KMeans(1, metric="cosine", random_state=0).fit([[1.0, 0.0], [-1.0, 0.0]])
        assert model.inertia_ == pytest.approx(2)
        assert np.isfinite(model.cluster_centers_).all()

    def test_a_row_without_direction_is_an_error_that_names_it(self):
        rows = IRIS.copy()
        rows[7] = 0
        with pytest.raises(ValueError, match=r"row 7, .* no direction.*drop such rows"):
            KMeans(3, metric="cosine").fit(rows)
        model = KMeans(3, metric="cosine", random_state=0).fit(IRIS)
        with pytest.raises(ValueError, match=r"row 7,"):
            model.predict(rows)
        with pytest.raises(ValueError, match=r"row 7,"):
            model.predict(scipy.sparse.csr_matrix(rows))

    def test_missing_values_are_an_error_that_names_the_row(self):
        rows = IRIS.copy()
        rows[5, 1] = np.nan
        with pytest.raises(ValueError, match=r"NaN, first in row 5.*length.*impute"):
            KMeans(3, metric="cosine").fit(rows)

    def test_there_is_no_density_and_the_reason_is_given(self):
        model = KMeans(3, metric="cosine", random_state=0).fit(IRIS)
        for name in ("score_samples", "bound", "sample", "impute", "impute_draws", "bic", "aic", "partial_fit"):
            assert not hasattr(model, name)
            with pytest.raises(AttributeError) as error:
                getattr(model, name)
            assert "metric='cosine'" in str(error.value.__cause__)
        assert not hasattr(model, "lower_bound_")
        assert not hasattr(model, "n_parameters_")


class TestManhattan:
    def test_the_weighted_median_is_the_median_of_repeated_rows(self):
        rng = np.random.default_rng(0)
        for n in (1, 2, 7, 8):
            rows, count = rng.normal(size=(n, 3)), rng.integers(1, 4, size=n)
            repeated = np.repeat(rows, count, axis=0)
            assert_allclose(weighted_median(rows, count.astype(float)), np.median(repeated, axis=0))
            assert_allclose(weighted_median(rows, 0.1 * count), np.median(repeated, axis=0))
        rows[rng.random(rows.shape) < 0.3] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert_allclose(weighted_median(rows, np.ones(8)), np.nanmedian(rows, axis=0))

    def test_missing_values_are_left_out_of_distances_and_medians(self):
        rng = np.random.default_rng(0)
        rows = make_blobs(300, centers=4, n_features=5, random_state=1)[0] + 1e6
        rows[rng.random(rows.shape) < 0.2] = np.nan
        model = KMeans(4, metric="manhattan", random_state=0).fit(rows)
        by_hand = np.nansum(np.abs(rows[:, None] - model.cluster_centers_), axis=2)
        assert_allclose(model.transform(rows), by_hand, atol=1e-8)
        assert model.inertia_ == pytest.approx(by_hand.min(1).sum(), rel=1e-9)
        for j in range(4):
            assert_allclose(model.cluster_centers_[j], np.nanmedian(rows[model.labels_ == j], axis=0))
        filled = model.impute(rows)
        assert_array_equal(filled, np.where(np.isnan(rows), model.cluster_centers_[model.labels_], rows))

    def test_the_score_is_that_of_laplace_components(self):
        model = KMeans(3, metric="manhattan", random_state=0).fit(IRIS)
        scale = model.inertia_ / IRIS.size
        log_joint = scipy.stats.laplace.logpdf(IRIS[:, None], model.cluster_centers_, scale).sum(2) - np.log(3)
        assert_allclose(model.score_samples(IRIS), log_joint.max(1))
        assert model.lower_bound_ == pytest.approx(log_joint.max(1).mean())
        # The scale is the one with the largest bound.
        for other in (0.99 * scale, 1.01 * scale):
            assert scipy.stats.laplace.logpdf(IRIS, model.cluster_centers_[model.labels_], other).sum() < (
                scipy.stats.laplace.logpdf(IRIS, model.cluster_centers_[model.labels_], scale).sum()
            )

    def test_samples_are_laplace(self):
        model = KMeans(3, metric="manhattan", random_state=0).fit(IRIS)
        rows, z = model.sample(20_000, random_state=0)
        away = (rows - model.cluster_centers_[z])[:, 0]
        assert scipy.stats.kstest(away, scipy.stats.laplace(scale=model.inertia_ / IRIS.size).cdf).pvalue > 1e-3
        x = np.full((4000, 4), np.nan)
        x[:, :3] = model.cluster_centers_[0, :3]
        drawn = model.impute_draws(x, random_state=0)[0][:, 3] - model.cluster_centers_[0, 3]
        assert scipy.stats.kstest(drawn, scipy.stats.laplace(scale=model.inertia_ / IRIS.size).cdf).pvalue > 1e-3

    def test_outliers_do_not_move_the_medians(self):
        rows, _ = make_blobs(200, centers=[[-5, 0], [5, 0]], random_state=0)
        model = KMeans(2, metric="manhattan", n_init=5, random_state=0).fit(np.vstack([rows, [[0, 60], [1, 70]]]))
        assert_allclose(sorted(model.cluster_centers_[:, 0]), [-5, 5], atol=0.5)
        assert abs(model.cluster_centers_[:, 1]).max() < 0.5

    def test_batches_are_refused_because_medians_do_not_add_up(self):
        model = KMeans(3, metric="manhattan").fit(IRIS)
        with pytest.raises(AttributeError) as error:
            model.partial_fit(IRIS)
        assert "metric='manhattan'" in str(error.value.__cause__)


@pytest.mark.parametrize("metric", BY)
class TestBoth:
    def test_a_weight_is_a_repetition_and_the_order_is_nothing(self, metric):
        rng = np.random.default_rng(0)
        count, model = rng.integers(0, 4, size=150), KMeans(5, metric=metric, random_state=0)
        one = KMeans(5, metric=metric, random_state=0).fit(IRIS, sample_weight=count)
        other = model.fit(np.repeat(IRIS, count, axis=0)[rng.permutation(count.sum())])
        assert_allclose(one.cluster_centers_, other.cluster_centers_)
        assert one.inertia_ == pytest.approx(other.inertia_, rel=1e-12)
        assert_array_equal(one.labels_, other.predict(IRIS))

    def test_a_file_keeps_everything(self, metric, tmp_path):
        model = KMeans(3, metric=metric, random_state=0).fit(IRIS)
        model.save(tmp_path / "model.jensen")
        again = jensen.load(tmp_path / "model.jensen")
        assert again.metric == metric
        assert_array_equal(again.transform(IRIS), model.transform(IRIS))
        assert_array_equal(again.cluster_centers_, model.cluster_centers_)

    def test_starts_of_every_kind(self, metric):
        given = IRIS[[0, 60, 120]]
        best = KMeans(3, metric=metric, n_init=20, random_state=0).fit(IRIS).inertia_
        assert KMeans(3, metric=metric, init="random", n_init=20, random_state=1).fit(IRIS).inertia_ == (
            pytest.approx(best, rel=1e-9)
        )
        start = KMeans(3, metric=metric, init=given, max_iter=0).fit(IRIS)
        assert start.n_iter_ == 0
        for init in (given, lambda x, k, random_state: x[[0, 60, 120]]):
            model = KMeans(3, metric=metric, init=init, n_init=1).fit(IRIS)
            assert best * (1 - 1e-9) <= model.inertia_ < start.inertia_
            again = KMeans(3, metric=metric, init=model.cluster_centers_).fit(IRIS)
            assert again.inertia_ == pytest.approx(model.inertia_, rel=1e-9)

    def test_many_rows_are_seeded_on_some_of_them(self, metric, monkeypatch):
        monkeypatch.setattr("jensen.models.clusters.kmeans_start.LIMIT", 100)
        rows, label = directions(n=1500)
        rows = rows if metric == "cosine" else normalize(rows)
        model = KMeans(4, metric=metric, random_state=0).fit(rows)
        assert adjusted_rand_score(model.labels_, label) == 1
        assert_array_equal(KMeans(4, metric=metric, random_state=0).fit(rows[::-1]).labels_[::-1], model.labels_)

    def test_no_cluster_is_empty(self, metric):
        rows = directions(n=40)[0]
        for seed in range(5):
            model = KMeans(12, metric=metric, init="random", n_init=1, random_state=seed).fit(rows)
            assert len(np.unique(model.labels_)) == 12
            assert (model.cluster_weights_ == np.bincount(model.labels_)).all()

    def test_as_many_clusters_as_rows_have_no_loss(self, metric):
        rows = directions(n=6)[0]
        assert KMeans(6, metric=metric, random_state=0).fit(rows).inertia_ == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            ({"depot": Depot([0.0] * 4)}, "depot"),
            ({"size_limits": (1, None)}, "size_limits"),
            ({"algorithm": "elkan"}, "algorithm"),
        ],
    )
    def test_what_needs_squared_distances_is_refused(self, metric, arguments, name):
        with pytest.raises(ValueError, match=rf"{name}.*metric='euclidean', got metric='{metric}'"):
            KMeans(3, metric=metric, **arguments).fit(IRIS)

    def test_the_progress_bar_changes_nothing(self, metric):
        quiet, verbose = (KMeans(3, metric=metric, random_state=0, verbose=v).fit(IRIS) for v in (0, 1))
        assert_allclose(quiet.cluster_centers_, verbose.cluster_centers_)


def test_an_unknown_metric_is_an_error():
    with pytest.raises(ValueError, match="metric"):
        KMeans(3, metric="hamming").fit(IRIS)


@pytest.mark.filterwarnings("ignore:X has columns with one value")
class TestColumnsWithOneValue:
    @pytest.mark.parametrize(("metric", "name"), [("euclidean", "euclidean"), ("manhattan", "cityblock")])
    def test_another_value_there_is_as_far_from_every_centre(self, metric, name):
        model = KMeans(3, metric=metric, random_state=0).fit(np.insert(IRIS, 1, 2.0, axis=1))
        rows = np.insert(IRIS, 1, 7.0, axis=1)
        with pytest.warns(UnseenValueWarning):
            found = model.transform(rows)
        assert_allclose(found, cdist(rows, model.cluster_centers_, name))
        power = 2 if metric == "euclidean" else 1
        with pytest.warns(UnseenValueWarning):
            assert model.score(rows) == pytest.approx(-(found.min(1) ** power).sum())

    @pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
    def test_given_centres_and_functions_have_all_columns(self, metric):
        rows = np.insert(IRIS, 1, 2.0, axis=1)
        given = rows[[0, 60, 120]]

        def starting(x, n_clusters, random_state):
            assert_array_equal(x, rows)
            return given

        by_rows = KMeans(3, metric=metric, init=given).fit(rows)
        plain = KMeans(3, metric=metric, init=np.delete(given, 1, axis=1)).fit(IRIS)
        assert_array_equal(by_rows.labels_, plain.labels_)
        assert_array_equal(KMeans(3, metric=metric, init=starting, n_init=1).fit(rows).labels_, plain.labels_)

    def test_it_turns_every_direction(self):
        rows = np.insert(IRIS, 1, 20.0, axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = KMeans(3, metric="cosine", random_state=0).fit(rows)
        assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)
        assert_allclose(model.transform(rows), cdist(rows, model.cluster_centers_, "cosine"), atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_many_rows_may_have_units_that_single_precision_cannot_hold(metric, unit):
    rows, label = make_blobs(3000, 3, centers=6, cluster_std=0.1, random_state=0)
    model = KMeans(6, metric=metric, random_state=0).fit(unit * rows)
    assert adjusted_rand_score(model.labels_, label) == 1
