"""Latent classes, Bernoulli and Poisson mixtures: published values, and what is special about them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jensen
from jensen import BernoulliMixture, LatentClassAnalysis, Mixture, PoissonMixture

# Answer patterns and how often they were given, from the data sets of the R package poLCA 1.6 (Linzer & Lewis 2011).
# Seven pathologists about 118 slides, 1 no and 2 yes (Agresti 2002, table 13.1).
CARCINOMA = """
    1111111:34 1111211:2 1211111:6 1211112:1 1211211:4 1211212:5 2111111:2 2121212:1 2211111:2 2211112:1 2211211:2
    2211212:7 2211222:1 2212112:1 2212212:2 2212222:3 2221212:13 2221222:5 2222212:10 2222222:16"""
# Four dilemmas, 1 universalistic and 2 particularistic (Stouffer & Toby 1951; Goodman 1974).
VALUES = """
    1111:20 1112:2 1121:9 1122:2 1211:6 1212:1 1221:4 1222:1 2111:38 2112:7 2121:24 2122:6 2211:25 2212:6 2221:23
    2222:42"""
# Four kinds of cheating among 319 students, 1 no and 2 yes (Dayton 1998, page 33).
CHEATING = """
    1111:207 1112:46 1121:7 1122:5 1211:13 1212:4 1221:1 1222:2 2111:10 2112:3 2121:1 2122:2 2211:11 2212:4 2221:1
    2222:2"""
# Purpose, accuracy, understanding and cooperation in 1202 interviews of the GSS 1982, with 3, 2, 2 and 3 levels
# (McCutcheon 1987, page 30).
GSS82 = """
    0000:2 0002:6 0010:4 0011:1 0012:23 0100:3 0101:2 0102:9 0110:9 0111:2 0112:43 1000:25 1001:5 1002:71 1010:35
    1011:2 1012:419 1100:16 1101:5 1102:42 1110:25 1111:4 1112:270 2000:2 2002:1 2010:3 2012:26 2100:12 2101:8 2102:13
    2110:23 2111:6 2112:85"""
# ln p of all rows and the number of free parameters, by the number of classes.
PUBLISHED = {
    "carcinoma": (CARCINOMA, {1: (-524.4648, 7), 2: (-317.2568, 15), 3: (-293.7050, 23)}),
    "values": (VALUES, {1: (-543.6498, 4), 2: (-504.4677, 9), 3: (-503.3011, 14)}),
    "cheating": (CHEATING, {1: (-467.4382, 4), 2: (-440.0271, 9), 3: (-436.2356, 14)}),
    "gss82": (GSS82, {1: (-2872.2296, 6), 2: (-2783.2680, 13), 3: (-2754.5454, 20)}),
}
# Deaths per day of women of 80 and more in The Times, 1910 to 1912: how many days had 0, 1, ..., 9 (Hasselblad 1969).
DEATHS, DAYS = np.arange(10)[:, None], np.array([162, 267, 271, 185, 111, 61, 27, 8, 3, 1])


def patterns(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows, and how often each occurs."""
    pairs = [entry.split(":") for entry in text.split()]
    return np.array([[int(digit) for digit in row] for row, _ in pairs]), np.array([float(n) for _, n in pairs])


@pytest.mark.parametrize(
    ("name", "k"), [(name, k) for name, (_, values) in PUBLISHED.items() for k in values], ids=lambda value: f"{value}"
)
def test_published_likelihoods_are_reached_from_every_seed(name, k):
    text, values = PUBLISHED[name]
    X, n = patterns(text)
    expected, n_parameters = values[k]
    for seed in range(10 if k > 1 else 1):
        model = LatentClassAnalysis(k, acceleration="squarem", tol=1e-9, max_iter=5000, random_state=seed)
        model.fit(X, sample_weight=n)
        # Printed with four digits, and EM stops within a few 1e-9 nats per row.
        assert model.score_samples(X) @ n == pytest.approx(expected, abs=3e-4), seed
    assert model.n_parameters_ == n_parameters


def test_bic_of_rows_is_the_published_one():
    X, n = patterns(CARCINOMA)
    rows = np.repeat(X, n.astype(int), axis=0)
    model = LatentClassAnalysis(3, acceleration="squarem", tol=1e-9, max_iter=5000, random_state=0).fit(rows)
    assert model.bic(rows) == pytest.approx(697.1357, abs=1e-3)


def test_classes_are_a_mixture_of_levels():
    """Text, two values and numbers alike: every column has levels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "town": rng.choice(["Bonn", "Rome", "Oslo"], 60),
            "grade": rng.integers(1, 5, 60),
            "smokes": rng.random(60) < 0.5,
        }
    )
    model = LatentClassAnalysis(2, random_state=0, max_iter=20, tol=0.0).fit(X)
    assert set(model.families_.values()) == {"categorical"}
    assert {name: p.shape for name, p in model.probabilities_.items()} == {
        "town": (2, 3),
        "grade": (2, 4),
        "smokes": (2, 2),
    }
    for p in model.probabilities_.values():
        assert_allclose(p.sum(1), 1.0)
    same = Mixture(2, families=dict.fromkeys(X, "categorical"), random_state=0, max_iter=20, tol=0.0).fit(X)
    assert_allclose(model.score_samples(X), same.score_samples(X), rtol=1e-12)


def test_probabilities_of_all_patterns_sum_to_one():
    X, n = patterns(GSS82)
    model = LatentClassAnalysis(3, random_state=0).fit(X, sample_weight=n)
    every = np.array(np.meshgrid(*[np.unique(column) for column in X.T])).reshape(4, -1).T
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("make", [lambda k: BernoulliMixture(k), lambda k: LatentClassAnalysis(k)])
def test_two_levels_are_bernoulli(make):
    X, n = patterns(CARCINOMA)
    model = make(3).set_params(acceleration="squarem", tol=1e-9, max_iter=5000, random_state=0)
    model.fit(X - 1, sample_weight=n)
    assert model.score_samples(X - 1) @ n == pytest.approx(-293.7050, abs=3e-4)


def test_alpha_is_a_pseudo_count_of_both_values():
    X, y = np.array([[1.0], [1.0], [0.0], [np.nan], [0.0]]), np.array([0, 0, 0, 1, 1])
    model = BernoulliMixture(alpha=2.0).fit(X, y)
    assert_allclose(model.probabilities_[:, 0], [(2 + 2) / (3 + 4), (0 + 2) / (1 + 4)])
    assert_allclose(BernoulliMixture().fit(X, y).probabilities_[:, 0], [2 / 3, 0.0])


def test_other_values_than_0_and_1_are_named():
    X = pd.DataFrame({"a": [0, 1, 1], "b": [0, 2, 1]})
    with pytest.raises(ValueError, match="column 'b' holds 2, but a Bernoulli column has only 0 and 1; code it"):
        BernoulliMixture().fit(X)
    with pytest.raises(ValueError, match=r"Negative values in data passed to PoissonMixture: X holds -1 in row 1"):
        PoissonMixture().fit([[0.0], [-1.0]])
    assert_array_equal(BernoulliMixture().fit([[0], [1]]).score_samples([[2], [1]]), [-np.inf, np.log(0.5)])


def test_hasselblads_counts():
    model = PoissonMixture(2, acceleration="squarem", tol=1e-13, max_iter=1000, random_state=0)
    model.fit(DEATHS, sample_weight=DAYS)
    assert model.score_samples(DEATHS) @ DAYS == pytest.approx(-1989.945860, abs=1e-6)
    order = np.argsort(-model.rates_[:, 0])
    # The likelihood is flat: its 1e-6 leave the fourth digit of the parameters open.
    assert_allclose(model.weights_[order], [0.640115, 0.359885], atol=3e-4)
    assert_allclose(model.rates_[order, 0], [2.663404, 1.256095], atol=5e-4)


@pytest.mark.parametrize("start", ["portfolio", "kmeans"])
def test_squarem_needs_a_twentieth_of_the_steps(start):
    """Until a step gains less than 1e-8 nats."""

    def n_steps(acceleration):
        model = PoissonMixture(2, init_params=start, acceleration=acceleration, random_state=0)
        model.set_params(tol=1e-8 / DAYS.sum(), max_iter=5000).fit(DEATHS, sample_weight=DAYS)
        assert model.converged_
        return model.n_iter_

    assert n_steps(None) >= 20 * n_steps("squarem")


def test_a_gamma_prior_of_rates():
    X, y = np.array([[4.0], [6.0], [1.0]]), np.array([0, 0, 1])
    model = PoissonMixture(shape=3.0, rate=0.5).fit(X, y)
    assert_allclose(model.rates_[:, 0], [(10 + 2) / (2 + 0.5), (1 + 2) / (1 + 0.5)])
    with pytest.raises(ValueError, match=r"rate=0 is no gamma prior with shape=3.0; give a rate above 0, or shape=1"):
        PoissonMixture(shape=3.0).fit(X, y)


@pytest.mark.parametrize("model", [BernoulliMixture(2, random_state=0), PoissonMixture(2, random_state=0)])
def test_scores_of_counts_are_probabilities(model, tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (40, 3))
    model.fit(X)
    assert set(model.measure_) == {"probability"}
    model.save(tmp_path / "model.jensen")
    assert_array_equal(jensen.load(tmp_path / "model.jensen").score_samples(X), model.score_samples(X))
