"""Outlier scores: bands of levels against brute force, planted outliers, kinds and mistakes."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from jensen import (
    Autoencoder,
    Diffusion,
    GaussianMixture,
    KMedoids,
    ResidualMLP,
    RidgeRegression,
    Schedule,
    UNet,
    outlier_scores,
)
from jensen.models.diffusion.inference import all_levels
from jensen.models.diffusion.module import level_shares
from jensen.models.diffusion.profile import band_levels, band_nats, profile
from jensen.runtime.row_draws import RowDraws, streams_of
from known_denoisers import known_module, mixture_rows

CPU = torch.device("cpu")
N_STEPS = 100


def share_of(n_steps):
    return torch.tensor(level_shares(Schedule.linear(n_steps)))


@pytest.fixture(scope="module")
def rows():
    """Rows whose second half of columns follows the first; those of another seed are like them."""

    def draw(n, seed):
        rng = np.random.default_rng(seed)
        first = rng.normal(size=(n, 2))
        return np.concatenate([first, first + 0.1 * rng.normal(size=(n, 2))], 1)

    return draw


@pytest.fixture(scope="module")
def model(rows):
    network = ResidualMLP(width=64, n_blocks=2)
    options = {"n_steps": N_STEPS, "network": network, "max_epochs": 60, "learning_rate": 3e-3, "random_state": 0}
    return Diffusion(**options).fit(rows(1000, seed=0))


def clone_of(model, seed):
    """The same fit, with other draws."""
    return copy(model).set_params(random_state=seed)


class TestBands:
    @pytest.mark.parametrize(("n_steps", "n_levels"), [(1000, 100), (100, 20), (100, 100), (30, 200), (200, 15)])
    def test_levels_sum_to_all_and_bands_are_equal_parts(self, n_steps, n_levels):
        share = share_of(n_steps)
        level, weight, band = band_levels(share, n_levels)
        assert level.min() >= 2
        assert level.max() <= n_steps
        assert (band.diff() >= 0).all()
        assert band.unique().tolist() == list(range(10))
        # A weighted sum of π is its sum over levels 2 to T, in each band a tenth of it.
        parts = torch.zeros(10, dtype=torch.float64).index_add(0, band, weight * share[level - 1])
        assert_allclose(parts.sum(), 1 - share[0], rtol=1e-9)
        if n_levels < n_steps:
            assert_allclose(parts, 0.1 * (1 - share[0]), rtol=1e-9)
            return
        # A whole level lies on one side of an edge between bands: where its larger half is.
        ends, edges = share[1:].cumsum(0), 0.1 * (1 - share[0]) * torch.arange(1, 10)
        across = share[1 + torch.searchsorted(ends, edges)]
        assert (parts.cumsum(0)[:-1] - edges).abs().sub(across / 2).max() < 1e-12

    def test_few_levels_have_few_bands(self):
        level, weight, band = band_levels(share_of(25)[:4], 100)
        assert level.tolist() == [2, 3, 4]
        assert weight.tolist() == [1, 1, 1]
        assert band.tolist() == [0, 1, 2]

    @torch.inference_mode()
    def test_a_band_is_the_sum_of_its_levels(self):
        """Of a known denoiser, with many draws of the noise on both sides."""
        n_steps, n_draws = 30, 200
        module = known_module(Schedule.linear(n_steps))
        x = torch.tensor(mixture_rows(12, seed=0), dtype=torch.float32)
        generator = torch.Generator().manual_seed(0)
        found = torch.stack([band_nats(module, x, n_steps, generator, False) for _ in range(n_draws)])
        draws = torch.stack([all_levels(module, x, streams_of(generator, len(x)), CPU).nats for _ in range(n_draws)])
        level, _, band = band_levels(share_of(n_steps), n_steps)
        expected = torch.zeros(n_draws, 12, 10, dtype=torch.float64).index_add(2, band, draws[:, :, level - 1])
        error = ((found.var(0) + expected.var(0)) / n_draws).sqrt()
        z = (found.mean(0) - expected.mean(0)) / error
        # 120 differences in standard errors; rows share their noise, so they do not differ independently.
        assert z.abs().max() < 4.5
        assert z.square().mean().sqrt() < 1.5

    @torch.inference_mode()
    def test_fewer_levels_stand_for_all(self):
        """Mean terms of a known denoiser: the middles of equal parts are off by a few per cent of a band."""
        module = known_module(Schedule.linear(500))
        x = torch.tensor(mixture_rows(1000, seed=1), dtype=torch.float32)
        nats = all_levels(module, x, RowDraws.of(x, 0), CPU).nats.mean(0)
        sums = []
        for n_levels in (100, 500):
            level, weight, band = band_levels(share_of(500), n_levels)
            sums.append(torch.zeros(10, dtype=torch.float64).index_add(0, band, weight * nats[level - 1]))
        assert_allclose(sums[0], sums[1], rtol=0.1)
        assert_allclose(sums[0].sum(), sums[1].sum(), rtol=0.02)

    @torch.inference_mode()
    def test_a_row_is_scored_alike_in_any_company(self):
        module = known_module(Schedule.linear(50))
        x = torch.tensor(mixture_rows(40, seed=2), dtype=torch.float32)
        whole = band_nats(module, x, 20, torch.Generator().manual_seed(3), False)
        part = band_nats(module, x[7:9], 20, torch.Generator().manual_seed(3), False)
        assert_allclose(part, whole[7:9], rtol=1e-5)


class TestProfile:
    def test_it_is_the_distance_of_the_logarithms(self, model, rows):
        usual, asked = rows(100, seed=1), rows(30, seed=2)
        v, u = (profile(model, X, model._generator().get_state())[0].numpy() for X in (usual, asked))
        least = 1e-3 * np.median(v.sum(1))
        S = LedoitWolf().fit(np.log(v + least)).covariance_
        f = np.log(u + least) - np.log(v + least).mean(0)
        expected = np.einsum("ib,bc,ic->i", f, np.linalg.inv(S), f)
        assert_allclose(outlier_scores(model, asked, usual, by="profile"), expected, rtol=1e-6)

    def test_one_draw_of_the_noise_ranks_rows_as_many_do(self, model, rows):
        """Against bound_by_level, averaged over draws that differ between rows."""
        usual, asked = rows(100, seed=1), np.concatenate([rows(60, seed=2), 2 * rows(20, seed=3)])
        level, _, band = band_levels(torch.tensor(level_shares(model.schedule_)), N_STEPS)

        def logarithms(X):
            nats = np.mean([clone_of(model, seed).bound_by_level(X) for seed in range(50)], 0)
            return np.log(np.stack([nats[:, (level - 1)[band == b].numpy()].sum(1) for b in range(10)], 1) + 1e-2)

        expected = LedoitWolf().fit(logarithms(usual)).mahalanobis(logarithms(asked))
        found = outlier_scores(model, asked, usual, by="profile")
        assert spearmanr(found, expected).statistic > 0.7

    def test_planted_outliers_are_found(self, model, rows):
        """Columns that do not follow each other, and rows at the very mean, which no sum of terms finds strange."""
        usual, inliers = rows(300, seed=1), rows(100, seed=2)
        rng = np.random.default_rng(3)
        unlike, mean = rng.normal(size=(50, 4)), 0.02 * rng.normal(size=(50, 4))
        truth = np.repeat([0, 1], [100, 50])

        def area(outliers, **options):
            return roc_auc_score(truth, outlier_scores(model, np.concatenate([inliers, outliers]), **options))

        assert area(unlike) > 0.95
        assert area(unlike, reference=usual, by="profile") > 0.95
        assert area(mean) < 0.3
        assert area(mean, reference=usual, by="profile") > 0.8

    def test_images_and_their_levels(self):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 3, (40, 4, 4)).astype(np.uint8)
        network = UNet(channels=(4,), n_blocks=1)
        images = Diffusion(n_steps=30, network=network, max_epochs=1, evaluation_levels=20, random_state=0).fit(X)
        found = outlier_scores(images, X[:7], X, by="profile")
        assert found.shape == (7,)
        assert (found >= 0).all()
        assert_array_equal(found, outlier_scores(images, X[:7], X, by="profile"))

    def test_without_a_seed_rows_are_still_compared_under_one_noise(self, model, rows):
        usual = rows(100, seed=1)
        for seed in (None, np.random.RandomState(0)):
            found = outlier_scores(clone_of(model, seed), usual, usual, by="profile")
            # Of the reference itself the mean is Σ_b λ_b / ((1-ρ) λ_b + ρ λ̄), concave in λ_b and so 10 at most.
            assert found.mean() < 10 + 1e-6

    def test_rows_far_away_have_finite_scores(self, model, rows):
        found = outlier_scores(model, np.array([[0.0] * 4, [1e11] * 4]), rows(50, seed=1), by="profile")
        assert np.isfinite(found).all()
        assert found[1] > 1000 * found[0]

    @pytest.mark.parametrize(
        ("reference", "message"),
        [
            (None, "by='profile' compares rows with usual ones; give them as reference, or by='bound'"),
            (np.zeros((19, 4)), "reference has 19 rows; give 20 or more"),
            (np.zeros((30, 4)), "reference has 30 rows that are all equal"),
            (np.zeros((30, 3)), "X has 3 features, but Diffusion is expecting 4"),
            (np.full((30, 4), np.nan), "X holds NaN in row 0, but a diffusion has no marginal likelihood"),
        ],
    )
    def test_mistakes(self, model, reference, message):
        with pytest.raises(ValueError, match=message):
            outlier_scores(model, np.zeros((2, 4)), reference, by="profile")

    def test_other_models_have_no_levels(self, rows):
        mixture = GaussianMixture(random_state=0).fit(rows(50, seed=0))
        message = "by='profile' is for diffusions of rows, which GaussianMixture is not; give one, or by='bound'"
        with pytest.raises(TypeError, match=message):
            outlier_scores(mixture, rows(5, seed=1), rows(50, seed=0), by="profile")

    def test_one_level_is_no_profile(self, rows):
        one = Diffusion([0.5], network=ResidualMLP(width=8, n_blocks=1), max_epochs=1, random_state=0)
        one.fit(rows(30, seed=0))
        with pytest.raises(ValueError, match="needs 2 noise levels or more, but the model has 1; choose by='bound'"):
            outlier_scores(one, rows(5, seed=0), rows(30, seed=0), by="profile")


class TestBound:
    def test_it_is_minus_the_score(self, model, rows):
        X = rows(20, seed=1)
        assert_array_equal(outlier_scores(model, X), -model.score_samples(X))
        mixture = GaussianMixture(2, random_state=0).fit(X)
        assert_array_equal(outlier_scores(mixture, X), -mixture.score_samples(X))

    def test_other_libraries_score_too(self, rows):
        X = rows(50, seed=1)
        forest = IsolationForest(random_state=0).fit(X)
        assert_array_equal(outlier_scores(forest, X), -forest.score_samples(X))

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (
                Autoencoder(1, max_epochs=1),
                r"Autoencoder has no score_samples: .*; use Autoencoder.reconstruction_error\(X\), or give a model",
            ),
            (KMedoids(2), "KMedoids has no score_samples: a dissimilarity has no density"),
            (RidgeRegression(), "RidgeRegression is a model of y given x, and cannot say how unusual x is"),
        ],
    )
    def test_models_that_do_not_score(self, rows, other, message):
        X = rows(30, seed=1)
        with pytest.raises(TypeError, match=message):
            outlier_scores(other.fit(X, X[:, 0]), X)

    def test_mistakes(self, model, rows):
        X = rows(30, seed=1)
        with pytest.raises(ValueError, match="by='density' is not known; choose 'bound' or 'profile'"):
            outlier_scores(model, X, by="density")
        with pytest.raises(ValueError, match="reference is for by='profile'; leave it out, or choose that"):
            outlier_scores(model, X, X)
        with pytest.raises(TypeError, match="model=Diffusion is a class; give a fitted model"):
            outlier_scores(Diffusion, X)


@pytest.mark.parametrize("by", ["bound", "profile"])
def test_what_goes_in_comes_out(model, rows, by):
    X, reference = rows(6, seed=4), rows(30, seed=5) if by == "profile" else None
    expected = outlier_scores(model, X, reference, by=by)
    assert isinstance(expected, np.ndarray)
    assert (expected.dtype, expected.shape) == (np.float64, (6,))
    assert isinstance(outlier_scores(model, pd.DataFrame(X), reference, by=by), np.ndarray)
    for dtype in (torch.float32, torch.float64):
        found = outlier_scores(model, torch.tensor(X, dtype=dtype), reference, by=by)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == dtype
        # The draws of a row follow from its content, and single precision is another content.
        same = X.astype(found.numpy().dtype)
        assert_allclose(found, outlier_scores(model, same, reference, by=by), rtol=1e-3)
