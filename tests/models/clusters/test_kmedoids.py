"""What is special to K medoids: known optima, weights and order, metrics, given distances, missing values, errors."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import jensen
from jensen import KMedoids

X, Y = load_iris(return_X_y=True)
TEXTBOOK = [[0, 2, 3, 4, 5], [2, 0, 6, 7, 8], [3, 6, 0, 9, 10], [4, 7, 9, 0, 11], [5, 8, 10, 11, 0]]


def medoids(k=3, **arguments):
    return KMedoids(k, **{"random_state": 0} | arguments)


def contents(model):
    """The medoids as a set of rows."""
    return sorted(map(tuple, model.cluster_centers_.tolist()))


# Known optima


def test_the_textbook_matrix_has_loss_9():
    for init in ("random", "build", [3, 4]):
        model = medoids(2, metric="precomputed", init=init).fit(TEXTBOOK)
        assert model.inertia_ == 9
        assert 0 in model.medoid_indices_
        assert model.score(TEXTBOOK) == -9


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "chebyshev"])
def test_small_problems_reach_the_optimum_of_all_sets_of_medoids(metric):
    for seed in range(5):
        rows = np.random.default_rng(seed).normal(size=(14, 2))
        weight = np.random.default_rng(seed).random(14)
        distances = pairwise_distances(rows, metric=metric)
        best = min(distances[list(m)].min(0) @ weight for m in itertools.combinations(range(14), 3))
        model = medoids(metric=metric, n_init=8).fit(rows, sample_weight=weight)
        assert model.inertia_ == pytest.approx(best, rel=1e-9)


def test_iris():
    """Three clusters of iris in Euclidean distance: medoids 8, 79 and 113, as PAM finds in R."""
    for init in ("random", "build"):
        model = medoids(init=init).fit(X)
        assert sorted(model.medoid_indices_ + 1) == [8, 79, 113]
        assert (model.labels_ == model.labels_[0])[Y == 0].all()


def test_one_medoid_is_the_row_with_the_least_weighted_total():
    weight = np.random.default_rng(0).random(150)
    model = medoids(1).fit(X, sample_weight=weight)
    totals = cdist(X, X) @ weight
    assert_array_equal(model.cluster_centers_[0], X[totals.argmin()])
    assert model.inertia_ == pytest.approx(totals.min())


def test_as_many_medoids_as_distinct_rows_have_no_loss():
    rows = np.repeat(np.arange(12.0).reshape(6, 2), 2, axis=0)
    assert medoids(6).fit(rows).inertia_ == 0
    assert medoids(1).fit([[3.0, 4.0]]).inertia_ == 0


def test_a_medoid_is_the_member_with_the_least_total_to_its_cluster():
    model = medoids().fit(X)
    for k, index in enumerate(model.medoid_indices_):
        members = model.labels_ == k
        assert cdist(X[members], X[[index]]).sum() == pytest.approx(cdist(X[members], X[members]).sum(0).min())


def test_outliers_do_not_move_medoids():
    rows, _ = make_blobs(200, centers=[[-5, 0], [5, 0]], random_state=0)
    model = medoids(2).fit(np.vstack([rows, [[0, 60], [1, 70]]]))
    assert_allclose(sorted(model.cluster_centers_[:, 0]), [-5, 5], atol=0.5)
    assert abs(model.cluster_centers_[:, 1]).max() < 0.5


# Weights and order


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "mahalanobis", "nan_euclidean"])
def test_a_weight_is_a_repetition_and_the_order_is_nothing(metric):
    rng = np.random.default_rng(0)
    count = rng.integers(0, 4, size=150)
    one = medoids(5, metric=metric).fit(X, sample_weight=count)
    order = rng.permutation(count.sum())
    other = medoids(5, metric=metric).fit(np.repeat(X, count, axis=0)[order])
    assert contents(one) == contents(other)
    assert one.inertia_ == pytest.approx(other.inertia_, rel=1e-12)
    assert_array_equal(one.predict(X), other.predict(X))
    assert (count[one.medoid_indices_] > 0).all()


def test_the_order_of_tied_rows_is_nothing():
    grid = np.array(list(itertools.product(range(8), range(8))), dtype=float)
    models = [medoids(5).fit(grid[np.random.default_rng(s).permutation(64)]) for s in range(5)]
    for model in models:
        assert_array_equal(model.cluster_centers_, models[0].cluster_centers_)


def test_rows_of_weight_0_are_left_out_but_labelled():
    weight = (Y != 2).astype(float)
    model = medoids(2).fit(X, sample_weight=weight)
    assert contents(model) == contents(medoids(2).fit(X[Y != 2]))
    assert_array_equal(model.labels_, model.predict(X))
    assert (Y[model.medoid_indices_] != 2).all()
    given = medoids(2, metric="precomputed").fit(cdist(X, X), sample_weight=weight)
    assert given.inertia_ == pytest.approx(model.inertia_)
    assert (Y[given.medoid_indices_] != 2).all()
    assert_array_equal(given.labels_ == given.labels_[0], model.labels_ == model.labels_[0])


def test_seeds_repeat_and_more_starts_never_lose():
    rows = np.random.default_rng(0).random((300, 2))
    one = medoids(15, n_init=1).fit(rows)
    assert_array_equal(one.medoid_indices_, medoids(15, n_init=1).fit(rows).medoid_indices_)
    assert medoids(15, n_init=5).fit(rows).inertia_ <= one.inertia_
    assert len({medoids(15, n_init=1, random_state=s).fit(rows).inertia_ for s in range(5)}) > 1


# Answers


def test_answers_about_new_rows():
    model = medoids().fit(X)
    new = X + 0.1
    expected = cdist(new, model.cluster_centers_)
    assert_allclose(model.transform(new), expected)
    assert_array_equal(model.predict(new), expected.argmin(1))
    assert model.score(new) == pytest.approx(-expected.min(1).sum())
    assert model.score(new, sample_weight=np.full(150, 2)) == pytest.approx(-2 * expected.min(1).sum())
    assert_array_equal(model.posterior(new).probs.numpy(), np.eye(3)[expected.argmin(1)])
    assert_array_equal(model.fit_predict(X), model.labels_)
    assert_allclose(model.fit_transform(X), cdist(X, model.cluster_centers_))
    assert model.score(X) == pytest.approx(-model.inertia_)
    assert model.get_feature_names_out().tolist() == ["kmedoids0", "kmedoids1", "kmedoids2"]


@pytest.mark.parametrize("name", ["score_samples", "bound", "sample", "impute", "impute_draws"])
def test_what_needs_a_density_does_not_exist(name):
    model = medoids().fit(X)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=name) as error:
        getattr(model, name)
    assert "a dissimilarity has no density" in str(error.value.__cause__)


def test_tables_and_dtypes_are_kept():
    reference = medoids().fit(X)
    frame = pd.DataFrame(X, columns=list("abcd"), index=[f"row {i}" for i in range(150)])
    for table in (frame, pl.DataFrame(X, schema=list("abcd")), X.tolist()):
        model = medoids().fit(table)
        assert_array_equal(model.labels_, reference.labels_)
        assert isinstance(model.transform(table), np.ndarray)
    assert medoids().fit(frame).set_output(transform="pandas").transform(frame).index[0] == "row 0"
    tensor = torch.from_numpy(X)
    model = medoids().fit(tensor)
    for answer in (model.fit_predict(tensor), model.predict(tensor), model.transform(tensor)):
        assert isinstance(answer, torch.Tensor)
    small = medoids().fit(X.astype(np.float32))
    assert small.cluster_centers_.dtype == small.transform(X.astype(np.float32)).dtype == np.float32
    assert small.inertia_ == pytest.approx(reference.inertia_, rel=1e-6)


@pytest.mark.parametrize("metric", ["jaccard", "correlation", "minkowski", lambda a, b: abs(a - b).max()])
def test_other_metrics(metric):
    rows = np.round(X) if metric == "jaccard" else X
    params = {"p": 1} if metric == "minkowski" else None
    model = medoids(2, metric=metric, metric_params=params).fit(rows)
    assert model.score(rows) == pytest.approx(-model.inertia_)
    if metric == "minkowski":
        assert model.inertia_ == pytest.approx(medoids(2, metric="cityblock").fit(rows).inertia_)


# Given distances


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_distances_are_as_good_as_rows(dtype, order):
    distances = np.array(cdist(X, X), dtype=dtype, order=order)
    before = distances.copy()
    distances.flags.writeable = False
    model = medoids(metric="precomputed", init="build").fit(distances)
    assert_array_equal(distances, before)
    assert sorted(model.medoid_indices_ + 1) == [8, 79, 113]
    assert model.n_features_in_ == 150
    query = cdist(X[:7] + 0.1, X).astype(dtype)
    assert_array_equal(model.transform(query), query[:, model.medoid_indices_])
    assert model.transform(query).dtype == dtype
    assert isinstance(model.predict(torch.tensor(query)), torch.Tensor)
    with pytest.raises(AttributeError, match="metric='precomputed' has no rows, so no cluster_centers_"):
        _ = model.cluster_centers_
    with pytest.raises(ValueError, match="X has 149 features, but KMedoids is expecting 150 features"):
        model.predict(query[:, 1:])


def test_memory_stays_at_the_matrix():
    rows = np.random.default_rng(0).random((2000, 3))
    distances = cdist(rows, rows)
    for given, model in ((rows, medoids(1000, max_iter=1)), (distances, medoids(30, metric="precomputed"))):
        model.set_params(n_init=1).fit(given)
        tracemalloc.start()
        model.fit(given)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        own = distances.nbytes if given is rows else 0
        assert peak - own < 0.2 * distances.nbytes


def test_given_distances_in_a_grid_search():
    search = GridSearchCV(KMedoids(metric="precomputed", random_state=0), {"n_clusters": [2, 5]}, cv=3)
    # Pairwise: scikit-learn cuts rows and columns alike. More medoids are always nearer.
    assert search.fit(cdist(X, X)).best_params_ == {"n_clusters": 5}


# Missing values


def test_missing_values_with_the_metric_for_them():
    rng = np.random.default_rng(0)
    rows, y = make_blobs(150, centers=3, n_features=8, random_state=3)
    holes = np.where(rng.random(rows.shape) < 0.1, np.nan, rows)
    model = medoids(metric="nan_euclidean").fit(holes)
    assert all(len(set(model.labels_[y == k])) == 1 for k in range(3))
    assert_array_equal(model.predict(holes), model.labels_)
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert_array_equal(model.labels_, medoids(metric="nan_euclidean").fit(np.ma.masked_invalid(holes)).labels_)


def test_missing_values_without_it():
    holes = X.copy()
    holes[7, 2] = np.nan
    message = r"X contains NaN, first in row 7, .* metric='euclidean' .*; metric='nan_euclidean' uses the features"
    with pytest.raises(ValueError, match=message):
        medoids().fit(holes)
    with pytest.raises(ValueError, match=message):
        medoids().fit(X).predict(holes)
    assert not medoids().__sklearn_tags__().input_tags.allow_nan


def test_rows_without_a_feature_in_common():
    rows = np.array([[1.0, 2.0], [2.0, 2.0], [1.0, np.nan], [3.0, 3.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match=r"rows (2 and 4|4 and 2) of X share no observed feature"):
        medoids(2, metric="nan_euclidean").fit(rows)
    model = medoids(2, metric="nan_euclidean").fit(rows[:4])
    with pytest.raises(ValueError, match=r"row 1 of X and medoid \d share no observed feature"):
        model.predict([[1.0, 1.0], [np.nan, np.nan]])


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "crow"}, "metric='crow' is unknown; there are braycurtis, .*, or a function of two rows"),
        ({"metric": "euclidian"}, "metric='euclidian' is unknown; did you mean 'euclidean'"),
        ({"n_clusters": 0}, "'n_clusters' parameter of KMedoids must be an int in the range"),
        ({"init": "first"}, "'init' parameter of KMedoids must be a str among .* Got 'first' instead"),
        ({"init": [1, 2]}, r"init=\[1, 2\] must be n_clusters=3 row numbers of X, from 0 to 149"),
        ({"init": [1, 2, 150]}, r"init=\[1, 2, 150\] must be n_clusters=3 row numbers of X, from 0 to 149"),
        ({"init": [1.0, 2.0, 3.0]}, "must be n_clusters=3 row numbers"),
        ({"init": [101, 142, 3]}, "must name different rows, each with a sample_weight above 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        # Rows 101 and 142 of iris are equal.
        KMedoids(**{"n_clusters": 3} | arguments).fit(X)


def test_a_start_of_weight_0():
    weight = np.ones(150)
    weight[5] = 0
    for metric, given in (("euclidean", X), ("precomputed", cdist(X, X))):
        with pytest.raises(ValueError, match=r"init=.* must name different rows, each with a sample_weight above 0"):
            medoids(2, metric=metric, init=[5, 6]).fit(given, sample_weight=weight)


def test_too_few_distinct_rows():
    message = "n_clusters=5 needs at least 5 distinct rows, got 2; lower n_clusters or add data"
    with pytest.raises(ValueError, match=message):
        medoids(5).fit(np.repeat([[1.0], [2.0]], 10, axis=0))
    with pytest.raises(ValueError, match=message):
        medoids(5, metric="precomputed").fit(TEXTBOOK, sample_weight=[1, 1, 0, 0, 0])


def test_matrices_that_hold_no_distances():
    with pytest.raises(ValueError, match=r"X has shape \(150, 4\), but metric='precomputed' needs the square matrix"):
        medoids(metric="precomputed").fit(X)
    for value, message in ((-1.0, "is -1.0"), (np.nan, "is nan"), (9.0, r"but X\[4, 1\] is 8")):
        bad = np.array(TEXTBOOK, dtype=float)
        bad[1, 4] = value
        with pytest.raises(ValueError, match=r"X\[1, 4\] is .*" if value == 9 else rf"X\[1, 4\] {message}"):
            medoids(2, metric="precomputed").fit(bad)
    model = medoids(2, metric="precomputed", init=[0, 1]).fit(TEXTBOOK)
    with pytest.raises(ValueError, match=r"X\[1, \d\] is -1.0; a distance must be finite and 0 or more"):
        model.predict([[0.0, 1, 2, 3, 4], [-1.0] * 5])


def test_other_bad_input():
    with pytest.raises(TypeError, match="toarray"):
        medoids().fit(csr_array(X))
    with pytest.raises(ValueError, match="sample_weight has a negative entry"):
        medoids().fit(X, sample_weight=-np.ones(150))
    with pytest.raises(ValueError, match="not fitted yet"):
        medoids().predict(X)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = medoids().cluster_centers_


def test_a_fit_that_has_not_ended_says_so():
    rows = np.random.default_rng(0).random((2000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ConvergenceWarning, match="swaps still lowered the loss in round max_iter=1; raise max_iter"
        ):
            medoids(20, max_iter=1).fit(rows)
        first = medoids(3, init=[1, 2, 3], max_iter=0).fit(rows)
    assert first.medoid_indices_.tolist() == [1, 2, 3]
    assert first.n_iter_ == 0


def test_progress_is_for_terminals(capfd):
    medoids(verbose=1).fit(X)
    assert capfd.readouterr() == ("", "")


# scikit-learn's habits and files

CHECKS = {
    "euclidean": {},
    "nan_euclidean": {"check_estimators_pickle": "removes so much that two rows share no feature"},
    "precomputed": {
        "check_clustering": "gives features, not distances",
        "check_estimators_nan_inf": "gives features, not distances",
        "check_positive_only_tag_during_fit": "wants scikit-learn's own words; ours name the entry",
    },
}


@pytest.mark.parametrize("metric", CHECKS)
def test_scikit_learns_checks_pass(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Some checks have four distinct rows, too few for the default of eight clusters.
        check_estimator(KMedoids(3, metric=metric), expected_failed_checks=CHECKS[metric])


def test_tags():
    tags = KMedoids(metric="precomputed").__sklearn_tags__()
    assert tags.estimator_type == "clusterer"
    assert tags.input_tags.pairwise
    assert not tags.input_tags.allow_nan
    assert not KMedoids().__sklearn_tags__().input_tags.pairwise


@pytest.mark.parametrize("metric", ["euclidean", "mahalanobis", "nan_euclidean", "precomputed"])
def test_a_file_keeps_everything(metric, tmp_path):
    given = cdist(X, X) if metric == "precomputed" else X
    model = medoids(metric=metric).fit(given)
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen")
    assert_array_equal(loaded.predict(given), model.predict(given))
    assert_array_equal(loaded.transform(given), model.transform(given))
    assert_array_equal(loaded.medoid_indices_, model.medoid_indices_)
    assert loaded.inertia_ == model.inertia_
    assert_array_equal(loaded.labels_, model.labels_)


def test_a_function_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match=r"params.metric=.* cannot be saved"):
        medoids(metric=lambda a, b: abs(a - b).sum()).fit(X).save(tmp_path / "model.jensen")


@pytest.mark.parametrize(
    ("metric", "change", "message"),
    [
        (
            "euclidean",
            {"indices": torch.tensor([1, 1, 2])},
            r"indices must be 3 different row numbers, got \[1, 1, 2\]",
        ),
        ("euclidean", {"indices": torch.tensor([-1, 1, 2])}, "indices must be 3 different row numbers"),
        ("euclidean", {"indices": torch.tensor([0.0, 1.0, 2.0])}, "indices must be 3 different row numbers"),
        ("precomputed", {"indices": torch.tensor([1, 2, 150])}, "indices must be 3 different row numbers"),
        ("euclidean", {"rows": torch.zeros(3, 5)}, r"rows has shape \(3, 5\), but \(3, 4\) is needed"),
        ("euclidean", {"rows": None}, r"rows has shape None, but \(3, 4\) is needed"),
        ("precomputed", {"rows": torch.zeros(3, 4)}, r"rows has shape \(3, 4\), but None is needed"),
        ("euclidean", {"rows": torch.full((3, 4), torch.nan)}, "rows holds NaN or infinity"),
    ],
)
def test_a_theta_no_fit_could_have_left_is_refused(metric, change, message):
    model = medoids(metric=metric).fit(cdist(X, X) if metric == "precomputed" else X)
    with pytest.raises(ValueError, match=message):
        model._theta_from(model._theta_record() | change)


def test_a_clone_is_unfitted_and_fits_the_same():
    model = medoids(4, init="build").fit(X)
    copy = clone(model)
    assert not hasattr(copy, "theta_")
    assert_array_equal(copy.fit(X).medoid_indices_, model.medoid_indices_)


def test_the_global_random_state_is_untouched():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    medoids().fit(X)
    assert torch.rand(1) == expected


@pytest.mark.parametrize("metric", ["cosine", "russellrao", "braycurtis", "dice"])
def test_a_row_is_no_distance_from_itself_even_where_a_metric_says_otherwise(metric):
    rows = np.random.default_rng(0).integers(0, 2, size=(30, 3)).astype(float)
    rows[:2] = 0
    for seed in range(4):
        model = KMedoids(3, metric=metric, random_state=seed).fit(rows)
        assert_array_equal(model.labels_[model.medoid_indices_], np.arange(3))
        assert model.score(rows) == pytest.approx(-model.inertia_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"init": [0, 60, 120], "n_init": 5}, "n_init=5 is not used: init gives the rows to start from"),
        ({"init": "build", "n_init": 5}, "n_init=5 is not used: init='build' is deterministic"),
        ({"metric": "precomputed", "metric_params": {"p": 3}}, "metric_params is not used: metric='precomputed' uses"),
    ],
)
def test_an_argument_without_effect_is_a_warning(arguments, message):
    rows = cdist(X, X) if "metric" in arguments else X
    with pytest.warns(UserWarning, match=message) as caught:
        KMedoids(3, random_state=0, **arguments).fit(rows)
    assert [w.filename for w in caught] == [__file__]


def test_distances_too_small_to_square_are_refused_and_others_are_not():
    with pytest.raises(ValueError, match=r"X varies by .*e-160 in column 0, too small to square; rescale it"):
        medoids().fit(X * 1e-160)
    expected = medoids(metric="manhattan").fit(X).labels_
    assert_array_equal(medoids(metric="manhattan").fit(X * 1e-160).labels_, expected)
    assert_array_equal(medoids(metric="manhattan").fit(X * 1e160).labels_, expected)
