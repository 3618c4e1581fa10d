"""What is special to k-means: stores, limits, holes, the bound."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse
import scipy.stats
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

import jensen
from jensen import Depot, GaussianMixture, KMeans
from jensen.engines.em import seeding as start

IRIS = load_iris().data


@pytest.fixture
def blobs():
    return make_blobs(400, centers=5, n_features=2, random_state=3)[0]


def loss(x, centres, weight=None):
    distance = np.nansum((x[:, None] - centres) ** 2, axis=2).min(1)
    return distance.sum() if weight is None else weight @ distance


class TestPlain:
    def test_the_same_centres_as_scikit_learn_from_the_same_start(self, blobs):
        ours = KMeans(5, init=blobs[:5], n_init=1).fit(blobs)
        theirs = SklearnKMeans(5, init=blobs[:5], n_init=1).fit(blobs)
        assert_allclose(ours.cluster_centers_, theirs.cluster_centers_)
        assert_array_equal(ours.labels_, theirs.labels_)
        assert_allclose(ours.inertia_, theirs.inertia_)
        assert_allclose(ours.transform(blobs), theirs.transform(blobs), atol=1e-7)
        assert ours.n_iter_ == theirs.n_iter_
        assert ours.score(blobs) == pytest.approx(theirs.score(blobs))

    def test_the_best_known_loss_of_iris(self):
        """78.851441 for three clusters, as R's kmeans and scikit-learn report it."""
        assert KMeans(3, n_init=10, random_state=0).fit(IRIS).inertia_ == pytest.approx(78.851441, abs=1e-6)

    def test_scikit_learns_weight_checks_pass_where_its_own_class_is_excused(self):
        model = KMeans(3, random_state=0)
        check_sample_weight_equivalence_on_dense_data("KMeans", clone(model))
        check_sample_weight_equivalence_on_sparse_data("KMeans", clone(model))

    def test_the_engine_and_the_compiled_loop_agree(self, blobs):
        """A depot of weight 0 pulls nobody, and limits that do not bind change nothing."""
        weight = np.random.default_rng(0).random(len(blobs))
        plain = KMeans(5, random_state=0, tol=0).fit(blobs, sample_weight=weight)
        for arguments in (
            {"depot": Depot([0.0, 0.0], weight=0.0)},
            {"depot": Depot([0.0, 0.0], weight=0.0, assignment="assigned")},
            {"size_limits": (0, 1e9)},
        ):
            other = KMeans(5, random_state=0, tol=0, **arguments).fit(blobs, sample_weight=weight)
            assert_allclose(other.cluster_centers_, plain.cluster_centers_)
            assert_allclose([other.inertia_, other.lower_bound_], [plain.inertia_, plain.lower_bound_])
            assert_array_equal(other.labels_, plain.labels_)
            assert_allclose(other.cluster_weights_, plain.cluster_weights_)

    def test_many_rows_are_seeded_on_some_of_them(self, monkeypatch):
        """Above the limit the start sees a sample; the outcome still does not depend on the order of the rows."""
        monkeypatch.setattr(start, "LIMIT", 300)
        monkeypatch.setattr("jensen.models.clusters.kmeans_start.LIMIT", 300)
        x = make_blobs(3000, centers=6, n_features=3, random_state=0)[0]
        model = KMeans(6, random_state=0).fit(x)
        again = KMeans(6, random_state=0).fit(x[::-1])
        assert_allclose(again.cluster_centers_, model.cluster_centers_)
        assert model.inertia_ <= 1.001 * SklearnKMeans(6, n_init=10, random_state=0).fit(x).inertia_

    def test_an_empty_cluster_is_refilled(self):
        x = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [1.0, 1.0]])
        far = np.array([[0.5, 0.5], [30.0, 30.0]])
        for rows in (x, np.vstack([x, [[np.nan, np.nan]]])):
            model = KMeans(2, init=far).fit(rows)
            assert_allclose(model.inertia_, 0.25)
            assert set(model.labels_) == {0, 1}
        model = KMeans(2, init=far, depot=Depot([0.5, 0.5], 0.1, "assigned")).fit(x)
        assert set(model.labels_) == {0, 1}

    def test_no_spread_at_all(self):
        model = KMeans(3, random_state=0).fit(np.repeat(np.eye(3), 2, axis=0))
        assert model.inertia_ == 0
        assert np.isfinite(model.score_samples(np.eye(3))).all()
        assert np.isfinite(KMeans(1).fit(np.ones((4, 2))).lower_bound_)

    def test_rows_of_weight_zero_are_left_out_and_labelled(self, blobs):
        weight = np.ones(len(blobs))
        weight[:50] = 0
        model = KMeans(5, random_state=0).fit(blobs, sample_weight=weight)
        assert_allclose(model.cluster_centers_, KMeans(5, random_state=0).fit(blobs[50:]).cluster_centers_)
        assert_array_equal(model.labels_, model.predict(blobs))

    def test_a_mixture_with_vanishing_variance_assigns_like_k_means(self, blobs):
        model = KMeans(5, random_state=0).fit(blobs)
        mixture = GaussianMixture.from_parameters(
            np.full(5, 0.2), model.cluster_centers_, np.full(5, 1e-6), covariance_type="spherical"
        )
        assert_array_equal(mixture.predict(blobs), model.predict(blobs))

    def test_the_bound_is_below_the_mixture_it_belongs_to_and_close_when_clusters_are_apart(self, blobs):
        far = 20 * blobs[:, :1] * [[1, 0]] + np.random.default_rng(0).normal(size=blobs.shape)
        model = KMeans(3, random_state=0).fit(far)
        mixture = GaussianMixture.from_parameters(
            np.full(3, 1 / 3),
            model.cluster_centers_,
            np.full(3, model.theta_.variance),
            covariance_type="spherical",
        )
        gap = mixture.score_samples(far) - model.score_samples(far)
        assert (gap >= -1e-9).all()
        # Half of the rows have no second centre within reach.
        assert np.median(gap) < 0.05

    def test_centres_can_be_set(self, blobs):
        model = KMeans(5, random_state=0).fit(blobs)
        order = np.argsort(model.cluster_centers_[:, 0])
        labels = model.predict(blobs)
        model.cluster_centers_ = model.cluster_centers_[order]
        assert_array_equal(order[model.predict(blobs)], labels)
        with pytest.raises(ValueError, match="does not match the number of features"):
            model.cluster_centers_ = np.zeros((5, 3))


class TestHoles:
    def test_distances_and_means_are_over_what_is_observed(self, blobs):
        rng = np.random.default_rng(0)
        x = np.where(rng.random(blobs.shape) < 0.3, np.nan, blobs)
        weight = rng.random(len(x))
        model = KMeans(4, random_state=0, tol=0).fit(x, sample_weight=weight)
        assert_allclose(model.inertia_, loss(x, model.cluster_centers_, weight))
        partial = np.nansum((x[:, None] - model.cluster_centers_) ** 2, axis=2)
        assert_array_equal(model.labels_, partial.argmin(1))
        assert_allclose(model.transform(x), np.sqrt(partial), atol=1e-9)
        for k in range(4):
            rows, w = x[model.labels_ == k], weight[model.labels_ == k, None]
            mean = np.nansum(w * rows, axis=0) / (w * ~np.isnan(rows)).sum(0)
            assert_allclose(model.cluster_centers_[k], mean)

    def test_holes_come_from_the_rows_own_centre(self, blobs):
        x = blobs.copy()
        x[0, 1] = np.nan
        model = KMeans(5, random_state=0).fit(blobs)
        assert model.impute(x)[0, 1] == model.cluster_centers_[model.predict(x)[0], 1]

    def test_a_feature_nobody_in_a_cluster_has(self):
        x = np.array([[0.0, 1.0], [0.1, 2.0], [10.0, np.nan], [10.1, np.nan]])
        model = KMeans(2, random_state=0).fit(x)
        assert np.isfinite(model.cluster_centers_).all()
        assert_allclose(model.inertia_, 0.51)


class TestDepot:
    X, COUNTS = np.array([[-1.0], [1.0]]), np.array([10, 4])

    def test_one_store_stands_at_the_mean_of_its_customers(self):
        assert_allclose(KMeans(1).fit(self.X, sample_weight=self.COUNTS).cluster_centers_, [[-3 / 7]], rtol=1e-14)

    @pytest.mark.parametrize("assignment", ["nearest", "assigned"])
    def test_a_depot_pulls_it(self, assignment):
        model = KMeans(1, depot=Depot([10.0], 1.0, assignment)).fit(self.X, sample_weight=self.COUNTS)
        assert_allclose(model.cluster_centers_, [[67 / 14]], rtol=1e-14)
        store = 67 / 14
        assert_allclose(model.inertia_, 10 * (store + 1) ** 2 + 4 * (store - 1) ** 2)
        assert_allclose(model.supply_cost_, 14 * (10 - store) ** 2)
        assert_allclose(model.cost_, model.inertia_ + model.supply_cost_)

    def test_assigned_customers_are_plain_k_means_with_stores_drawn_to_the_depot(self, blobs):
        place, pull = np.array([1.0, -2.0]), 0.7
        weight = np.random.default_rng(0).random(len(blobs))
        plain = KMeans(5, random_state=0, tol=0).fit(blobs, sample_weight=weight)
        # Its start in the plain problem's coordinates: a store at μ serves as if it stood at (1+λ)μ - λx_D.
        begin = (plain.cluster_centers_ + pull * place) / (1 + pull)
        model = KMeans(5, init=begin, tol=0, depot=Depot(place, pull, "assigned")).fit(blobs, sample_weight=weight)
        assert_array_equal(model.labels_, plain.labels_)
        assert_allclose(model.cluster_centers_, begin)
        expected = (plain.inertia_ + pull * weight @ ((blobs - place) ** 2).sum(1)) / (1 + pull)
        assert_allclose(model.cost_, expected)
        assert_array_equal(model.predict(blobs), plain.labels_)

    def test_nearest_customers_go_to_the_nearest_store_and_the_best_solution_seen_is_kept(self, blobs):
        place, pull = np.array([1.0, -2.0]), 2.0
        costs = []
        for n in range(9):
            model = KMeans(4, random_state=1, max_iter=n, tol=0, depot=Depot(place, pull)).fit(blobs)
            distance = ((blobs[:, None] - model.cluster_centers_) ** 2).sum(2)
            nearest = distance.argmin(1)
            assert_array_equal(model.predict(blobs), nearest)
            supply = pull * ((model.cluster_centers_ - place) ** 2).sum(1)[nearest].sum()
            assert_allclose([model.inertia_, model.supply_cost_], [distance.min(1).sum(), supply])
            costs.append(model.cost_)
        assert (np.diff(costs) <= 1e-9 * costs[0]).all()

    @pytest.mark.parametrize("seed", range(20))
    def test_nearest_ends_where_a_direct_search_does(self, seed):
        """Nelder and Mead's search over the stores, from many starts, each valued at its own nearest assignment."""
        rng = np.random.default_rng(seed)
        n, k, d = rng.integers(8, 16), rng.integers(2, 4), rng.integers(1, 3)
        x, weight, place = rng.normal(size=(n, d)), rng.integers(1, 5, size=n), 2 * rng.normal(size=d)
        pull = rng.choice([0.2, 0.5, 1.0, 2.0])

        def cost(stores):
            stores = stores.reshape(k, d)
            distance = ((x[:, None] - stores) ** 2).sum(2)
            supply = pull * ((stores - place) ** 2).sum(1)
            return weight @ (distance.min(1) + supply[distance.argmin(1)])

        starts = [(x[rng.choice(n, k, replace=False)] + share * place) / (1 + share) for share in (0, pull) * 4]
        direct = min(scipy.optimize.minimize(cost, s.ravel(), method="Nelder-Mead").fun for s in starts)
        model = KMeans(k, random_state=0, n_init=2, depot=Depot(place, pull)).fit(x, sample_weight=weight)
        assert_allclose(model.cost_, cost(model.cluster_centers_))
        assert model.cost_ <= 1.001 * direct

    def test_nearest_stores_are_searched_with_holes_and_many_rows(self, blobs, monkeypatch):
        """Where rows are many some are searched, and no answer is worse than that of plain steps."""
        x = np.where(np.random.default_rng(0).random(blobs.shape) < 0.2, np.nan, blobs)
        searched = KMeans(4, random_state=1, depot=Depot([1.0, -2.0], 2.0)).fit(x).cost_
        monkeypatch.setattr("jensen.models.clusters.kmeans_em.SEARCHED", 100)
        of_some = KMeans(4, random_state=1, depot=Depot([1.0, -2.0], 2.0)).fit(x).cost_
        monkeypatch.setattr("jensen.models.clusters.kmeans_em.lines", lambda *_: None)
        plain = KMeans(4, random_state=1, depot=Depot([1.0, -2.0], 2.0)).fit(x).cost_
        assert searched < 0.99 * plain
        assert searched <= of_some <= plain

    def test_the_bound_rests_on_the_customers_part(self, blobs):
        model = KMeans(4, random_state=1, depot=Depot([1.0, -2.0], 2.0)).fit(blobs)
        assert_allclose(model.theta_.variance, model.inertia_ / blobs.size)
        assert_allclose(model.lower_bound_, model.score_samples(blobs).mean())

    def test_customers_without_a_place_still_need_their_goods(self):
        """Minimise 4 (x̄-μ)² + λ 6 (μ-x_D)² when two of six customers have no coordinate."""
        x = np.array([[0.0], [0.0], [2.0], [2.0], [np.nan], [np.nan]])
        model = KMeans(1, depot=Depot([5.0], 0.5)).fit(x)
        assert_allclose(model.cluster_centers_, [[(4 * 1 + 0.5 * 6 * 5) / (4 + 0.5 * 6)]])

    def test_assigned_stores_start_where_plain_centres_would_be_drawn_to(self):
        """Equally good starts: the loss of the equivalent plain problem is close to plain k-means' own."""
        x = make_blobs(2000, centers=12, n_features=2, random_state=1)[0]
        for seed in range(3):
            model = KMeans(12, random_state=seed, depot=Depot([5.0, 5.0], 1.0, "assigned")).fit(x)
            equivalent = 2 * model.cost_ - ((x - 5) ** 2).sum()
            assert equivalent < 1.02 * KMeans(12, random_state=seed).fit(x).inertia_

    def test_a_rule_that_goes_in_circles_ends(self):
        model = KMeans(3, random_state=0, depot=Depot(np.zeros(4), 0.3)).fit(IRIS)
        assert model.converged_
        assert model.n_iter_ < 100

    def test_a_number_is_a_place_on_a_line(self):
        model = KMeans(1, depot=Depot(10.0, 1.0)).fit(self.X, sample_weight=self.COUNTS)
        assert_allclose(model.cluster_centers_, [[67 / 14]])

    @pytest.mark.parametrize(
        ("depot", "message"),
        [
            (Depot(["a", "b"]), r"depot.location=\['a', 'b'\] must be numbers, one per feature"),
            (Depot([1.0, 2.0], weight=None), "depot.weight=None must be a number, 0 or more"),
            (Depot([1.0]), r"depot.location has shape \(1,\), but X has 2 features"),
            (Depot([1.0, np.nan]), r"depot.location=\[1.0, nan\] must be finite"),
            (Depot([1.0, 2.0], weight=-1), "depot.weight=-1 must be a number, 0 or more"),
            (Depot([1.0, 2.0], weight="much"), "depot.weight='much' must be a number, 0 or more"),
            (Depot([1.0, 2.0], assignment="far"), "depot.assignment='far' must be 'nearest' or 'assigned'"),
        ],
    )
    def test_bad_depots(self, blobs, depot, message):
        with pytest.raises(ValueError, match=message):
            KMeans(2, depot=depot).fit(blobs)


class TestSizeLimits:
    def test_every_centre_keeps_to_its_limits(self, blobs):
        model = KMeans(4, random_state=0, size_limits=(95, 105)).fit(blobs)
        sizes = np.bincount(model.labels_)
        assert ((sizes >= 95) & (sizes <= 105)).all()
        assert_array_equal(sizes, model.cluster_weights_)
        assert_allclose(model.inertia_, ((blobs - model.cluster_centers_[model.labels_]) ** 2).sum())
        assert model.inertia_ > KMeans(4, random_state=0).fit(blobs).inertia_

    def test_the_assignment_is_the_best_one_by_enumeration(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(8, 2))
        model = KMeans(2, random_state=0, size_limits=(4, 4), n_init=20).fit(x)

        def cost(chosen):
            groups = (x[list(chosen)], np.delete(x, chosen, axis=0))
            return sum(((g - g.mean(0)) ** 2).sum() for g in groups)

        assert_allclose(model.inertia_, min(cost(chosen) for chosen in itertools.combinations(range(8), 4)))

    @pytest.mark.parametrize("seed", range(12))
    def test_no_assignment_is_better_by_enumeration(self, seed):
        rng = np.random.default_rng(seed)
        k, d = rng.integers(2, 4), rng.integers(1, 4)
        x = rng.normal(size=(7, d))
        limits = int(rng.integers(7 // k + 1)), int(rng.integers(-(-7 // k), 7))
        chosen = np.eye(k)[list(itertools.product(range(k), repeat=7))]
        sizes = chosen.sum(1)
        sums = np.einsum("ank,nd->akd", chosen, x)
        cost = (x**2).sum() - (sums**2 / np.maximum(sizes, 1)[..., None]).sum((1, 2))
        allowed = (sizes >= limits[0]).all(1) & (sizes <= limits[1]).all(1)
        model = KMeans(k, random_state=0, size_limits=limits, n_init=5).fit(x)
        assert_allclose(model.inertia_, cost[allowed].min())

    @pytest.mark.parametrize("seed", range(4))
    def test_rows_that_change_places_keep_to_the_limits_with_weights_holes_and_a_depot(self, seed):
        """A row that leaves takes what the limits allow; no solution is worse than that of plain steps."""
        rng = np.random.default_rng(seed)
        x, weight = rng.normal(size=(40, 2)), rng.integers(1, 6, size=40).astype(float)
        x[rng.random(x.shape) < 0.1] = np.nan
        depot = Depot([1.0, 1.0], 0.5, "assigned") if seed % 2 else None
        limits = weight.sum() / 4 - 3, weight.sum() / 4 + 2.5
        model = KMeans(4, random_state=0, size_limits=limits, depot=depot).fit(x, sample_weight=weight)
        assert model.cluster_weights_.min() >= limits[0] - 1e-9
        assert model.cluster_weights_.max() <= limits[1] + 1e-9
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("jensen.models.clusters.kmeans_em.moves", lambda _: None)
            plain = KMeans(4, random_state=0, size_limits=limits, depot=depot).fit(x, sample_weight=weight)
        assert model.cost_ <= plain.cost_ * (1 + 1e-9)

    def test_weights_count_customers_and_a_row_may_be_split(self):
        x, weight = np.array([[0.0], [1.0], [10.0]]), np.array([4, 4, 2])
        model = KMeans(2, random_state=0, size_limits=(5, 5), n_init=5).fit(x, sample_weight=weight)
        assert_allclose(np.sort(model.cluster_weights_), [5, 5])
        repeated = KMeans(2, random_state=0, size_limits=(5, 5), n_init=5).fit(np.repeat(x, weight, axis=0))
        assert_allclose(repeated.inertia_, model.inertia_)

    @pytest.mark.parametrize("unit", [1e-9, 0.1, 1e20])
    def test_the_unit_of_the_weights_does_not_matter(self, unit):
        model = KMeans(3, random_state=0, size_limits=(50 * unit, 50 * unit)).fit(IRIS, sample_weight=[unit] * 150)
        assert_allclose(model.cluster_weights_, [50 * unit] * 3)

    @pytest.mark.parametrize("most", [None, np.inf, 150])
    def test_only_a_least_size(self, most):
        model = KMeans(3, random_state=0, size_limits=(45, most)).fit(IRIS)
        assert_allclose(np.sort(model.cluster_weights_), [45, 50, 55])

    def test_the_bound_is_that_of_the_nearest_centre(self, blobs):
        weight = np.random.default_rng(0).integers(1, 4, size=len(blobs))
        limits = weight.sum() / 4 - 5, weight.sum() / 4 + 5
        model = KMeans(4, random_state=0, size_limits=limits).fit(blobs, sample_weight=weight)
        variance = model.inertia_ / (2 * weight.sum())
        densities = [scipy.stats.multivariate_normal(c, variance).logpdf(blobs) for c in model.cluster_centers_]
        expected = np.max(densities, axis=0) - np.log(4)
        assert_allclose(model.score_samples(blobs), expected)
        assert_allclose(model.lower_bound_, np.average(expected, weights=weight))

    def test_with_holes_and_a_depot(self, blobs):
        x = np.where(np.random.default_rng(0).random(blobs.shape) < 0.2, np.nan, blobs)
        model = KMeans(4, random_state=0, size_limits=(100, 100), depot=Depot([0.0, 0.0], 0.3, "assigned")).fit(x)
        assert_array_equal(np.bincount(model.labels_), [100] * 4)

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            (
                (100, 120),
                r"size_limits=\(100, 120\) cannot be satisfied: n_clusters=5 clusters hold between 500 and 600, .*400",
            ),
            ((10, 20), "between 50 and 100, but X has 400; change the limits or n_clusters"),
            ((20, 10), "must be two numbers, the least and the most"),
            ((1, 2, 3), "must be two numbers, the least and the most"),
            (("a", "b"), "must be two numbers, the least and the most"),
        ],
    )
    def test_limits_that_cannot_hold(self, blobs, limits, message):
        with pytest.raises(ValueError, match=message):
            KMeans(5, size_limits=limits).fit(blobs)

    def test_a_batch_is_a_part(self, blobs):
        model = KMeans(4, random_state=0, size_limits=(50, 150)).fit(blobs)
        for estimator in (model, clone(model)):
            with pytest.raises(AttributeError, match="partial_fit") as error:
                estimator.partial_fit(blobs)
            assert "apply to all rows together, not to a batch: use fit" in str(error.value.__cause__)

    def test_batches_after_a_fit_with_limits_have_none(self, blobs):
        model = KMeans(4, random_state=0, size_limits=(100, 100)).fit(blobs)
        model.set_params(size_limits=None).partial_fit(blobs[:30])
        assert_array_equal(model.labels_, model.predict(blobs[:30]))


class TestStreams:
    def test_batches_go_on_where_a_fit_ended(self, blobs, tmp_path):
        model = KMeans(5, random_state=0).fit(blobs)
        before = model.cluster_centers_
        model.save(tmp_path / "model.jensen")
        loaded = jensen.load(tmp_path / "model.jensen")
        shifted = blobs + 0.5
        for stream in (model, loaded):
            stream.partial_fit(shifted)
            assert (stream.cluster_centers_ > before).all()
            assert (stream.cluster_centers_ < before + 0.5).all()
        # The file keeps what the statistics were made of.
        assert_allclose(loaded.cluster_centers_, model.cluster_centers_)
        assert_allclose(loaded.theta_.variance, model.theta_.variance)

    def test_a_depot_pulls_in_batches_too(self, blobs, tmp_path):
        model = KMeans(3, random_state=0, depot=Depot([2.0, 2.0], 1.0)).fit(blobs)
        model.save(tmp_path / "model.jensen")
        loaded = jensen.load(tmp_path / "model.jensen")
        before = model.cluster_centers_
        loaded.partial_fit(blobs)
        # The same rows again change nothing but for rows that moved to another store.
        assert np.abs(loaded.cluster_centers_ - before).max() < 0.5

    def test_sparse_batches(self, blobs):
        dense, sparse = KMeans(5, random_state=0).fit(blobs), KMeans(5, random_state=0).fit(blobs)
        dense.partial_fit(blobs[:100])
        sparse.partial_fit(scipy.sparse.csr_array(blobs[:100]))
        assert_allclose(sparse.cluster_centers_, dense.cluster_centers_)


class TestKinds:
    def test_sparse_rows_answer_like_dense_ones(self):
        x = np.where(np.random.default_rng(0).random((200, 30)) < 0.9, 0.0, 1.0) * np.arange(1, 31)
        dense, sparse = KMeans(4, random_state=0).fit(x), KMeans(4, random_state=0).fit(scipy.sparse.csr_matrix(x))
        for name in ("predict", "score_samples", "transform", "score"):
            assert_allclose(getattr(sparse, name)(scipy.sparse.csr_array(x)), getattr(dense, name)(x), atol=1e-9)
        x[0, 0] = np.nan
        model = KMeans(4, random_state=0).fit(scipy.sparse.csr_array(x))
        assert_array_equal(model.predict(scipy.sparse.csr_array(x)), model.labels_)
        x[0, 0] = 0.0
        assigned = KMeans(4, random_state=0, depot=Depot(np.zeros(30), 1.0, "assigned")).fit(x)
        assert_array_equal(assigned.predict(scipy.sparse.csr_array(x)), assigned.labels_)

    def test_wide_sparse_rows_are_never_written_out_for_the_start(self, monkeypatch):
        monkeypatch.setattr(start, "FEW_NUMBERS", 0)
        x = scipy.sparse.random_array((300, 40), density=0.1, rng=np.random.default_rng(0), format="csr")
        model = KMeans(4, random_state=0).fit(x)
        order = np.random.default_rng(1).permutation(300)
        assert_allclose(KMeans(4, random_state=0).fit(x[order]).inertia_, model.inertia_)
        assert KMeans(4, init="random", random_state=0).fit(x).inertia_ == pytest.approx(model.inertia_, rel=0.2)

    def test_tensors_and_frames(self, blobs):
        frame = pd.DataFrame(blobs, columns=["a", "b"])
        model = KMeans(5, random_state=0).set_output(transform="pandas").fit(frame)
        assert list(model.transform(frame).columns) == [f"kmeans{k}" for k in range(5)]
        assert list(model.sample(3)[0].columns) == ["a", "b"]
        model = KMeans(5, random_state=0).fit(torch.tensor(blobs))
        assert isinstance(model.predict(torch.tensor(blobs)), torch.Tensor)

    def test_samples_of_one_centre(self, blobs):
        model = KMeans(5, random_state=0).fit(blobs)
        assert_array_equal(model.sample(4, y=3)[1], [3] * 4)
        assert_array_equal(model.sample(2, y=[1, 0])[1], [1, 0])
        with pytest.raises(ValueError, match=r"y=5 must be the number of a cluster, 0\.\.4"):
            model.sample(2, y=5)
        with pytest.raises(ValueError, match="n_samples=0 must be a whole number"):
            model.sample(0)
        with pytest.raises(ValueError, match="n_draws=0 must be a whole number"):
            model.impute_draws(blobs, 0)


class TestArguments:
    def test_elkan_is_for_complete_rows(self, blobs):
        x = blobs.copy()
        x[0, 0] = np.nan
        with pytest.raises(ValueError, match="algorithm='elkan' is for complete rows"):
            KMeans(3, algorithm="elkan").fit(x)

    def test_given_centres_must_be_finite(self, blobs):
        with pytest.raises(ValueError, match="init holds NaN or infinity"):
            KMeans(2, init=np.full((2, 2), np.nan)).fit(blobs)

    def test_a_column_that_only_rows_without_weight_have(self):
        x = np.column_stack([IRIS, np.where(np.arange(150) < 3, 1.0, np.nan)])
        with pytest.raises(ValueError, match="no observed value in column 4; drop it"):
            KMeans(3).fit(x, sample_weight=np.arange(150) >= 3)

    def test_values_too_large_to_square(self):
        with pytest.raises(
            ValueError, match=r"X contains 5.1e\+155 in row 0, column 0, too large to square; rescale it"
        ):
            KMeans(3).fit(IRIS * 1e155)
        # Each value has a square, and their sum has none.
        with pytest.raises(ValueError, match="X has values too large to square; rescale it"):
            KMeans(3, random_state=0).fit(np.random.default_rng(0).uniform(-9e152, 9e152, size=(3000, 4)))

    def test_a_fit_answers_by_its_own_number_of_centres(self):
        model = KMeans(3, random_state=0).fit(IRIS)
        expected = model.score_samples(IRIS)
        model.set_params(n_clusters=30)
        assert_array_equal(model.score_samples(IRIS), expected)
        assert model.sample(50)[1].max() == 2
        assert model.posterior(IRIS).probs.shape == (150, 3)

    def test_reversed_views(self):
        x = IRIS[::-1, ::-1]
        for model in (KMeans(3), KMeans(3, size_limits=(40, 60)), KMeans(3, max_iter=0), GaussianMixture(2)):
            model.set_params(random_state=0).fit(x)
        model = KMeans(3, random_state=0).fit(x)
        model.cluster_centers_ = model.cluster_centers_[::-1]
        model.partial_fit(x)

    def test_a_warning_points_at_the_caller(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            KMeans(3, max_iter=1, tol=0, random_state=0, depot=Depot(np.zeros(4), 0.1, "assigned")).fit(IRIS)
            KMeans(3, max_iter=1, tol=0, random_state=0, init="random").fit(IRIS)
        assert [w.filename for w in caught] == [__file__] * 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                {"size_limits": (0, None)},
                "size_limits=.* is not used: a least of 0 and a most of the total weight limit",
            ),
            ({"depot": Depot([0.0, 0.0], 0.0)}, "depot is not used: with a weight of 0 supply from the depot costs"),
            (
                {"copy_x": False, "size_limits": (1, 300)},
                "copy_x=False is not used: missing values, depot, size_limits",
            ),
        ],
    )
    def test_arguments_without_effect_are_a_warning(self, blobs, arguments, message):
        with pytest.warns(UserWarning, match=message) as caught:
            KMeans(2, random_state=0, **arguments).fit(blobs)
        assert [w.filename for w in caught] == [__file__]

    def test_arguments_with_an_effect_are_none(self, blobs):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for arguments in ({"copy_x": False}, {"size_limits": (1, None)}, {"depot": Depot([0.0, 0.0], 0.1)}):
                KMeans(2, random_state=0, **arguments).fit(blobs.copy())

    def test_a_file_with_impossible_values_is_refused(self, blobs):
        model = KMeans(2).fit(blobs)
        record = model._theta_record()
        with pytest.raises(ValueError, match=r"variance must be positive, got -1\.0"):
            model._theta_from(record | {"variance": torch.tensor(-1.0)})

    def test_progress_is_quiet_off_a_terminal_and_changes_nothing(self, blobs, capsys):
        x = np.random.default_rng(0).normal(size=(3000, 3))
        shown, quiet = KMeans(8, random_state=0, verbose=1).fit(x), KMeans(8, random_state=0).fit(x)
        assert_allclose(shown.inertia_, quiet.inertia_, rtol=1e-6)
        captured = capsys.readouterr()
        assert captured.out + captured.err == ""

    def test_copy_x_false_puts_the_rows_back(self, blobs):
        x = blobs.copy()
        model = KMeans(5, random_state=0, copy_x=False).fit(x)
        assert_allclose(x, blobs, rtol=1e-12)
        assert_allclose(model.cluster_centers_, KMeans(5, random_state=0).fit(blobs).cluster_centers_)
