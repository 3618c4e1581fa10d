"""Cells given the rest of their row, against `condition`, quadrature and enumeration."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import nbinom, norm
from sklearn.datasets import load_iris, load_wine

from jensen import FactorAnalysis, GaussianMixture, Mixture, MixtureOfFactorAnalysers, ProbabilisticPCA
from jensen.contract.given_rest import NoClosedFormError
from jensen.models.mixtures.given_rest import numbers_given_rest

IRIS = load_iris().data
WINE = load_wine().data[:, :6]


def test_the_formula_by_the_precision_matrix_is_that_of_a_conditional_gaussian():
    rng = np.random.default_rng(0)
    root, mean, x = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(3, 4))
    cov = root @ root.T + np.eye(4)
    x[1, 2] = np.nan
    found, variance = numbers_given_rest(torch.tensor(mean)[None], torch.tensor(cov)[None], torch.tensor(x))
    for i, row in enumerate(x):
        for j in range(4):
            if np.isnan(row[j]):
                assert bool(found[i, 0, j].isnan())
                continue
            rest = [k for k in range(4) if k != j and not np.isnan(row[k])]
            gain = cov[j, rest] @ np.linalg.inv(cov[np.ix_(rest, rest)])
            assert float(found[i, 0, j]) == pytest.approx(mean[j] + gain @ (row[rest] - mean[rest]))
            assert float(variance[i, 0, j]) == pytest.approx(cov[j, j] - gain @ cov[rest, j])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "VEV"])
def test_a_cell_of_a_gaussian_mixture_is_that_of_condition(covariance_type):
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(IRIS)
    rows = IRIS[[0, 70, 140]] + [[0, 0, 0, 0], [0.3, 0, -0.4, 0], [0, 2.0, 0, 0]]
    found = model.given_rest(rows)
    for i, row in enumerate(rows):
        for j in range(4):
            given = model.condition({k: row[k] for k in range(4) if k != j})
            assert found.nats[i, j] == pytest.approx(given.score_samples(row[[j]][None])[0], abs=1e-8)
            assert found.expected[i, j] == pytest.approx(float(given.weights_ @ given.means_[:, 0]), abs=1e-8)
            deviations = np.sqrt(np.broadcast_to(given.covariances_.reshape(-1), 3))
            below = [
                given.weights_ @ norm.cdf((end - given.means_[:, 0]) / deviations)
                for end in (found.low[i, j], found.high[i, j])
            ]
            np.testing.assert_allclose(below, [0.05, 0.95], atol=1e-8)


def test_the_tail_is_the_mass_of_less_likely_values_by_quadrature():
    model = GaussianMixture(3, random_state=0).fit(IRIS)
    row = IRIS[70] + [0.2, 0.0, 0.3, -0.1]
    found = model.given_rest(row[None])
    for j in range(4):
        given = model.condition({k: row[k] for k in range(4) if k != j})
        level = given.score_samples(row[[j]][None])[0]
        grid = np.linspace(row[j] - 8, row[j] + 8, 200_001)
        log_f = given.score_samples(grid[:, None])
        mass = np.exp(log_f)[log_f <= level].sum() * (grid[1] - grid[0])
        assert found.tail[0, j] == pytest.approx(mass, abs=1e-4)


def test_nats_are_the_score_less_that_of_the_rest_with_missing_values():
    X = WINE.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = GaussianMixture(2, random_state=0).fit(X)
    found = model.given_rest(X)
    for j in range(X.shape[1]):
        rest = X.copy()
        rest[:, j] = np.nan
        expected = model.score_samples(X) - model.score_samples(rest)
        np.testing.assert_allclose(found.nats[:, j], np.where(np.isnan(X[:, j]), np.nan, expected), atol=1e-8)
    assert np.isnan(found.tail[np.isnan(X)]).all()
    assert (found.tail[~np.isnan(X)] <= 1).all()


@pytest.mark.parametrize(
    "model", [FactorAnalysis(2), ProbabilisticPCA(2), MixtureOfFactorAnalysers(2, 2, random_state=0)], ids=repr
)
def test_factor_models(model):
    model.fit(WINE)
    found = model.given_rest(WINE[:20])
    for j in range(WINE.shape[1]):
        rest = WINE[:20].copy()
        rest[:, j] = np.nan
        np.testing.assert_allclose(
            found.nats[:, j], model.score_samples(WINE[:20]) - model.score_samples(rest), atol=1e-7
        )
        np.testing.assert_allclose(found.expected[:, j], model.impute(rest)[:, j], rtol=1e-7)


def mixed(n=300):
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=n)
    size = rng.normal(np.where(group, 5.0, 1.0), 0.5)
    return pd.DataFrame(
        {
            "size": size,
            "price": np.exp(rng.normal(size - 2, 0.3)),
            "gain": np.where(rng.random(n) < 0.6, 0.0, rng.normal(10 + 5 * group, 2.0)),
            "visits": rng.poisson(np.where(group, 12.0, 2.0)),
            "town": np.where(rng.random(n) < 0.9, np.where(group, "Bonn", "Rome"), "Oslo"),
            "member": rng.random(n) < np.where(group, 0.9, 0.2),
        }
    )


@pytest.fixture(scope="module")
def table():
    return mixed()


@pytest.fixture(scope="module")
def model(table):
    return Mixture(2, columns={"price": {"low": 0}}, random_state=0).fit(table)


def without(table, name):
    rest = table.copy().astype({"visits": object, "member": object, "town": object})
    rest[name] = None
    return rest.astype({"size": float, "price": float, "gain": float})


def test_nats_of_columns_of_every_kind(model, table):
    assert model.measure_[2] == "both"
    found = model.given_rest(table)
    for j, name in enumerate(table.columns):
        expected = model.score_samples(table) - model.score_samples(without(table, name))
        np.testing.assert_allclose(found.nats[:, j], expected, atol=1e-7, err_msg=name)


def test_what_is_expected_is_what_would_be_imputed(model, table):
    found = model.given_rest(table)
    for name in ("size", "gain", "town", "member"):
        filled = model.impute(without(table, name))[name]
        if name in ("size", "gain"):
            # A data frame gets no number outside of the observed range.
            expected = found.expected[name].astype(float).clip(table[name].min(), table[name].max())
            np.testing.assert_allclose(expected, filled.astype(float), atol=1e-6)
        else:
            assert found.expected[name].astype(str).tolist() == filled.astype(str).tolist()


def test_tails_of_levels_and_counts_by_enumeration(model, table):
    found, row = model.given_rest(table[:5]), 3
    given = model.condition({name: table[name][row] for name in table.columns if name != "town"})
    p = {town: np.exp(given.score_samples(pd.DataFrame({"town": [town]}))[0]) for town in ("Bonn", "Oslo", "Rome")}
    own = p[table["town"][row]]
    assert found.tail[row, 4] == pytest.approx(sum(q for q in p.values() if q <= own * (1 + 1e-9)))
    assert found.expected["town"][row] == max(p, key=p.get)

    given = model.condition({name: table[name][row] for name in table.columns if name != "visits"})
    p = np.exp(given.score_samples(pd.DataFrame({"visits": np.arange(200)})))
    own = p[table["visits"][row]]
    assert found.tail[row, 3] == pytest.approx(p[p <= own * (1 + 1e-9)].sum(), abs=1e-9)
    assert found.low["visits"][row] == np.searchsorted(p.cumsum(), 0.05)
    assert found.high["visits"][row] == np.searchsorted(p.cumsum(), 0.95)


def test_a_column_with_atoms_is_ordered_by_probability(model, table):
    """Tails are super-uniform over draws of the cell from its own conditional."""
    rows = table.iloc[[3] * 400].reset_index(drop=True)
    given = model.condition({name: table[name][3] for name in table.columns if name != "gain"})
    rows["gain"] = given.sample(400, random_state=0)[0]["gain"].to_numpy()
    tail = model.given_rest(rows).tail[:, 2]
    for level in (0.02, 0.1, 0.3):
        # Three standard errors of a share of 400 draws.
        assert (tail <= level).mean() <= level + 3 * np.sqrt(level / 400)
    odd = table.iloc[[3, 3]].assign(gain=[40.0, 0.0])
    far, usual = model.given_rest(odd).tail[:, 2]
    assert far < 1e-6 < 0.5 < usual
    draws = model.given_rest(table.iloc[[3]], coverage=0.8)
    lower, upper = np.quantile(rows["gain"], [0.1, 0.9])
    assert draws.low["gain"].iloc[0] == lower == 0.0
    assert draws.high["gain"].iloc[0] == pytest.approx(upper, abs=1.0)


def test_a_number_with_a_bound_by_quadrature(model, table):
    found = model.given_rest(table[:5])
    given = model.condition({name: table[name][2] for name in table.columns if name != "price"})

    def density(x):
        return np.exp(given.score_samples(pd.DataFrame({"price": [x]}))[0])

    low, high = found.low["price"][2], found.high["price"][2]
    assert quad(density, 1e-9, low, limit=100)[0] == pytest.approx(0.05, abs=1e-4)
    assert quad(density, low, high, limit=100)[0] == pytest.approx(0.90, abs=1e-4)
    assert found.expected["price"][2] == pytest.approx(
        quad(lambda x: x * density(x), 1e-9, 20 * high, limit=200)[0], rel=1e-3
    )


def test_a_level_that_no_training_row_had_has_the_probability_of_all_unseen_ones(model, table):
    found = model.given_rest(table[:1].assign(town="Lima"))
    assert found.tail[0, 4] == pytest.approx(1 / 301)
    assert found.expected["town"][0] in ("Bonn", "Rome")


def test_another_value_in_a_constant_column():
    X = np.column_stack([IRIS[:, :2], np.ones(150)])
    with pytest.warns(UserWarning, match="one value"):
        model = GaussianMixture(random_state=0).fit(X)
    found = model.given_rest([[5.0, 3.0, 2.0], [5.0, 3.0, 1.0]])
    assert found.tail[:, 2] == pytest.approx([1 / 151, 1.0])
    assert found.expected[:, 2].tolist() == [1.0, 1.0]


def test_large_counts_are_listed_in_steps():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"count": rng.negative_binomial(5, 5 / 50_005, size=400), "x": rng.normal(size=400)})
    model = Mixture(1, columns={"count": "count"}, random_state=0).fit(X)
    mean, size = (model.parameters_["count"][name][0] for name in ("mean", "size"))
    value = np.array([1000, 40_000, 180_000])
    found = model.given_rest(pd.DataFrame({"count": value, "x": [0.0] * 3}))
    p = nbinom(size, size / (size + mean)).pmf(np.arange(2_000_000))
    np.testing.assert_allclose(found.tail[:, 0], [p[p <= p[v]].sum() for v in value], atol=2e-3)


def test_noise_is_left_out():
    x = np.vstack([IRIS, [[30.0, 30.0, 30.0, 30.0]]])
    model = GaussianMixture(1, noise=True, random_state=0).fit(x)
    np.testing.assert_allclose(model.given_rest(x).nats, model.without_noise().given_rest(x).nats)


def test_errors_name_what_is_wrong(table):
    with pytest.raises(ValueError, match=r"coverage=1\.5 must be between 0 and 1"):
        GaussianMixture(random_state=0).fit(IRIS).given_rest(IRIS, coverage=1.5)
    model = Mixture(1, families={"price": "gamma"}, random_state=0).fit(table)
    with pytest.raises(NoClosedFormError, match="'price' has the family 'gamma'"):
        model.given_rest(table)
