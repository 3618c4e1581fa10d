"""Naive Bayes is scikit-learn's, and takes what that does not."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from jensen import DiscriminantAnalysis, GaussianMixture, Mixture, NaiveBayes

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
NUMBERS = RNG.normal(size=(300, 4)) + Y[:, None]
ANSWERS = (RNG.random((300, 5)) < RNG.random((3, 5))[Y]).astype(int)
LEVELS = (RNG.random((300, 4)) * (2 + Y[:, None])).astype(int)
WORDS = RNG.poisson(np.exp(RNG.normal(size=(3, 12)))[Y])
WEIGHT = RNG.integers(1, 4, 300)
# Sums in another order.
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def of_columns(model: NaiveBayes, name: str) -> np.ndarray:
    return np.stack([found[name] for found in model.parameters_.values()], 1)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
class TestIsScikitLearns:
    def test_gaussian(self, weight):
        ours = NaiveBayes().fit(NUMBERS, Y, sample_weight=weight)
        theirs = GaussianNB(var_smoothing=0).fit(NUMBERS, Y, weight)
        assert_allclose(ours.class_prior_, theirs.class_prior_, **EXACT)
        assert_allclose(of_columns(ours, "mean"), theirs.theta_, **EXACT)
        assert_allclose(of_columns(ours, "variance"), theirs.var_, **EXACT)
        assert_allclose(ours.predict_proba(NUMBERS), theirs.predict_proba(NUMBERS), **EXACT)

    @pytest.mark.parametrize("alpha", [1.0, 0.3])
    def test_bernoulli(self, weight, alpha):
        ours = NaiveBayes(alpha=alpha).fit(ANSWERS, Y, sample_weight=weight)
        theirs = BernoulliNB(alpha=alpha).fit(ANSWERS, Y, weight)
        assert_allclose(ours.class_prior_, np.exp(theirs.class_log_prior_), **EXACT)
        assert_allclose(of_columns(ours, "probability"), np.exp(theirs.feature_log_prob_), **EXACT)
        assert_allclose(ours.predict_proba(ANSWERS), theirs.predict_proba(ANSWERS), **EXACT)

    @pytest.mark.parametrize("alpha", [1.0, 0.3])
    def test_categorical(self, weight, alpha):
        ours = NaiveBayes(families="categorical", alpha=alpha).fit(LEVELS, Y, sample_weight=weight)
        theirs = CategoricalNB(alpha=alpha).fit(LEVELS, Y, weight)
        assert_allclose(ours.class_prior_, np.exp(theirs.class_log_prior_), **EXACT)
        for found, log_p in zip(ours.parameters_.values(), theirs.feature_log_prob_, strict=True):
            assert_allclose(found["probabilities"], np.exp(log_p), **EXACT)
        assert_allclose(ours.predict_proba(LEVELS), theirs.predict_proba(LEVELS), **EXACT)

    @pytest.mark.parametrize("alpha", [1.0, 0.3])
    def test_multinomial(self, weight, alpha):
        ours = NaiveBayes(families="multinomial", alpha=alpha).fit(WORDS, Y, sample_weight=weight)
        theirs = MultinomialNB(alpha=alpha).fit(WORDS, Y, weight)
        assert_allclose(ours.class_prior_, np.exp(theirs.class_log_prior_), **EXACT)
        assert_allclose(of_columns(ours, "probability"), np.exp(theirs.feature_log_prob_), **EXACT)
        assert_allclose(ours.predict_proba(WORDS), theirs.predict_proba(WORDS), **EXACT)


class TestIsAClassifier:
    @pytest.mark.parametrize("model", [NaiveBayes(), DiscriminantAnalysis()])
    @pytest.mark.parametrize("unknown", [None, np.nan, pd.NA])
    def test_score_is_that_of_labelled_rows(self, model, unknown):
        y = np.array(["a", "b", "c"], dtype=object)[Y]
        model.fit(NUMBERS, y)
        expected = model.score(NUMBERS[100:], y[100:], WEIGHT[100:])
        y[:100] = unknown
        assert model.score(NUMBERS, y, WEIGHT) == expected
        assert model.score(pd.DataFrame(NUMBERS), pd.Series(y), WEIGHT) == expected
        with pytest.raises(ValueError, match=r"y has no label; .* give the class of at least one row"):
            model.score(NUMBERS[:50], y[:50])

    def test_score_leaves_out_numbers_that_mean_unlabelled(self):
        model = NaiveBayes(unlabelled=-1).fit(NUMBERS, Y)
        expected = model.score(NUMBERS[100:], Y[100:])
        for unknown in (-1, np.nan):
            assert model.score(NUMBERS, np.where(np.arange(300) < 100, unknown, Y)) == expected

    def test_score_is_accuracy(self):
        model = NaiveBayes().fit(NUMBERS, Y)
        assert is_classifier(model)
        assert model.score(NUMBERS, Y) == (model.predict(NUMBERS) == Y).mean()
        X, y = load_iris(return_X_y=True)
        assert cross_val_score(NaiveBayes(), X, y).mean() > 0.93

    def test_minus_one_is_a_class_unless_it_means_unlabelled(self):
        signs = np.where(Y == 0, -1, 1)
        assert NaiveBayes().fit(NUMBERS, signs).classes_.tolist() == [-1, 1]
        assert NaiveBayes(unlabelled=-1).fit(NUMBERS, np.where(Y == 0, -1, Y)).classes_.tolist() == [1, 2]
        assert NaiveBayes(unlabelled="?").fit(NUMBERS, np.array(["?", "b", "c"])[Y]).classes_.tolist() == ["b", "c"]

    @pytest.mark.parametrize(
        "y",
        [np.where(Y == 0, np.nan, Y), np.where(Y == 0, None, Y), pd.Series(Y).where(Y > 0).astype("Int64")],
        ids=["NaN", "None", "NA"],
    )
    def test_missing_labels_are_unlabelled(self, y):
        model, marked = NaiveBayes().fit(NUMBERS, y), NaiveBayes(unlabelled=0).fit(NUMBERS, Y)
        assert_array_equal(model.predict_proba(NUMBERS), marked.predict_proba(NUMBERS))

    def test_needs_labels(self):
        with pytest.raises(
            ValueError, match="NaiveBayes requires y to be passed, but the target y is None; give a class"
        ):
            NaiveBayes().fit(NUMBERS)
        with pytest.raises(ValueError, match="y has no label; give the class of at least one row, or fit a Mixture"):
            NaiveBayes().fit(NUMBERS, [None] * 300)

    def test_the_first_batch_has_all_classes(self):
        model = NaiveBayes().partial_fit(NUMBERS[:100], Y[:100], classes=[0, 1, 2])
        assert model.partial_fit(NUMBERS[100:], Y[100:]).score(NUMBERS, Y) > 0.7
        with pytest.raises(ValueError, match=r"the first batch has no row of the classes \[7\]; give it rows of every"):
            NaiveBayes().partial_fit(NUMBERS, Y, classes=[0, 1, 2, 7])

    def test_sparse_counts_have_a_way_out(self):
        with pytest.raises(TypeError, match="toarray"):
            NaiveBayes().fit(csr_array(WORDS), Y)

    def test_one_family_for_all_columns_excludes_kinds_of_some(self):
        with pytest.raises(
            ValueError, match=r"families='bernoulli' is for all columns, and columns=.* names the kinds"
        ):
            NaiveBayes(families="bernoulli", columns={0: "level"}).fit(ANSWERS, Y)


class TestTakesMore:
    TABLE = pd.DataFrame(NUMBERS, columns=list("abcd")).assign(
        answer=ANSWERS[:, 0].astype(bool), level=np.array(list("uvwxyz"))[LEVELS[:, 0]], words=WORDS[:, 0]
    )

    def test_columns_of_several_kinds_and_missing_values(self):
        """ln p(y|x) ∝ ln π_y + Σ_j ln p(x_j|y) over the observed columns: each column alone, fitted alone."""
        table = self.TABLE.mask(np.random.default_rng(1).random(self.TABLE.shape) < 0.2)
        model = NaiveBayes().fit(table, Y)
        log_joint = np.tile(np.log(model.class_prior_), (len(table), 1))
        for name in table:
            alone = NaiveBayes().fit(table[[name]], Y)
            log_joint += np.log(alone.predict_proba(table[[name]])) - np.log(alone.class_prior_)
        expected = np.exp(log_joint - log_joint.max(1, keepdims=True))
        assert_allclose(model.predict_proba(table), expected / expected.sum(1, keepdims=True), atol=1e-6)

    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
    def test_missing_numbers_take_one_step(self, weight):
        """Means and variances over the rows of a class that have the column: a weight is a number of copies."""
        holed = np.where(np.random.default_rng(1).random(NUMBERS.shape) < 0.4, np.nan, NUMBERS)
        table = pd.DataFrame(holed, columns=list("abcd")).assign(answer=ANSWERS[:, 0], level=LEVELS[:, 0])
        model = NaiveBayes().fit(table, Y, sample_weight=weight)
        assert model.n_iter_ == NaiveBayes().fit(NUMBERS, Y).n_iter_ == 2
        copies = np.arange(300) if weight is None else np.repeat(np.arange(300), weight)
        for k in range(3):
            rows = holed[copies][Y[copies] == k]
            found = [model.parameters_[name] for name in "abcd"]
            assert_allclose([one["mean"][k] for one in found], np.nanmean(rows, 0), **EXACT)
            assert_allclose([one["variance"][k] for one in found], np.nanvar(rows, 0), **EXACT)

    def test_a_class_without_values_of_a_column(self):
        holed = np.where((Y == 1)[:, None] & (np.arange(4) == 2), np.nan, NUMBERS)
        model = NaiveBayes().fit(holed, Y)
        assert model.n_iter_ == 2
        assert np.isfinite(model.score_samples(holed)).all()
        others = NaiveBayes().fit(NUMBERS, Y)
        assert_allclose(model.parameters_[2]["mean"][[0, 2]], others.parameters_[2]["mean"][[0, 2]], **EXACT)

    def test_a_row_without_values_has_the_shares_of_the_classes(self):
        model = NaiveBayes().fit(NUMBERS, Y)
        assert_allclose(model.predict_proba(np.full((1, 4), np.nan))[0], model.class_prior_, rtol=1e-12)

    def test_unlabelled_rows_raise_the_semi_supervised_objective(self):
        few = np.where(np.arange(300) < 12, Y.astype(float), np.nan)
        model = NaiveBayes(tol=1e-9).fit(NUMBERS, few)
        assert model.n_iter_ > 1
        assert np.diff(model.lower_bounds_).min() > -1e-9
        assert model.score(NUMBERS, Y) > NaiveBayes().fit(NUMBERS[:12], Y[:12]).score(NUMBERS, Y)
        as_mixture = GaussianMixture(covariance_type="diag", tol=1e-9, max_iter=500).fit(
            NUMBERS, np.where(np.isnan(few), -1, few)
        )
        assert_allclose(model.predict_proba(NUMBERS), as_mixture.predict_proba(NUMBERS), atol=1e-4)

    def test_is_a_labelled_mixture_with_diagonal_numbers(self):
        model = NaiveBayes(alpha=0.5).fit(self.TABLE, Y)
        same = Mixture(covariance_type="diag", alpha=0.5).fit(self.TABLE, Y)
        assert_allclose(model.score_samples(self.TABLE), same.score_samples(self.TABLE), rtol=1e-12)
        assert model.families_ == same.families_


def test_labelled_batches_add_up():
    """Statistics of labelled rows do not depend on the model: batches give what all rows together give."""
    rng = np.random.default_rng(0)
    counts, y = rng.poisson(rng.gamma(1, 1, size=40), size=(300, 40)), rng.integers(3, size=300)
    y[:3] = y[100:103] = [0, 1, 2]
    model = NaiveBayes(families="multinomial")
    for part in (slice(0, 100), slice(100, 130), slice(130, 300)):
        model.partial_fit(counts[part], y[part])
    whole = MultinomialNB().fit(counts, y)
    assert_allclose(model.predict_proba(counts), whole.predict_proba(counts), atol=1e-9)
    numbers = rng.normal(size=(300, 4)) + y[:, None]
    model = NaiveBayes(reg_covar=0.0).partial_fit(numbers[:100], y[:100]).partial_fit(numbers[100:], y[100:])
    whole = GaussianNB(var_smoothing=0).fit(numbers, y)
    assert_allclose(model.predict_proba(numbers), whole.predict_proba(numbers), atol=1e-9)
