"""Probabilistic PCA: published values, closed forms, and its place in the family."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA

import jensen
from jensen import ConjugatePrior, GaussianMixture, MixtureOfPPCA, ProbabilisticPCA

IRIS = load_iris().data


def with_holes(x, share=0.2, seed=0):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


@pytest.mark.parametrize(
    ("m", "noise", "log_likelihood"), [(1, 0.114139, -470.6695), (2, 0.050682, -404.9628), (3, 0.023676, -379.9146)]
)
def test_iris(m, noise, log_likelihood):
    model = ProbabilisticPCA(m).fit(IRIS)
    assert model.noise_variance_ == pytest.approx(noise, abs=5e-7)
    assert model.score_samples(IRIS).sum() == pytest.approx(log_likelihood, abs=5e-5)
    assert model.lower_bound_ == pytest.approx(model.score(IRIS))


def test_attributes_are_scikit_learns_up_to_the_divisor():
    ours, theirs = ProbabilisticPCA(2).fit(IRIS), PCA(2).fit(IRIS)
    n = len(IRIS)
    assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-9)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_ * (n - 1) / n)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_)
    assert_allclose(ours.singular_values_, theirs.singular_values_)
    assert_allclose(ours.mean_, theirs.mean_)
    assert_allclose(ours.noise_variance_, theirs.noise_variance_ * (n - 1) / n)
    assert ours.n_components_ == 2
    assert_allclose(ours.get_covariance() @ ours.get_precision(), np.eye(4), atol=1e-9)


@pytest.mark.parametrize("x", [IRIS, load_breast_cancer().data[:20]], ids=["tall", "wide"])
def test_the_reconstruction_error_is_the_sum_of_the_eigenvalues_left(x):
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1]
    for m in (1, 3):
        model = ProbabilisticPCA(m).fit(x)
        error = ((x - model.reconstruct(x)) ** 2).sum(1).mean()
        assert error == pytest.approx(values[m:].sum(), rel=1e-7)
        # Encoder Uᵀ and decoder U.
        axes = model.components_
        assert_allclose(model.reconstruct(x), model.mean_ + (x - model.mean_) @ axes.T @ axes, rtol=1e-7)
        assert (axes @ np.cov(x.T, bias=True) @ axes.T).trace() == pytest.approx(values[:m].sum())


def test_transform_is_the_posterior_mean_and_inverse_transform_decodes_it():
    model = ProbabilisticPCA(2).fit(IRIS)
    w, noise = model.loadings_, model.noise_variance_
    m = w.T @ w + noise * np.eye(2)
    expected = (IRIS - model.mean_) @ w @ np.linalg.inv(m)
    assert_allclose(model.transform(IRIS), expected, atol=1e-10)
    posterior = model.posterior(IRIS)
    assert_allclose(posterior.mean.numpy(), expected, atol=1e-10)
    assert_allclose(posterior.covariance_matrix[0].numpy(), noise * np.linalg.inv(m), atol=1e-10)
    assert_allclose(model.inverse_transform(expected), model.mean_ + expected @ w.T)
    assert isinstance(model.inverse_transform(torch.from_numpy(expected)), torch.Tensor)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_one_axis_less_than_features_is_the_full_gaussian(share):
    x = with_holes(IRIS, share)
    full = GaussianMixture(1, tol=1e-10, max_iter=2000).fit(x)
    for m in (3, 4):
        model = ProbabilisticPCA(m, tol=1e-10, max_iter=5000).fit(x)
        assert model.score(x) == pytest.approx(full.score(x), abs=1e-6)
        assert_allclose(model.get_covariance(), full.covariances_[0], atol=2e-3)


def test_a_mixture_of_one_is_one():
    x = with_holes(IRIS)
    one = ProbabilisticPCA(2, tol=1e-9).fit(x)
    mixture = MixtureOfPPCA(1, 2, tol=1e-9, max_iter=1000, random_state=0).fit(x)
    assert mixture.score(x) == pytest.approx(one.score(x), abs=1e-6)


def test_holes_by_a_general_optimiser():
    x = with_holes(IRIS[::5], 0.3, seed=1)
    model = ProbabilisticPCA(1, tol=1e-12, max_iter=5000).fit(x)

    def negative(vector):
        mean, w, noise = vector[:4], vector[4:8], np.exp(vector[8])
        cov, total = np.outer(w, w) + noise * np.eye(4), 0.0
        for row in x:
            seen = ~np.isnan(row)
            if seen.any():
                total -= multivariate_normal.logpdf(row[seen], mean[seen], cov[np.ix_(seen, seen)])
        return total

    start = np.concatenate([np.nanmean(x, 0), np.nanstd(x, 0), [-1.0]])
    best = minimize(negative, start, method="L-BFGS-B", options={"maxiter": 500})
    assert model.score_samples(x).sum() == pytest.approx(-best.fun, abs=1e-3)


def test_batches_of_complete_rows_add_up_to_all_of_them():
    model = ProbabilisticPCA(2)
    order = np.random.default_rng(0).permutation(len(IRIS))
    for part in np.array_split(IRIS[order], 7):
        model.partial_fit(part)
    whole = ProbabilisticPCA(2).fit(IRIS)
    assert_allclose(model.get_covariance(), whole.get_covariance(), rtol=1e-9)
    assert model.total_weight_ == 150


def test_a_loaded_model_goes_on(tmp_path):
    ProbabilisticPCA(2).fit(IRIS).save(tmp_path / "m")
    model = jensen.load(tmp_path / "m").partial_fit(IRIS)
    assert model.score(IRIS) == pytest.approx(ProbabilisticPCA(2).fit(IRIS).score(IRIS), abs=1e-6)


def test_the_posterior_mode_is_one_with_and_without_holes():
    """A row of NaN changes nothing but sends the fit through EM."""
    prior = ConjugatePrior(mean=[5.0, 3.0, 4.0, 1.0], mean_precision=3.0, degrees_of_freedom=9.0, scale=0.4)
    closed = ProbabilisticPCA(2, prior=prior).fit(IRIS)
    iterated = ProbabilisticPCA(2, prior=prior, tol=1e-12, max_iter=5000).fit(
        np.vstack([IRIS, np.full((1, 4), np.nan)])
    )
    assert_allclose(iterated.get_covariance(), closed.get_covariance(), atol=1e-5)
    assert_allclose(iterated.mean_, closed.mean_, atol=1e-6)
    assert iterated.lower_bound_ * 151 == pytest.approx(closed.lower_bound_ * 150, abs=1e-4)
    assert closed.score(IRIS) < ProbabilisticPCA(2).fit(IRIS).score(IRIS)


def test_the_posterior_mode_is_the_largest_of_its_neighbours():
    from jensen.models.factors.subspace import SubspaceGaussians

    prior = ConjugatePrior(scale=2.0)
    model = ProbabilisticPCA(1, prior=prior).fit(IRIS)
    found = model.theta_.components
    x = torch.from_numpy(IRIS)
    from jensen.engines.em.frame import Frame
    from jensen.models.factors.fit import one
    from jensen.models.factors.subspace import SubspaceStructure
    from jensen.models.mixtures.inference import log_evidence

    family = SubspaceStructure(1, True)
    variance = x.var(0, correction=0)
    frame = Frame(x.mean(0), family.units(variance))
    resolved = prior.resolve(family, 1, frame, variance / frame.scale.square())

    def objective(components):
        inside = one(components).within(frame).components
        return float(log_evidence(one(components), x).sum() + inside.log_prior(resolved))

    best = objective(found)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        parts = (
            t + 0.02 * torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in (found.means, found.loadings)
        )
        scale = torch.exp(0.05 * torch.randn((), generator=generator, dtype=torch.float64))
        assert objective(SubspaceGaussians(*parts, found.noise * scale)) < best


def test_ranks_by_evidence_share_and_select():
    x = load_breast_cancer().data
    x = x / x.std(0)
    assert ProbabilisticPCA("mle").fit(x).n_components_ == PCA("mle").fit(x).n_components_
    for share in (0.5, 0.9):
        assert ProbabilisticPCA(share).fit(x).n_components_ == PCA(share).fit(x).n_components_
    found = jensen.select(ProbabilisticPCA(), IRIS, {"n_components": [1, 2, 3]}, "bic")
    assert found.best_params["n_components"] == 3
    assert ProbabilisticPCA(2).fit(IRIS).n_parameters_ == 4 + 4 * 2 - 1 + 1


def test_samples_have_the_covariance():
    model = ProbabilisticPCA(2).fit(IRIS)
    x, z = model.sample(50_000, random_state=0)
    assert_allclose(np.cov(x.T), model.get_covariance(), atol=0.05)
    assert_allclose(np.cov(z.T), np.eye(2), atol=0.03)
    # What a row came from is what the posterior would say on average.
    assert_allclose(np.cov(np.hstack([x, z]).T)[:4, 4:], model.loadings_, atol=0.05)


def test_frames_keep_their_names():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    model = ProbabilisticPCA(2).fit(frame).set_output(transform="pandas")
    assert list(model.transform(frame).columns) == ["probabilisticpca0", "probabilisticpca1"]
    assert list(model.reconstruct(frame).columns) == list("abcd")


@pytest.mark.parametrize(
    ("make", "x", "message"),
    [
        (lambda: ProbabilisticPCA(5), IRIS, "n_components=5 is more than the 4 features"),
        (lambda: ProbabilisticPCA("mle"), with_holes(IRIS), "n_components='mle' needs complete rows"),
        (lambda: ProbabilisticPCA(0.9), with_holes(IRIS), "n_components=0.9 needs complete rows"),
        (lambda: ProbabilisticPCA("mle"), IRIS[::60], "needs at least as many rows as features, got 3 and 4"),
        (
            lambda: ProbabilisticPCA(prior=ConjugatePrior(scale=[1.0])),
            IRIS,
            r"scale has shape \(1,\); this model needs",
        ),
    ],
)
def test_mistakes_have_a_way_out(make, x, message):
    with pytest.raises(ValueError, match=message):
        make().fit(x)


def test_more_mistakes():
    model = ProbabilisticPCA(2).fit(IRIS)
    with pytest.raises(ValueError, match="y=1 asks for a class, but ProbabilisticPCA has none"):
        model.sample(3, y=1)
    with pytest.raises(ValueError, match=r"X has shape \(3, 4\); expected latent vectors \(n, 2\)"):
        model.inverse_transform(IRIS[:3])
    with pytest.warns(UserWarning, match="n_components=2 axes hold all of the rows"):
        ProbabilisticPCA(2).fit(IRIS[:3])
    with pytest.raises(ValueError, match="n_components=4 is more than the 3 rows of X; lower it"):
        ProbabilisticPCA(4).fit(IRIS[::60])
    with pytest.raises(ValueError, match=r"X has shape \(2,\); expected latent vectors"):
        model.inverse_transform([1.0, 2.0])


def test_small_batches_add_up_even_when_narrower_than_wide():
    x = load_breast_cancer().data
    model = ProbabilisticPCA(3)
    for part in np.array_split(x, 40):
        model.partial_fit(part)
    assert_allclose(model.get_covariance(), ProbabilisticPCA(3).fit(x).get_covariance(), rtol=1e-7)


def test_no_count_of_parameters_exceeds_the_full_gaussians():
    assert [ProbabilisticPCA(m).fit(IRIS).n_parameters_ for m in (1, 2, 3, 4)] == [9, 12, 14, 14]


def test_latent_tensors_keep_their_type():
    model = ProbabilisticPCA(2).fit(IRIS)
    assert model.inverse_transform(torch.zeros(3, 2)).dtype == torch.float32


def wide_rows(d):
    """Twelve strong axes of d."""
    rng = np.random.default_rng(0)
    x = 2 * rng.normal(size=(500, 12)) @ rng.normal(size=(12, d)) + rng.normal(size=(500, d))
    holes = x.copy()
    holes[rng.random(x.shape) < 0.15] = np.nan
    return x, holes


def test_the_default_takes_few_dimensions_of_wide_rows_with_missing_values(capsys, tmp_path):
    """All 81 took minutes."""
    x, holes = wide_rows(81)
    model = ProbabilisticPCA(verbose=1).fit(holes)
    assert model.n_components_ == 12
    assert "n_components=12 of 81, chosen by BIC" in capsys.readouterr().err
    model.save(tmp_path / "m.jensen")
    for kept in (model, jensen.load(tmp_path / "m.jensen")):
        assert kept.partial_fit(holes[:90]).n_components_ == 12
    assert model.set_params(n_components=5).partial_fit(x[:90]).n_components_ == 5
    model.set_params(n_components=None)
    assert ProbabilisticPCA().fit(x).n_components_ == 81
    assert model.fit(x).partial_fit(x).n_components_ == 81


@pytest.mark.parametrize("n", [3, 10, 25])
def test_the_default_leaves_something_for_the_noise_of_few_rows(n):
    """More dimensions could reproduce every observed entry, and the likelihood would mean nothing."""
    _, holes = wide_rows(81)
    model = ProbabilisticPCA().fit(holes[:n])
    assert 1 <= model.n_components_ <= n - 2
    assert model.noise_variance_ > 1e-3


def test_the_default_takes_all_dimensions_of_narrow_rows():
    _, holes = wide_rows(20)
    assert ProbabilisticPCA(max_iter=1).fit(holes[:60]).n_components_ == 20
