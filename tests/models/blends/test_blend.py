"""Weights, splits and tables of a blend."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_iris

import jensen
from altered import rewrite
from jensen import BernoulliMixture, Blend, FactorAnalysis, GaussianMixture, KMedoids, Mixture
from jensen.formulas.blend import weigh
from jensen.models.blends.split import split

X = load_iris().data


def log_densities(n=200, n_models=4, seed=0):
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=(n, n_models)) - 50


def mean_log(log_p, w, weight):
    return np.average(logsumexp(log_p, axis=1, b=w), weights=weight)


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_are_the_optimum_that_scipy_finds(seed):
    log_p = log_densities(seed=seed)
    weight = np.random.default_rng(seed).integers(0, 3, size=len(log_p)).astype(float)
    found = weigh(torch.tensor(log_p), torch.tensor(weight), 100_000, 1e-10)
    best = minimize(lambda v: -mean_log(log_p, softmax(v), weight), np.zeros(4), options={"gtol": 1e-9})
    assert found.value == pytest.approx(-best.fun, abs=1e-8)
    assert found.value == pytest.approx(mean_log(log_p, found.weights.numpy(), weight), abs=1e-10)
    # No better than equal weights are the ones to check against.
    assert found.value > mean_log(log_p, np.full(4, 0.25), weight) + 1e-3


def test_the_gap_bounds_what_is_left_at_every_step():
    """best - now ≤ ln max g, and no step lowers the value."""
    log_p = torch.tensor(log_densities())
    best = weigh(log_p, None, 100_000, 1e-12).value
    steps = [weigh(log_p, None, n, 0.0) for n in range(12)]
    assert [one.n_iter for one in steps] == list(range(12))
    for one in steps:
        assert 0 <= best - one.value <= one.gap + 1e-12
    assert (np.diff([one.value for one in steps]) >= -1e-12).all()
    assert weigh(log_p, None, 100_000, 1e-4).gap <= 1e-4


def test_nothing_over_or_underflows():
    log_p = torch.tensor([[-2000.0, -1000.0], [1000.0, 900.0]])
    assert_allclose(weigh(log_p).weights, [0.5, 0.5])
    assert weigh(log_p).value == pytest.approx(-np.log(2), abs=1e-12)


def test_the_held_out_rows_are_those_of_the_weights():
    """By hand: split, fit on a part, score the rest, weigh, and fit to all rows."""
    parts = [GaussianMixture(2, random_state=0), FactorAnalysis(1)]
    blend = Blend(parts, held_out=0.3, random_state=5).fit(X)
    seed = int(np.random.RandomState(5).randint(np.iinfo(np.int32).max))
    trained, held = split(X, None, 0.3, seed)
    assert_array_equal(trained + held, 1)
    assert 0.15 < held.mean() < 0.45
    inner = [model.fit(X[trained > 0]) for model in parts]
    scores = np.stack([model.score_samples(X[held > 0]) for model in inner], 1)
    found = weigh(torch.tensor(scores))
    assert_allclose(blend.weights_, found.weights, atol=1e-9)
    assert_allclose(blend.held_out_scores_, scores.mean(0))
    assert blend.held_out_score_ == pytest.approx(found.value)
    whole = [GaussianMixture(2, random_state=0).fit(X), FactorAnalysis(1).fit(X)]
    expected = logsumexp([model.score_samples(X) for model in whole], axis=0, b=blend.weights_[:, None])
    assert_allclose(blend.score_samples(X), expected)
    assert blend.held_out_score_ >= blend.held_out_scores_.max() - blend.gap_


def test_a_split_depends_on_what_rows_hold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    held = split(x, None, 0.2, 1)[1]
    assert 0.1 < held.mean() < 0.3
    order = rng.permutation(300)
    assert_array_equal(split(x[order], None, 0.2, 1)[1], held[order])
    assert_array_equal(split(7 * x - 2, None, 0.2, 1)[1], held)
    assert_array_equal(split(np.insert(x, 1, 5.0, axis=1), None, 0.2, 1)[1], held)
    assert_array_equal(split(pd.DataFrame(x), None, 0.2, 1)[1], held)
    assert (split(x, None, 0.2, 2)[1] != held).any()


def test_copies_of_a_row_are_split_one_by_one():
    """Otherwise a table of few levels would have all rows of a kind on one side."""
    x = np.repeat([[0.0, 1.0], [1.0, 1.0]], 500, axis=0)
    held = split(x, None, 0.2, 0)[1]
    assert 0.1 < held[:500].mean() < 0.3
    assert 0.1 < held[500:].mean() < 0.3


def test_a_weight_is_split_like_copies():
    x = np.random.default_rng(0).normal(size=(200, 2))
    weight = np.random.default_rng(1).integers(0, 5, size=200)
    trained, held = split(x, weight, 0.3, 0)
    repeated = split(np.repeat(x, weight, axis=0), None, 0.3, 0)[1]
    assert_array_equal(held, np.bincount(np.repeat(np.arange(200), weight), repeated, minlength=200))
    assert_allclose(trained + held, weight)
    trained, held = split(x, np.full(200, 1000.5), 0.3, 0)
    assert_allclose(trained + held, 1000.5)
    assert held.mean() / 1000.5 == pytest.approx(0.3, abs=0.03)


def test_some_rows_are_always_on_either_side():
    for seed in range(20):
        trained, held = split(np.array([[0.0], [1.0]]), None, 0.2, seed)
        assert trained.sum() == held.sum() == 1


def mixed_table(n=120):
    rng = np.random.default_rng(4)
    kind = rng.integers(2, size=n)
    return pd.DataFrame(
        {"length": kind * 4 + rng.normal(size=n), "town": np.array(["Bergen", "Turku"])[kind], "n": 3 * kind + 1}
    )


def test_text_is_imputed_by_the_most_probable_models(tmp_path):
    table = mixed_table()
    blend = Blend({"one": Mixture(1), "two": Mixture(2)}, random_state=0).fit(table)
    gaps = table.copy()
    gaps.loc[0, "town"] = gaps.loc[1, "length"] = None
    filled = blend.impute(gaps)
    share = blend.predict_proba(gaps)
    assert_allclose(
        blend.models_["two"].score_samples(gaps) - blend.score_samples(gaps), np.log(share[:, 1] / blend.weights_[1])
    )
    expected = sum(share[1, a] * model.impute(gaps).loc[1, "length"] for a, model in enumerate(blend.models_.values()))
    assert filled.loc[1, "length"] == pytest.approx(expected)
    assert filled.loc[0, "town"] == blend.models_["two"].impute(gaps).loc[0, "town"]
    assert (filled.dtypes == table.dtypes).all()
    pd.testing.assert_frame_equal(filled.iloc[2:], table.iloc[2:])
    drawn = blend.impute_draws(gaps, 3, random_state=0)
    assert all(one.notna().all().all() and one.index.equals(gaps.index) for one in drawn)
    blend.save(tmp_path / "blend.jensen")
    loaded = jensen.load(tmp_path / "blend.jensen")
    assert list(loaded.models_) == ["one", "two"]
    assert_array_equal(loaded.score_samples(gaps), blend.score_samples(gaps))
    filled = blend.impute(pl.from_pandas(gaps))
    assert filled["length"][1] == pytest.approx(expected)


def test_models_of_other_units_are_refused():
    rows = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(float)
    message = (
        r"models\['BernoulliMixture'\] gives column 0 a probability, but 'GaussianMixture' a density: .* leave one"
    )
    with pytest.raises(ValueError, match=message):
        Blend([GaussianMixture(), BernoulliMixture(2)]).fit(rows)
    fitted = {"a": GaussianMixture().fit(X), "b": GaussianMixture().fit(X[:, :2])}
    with pytest.raises(ValueError, match=r"models\['b'\] scores 2 columns, but 'a' 4; fit them to the same columns"):
        Blend.from_models(fitted, [0.5, 0.5])


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"GaussianMixture is no model of jensen; .* such as GaussianMixture\(\)"):
        Blend([GaussianMixture]).fit(X)
    with pytest.raises(ValueError, match="models is empty; give at least one model"):
        Blend([]).fit(X)
    with pytest.raises(AttributeError, match="score_samples") as error:
        Blend([KMedoids(2)]).fit(X)
    assert "dissimilarity has no density" in str(error.value.__cause__)
    with pytest.raises(ValueError, match=r"models\['a'\] is not fitted; call its fit first"):
        Blend.from_models({"a": GaussianMixture()}, [1.0])
    with pytest.raises(ValueError, match=r"weights must be 0 or more and sum to 1, got \[0.5\]"):
        Blend.from_models({"a": GaussianMixture().fit(X)}, [0.5])


def test_a_sample_is_of_a_model_if_asked():
    blend = Blend([GaussianMixture(2), FactorAnalysis(1)], random_state=0).fit(X)
    rows, model = blend.sample(10, y=1)
    assert rows.shape == (10, 4)
    assert (model == 1).all()
    with pytest.raises(ValueError, match="y=2 is no number of a model; give 0 to 1, or None for all"):
        blend.sample(3, y=2)


def test_a_file_with_too_few_weights_is_refused(tmp_path):
    path = tmp_path / "blend.jensen"
    Blend([GaussianMixture(), FactorAnalysis(1)], random_state=0).fit(X).save(path)
    rewrite(path, None, lambda tensors: tensors.update({"fitted.theta.weights": torch.ones(1, dtype=torch.float64)}))
    with pytest.raises(ValueError, match=r"weights has shape \(1,\), but \(2,\) is needed"):
        jensen.load(path)
