"""A mixture of any columns: densities by enumeration and quadrature, tables in and tables out."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, nbinom, poisson

import jensen
from jensen import GaussianMixture, Mixture

pytestmark = [
    pytest.mark.filterwarnings("ignore:X has columns with one value"),
    pytest.mark.filterwarnings("ignore:X holds .* which was not in the training data"),
]


def people(n=240, seed=0, missing=0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.4
    frame = pd.DataFrame(
        {
            "age": rng.normal(np.where(old, 65.5, 31.2), 6.1),
            "height": rng.normal(np.where(old, 168.1, 174.3), 7.3),
            "visits": rng.poisson(np.where(old, 7.0, 0.9)),
            "town": rng.choice(["Bonn", "Oslo", "Rome"], n, p=[0.5, 0.3, 0.2]),
            "smokes": rng.random(n) < np.where(old, 0.7, 0.2),
            "planet": "Earth",
        }
    )
    frame = frame.astype({"visits": "Int64", "smokes": "boolean"})
    return frame.mask(rng.random(frame.shape) < missing)


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def model(table):
    return Mixture(2, random_state=0, tol=1e-8).fit(table)


def log_joint(model, table):
    """ln π_k p_k(x) row by row from `parameters_`, with scipy's densities; numbers by their covariance."""
    found, gaussians = model.parameters_, model.theta_.components.parts[0]
    out = np.tile(np.log(model.weights_), (len(table), 1))
    levels = dict(zip(model.columns_.names, model.columns_.levels, strict=True))
    for i, row in enumerate(table.to_dict("records")):
        for k in range(len(model.weights_)):
            numbers = np.array([row["age"], row["height"]], dtype=float)
            seen = ~np.isnan(numbers)
            if seen.any():
                mean, cov = gaussians.means[k].numpy()[seen], gaussians.covariances[k].numpy()[np.ix_(seen, seen)]
                out[i, k] += multivariate_normal.logpdf(numbers[seen], mean, cov)
            if not pd.isna(row["visits"]):
                mean, size = found["visits"]["mean"][k], found["visits"]["size"][k]
                law = poisson(mean) if np.isinf(size) else nbinom(size, size / (size + mean))
                out[i, k] += law.logpmf(int(row["visits"]))
            if not pd.isna(row["town"]):
                out[i, k] += np.log(found["town"]["probabilities"][k][levels["town"].index(row["town"])])
            if not pd.isna(row["smokes"]):
                p = found["smokes"]["probability"][k]
                out[i, k] += np.log(p if row["smokes"] else 1 - p)
    return out


def test_scores_are_the_density_by_scipy(model, table):
    """A missing entry is a factor 1, a constant costs nothing."""
    expected = log_joint(model, table)
    assert_allclose(model.score_samples(table), logsumexp(expected, axis=1), rtol=1e-9)
    assert_allclose(model.predict_proba(table), np.exp(expected - logsumexp(expected, axis=1)[:, None]), atol=1e-9)
    assert_allclose(model.bound(table).total, model.score_samples(table), rtol=1e-9)
    assert model.lower_bound_ == pytest.approx(model.score(table), rel=1e-9)


def test_probabilities_of_all_rows_of_levels_sum_to_one():
    rng = np.random.default_rng(1)
    values = {"a": ["x", "y", "z"], "b": [True, False], "c": ["p", "q", "r", "s"]}
    table = pd.DataFrame({name: rng.choice(levels, 80) for name, levels in values.items()})
    model = Mixture(3, random_state=0).fit(table)
    everything = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    assert np.exp(model.score_samples(everything)).sum() == pytest.approx(1, abs=1e-10)
    assert model.measure_ == ("probability",) * 3


def test_numbers_alone_are_a_gaussian_mixture():
    x = np.random.default_rng(2).normal(size=(150, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 2]])
    x[:50] += 4
    ours = Mixture(2, random_state=0, tol=1e-10, max_iter=1000).fit(x)
    theirs = GaussianMixture(2, random_state=0, tol=1e-10, max_iter=1000).fit(x)
    assert_allclose(ours.score_samples(x), theirs.score_samples(x), rtol=1e-6)
    assert ours.n_parameters_ == theirs.n_parameters_


@pytest.fixture(scope="module")
def gains():
    rng = np.random.default_rng(3)
    rich = rng.random(400) < 0.5
    gain = np.where(rng.random(400) < np.where(rich, 0.3, 0.9), 0.0, rng.normal(np.where(rich, 50, 20), 4))
    return pd.DataFrame({"gain": gain, "size": rng.normal(np.where(rich, 3.1, 0.2), 1)})


class TestAtoms:
    def test_a_sum_over_the_atoms_and_an_integral_over_the_rest_is_one(self, gains):
        model = Mixture(2, random_state=0).fit(gains[["gain"]])
        assert model.columns_.atoms == ((0.0,),)
        assert model.measure_ == ("both",)
        grid = np.geomspace(0.05, 5000, 20_011)  # 0 is a natural bound of the rest
        density = np.exp(model.score_samples(pd.DataFrame({"gain": grid})))
        at_zero = np.exp(model.score_samples(pd.DataFrame({"gain": [0.0]})))[0]
        assert at_zero + np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
        # Every component's share of zeros is fitted, so their mean is the share in the data.
        assert at_zero == pytest.approx((gains["gain"] == 0).mean(), abs=1e-6)

    def test_a_missing_number_gets_the_mean_over_atoms_and_the_rest(self, gains):
        model = Mixture(2, random_state=0).fit(gains)
        hole = gains.head(3).assign(gain=np.nan)
        draws = np.stack([drawn["gain"] for drawn in model.impute_draws(hole, 1000, random_state=0)])
        assert (draws == 0).any()
        error = draws.std(0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - model.impute(hole)["gain"]) < 4.5 * error).all()

    def test_samples_have_zeros(self, gains):
        model = Mixture(2, random_state=0).fit(gains)
        new = model.sample(4000, random_state=0)[0]
        share = (gains["gain"] == 0).mean()
        assert (new["gain"] == 0).mean() == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / 4000))

    def test_a_named_gaussian_has_none(self, gains):
        assert Mixture(2, families={"gain": "gaussian"}, random_state=0).fit(gains).columns_.atoms == ((), ())


def test_unseen_levels_share_one_slot_that_says_nothing_about_the_component(model, table):
    rows = table.head(4).assign(town=["Paris", "Bonn", "Atlantis", "Oslo"])
    with pytest.warns(UserWarning, match="'Paris'.*'town'"):
        scores = model.score_samples(rows)
    n = table["town"].notna().sum()
    without = rows.assign(town=rows["town"].where(rows["town"].isin(["Bonn", "Oslo"])))
    slot = np.where(rows["town"].isin(["Paris", "Atlantis"]), -np.log(n + 1), 0.0)
    assert_allclose(scores, model.score_samples(without) + slot, rtol=1e-12)
    assert_allclose(model.predict_proba(rows), model.predict_proba(without))


def test_tables_come_back_with_their_types(model, table):
    filled = model.impute(table)
    assert (filled.dtypes == table.dtypes).all()
    assert not filled.isna().any().any()
    seen = table.notna()
    assert (filled.where(seen) == table.where(seen)).where(seen, True).all().all()
    new, component = model.sample(50, random_state=0)
    assert list(new.columns) == list(table.columns)
    assert (new.dtypes == table.dtypes).all()
    assert set(component) == {0, 1}
    assert (new["visits"] >= 0).all()


def test_polars_in_polars_out(table):
    frame = pl.from_pandas(table)
    model = Mixture(2, random_state=0).fit(frame)
    assert model.impute(frame).schema == frame.schema
    assert model.sample(3, random_state=0)[0].schema == frame.schema


def test_labels_weights_and_files(table, tmp_path):
    y = np.where(np.arange(len(table)) % 4 == 0, np.where(table["age"] > 48, "old", "young"), None)
    y[table["age"].isna()] = None
    weight = np.random.default_rng(0).integers(0, 3, len(table))
    model = Mixture(2, random_state=0, max_iter=5, tol=0).fit(table, y, sample_weight=weight)
    repeated = table.loc[table.index.repeat(weight)].reset_index(drop=True)
    again = Mixture(2, random_state=0, max_iter=5, tol=0).fit(repeated, np.repeat(y, weight))
    assert_allclose(model.score_samples(table), again.score_samples(table), rtol=1e-6)
    assert set(model.predict(table)) == {"old", "young"}
    model.save(tmp_path / "m")
    loaded = jensen.load(tmp_path / "m")
    assert_allclose(loaded.score_samples(table), model.score_samples(table), rtol=0)
    assert loaded.families_ == model.families_
    assert repr(loaded.columns_) == repr(model.columns_)
    pd.testing.assert_frame_equal(loaded.impute(table), model.impute(table))


def test_families_are_chosen_and_refused(table):
    logs = Mixture(1, families={"age": "log-normal"}).fit(table)
    assert logs.parameters_["age"]["location"] == pytest.approx(np.log(table["age"]).mean())
    model = Mixture(1, families={"visits": "poisson", "age": "gamma"}).fit(table)
    assert model.families_["visits"] == "poisson"
    assert model.families_["age"] == "gamma"
    assert model.families_["height"] == "gaussian"
    with pytest.raises(ValueError, match=r"families names 'weibull'; choose"):
        Mixture(1, families={"age": "weibull"}).fit(table)
    with pytest.raises(ValueError, match="families names the column 'nose', which X does not have; its columns are"):
        Mixture(1, families={"nose": "poisson"}).fit(table)
    with pytest.raises(
        ValueError, match="families asks for 'poisson' in column 'visits', but columns makes it a level"
    ):
        Mixture(1, families={"visits": "poisson"}, columns={"visits": "level"}).fit(table)
    with pytest.raises(ValueError, match=r"'height' holds -"):
        Mixture(1, families={"height": "gamma"}).fit(table.assign(height=-table["height"]))


def test_squarem_and_batches_agree_with_em(table):
    plain = Mixture(2, random_state=0, tol=1e-10, max_iter=2000).fit(table)
    fast = Mixture(2, random_state=0, tol=1e-10, max_iter=2000, acceleration="squarem").fit(table)
    assert fast.score(table) == pytest.approx(plain.score(table), abs=1e-6)
    batches = Mixture(2, random_state=0)
    for start in range(0, len(table), 60):
        batches.partial_fit(table.iloc[start : start + 60])
    assert batches.score(table) > plain.score(table) - 1


def test_marginals_and_conditionals(model, table):
    """p(x_a) by leaving columns out, p(x_a | x_b) = p(x_a, x_b) / p(x_b)."""
    rows = table.dropna().head(6)
    some = ["town", "age", "visits"]
    part = model.marginal(some)
    assert list(part.sample(2)[0].columns) == some
    alone = rows.assign(**dict.fromkeys(set(table) - set(some), None)).astype(table.dtypes)
    assert_allclose(part.score_samples(rows[some]), model.score_samples(alone), rtol=1e-9)
    given = {"age": float(rows["age"].iloc[0]), "town": "Oslo", "smokes": True}
    left = model.condition(given)
    rest = [name for name in table if name not in given]
    both = rows[rest].assign(**given)[list(table)].astype(table.dtypes)
    alone = both.assign(**dict.fromkeys(rest, None)).astype(table.dtypes)
    assert_allclose(left.score_samples(rows[rest]), model.score_samples(both) - model.score_samples(alone), rtol=1e-8)
    with pytest.raises(ValueError, match="'Atlantis' is not a level of column 'town'; its levels are"):
        model.condition({"town": "Atlantis"})
    with pytest.raises(ValueError, match="column 'nose' is not among"):
        model.marginal(["nose"])


def test_a_warm_start_needs_the_same_levels(table):
    model = Mixture(2, random_state=0, warm_start=True, max_iter=2, tol=0).fit(table)
    assert model.fit(table).n_iter_ == 2
    with pytest.raises(ValueError, match="warm_start: column 'town' has other"):
        model.fit(table[table["town"] != "Oslo"])


def test_a_date_is_a_gaussian_if_asked():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 300, 80), "D")
    model = Mixture(1, families={"when": "gaussian"}).fit(pd.DataFrame({"when": days}))
    assert model.columns_.kinds == ("date",)
    assert model.sample(2, random_state=0)[0]["when"].dtype == days.dtype


def test_the_measure_follows_the_family(table):
    assert Mixture(1).fit(table).measure_[2] == "probability"
    model = Mixture(1, families={"visits": "gaussian"})
    assert model.find_measure(table)[2] == model.fit(table).measure_[2] == "density"


def test_columns_of_an_array_have_numbers_in_a_file(tmp_path):
    x = np.random.default_rng(0).integers(0, 9, (60, 2)).astype(float)
    model = Mixture(1, columns={0: "level"}, families={1: "poisson"}).fit(x)
    model.save(tmp_path / "m")
    loaded = jensen.load(tmp_path / "m")
    assert (loaded.columns, loaded.families) == ({0: "level"}, {1: "poisson"})
    assert_allclose(loaded.score_samples(x), model.score_samples(x), rtol=0)
