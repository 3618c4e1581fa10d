"""`jensen.outliers`: odd rows of a table; see test_odd_cells.py for cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

import jensen
from jensen import GaussianMixture, Mixture, outlier_scores
from jensen.evaluate.outliers import discoveries, tail_p_values
from jensen.evaluate.robust import Pool, held_out_nats, scores_of_large_components, trimmed_fit
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.tasks.outliers import EFFORTS, cross_fitted
from odd_people import people


@pytest.fixture(scope="module")
def found():
    return jensen.outliers(people(), effort="quick")


# p-values and false discoveries


def test_p_values_of_an_exponential_tail_are_right_far_beyond_the_ranks():
    rng = np.random.default_rng(0)
    reference = rng.exponential(2.0, size=20_000)
    s = np.array([0.5, 3.0, 10.0, 40.0])
    # The rate has a standard error of 1/√3000, so ln p is right to 2 % of s/2 and a little.
    np.testing.assert_allclose(np.log(tail_p_values(s, reference)), -s / 2, rtol=0.08, atol=0.02)


def test_p_values_are_ranks_below_the_tail_and_never_rise():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=999)
    s = np.sort(rng.normal(size=500) * 2)
    p = tail_p_values(s, reference)
    assert (np.diff(p) <= 1e-12).all()
    middle = s < np.quantile(reference, 0.7)
    ranks = np.array([(1 + (reference >= value).sum()) / 1000 for value in s])
    np.testing.assert_allclose(p[middle], ranks[middle])


def test_how_odd_the_oddest_rows_are_does_not_change_the_other_p_values():
    rng = np.random.default_rng(0)
    reference = rng.exponential(size=1000)
    worse = np.where(reference > np.quantile(reference, 0.95), reference * 1e6, reference)
    s = np.linspace(0, 5, 50)
    np.testing.assert_allclose(tail_p_values(s, worse), tail_p_values(s, reference))


def test_equal_scores_have_no_tail():
    np.testing.assert_allclose(tail_p_values(np.array([0.0, 5.0]), np.zeros(9)), [1.0, 0.1])


@pytest.mark.parametrize("seed", range(3))
def test_discoveries_are_those_of_scipy(seed):
    from scipy.stats import false_discovery_control

    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(80), rng.random(20) * 1e-3])
    np.testing.assert_array_equal(discoveries(p, 0.1), false_discovery_control(p) <= 0.1)


def test_clean_rows_are_rarely_flagged_and_planted_ones_are():
    """-ln p of a Gaussian with d = 4 has the tail of χ²/2; 15 planted rows lie beyond its 1e-9 quantile."""
    flagged, missed, n_odd = 0, 0, 15
    for seed in range(4):
        rng = np.random.default_rng(seed)
        clean = rng.normal(size=(400, 4))
        direction = rng.normal(size=(n_odd, 4))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        odd = direction * np.sqrt(chi2(4).isf(1e-9)) * 1.5
        is_odd = jensen.outliers(np.vstack([clean, odd]), effort="quick").is_outlier
        flagged, missed = flagged + is_odd[:400].sum(), missed + (~is_odd[400:]).sum()
    assert missed == 0
    # Of 60 true discoveries; the rate is 5 %, and twice that is allowed by chance.
    assert flagged <= 6


# Robust fits


def test_a_trimmed_fit_is_not_bent_by_scattered_rows():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 3)), rng.uniform(-50, 50, size=(15, 3))])
    bent, robust = GaussianMixture(random_state=0).fit(X), trimmed_fit(GaussianMixture(random_state=0), X, 0.1)
    assert bent.covariances_[0].diagonal().min() > 10
    assert robust.covariances_[0].diagonal().max() < 1.5
    assert np.abs(robust.means_).max() < 0.3


def test_a_small_cluster_of_odd_rows_does_not_become_a_component():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(300, 4)), 8 + 0.1 * rng.normal(size=(15, 4))])
    odd = np.arange(len(X)) >= 300
    plain, robust = GaussianMixture(3, random_state=0).fit(X), trimmed_fit(GaussianMixture(3, random_state=0), X, 0.1)
    assert roc_auc_score(odd, outlier_scores(plain, X)) < 0.5
    assert roc_auc_score(odd, outlier_scores(robust, X)) == 1.0


def test_scores_without_small_components_by_hand():
    model = GaussianMixture.from_parameters([0.95, 0.05], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    large = GaussianMixture.from_parameters([1.0], [[0.0]], [[[1.0]]])
    X = np.r_[np.zeros((95, 1)), np.full((5, 1), 9.0)]
    np.testing.assert_allclose(
        scores_of_large_components(model, X, 0.1)[:95], np.log(0.95) + large.score_samples(X[:95]), atol=1e-9
    )
    assert (scores_of_large_components(model, X, 0.1)[95:] < -30).all()
    np.testing.assert_array_equal(scores_of_large_components(model, X, 0.01), model.score_samples(X))


def test_the_model_that_is_given_is_not_changed():
    model = GaussianMixture(2, random_state=0)
    before = model.get_params()
    fitted = trimmed_fit(model, np.random.default_rng(0).normal(size=(60, 2)), 0.1)
    assert model.get_params() == before == fitted.get_params()
    assert not hasattr(model, "theta_")


def test_odd_rows_do_not_vote_for_a_model():
    cost = np.r_[np.ones(90), np.full(10, 1e9)]
    assert held_out_nats(cost, 0.1) == -1.0


# The result


def test_planted_rows_are_found_with_their_columns(found):
    assert found.rows.index.tolist()[:2] == [11, 7]
    assert found.rows.loc[7, "why"] == "weight"
    assert found.rows.loc[11, "why"] == "visits"
    assert found.is_outlier.sum() == len(found.rows) <= 4
    assert found.is_outlier[[7, 11]].all()


def test_the_table_keeps_rows_order_and_columns(found):
    table = people()
    pd.testing.assert_frame_equal(found.table[table.columns], table)
    assert [*found.table.columns[5:]] == ["outlier_score", "outlier_p_value", "is_outlier"]
    np.testing.assert_array_equal(found.table["is_outlier"], found.is_outlier)


def test_a_row_is_never_scored_by_a_model_that_was_trained_on_it(found):
    """Folds cover all rows once, and a change of a row does not change the models of its own fold."""
    rows = np.concatenate([rows for rows, _ in found.parts])
    assert sorted(rows) == list(range(300))
    other = people()
    other.loc[7, "weight"] = 25.0
    again = jensen.outliers(other, effort="quick")
    for (own, model), (same, after) in zip(found.parts, again.parts, strict=True):
        np.testing.assert_array_equal(own, same)
        if 7 in own:
            np.testing.assert_array_equal(model.theta_.weights, after.theta_.weights)


def test_new_rows_are_scored_on_the_same_scale(found):
    new = people(seed=1)[:50]
    scores, p = found.score(new), found.p_value(new)
    assert scores[[7, 11]].min() > np.delete(scores, [7, 11]).max()
    assert p[7] < 1e-4
    assert np.median(scores) == pytest.approx(0.0, abs=0.5)


def test_same_seed_same_result():
    X = np.random.default_rng(0).normal(size=(60, 2))
    one, two = (jensen.outliers(X, effort="quick") for _ in range(2))
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize("make", [np.asarray, pl.DataFrame, lambda x: pl.DataFrame(x).to_arrow()])
def test_containers(make):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[5] = 30.0
    given = make(X)
    found = jensen.outliers(given, effort="quick")
    assert found.is_outlier[5]
    assert type(found.table) is type(given)
    assert found.table.shape == (60, 5)


def test_a_path_and_json(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    found = jensen.outliers(tmp_path / "people.csv", effort="quick")
    assert found.is_outlier[[7, 11]].all()
    found.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Odd rows of people.csv" in text
    assert "Odd cells" in text


def test_summary_and_plot(found):
    assert str(found).startswith(f"{len(found.rows)} of 300 rows are odd")
    assert "row 7: weight" in str(found)
    assert found.plot().axes[0].get_ylabel() == "outlier score"
    assert repr(found) == f"Outliers({len(found.rows)} of 300 rows, level=0.05)"


def test_what_was_tried_is_listed_best_first(found):
    assert set(found.tried["model"]) == {"independent columns", "one component", "three components"}
    assert found.tried["nats"].is_monotonic_decreasing
    assert isinstance(found.model, Mixture)
    assert set(found.pool.models) == set(found.tried["model"])


def test_another_model_can_be_given():
    X = np.random.default_rng(0).normal(size=(80, 2))
    X[3] = 9.0
    found = jensen.outliers(X, model=GaussianMixture(1, covariance_type="diag"), effort="quick")
    assert found.is_outlier[3]
    assert found.model.covariance_type == "diag"
    forest = jensen.outliers(X, model=IsolationForest(random_state=0), effort="quick")
    assert forest.scores[3] > np.quantile(forest.scores, 0.9)
    with pytest.raises(TypeError, match="IsolationForest has neither given_rest nor impute_draws"):
        forest.cells  # noqa: B018


class Interrupted(GaussianMixture):
    """Ctrl-C comes while it is fitted."""

    def fit(self, X, y=None, sample_weight=None):
        raise KeyboardInterrupt


def test_ctrl_c_keeps_the_models_that_are_done():
    X = np.random.default_rng(0).normal(size=(60, 2))
    first = {"one": GaussianMixture(1, random_state=0)}
    with pytest.warns(InterruptedFitWarning, match="interrupted after 1 of 2 models; scores are those of one"):
        fit, tried = cross_fitted({**first, "two": Interrupted()}, X, EFFORTS["quick"], 0, 0)
    assert tried["model"].tolist() == ["one"]
    alone, _ = cross_fitted(first, X, EFFORTS["quick"], 0, 0)
    np.testing.assert_array_equal(fit.scores, alone.scores)
    with pytest.raises(KeyboardInterrupt):
        cross_fitted({"two": Interrupted()}, X, EFFORTS["quick"], 0, 0)


def test_a_model_that_cannot_be_fitted_is_listed_with_its_error():
    X = np.random.default_rng(0).normal(size=(60, 2))
    wrong = GaussianMixture(500)
    fit, tried = cross_fitted({"one": GaussianMixture(1), "many": wrong}, X, EFFORTS["quick"], 0, 0)
    assert set(fit.pool.models) == {"one"}
    assert "500" in tried.set_index("model").loc["many", "note"]
    with pytest.raises(ValueError, match="500"):
        jensen.outliers(X, model=wrong, effort="quick")


def test_a_constant_table_has_no_odd_rows():
    found = jensen.outliers(np.ones((40, 2)), effort="quick")
    assert not found.is_outlier.any()
    assert str(found) == "None of 40 rows is odd at a false discovery rate of 5%."
    assert len(found.rows) == 0


# Errors


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"level": 0}, "level=0 must be between 0 and 1"),
        ({"level": "x"}, "level='x' must be between 0 and 1"),
        ({"effort": "huge"}, "effort='huge' is not known; choose 'quick', 'normal', 'thorough'"),
    ],
)
def test_bad_arguments(options, match):
    with pytest.raises(ValueError, match=match):
        jensen.outliers(np.zeros((30, 2)), **options)


def test_too_few_rows():
    with pytest.raises(ValueError, match="the table has 5 rows, and outliers needs 20 or more"):
        jensen.outliers(np.zeros((5, 2)))


def test_a_name_that_is_taken():
    with pytest.raises(ValueError, match="the table has a column 'is_outlier', a name that outliers adds; rename it"):
        jensen.outliers(people().assign(is_outlier=False))


def test_the_pool_is_a_mean_of_standardised_costs():
    X = np.random.default_rng(0).normal(size=(50, 2))
    models = {"a": GaussianMixture(1).fit(X), "b": GaussianMixture(1, covariance_type="diag").fit(X)}
    pool = Pool(models, {"a": (1.0, 2.0), "b": (0.0, 4.0)})
    by_hand = ((-models["a"].score_samples(X) - 1) / 2 + -models["b"].score_samples(X) / 4) / 2
    np.testing.assert_allclose(pool.score(X), by_hand)
