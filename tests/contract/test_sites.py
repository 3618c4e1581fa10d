"""Statistics of sites: what they hold, what a merge refuses, and priors that count once."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import jensen
from jensen import (
    ConjugatePrior,
    Depot,
    GaussianMixture,
    KMeans,
    LatentCurve,
    LatentDirichletAllocation,
    Mixture,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    PoissonMixture,
    ProbabilisticPCA,
    Statistics,
)

X, Y = load_iris(return_X_y=True)
SITES = [np.arange(0, 40), np.arange(40, 150)]


def merged(model, rows, y=None):
    return model.merge([model.statistics(rows[own], None if y is None else y[own]) for own in SITES])


def one_step(model, rows, y=None):
    """The step of a fit in memory from the same parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(warm_start=True, max_iter=1, tol=0).fit(rows, y)


def brief(model, rows, y=None):
    """Other parameters than those of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(max_iter=2).fit(rows, y, sample_weight=np.arange(len(rows)) % 3 + 1)


PRIOR = ConjugatePrior(weight_concentration=3.0, mean_precision=5.0)
WITH_PRIORS = {
    "full": lambda: GaussianMixture(2, prior=PRIOR, random_state=0),
    "tied": lambda: GaussianMixture(2, prior=PRIOR, covariance_type="tied", random_state=0),
    "diag": lambda: GaussianMixture(2, prior=PRIOR, covariance_type="diag", random_state=0),
    "spherical": lambda: GaussianMixture(2, prior=PRIOR, covariance_type="spherical", random_state=0),
    "pooled": lambda: GaussianMixture(2, prior=ConjugatePrior(scale="pooled"), random_state=0),
    "ppca": lambda: MixtureOfPPCA(2, 1, prior=PRIOR, random_state=0),
    "factors": lambda: MixtureOfFactorAnalysers(2, 1, prior=PRIOR, random_state=0),
    "columns": lambda: Mixture(2, prior=PRIOR, alpha=2.0, random_state=0),
}


@pytest.mark.parametrize("make", WITH_PRIORS.values(), ids=WITH_PRIORS)
def test_a_prior_counts_once_whatever_the_number_of_sites(make):
    first = brief(make(), X)
    oracle = one_step(brief(make(), X), X)
    found = merged(first, X)
    for name in ("weights_", "means_", "covariances_", "loadings_", "noise_variance_"):
        if hasattr(oracle, name):
            assert_allclose(getattr(found, name), getattr(oracle, name), rtol=1e-11, atol=1e-11)
    if hasattr(oracle, "parameters_"):
        for column, values in oracle.parameters_.items():
            for name, value in values.items():
                assert_allclose(found.parameters_[column][name], value, rtol=1e-11)


@pytest.mark.parametrize("family", ["gamma", "log-normal", "exponential", "negative binomial", "poisson"])
def test_floors_of_families_come_from_the_sums(family):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.poisson(3, 150) + 1.0, "b": rng.poisson(8, 150) + 1.0})
    rows.loc[:20, "a"] = 1.0

    def make():
        return brief(Mixture(2, families={"a": family, "b": family}, random_state=0), rows)

    first, oracle = make(), one_step(make(), rows)
    found = first.merge([first.statistics(rows.iloc[own]) for own in SITES])
    for column, values in oracle.parameters_.items():
        for name, value in values.items():
            assert_allclose(found.parameters_[column][name], value, rtol=1e-11)


def test_merging_until_nothing_changes_is_the_fit():
    arguments = {"n_components": 3, "tol": 1e-10, "max_iter": 5000, "random_state": 0}
    first = brief(GaussianMixture(**arguments), X).set_params(**arguments)
    for _ in range(3000):
        merged(first, X)
        if first.converged_:
            break
    oracle = brief(GaussianMixture(**arguments), X).set_params(**arguments, warm_start=True).fit(X)
    assert first.converged_
    assert first.lower_bound_ == pytest.approx(oracle.lower_bound_, abs=1e-8)
    assert_allclose(first.means_, oracle.means_, rtol=1e-4)


def test_labels_at_one_site_only():
    first = brief(GaussianMixture(3, random_state=0), X, Y)
    is_own = np.arange(150) % 3 == 0
    oracle = one_step(brief(GaussianMixture(3, random_state=0), X, Y), X, np.where(is_own, Y, -1))
    own, other = is_own, ~is_own
    first.merge([first.statistics(X[own], Y[own]), first.statistics(X[other])])
    assert_allclose(first.means_, oracle.means_, rtol=1e-11)
    assert first.predict(X).tolist() == oracle.predict(X).tolist()


def test_complete_rows_of_factors_need_one_merge():
    first = ProbabilisticPCA(2).fit(X[SITES[0]])
    assert_allclose(merged(first, X).get_covariance(), ProbabilisticPCA(2).fit(X).get_covariance(), rtol=1e-11)
    assert first.lower_bound_ < merged(first, X).lower_bound_ == pytest.approx(ProbabilisticPCA(2).fit(X).score(X))


def test_stores_with_a_depot_move_as_in_a_batch_of_all_rows():
    model = KMeans(3, depot=Depot([0.0] * 4, weight=0.5), random_state=0).fit(X[::3])
    moments = [[X[model.predict(X) == k].mean(0) / 1.5] for k in range(3)]
    assert_allclose(merged(model, X).cluster_centers_, np.concatenate(moments), rtol=1e-11)


def test_an_empty_cluster_keeps_its_centre():
    model = KMeans(2, init=np.array([[0.0], [5.0]]), n_init=1).fit([[0.0], [5.0], [5.5]])
    with pytest.warns(UserWarning, match="statistics of 3 rows"):
        model.merge([model.statistics([[0.0], [0.3], [0.6]])])
    assert model.cluster_centers_[:, 0].tolist() == pytest.approx([0.3, 5.25])
    assert not hasattr(model, "labels_")


def test_topics_of_sites_are_those_of_all_documents():
    rng = np.random.default_rng(0)
    documents = np.concatenate(
        [rng.multinomial(30, [0.6, 0.3, 0.1, 0], 30), rng.multinomial(30, [0, 0.1, 0.3, 0.6], 30)]
    )
    first = LatentDirichletAllocation(2, random_state=0, max_iter=2, learn_priors="asymmetric")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first.fit(documents[::4])
    bounds = []
    for _ in range(30):
        first.merge([first.statistics(documents[::2]), first.statistics(documents[1::2])])
        bounds.append(first.lower_bound_)
    assert np.diff(bounds).min() > -1e-6
    whole = LatentDirichletAllocation(2, random_state=0, learn_priors="asymmetric", tol=1e-7, max_iter=500).fit(
        documents
    )
    assert first.lower_bound_ == pytest.approx(whole.lower_bound_, abs=0.05)


def test_the_units_stay_those_of_the_first_model():
    rows = X[:, :2]
    model = brief(LatentCurve(n_grid=10, n_basis=3, penalty=5.0), rows)
    frame = model.theta_.frame()
    for _ in range(3):
        merged(model, rows)
        assert_allclose(model.units_, np.stack([frame.origin, frame.scale]), rtol=1e-15)
    assert not np.allclose(model.theta_.frame().scale, frame.scale, rtol=1e-6)


def test_the_box_of_the_noise_is_that_of_the_first_model():
    model = GaussianMixture(2, noise=True, random_state=0).fit(X)
    far = X + 0.3
    assert model.statistics(far).bound == pytest.approx(model.score_samples(far).sum(), rel=1e-12)
    high = model.theta_.noise.high
    assert np.array_equal(model.merge([model.statistics(far)]).theta_.noise.high, high)


def test_a_file_holds_the_statistics(tmp_path):
    model = GaussianMixture(2, random_state=0).fit(X)
    found = model.statistics(X)
    found.save(tmp_path / "a.stats")
    read = Statistics.load(tmp_path / "a.stats")
    assert (read.model, read.fingerprint, read.bound, read.weight, read.n_rows) == (
        "GaussianMixture",
        found.fingerprint,
        found.bound,
        150.0,
        150,
    )
    assert all(np.array_equal(read.sums[name], value) for name, value in found.sums.items())
    assert {name: tuple(value.shape) for name, value in read.sums.items()} == {
        "stats.mass": (2,),
        "stats.first": (2, 4),
        "stats.second": (2, 4, 4),
    }
    assert model.merge([tmp_path / "a.stats"]).total_weight_ == 150


def test_a_merge_refuses_what_is_not_of_its_model(tmp_path):
    model, other = GaussianMixture(2, random_state=0).fit(X), GaussianMixture(2, random_state=0).fit(X[::2])
    other.statistics(X).save(tmp_path / "b.stats")
    with pytest.raises(ValueError, match=r"b.stats was taken with other parameters than those of this model"):
        model.merge([tmp_path / "b.stats"])
    PoissonMixture(2).fit(np.round(X)).statistics(np.round(X)).save(tmp_path / "c.stats")
    with pytest.raises(ValueError, match=r"c.stats is of a PoissonMixture, and the model is a GaussianMixture"):
        model.merge([tmp_path / "c.stats"])
    model.save(tmp_path / "m.jensen")
    with pytest.raises(ValueError, match=r"m.jensen holds no statistics \(it holds a GaussianMixture\)"):
        model.merge([tmp_path / "m.jensen"])
    with pytest.raises(ValueError, match=r"b.stats holds statistics of a site, and no model"):
        jensen.load(tmp_path / "b.stats")
    damaged = bytearray((tmp_path / "b.stats").read_bytes())
    damaged[-3] ^= 1
    (tmp_path / "b.stats").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"b.stats holds no statistics .*checksum"):
        model.merge([tmp_path / "b.stats"])
    with pytest.raises(ValueError, match="no statistics to merge"):
        model.merge([])
    old = model.statistics(X)
    model.merge([old])
    with pytest.raises(ValueError, match="other parameters"):
        model.merge([old])
    with pytest.raises(ValueError, match="cannot be added"):
        old + model.statistics(X)


def test_a_refused_merge_leaves_the_model_as_it_is():
    model = GaussianMixture(2, random_state=0).fit(X)
    before, stream = model.means_, model._stream
    with pytest.raises(ValueError, match="other parameters"):
        model.merge([GaussianMixture(2, random_state=0).fit(X[::2]).statistics(X)])
    assert np.array_equal(model.means_, before)
    assert model._stream is stream


def test_statistics_leave_the_model_as_it_is():
    frame = pd.DataFrame({"a": X[:, 0], "kind": np.array(list("uvw"))[Y]})
    model = Mixture(2, random_state=0).fit(frame)
    before = vars(model).copy()
    model.statistics(frame.iloc[:60])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_level_or_class_that_no_site_may_add():
    frame = pd.DataFrame({"a": X[:, 0], "kind": np.array(list("uvw"))[Y]})
    model = Mixture(2, random_state=0).fit(frame)
    with pytest.raises(ValueError, match=r"X holds 'z' in row 1, column 'kind', which the model has not seen"):
        model.statistics(frame.assign(kind=["u", "z"] + ["v"] * 148))
    model.partial_fit(frame.assign(kind=["u", "z"] + ["v"] * 148))
    assert model.statistics(frame.assign(kind=["u", "z"] + ["v"] * 148)).n_rows == 150
    labelled = GaussianMixture(3, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="7"):
        labelled.statistics(X, np.full(150, 7))


def test_copies_of_one_file_are_noticed():
    model = GaussianMixture(2, random_state=0).fit(X)
    found = model.statistics(X)
    with pytest.warns(UserWarning, match="a site may count twice"):
        model.merge([found, found])


def test_few_rows_are_warned_about_and_none_refused():
    model = GaussianMixture(3, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="statistics of 2 rows tell much about each of them"):
        assert model.statistics(X[:2]).n_rows == 2
    with pytest.raises(ValueError, match="at least one row must count"):
        model.statistics(X, sample_weight=np.zeros(150))


def test_columns_with_one_value_stay_beside_the_model():
    rows = np.column_stack([X, np.full(150, 3.0)])
    with pytest.warns(UserWarning, match="4"):
        model = GaussianMixture(2, random_state=0).fit(rows)
    assert_allclose(merged(model, rows).means_[:, 4], 3.0)
    rows[5, 4] = 9
    with pytest.raises(ValueError, match="4"):
        model.statistics(rows)


def test_arguments_that_couple_all_rows_have_no_statistics():
    model = KMeans(3, size_limits=(10, 100), random_state=0).fit(X)
    with pytest.raises(AttributeError):
        model.statistics  # noqa: B018
    assert not hasattr(KMeans(3, metric="manhattan").fit(X), "merge")


def test_an_executor_sums_the_parts_of_a_scan(tmp_path):
    for number, own in enumerate(SITES):
        np.save(tmp_path / f"{number}.npy", X[own])
    model = GaussianMixture(2, random_state=0).fit(X)
    with ThreadPoolExecutor(2) as executor:
        found = model.statistics(jensen.scan(tmp_path / "*.npy"), executor=executor)
    assert found.bound == pytest.approx(model.statistics(X).bound, rel=1e-12)


def test_rows_of_weight_0_do_not_count():
    weight = np.r_[np.zeros(60), np.ones(90)]
    model = GaussianMixture(2, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(w=weight)
    blocks = [frame.iloc[i : i + 30] for i in range(0, 150, 30)]
    streamed = model.statistics(jensen.scan(lambda: iter(blocks), weight="w"))
    whole = model.statistics(frame[list("abcd")], sample_weight=weight)
    assert (streamed.n_rows, whole.n_rows) == (90, 90)
    assert streamed.bound == pytest.approx(whole.bound, rel=1e-12)


def test_a_batch_after_a_merge_adds_to_its_sums():
    model = GaussianMixture(1).fit(X[:50])
    merged(model, X).partial_fit(X[:30] + 1, decay=1.0)
    assert_allclose(model.means_[0], np.concatenate([X, X[:30] + 1]).mean(0), rtol=1e-9)
    model.fit(X)
    assert not hasattr(model, "units_")
