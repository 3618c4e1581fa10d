"""Constant columns beyond the laws: batches, starts, priors, setters, weights, types, comparisons."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.cluster
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

import jensen
from jensen import (
    BernoulliMixture,
    ConjugatePrior,
    Depot,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    Mixture,
    MixtureOfPPCA,
    ProbabilisticPCA,
)
from jensen.data.codes import UnseenValueWarning

IRIS = load_iris().data
# A constant at place 2.
WIDE = np.insert(IRIS, 2, 7.5, axis=1)
VARYING = [0, 1, 3, 4]

pytestmark = pytest.mark.filterwarnings("ignore:X has columns with one value")


class TestAttributes:
    @pytest.mark.parametrize("structure", ["full", "tied", "diag"])
    def test_covariances_are_zero_there(self, structure):
        model = GaussianMixture(2, covariance_type=structure, random_state=0).fit(WIDE)
        for values in (model.covariances_, model.precisions_, model.precisions_cholesky_):
            assert values.shape[-1] == 5
            assert not values[..., 2].any()

    def test_noise_is_that_of_the_columns_that_vary(self):
        """σ² is the mean of the smallest eigenvalues, divisor n, of the four columns."""
        model = ProbabilisticPCA(2).fit(WIDE)
        values = np.sort(np.linalg.eigvalsh(np.cov(IRIS.T, bias=True)))
        assert model.noise_variance_ == pytest.approx(values[:2].mean())
        assert model.components_.shape == (2, 5)
        np.testing.assert_allclose(
            model.get_covariance(), ProbabilisticPCA(2).fit(IRIS).get_covariance()[grid()] * mask()
        )
        assert not model.get_precision()[2].any()
        assert FactorAnalysis(1).fit(WIDE).noise_variance_[2] == 0

    def test_a_setter_takes_all_columns(self):
        model = KMeans(3, random_state=0).fit(WIDE)
        centres = model.cluster_centers_[::-1].copy()
        model.cluster_centers_ = centres
        np.testing.assert_array_equal(model.cluster_centers_, centres)
        with pytest.raises(ValueError, match="cluster_centers_ cannot change in column 2, which had one value"):
            model.cluster_centers_ = centres + 1.0
        with pytest.raises(ValueError, match=r"cluster_centers_ has shape \(3, 4\), but \(3, 5\) is needed"):
            model.cluster_centers_ = centres[:, :4]
        mixture = GaussianMixture(2, random_state=0).fit(WIDE)
        before = mixture.score(WIDE)
        mixture.precisions_cholesky_ = mixture.precisions_cholesky_
        mixture.covariances_ = mixture.covariances_
        assert mixture.score(WIDE) == pytest.approx(before, rel=1e-8)

    def test_marginal_and_condition(self):
        model, other = GaussianMixture(2, random_state=0).fit(WIDE), GaussianMixture(2, random_state=0).fit(IRIS)
        np.testing.assert_allclose(
            model.marginal([2, 4, 0]).score_samples(WIDE[:, [2, 4, 0]]),
            other.marginal([3, 0]).score_samples(IRIS[:, [3, 0]]),
        )
        np.testing.assert_allclose(model.marginal([2]).score_samples(WIDE[:, [2]]), 0.0, atol=1e-15)
        given = model.condition({0: 5.0, 2: 7.5})
        np.testing.assert_allclose(given.means_, other.condition({0: 5.0}).means_)
        np.testing.assert_allclose(model.condition({0: 5.0}).sample(3, random_state=0)[0][:, 1], 7.5)


def grid():
    """IRIS's matrices with its last column in the place of the constant, which `mask` hides."""
    places = [0, 1, 3, 2, 3]
    return np.ix_(places, places)


def mask():
    seen = np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    return seen[:, None] * seen


class TestArguments:
    def test_starts_have_all_columns(self):
        rows, wide = IRIS[[0, 60, 120]], WIDE[[0, 60, 120]]
        for start in (wide, lambda X, n_clusters, random_state: X[[0, 60, 120]]):
            found = KMeans(3, init=start, n_init=1).fit(WIDE)
            np.testing.assert_allclose(
                found.cluster_centers_[:, VARYING], KMeans(3, init=rows).fit(IRIS).cluster_centers_
            )
        found = GaussianMixture(3, means_init=wide, precisions_init=np.tile(np.eye(5), (3, 1, 1))).fit(WIDE)
        other = GaussianMixture(3, means_init=rows, precisions_init=np.tile(np.eye(4), (3, 1, 1))).fit(IRIS)
        np.testing.assert_allclose(found.means_[:, VARYING], other.means_)
        found = FactorAnalysis(1, noise_variance_init=np.ones(5)).fit(WIDE)
        assert found.score(WIDE) == pytest.approx(
            FactorAnalysis(1, noise_variance_init=np.ones(4)).fit(IRIS).score(IRIS)
        )

    @pytest.mark.parametrize("make", [GaussianMixture, MixtureOfPPCA])
    def test_priors_have_all_columns(self, make):
        wide, own = ConjugatePrior(mean=np.arange(5.0)), ConjugatePrior(mean=[0.0, 1.0, 3.0, 4.0])
        found = make(2, prior=wide, random_state=0).fit(WIDE)
        other = make(2, prior=own, random_state=0).fit(IRIS)
        assert found.score(WIDE) == pytest.approx(other.score(IRIS), rel=1e-8)
        for model in (ProbabilisticPCA, FactorAnalysis):
            found, other = model(1, prior=wide).fit(WIDE), model(1, prior=own).fit(IRIS)
            assert found.score(WIDE) == pytest.approx(other.score(IRIS), rel=1e-6)

    def test_dimensions_are_those_that_vary(self):
        with pytest.raises(ValueError, match="n_components=5 is more than the 4 features of X that vary; lower it"):
            ProbabilisticPCA(5).fit(WIDE)
        with pytest.raises(ValueError, match="n_components=5 is more than the 4 features of X that vary; lower it"):
            FactorAnalysis(5).fit(WIDE)
        with pytest.raises(ValueError, match="n_latent=5 is more than the 4 features of X that vary; lower it"):
            MixtureOfPPCA(2, 5).fit(WIDE)

    def test_values_are_checked_in_constants_too(self):
        with pytest.raises(ValueError, match=r"5"):
            BernoulliMixture(1).fit(np.column_stack([np.full(20, 5.0), np.arange(20) % 2]))

    def test_a_depot_draws_stores_away_from_it(self):
        """The one store minimises Σ ‖x - μ‖² + n ‖μ - x_D‖² in the constant column, too: half way."""
        model = KMeans(1, depot=Depot(np.zeros(5))).fit(WIDE)
        assert model.cluster_centers_[0, 2] == pytest.approx(7.5 / 2)


class TestRows:
    def test_rows_of_weight_0_do_not_count(self):
        rows, weight = np.vstack([WIDE, WIDE[:1] + 1.0]), np.r_[np.ones(150), 0.0]
        model = GaussianMixture(2, random_state=0).fit(rows, sample_weight=weight)
        assert model.score(WIDE) == pytest.approx(GaussianMixture(2, random_state=0).fit(IRIS).score(IRIS), rel=1e-10)
        assert KMeans(2, random_state=0).fit(rows, sample_weight=weight).labels_.shape == (151,)

    def test_observed_entries_are_counted(self):
        rows = WIDE.copy()
        rows[10:, 2] = np.nan
        model = ProbabilisticPCA(1).fit(rows)
        other = WIDE[:1].copy()
        other[0, 2] = 0.0
        with pytest.warns(UnseenValueWarning, match=r"X holds 0.0 in row 0, column 2"):
            lost = model.score(WIDE[:1]) - model.score(other)
        assert lost == pytest.approx(np.log(11))
        assert (model.impute(rows)[:, 2] == 7.5).all()

    def test_only_equal_numbers_are_constant(self):
        rows = WIDE.copy()
        rows[100, 2] = np.nextafter(7.5, 8)
        assert GaussianMixture(1).fit(rows).measure_ == ("density",) * 5

    @pytest.mark.parametrize("dtype", ["float32", "int64"])
    def test_types(self, dtype):
        rows = np.insert((10 * IRIS).astype(dtype), 2, 7, axis=1)
        model = ProbabilisticPCA(1).fit(rows)
        assert model.measure_[2] == "probability"
        assert model.mean_[2] == 7

    @pytest.mark.filterwarnings("error::jensen.data.codes.UnseenValueWarning")
    @pytest.mark.parametrize(("fitted", "given"), [("float32", "float64"), ("float64", "float32")])
    def test_a_value_is_the_same_in_single_precision(self, fitted, given):
        rows = np.insert(IRIS, 2, 0.1, axis=1)
        for model in (GaussianMixture(1), KMeans(2, random_state=0)):
            model.fit(rows.astype(fitted)).score_samples(rows.astype(given))
        assert (model.impute(rows.astype(given)) == rows.astype(given)).all()

    def test_frames_name_the_column(self):
        frame = pd.DataFrame(WIDE, columns=list("abcde"))
        with pytest.warns(UserWarning, match=r"X has columns with one value: 'c' \(7.5\)"):
            model = GaussianMixture(2, random_state=0).fit(frame)
        frame.loc[3, "c"], frame.loc[4, "c"] = 1.0, np.nan
        with pytest.warns(UnseenValueWarning, match="X holds 1.0 in row 3, column 'c'"):
            filled = model.impute(frame)
        assert filled["c"].tolist() == [1.0 if i == 3 else 7.5 for i in range(150)]
        assert list(model.sample(2)[0].columns) == list("abcde")

    def test_distances_are_those_of_all_columns(self):
        """As scikit-learn's, for rows with another value, too."""
        model = KMeans(3, init=WIDE[[0, 60, 120]], n_init=1).fit(WIDE)
        other = sklearn.cluster.KMeans(3, init=WIDE[[0, 60, 120]], n_init=1).fit(WIDE)
        rows = WIDE.copy()
        rows[5, 2] = 9.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenValueWarning)
            np.testing.assert_allclose(model.transform(rows), other.transform(rows))
            assert model.score(rows) == pytest.approx(other.score(rows))
        assert model.n_iter_ == other.n_iter_

    @pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "mahalanobis", "manhattan"])
    def test_medoids_do_not_depend_on_it(self, metric):
        found, other = (KMedoids(3, metric=metric, random_state=0).fit(rows) for rows in (WIDE, IRIS))
        np.testing.assert_array_equal(found.medoid_indices_, other.medoid_indices_)
        assert found.inertia_ == pytest.approx(other.inertia_)

    def test_sparse_rows(self):
        rows = np.where(IRIS > 5, IRIS, 0.0)
        wide = np.column_stack([np.zeros(150), rows, np.full(150, 2.0)])
        dense, sparse = (
            KMeans(3, random_state=0).fit(wide),
            KMeans(3, random_state=0).fit(scipy.sparse.csr_matrix(wide)),
        )
        np.testing.assert_allclose(sparse.score_samples(scipy.sparse.csr_matrix(wide)), dense.score_samples(wide))
        np.testing.assert_allclose(dense.score_samples(wide), KMeans(3, random_state=0).fit(rows).score_samples(rows))
        np.testing.assert_allclose(sparse.cluster_centers_[:, [0, -1]], [[0.0, 2.0]] * 3)
        wide[4, 0] = 1.0
        with pytest.warns(UnseenValueWarning, match="X holds 1.0 in row 4, column 0"):
            lost = sparse.score_samples(scipy.sparse.csr_matrix(wide))
        np.testing.assert_allclose(lost, dense.score_samples(np.where(np.arange(6) == 0, 0.0, wide)) - unseen_cost(4))


def unseen_cost(row):
    return np.where(np.arange(150) == row, np.log(151), 0.0)


class TestBatches:
    @pytest.mark.parametrize("make", [lambda: GaussianMixture(1), lambda: ProbabilisticPCA(2), lambda: KMeans(1)])
    def test_a_column_may_vary_in_a_later_batch(self, make):
        """Batches are all rows together, though a column has one value in the first of them."""
        rows = WIDE.copy()
        rows[75:, 2] += np.arange(75)
        model = make().partial_fit(rows[:75]).partial_fit(rows[75:])
        if isinstance(model, ProbabilisticPCA):  # others forget the first rows, by design
            np.testing.assert_allclose(model.get_covariance(), make().fit(rows).get_covariance())
        assert model.measure_ == ("density",) * 5

    @pytest.mark.parametrize("make", [lambda: GaussianMixture(1), lambda: ProbabilisticPCA(2), lambda: KMeans(1)])
    def test_after_a_fit_it_must_stay(self, make):
        model = make().fit(WIDE)
        model.partial_fit(WIDE[:50])
        other = WIDE[:50].copy()
        other[7, 2] = 1.0
        with pytest.raises(
            ValueError, match=r"X holds 1 in row 7, column 2, which had only the value 7.5 in the rows of"
        ):
            model.partial_fit(other)

    def test_a_warm_start_needs_the_same_columns(self):
        model = GaussianMixture(2, warm_start=True, random_state=0).fit(WIDE)
        model.fit(WIDE)
        rows = WIDE.copy()
        rows[0, 2] = 1.0
        with pytest.raises(ValueError, match="warm_start: column 2 had one value in the last fit and varies now"):
            model.fit(rows)


def test_classes_of_constants_keep_their_shares():
    model = GaussianMixture().fit(np.ones((4, 2)), ["a", "b", "b", "b"])
    np.testing.assert_allclose(model.weights_, [0.25, 0.75])
    assert model.predict(np.ones((1, 2))).tolist() == ["b"]


def nats_of(board, name):
    return board.table.set_index("model").loc[name, "nats"]


def test_models_with_a_constant_are_ranked_together():
    """By the scores of the other columns, which scipy has for one Gaussian."""
    models = {"gaussian": GaussianMixture(1), "mixture": Mixture(1), "ppca": ProbabilisticPCA(2)}
    board = jensen.compare(WIDE, models, cv=2, random_state=0)
    other = jensen.compare(IRIS, models, cv=2, random_state=0)
    assert not board.failures
    for name in models:
        assert nats_of(board, name) == pytest.approx(nats_of(other, name), abs=1e-9)
    fitted = GaussianMixture(1).fit(WIDE)
    expected = multivariate_normal.logpdf(IRIS, IRIS.mean(0), np.cov(IRIS.T, bias=True))
    np.testing.assert_allclose(fitted.score_samples(WIDE), expected)
