"""Noise: one more component, uniform over the box of the rows."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, make_blobs

import jensen
from jensen import DiscriminantAnalysis, GaussianMixture, Mixture, select
from jensen.models.mixtures.noise import Noise

IRIS = load_iris().data


def contaminated(seed=0, n=400, n_odd=40):
    """Three clusters and rows scattered over a far larger box, with True for the scattered ones."""
    x, _ = make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], cluster_std=0.5, random_state=seed)
    odd = np.random.default_rng(seed).uniform(-30, 30, size=(n_odd, 2))
    return np.vstack([x, odd]), np.arange(n + n_odd) >= n


# Recomputed with an independent EM (docs/gaussian-mixture.md gives the model).
@pytest.mark.parametrize(("k", "total", "share"), [(1, -608.0179, 0.57082), (3, -375.6223, 0.10329)])
def test_known_optima_of_iris(k, total, share):
    model = GaussianMixture(k, covariance_type="EII", noise=True, tol=1e-10, max_iter=5000, random_state=0).fit(IRIS)
    assert model.score_samples(IRIS).sum() == pytest.approx(total, abs=1e-3)
    assert model.weights_[-1] == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("covariance_type", ["tied", "full"])
def test_noise_that_explains_nothing_gets_no_weight(covariance_type):
    """The weight of noise rises only where the mean of u/p exceeds 1."""
    plain = GaussianMixture(3, covariance_type=covariance_type, tol=1e-9, max_iter=3000, random_state=0).fit(IRIS)
    noisy = GaussianMixture(
        3, covariance_type=covariance_type, noise=True, tol=1e-9, max_iter=3000, random_state=0
    ).fit(IRIS)
    box = -np.log(np.ptp(IRIS, axis=0)).sum()
    assert np.exp(box - plain.score_samples(IRIS)).mean() < 1
    assert noisy.weights_[-1] < 1e-4
    assert noisy.score(IRIS) == pytest.approx(plain.score(IRIS), abs=1e-4)


def test_the_density_is_that_of_gaussians_and_a_box():
    x, _ = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0).fit(x)
    new = np.vstack([x[:50], [[100.0, 0.0]], [[29.0, 29.0]]])
    log_u = np.where(((new >= x.min(0)) & (new <= x.max(0))).all(1), -np.log(np.ptp(x, axis=0)).sum(), -np.inf)
    parts = [
        np.log(w) + multivariate_normal(m, c).logpdf(new)
        for w, m, c in zip(model.weights_[:-1], model.means_, model.covariances_, strict=True)
    ]
    joint = np.column_stack([*parts, np.log(model.weights_[-1]) + log_u])
    np.testing.assert_allclose(model.score_samples(new), logsumexp(joint, axis=1), atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(new), np.exp(joint - logsumexp(joint, axis=1)[:, None]), atol=1e-8)
    bound = model.bound(new)
    np.testing.assert_allclose(bound.total, model.score_samples(new), atol=1e-8)
    assert model.n_parameters_ == GaussianMixture(3, random_state=0).fit(x).n_parameters_ + 1


def test_scattered_rows_do_not_bend_the_clusters():
    x, odd = contaminated()
    clean = GaussianMixture(3, random_state=0).fit(x[~odd])
    noisy = GaussianMixture(3, noise=True, random_state=0).fit(x)
    bent = GaussianMixture(3, random_state=0).fit(x)

    def worst(model):
        return np.linalg.norm(model.means_[:, None] - clean.means_, axis=2).min(0).max()

    # The standard error of a mean is 0.5 / √133 = 0.04.
    assert worst(noisy) < 0.1 < worst(bent)
    label = noisy.predict(x)
    assert set(label) == {-1, 0, 1, 2}
    assert (label[odd] == -1).mean() > 0.9
    assert (label[~odd] == -1).mean() < 0.02
    assert np.array_equal(label == -1, noisy.predict_proba(x).argmax(1) == 3)


def test_without_noise_is_the_mixture_of_the_components():
    x, odd = contaminated()
    noisy = GaussianMixture(3, noise=True, random_state=0).fit(x)
    clean = noisy.without_noise()
    assert clean.weights_.sum() == pytest.approx(1.0)
    assert clean.predict_proba(x).shape == (len(x), 3)
    assert noisy.weights_.shape == (4,)
    assert np.median(clean.score_samples(x[odd])) < np.median(noisy.score_samples(x[odd])) - 100


def test_missing_entries_drop_their_factor_and_are_filled_exactly():
    x, _ = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0).fit(x)
    row = np.array([[25.0, np.nan]])

    def density(b):
        return np.exp(model.score_samples([[25.0, b]]))[0]

    low, high = x[:, 1].min(), x[:, 1].max()
    total = quad(density, low, high, limit=200, points=[0, 6])[0]
    mean = quad(lambda b: b * density(b), low, high, limit=200, points=[0, 6])[0] / total
    assert np.exp(model.score_samples(row))[0] == pytest.approx(total, rel=1e-6)
    assert model.impute(row)[0, 1] == pytest.approx(mean, abs=1e-5)
    drawn = np.array(model.impute_draws(np.repeat(row, 500, axis=0), 4, random_state=0))[:, :, 1]
    # A uniform over the range: its deviation is range/√12, so the mean of 2000 has a standard error of range/155.
    assert drawn.mean() == pytest.approx(mean, abs=3 * (high - low) / 155)
    assert drawn.std() == pytest.approx((high - low) / np.sqrt(12), rel=0.1)
    assert low <= drawn.min() <= drawn.max() <= high


def test_fits_with_missing_entries_and_weights():
    x, odd = contaminated()
    x[::9, 0] = np.nan
    weight = np.ones(len(x))
    weight[5] = 2
    one = GaussianMixture(3, noise=True, random_state=0, tol=1e-8, max_iter=500).fit(x, sample_weight=weight)
    two = GaussianMixture(3, noise=True, random_state=0, tol=1e-8, max_iter=500).fit(np.vstack([x, x[5]]))
    np.testing.assert_allclose(np.sort(one.weights_), np.sort(two.weights_), atol=1e-5)
    assert (one.predict(x)[odd] == -1).mean() > 0.8


@pytest.mark.parametrize("arguments", [{"acceleration": "squarem"}, {"algorithm": "gradient"}])
def test_other_algorithms_reach_the_same_optimum(arguments):
    x, _ = contaminated()
    plain = GaussianMixture(3, noise=True, random_state=0, tol=1e-9, max_iter=2000).fit(x)
    other = GaussianMixture(3, noise=True, random_state=0, tol=1e-9, max_iter=2000, **arguments).fit(x)
    assert other.score(x) == pytest.approx(plain.score(x), abs=1e-5)


def test_labelled_rows_are_never_noise():
    x, odd = contaminated()
    y = np.full(len(x), -1)
    y[:90] = GaussianMixture(3, random_state=0).fit(x[~odd]).predict(x[:90])
    model = GaussianMixture(3, noise=True, random_state=0).fit(x, y)
    assert set(model.predict(x)) == {-1, 0, 1, 2}
    assert (model.predict(x[:90]) == y[:90]).mean() > 0.99
    texts = np.array(["a", "b", "c", None], dtype=object)[y]
    named = GaussianMixture(3, noise=True, random_state=0).fit(x, texts)
    assert {*named.predict(x)} == {"a", "b", "c", None}


def test_samples_say_what_is_noise():
    x, _ = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0).fit(x)
    rows, component = model.sample(5000)
    noise = component == -1
    # The standard error of a share near 0.1 is 0.004.
    assert noise.mean() == pytest.approx(model.weights_[-1], abs=0.013)
    assert (rows[noise] >= x.min(0)).all()
    assert (rows[noise] <= x.max(0)).all()
    assert (np.ptp(rows[noise], axis=0) > 0.95 * np.ptp(x, axis=0)).all()


def test_save_and_load_partial_fit_and_warm_start(tmp_path):
    x, _ = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0).fit(x)
    model.save(tmp_path / "m.jensen")
    again = jensen.load(tmp_path / "m.jensen")
    np.testing.assert_array_equal(again.score_samples(x), model.score_samples(x))
    before = model.score(x)
    again.partial_fit(x)
    assert again.score(x) == pytest.approx(before, abs=0.01)
    warm = model.set_params(warm_start=True, max_iter=5).fit(x)
    assert warm.score(x) >= before - 1e-9


def test_marginal_and_condition_keep_the_noise():
    x, _ = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0).fit(x)
    grid = np.linspace(x[:, 0].min(), x[:, 0].max(), 7)[:, None]
    np.testing.assert_allclose(
        model.marginal([0]).score_samples(grid), model.score_samples(np.column_stack([grid, np.full(7, np.nan)]))
    )
    given = model.condition({1: 20.0})
    rows = np.column_stack([grid, np.full(7, 20.0)])
    alone = model.score_samples(np.array([[np.nan, 20.0]]))
    np.testing.assert_allclose(given.score_samples(grid), model.score_samples(rows) - alone, atol=1e-8)


def test_select_compares_noise_and_none():
    x, _ = contaminated()
    chosen = select(GaussianMixture(random_state=0), x, {"n_components": [2, 3, 4], "noise": [False, True]}, "bic")
    assert chosen.winner.noise
    assert chosen.winner.n_components == 3


def mixed(seed=0):
    """Two groups with a number, a share, a count, a level, a gain that is often 0, and rows that fit neither."""
    rng, n = np.random.default_rng(seed), 300
    group = rng.integers(2, size=n)
    table = pd.DataFrame(
        {
            "size": rng.normal(10 * group, 1.0).round(2),
            "count": rng.poisson(np.where(group, 40, 4)),
            "town": np.where(rng.random(n) < 0.9, np.where(group, "Bonn", "Rome"), "Oslo"),
            "gain": np.where(rng.random(n) < 0.5, 0.0, rng.exponential(100.0, n)),
        }
    )
    odd = pd.DataFrame(
        {
            "size": rng.uniform(-40, 60, 30).round(2),
            "count": rng.integers(0, 150, 30),
            "town": rng.choice(["Bonn", "Rome", "Oslo"], 30),
            "gain": np.where(rng.random(30) < 0.5, 0.0, rng.uniform(0, 500, 30)),
        }
    )
    return pd.concat([table, odd], ignore_index=True)


def test_a_mixed_table_has_a_box_of_ranges_levels_and_atoms():
    table = mixed()
    model = Mixture(2, noise=True, random_state=0, columns={"gain": {"low": 0}}).fit(table)
    assert (model.predict(table)[300:] == -1).mean() > 0.6
    assert (model.predict(table)[:300] == -1).mean() < 0.05
    noise = model.theta_.noise
    counts, gains = table["count"], table["gain"]
    zero = (gains == 0).mean()
    expected = -np.log(np.ptp(table["size"])) - np.log(np.ptp(counts) + 1) - np.log(3)
    codes, _ = model._read(table[:1].assign(gain=0.0))
    assert float(noise.log_density(codes)) == pytest.approx(expected + np.log(zero))
    # A gain that is no atom: a density in the units of the gain, through g and its log-Jacobian.
    row = table[:1].assign(gain=50.0)
    codes, _ = model._read(row)
    whole = float(noise.log_density(codes)) - np.log(50.0)  # g = ln x, ln g' = -ln x
    away = np.ptp(gains[gains > 0])
    assert whole == pytest.approx(expected + np.log((1 - zero) / away))


def test_a_mixed_table_sums_to_one_over_counts_and_levels():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"n": rng.poisson(np.where(np.arange(300) % 2, 3.0, 9.0)), "t": rng.choice(list("ab"), 300)})
    model = Mixture(2, noise=True, random_state=0, columns={"n": "count", "t": "level"}).fit(table)
    every = pd.DataFrame([(n, t) for n in range(80) for t in "ab"], columns=["n", "t"])
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1.0, abs=1e-8)


def test_a_mixed_table_is_filled_sampled_saved_and_loaded(tmp_path):
    table = mixed()
    holes = table.copy()
    holes.loc[::7, "size"] = np.nan
    holes.loc[3::7, "town"] = None
    holes.loc[5::7, "gain"] = np.nan
    model = Mixture(2, noise=True, random_state=0).fit(holes)
    filled = model.impute(holes)
    assert not filled.isna().any().any()
    assert filled["gain"].between(0, table["gain"].max()).all()
    assert all(not one.isna().any().any() for one in model.impute_draws(holes, 3))
    rows, component = model.sample(500)
    assert -1 in component
    assert list(rows.columns) == list(table.columns)
    model.save(tmp_path / "m.jensen")
    np.testing.assert_array_equal(jensen.load(tmp_path / "m.jensen").score_samples(holes), model.score_samples(holes))


def test_noise_of_drawn_rows_is_inside_its_box():
    x = torch.tensor([[0.0, 1.0, -2.0], [4.0, 3.0, 1.0], [2.0, float("nan"), 0.0]], dtype=torch.float64)
    noise = Noise.of(x, n_values={0: 6}, counts=[1], bounds={2: (0.0, float("inf"))})
    drawn = noise.draw(4000, torch.Generator().manual_seed(0))
    assert noise.log_density(drawn).isfinite().all()
    assert set(drawn[:, 0].tolist()) == set(range(6))
    assert set(drawn[:, 1].tolist()) == {1.0, 2.0, 3.0}
    # e^y is uniform between e⁻² and e, whose mean has a standard error of range/√(12 · 4000).
    assert float(drawn[:, 2].exp().mean()) == pytest.approx((np.exp(-2) + np.e) / 2, abs=3 * np.e / 219)


def test_a_later_batch_extends_the_box():
    x, odd = contaminated()
    model = GaussianMixture(3, noise=True, random_state=0)
    model.partial_fit(x[~odd])
    for _ in range(20):
        model.partial_fit(x)
    np.testing.assert_allclose(noise_ends(model), [x.min(0), x.max(0)])
    assert (model.predict(x)[odd] == -1).mean() > 0.9


def noise_ends(model):
    return [model.theta_.noise.low.numpy(), model.theta_.noise.high.numpy()]


def test_noise_is_refused_where_it_means_nothing():
    with pytest.raises(ValueError, match=r"noise=True has a range for every column.*multinomial"):
        Mixture(2, families="multinomial", noise=True).fit(np.random.default_rng(0).poisson(1.0, (20, 5)))
    with pytest.raises(ValueError, match=r"weights_init has shape \(3,\), but \(4,\) is needed"):
        GaussianMixture(3, noise=True, weights_init=[0.2, 0.3, 0.5]).fit(IRIS)
    assert "noise" not in DiscriminantAnalysis().get_params()
