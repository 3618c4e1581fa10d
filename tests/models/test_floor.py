"""EM where a variance or an eigenvalue comes to its floor: tables with a total, a copy, a column that hardly varies.

No fit may fail there, with missing values and tight tolerances, accelerated or not.
"""

import itertools
import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from jensen import (
    ConjugatePrior,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    LatentCurve,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
)
from jensen.engines.em.batch import Batch
from jensen.formulas.gaussian import Observed
from jensen.models.factors.subspace import SubspaceGaussians

TABLES = ("total", "copy", "nearly a copy", "constant", "nearly constant")


def table(kind, seed, n=100):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, 3))
    last = {
        "total": a.sum(1),
        "copy": 1000 * a[:, 0] + 3,
        "nearly a copy": a[:, 0] + 1e-7 * rng.normal(size=n),
        "constant": np.full(n, 0.1),
        "nearly constant": 1 + 1e-9 * rng.normal(size=n),
    }[kind]
    x = np.column_stack([a, last])
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def models():
    """Name and maker of every model that EM fits, accelerated or not, with a small floor and the usual one."""
    tight = {"tol": 1e-8, "max_iter": 200, "random_state": 0}
    for acceleration in (None, "squarem"):
        for m in (1, 3):
            yield partial(ProbabilisticPCA, m, acceleration=acceleration)
            yield partial(FactorAnalysis, m, acceleration=acceleration)
        yield partial(ProbabilisticPCA, 2, prior=ConjugatePrior(), acceleration=acceleration)
        yield partial(FactorAnalysis, 2, prior=ConjugatePrior(), acceleration=acceleration)
        for floor in (1e-10, 1e-6):
            options = tight | {"reg_covar": floor, "acceleration": acceleration}
            for structure, k in itertools.product(("full", "tied", "diag", "spherical"), (1, 3)):
                yield partial(GaussianMixture, k, covariance_type=structure, init_params="kmeans", **options)
            yield partial(MixtureOfPPCA, 2, 2, init_params="kmeans", **options)
            yield partial(MixtureOfFactorAnalysers, 2, 2, init_params="kmeans", **options)
            curve = options | {"max_iter": 60}
            yield partial(LatentCurve, **curve)
            yield partial(LatentCurve, penalty=0, basis_width=2.0, **curve)
    yield partial(GaussianMixture, 2, algorithm="gradient", reg_covar=1e-10, max_iter=30, random_state=0)
    yield partial(KMeans, 3, n_init=2, random_state=0)
    yield partial(KMeans, 3, n_init=2, size_limits=(3, 60), random_state=0)


def failures(fits):
    """What went wrong, of pairs of a maker and a table."""
    found = []
    with warnings.catch_warnings():
        # Of no convergence, and of noise that is 0 but for rounding.
        warnings.simplefilter("ignore")
        for make, x in fits:
            try:
                model = make().fit(x)
                assert np.isfinite(model.score_samples(x)).all()
            except Exception as error:
                found.append(f"{make.func.__name__}{make.args} {make.keywords}: {error!r}")
    return found


def test_no_fit_fails_at_the_floor():
    """One table for every model with the small floor; the slow test has them all."""
    quick = [partial(make, max_iter=60) for make in models() if make.keywords.get("reg_covar") != 1e-6]
    assert not failures((make, table(TABLES[i % 5], i, n=40)) for i, make in enumerate(quick))


@pytest.mark.parametrize("acceleration", [None, "squarem"])
@pytest.mark.parametrize("kind", [ProbabilisticPCA, FactorAnalysis])
def test_a_total_and_missing_values_converge(kind, acceleration):
    """By forming H these fell by up to 0.1 nats per row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(3, acceleration=acceleration).fit(table("total", 0))
    assert model.converged_


@pytest.mark.parametrize(("seed", "n"), [(0, 100), (5, 40)])
def test_limits_on_sizes_are_kept_at_no_cost(seed, n):
    """With the solver's default tolerance an assignment cost more than the one before it."""
    model = KMeans(3, n_init=2, size_limits=(3, 60), random_state=0).fit(table("copy", seed, n))
    assert np.bincount(model.labels_).min() >= 3


def rational(array):
    return np.vectorize(Fraction, otypes=[object])(array)


def eliminated(matrix, right):
    """matrix⁻¹ right and ln|matrix| of fractions, by elimination: exact for a positive definite matrix."""
    work, det, n = np.column_stack([matrix, right]), Fraction(1), len(matrix)
    for i in range(n):
        det *= work[i, i]
        work[i] = work[i] / work[i, i]
        for j in set(range(n)) - {i}:
            work[j] = work[j] - work[j, i] * work[i]
    return work[:, n:], math.log(det.numerator) - math.log(det.denominator)


@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_of_z_keeps_its_digits_with_little_noise(seed):
    """Against exact fractions, a row of a subspace that its features do not all determine; forming H loses 1e-4."""
    rng = np.random.default_rng(seed)
    w, noise = rng.normal(size=(4, 3)), 2.0**-33
    w[3] = w[:3].sum(0)
    seen = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 1, 0], [1, 1, 0, 0, 1], [1, 0, 0, 1, 0]], dtype=bool)
    x = np.where(seen, w @ rng.normal(size=(3, 5)), 0.0)
    components = SubspaceGaussians(*map(torch.from_numpy, (np.zeros((1, 4)), w[None], np.full((1, 1), noise))))
    batch = Batch(torch.from_numpy(x), torch.arange(5), None, torch.from_numpy(seen), None, torch.zeros(1))
    view = components.view(batch)
    log_density = components.log_density(view)[0]
    for i, which in enumerate(seen.T):
        part, row = rational(w[which]), rational(x[which, i])[:, None]
        b = part.T @ row / Fraction(noise)
        mean, log_det = eliminated(rational(np.eye(3)) + part.T @ part / Fraction(noise), b)
        square = float((row.T @ row / Fraction(noise) - b.T @ mean).item())
        expected = -0.5 * (which.sum() * np.log(2 * np.pi * noise) + log_det + square)
        assert_allclose(view.mean[0, :, i], mean[:, 0].astype(float), atol=1e-9)
        assert float(log_density[i]) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_a_missing_feature_given_a_copy_and_its_original_keeps_its_digits(seed):
    """E[x_m|x_o] of a row of the model, against exact fractions; through Σ_oo⁻¹ it is off by 1e-6 and more."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, 3))
    half[1] = half[0]
    cov = half @ half.T + 1e-10 * np.eye(4)
    x = half @ rng.normal(size=3) + 1e-5 * rng.normal(size=4)
    observed = Observed(torch.from_numpy(cov), torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    solved, _ = eliminated(rational(cov[:3, :3]), rational(np.column_stack([x[:3], cov[:3, 3]])))
    mean, explained = (rational(cov[3, :3]) @ solved).astype(float)
    x[3] = 0.0
    assert_allclose(observed.gain[3] @ torch.from_numpy(x), mean, atol=1e-9)
    assert_allclose(observed.residual[3, 3], float(Fraction(cov[3, 3]) - Fraction(explained)), atol=1e-11)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        *[
            partial(GaussianMixture, 3, covariance_type=c, random_state=0)
            for c in ("full", "tied", "diag", "spherical")
        ],
        partial(ProbabilisticPCA, 2),
        partial(FactorAnalysis, 1),
        partial(MixtureOfPPCA, 2, 1, random_state=0),
        partial(MixtureOfFactorAnalysers, 2, 1, random_state=0),
        partial(LatentCurve, n_grid=30, n_basis=4),
    ],
)
def test_acceleration_never_falls_and_ends_no_lower(make, holes):
    """From one start, SQUAREM is plain EM with longer steps."""
    x = load_iris().data.copy()
    x[np.random.default_rng(0).random(x.shape) < 0.2 * holes] = np.nan
    start = {"init_params": "kmeans"} if "init_params" in make().get_params() else {}
    # FactorAnalysis takes its tolerance in nats of all rows.
    tol = 1e-3 if make.func is FactorAnalysis else 1e-5
    fits = [make(acceleration=a, tol=tol, max_iter=3000, **start).fit(x) for a in (None, "squarem")]
    history = getattr(fits[1], "lower_bounds_", getattr(fits[1], "loglike_", [0.0]))
    assert (np.diff(history) >= -1e-7).all()
    assert fits[1].n_iter_ <= fits[0].n_iter_
    # Both stop short of the maximum, where a step gains less than tol.
    assert fits[1].lower_bound_ >= fits[0].lower_bound_ - 1e-3


@pytest.mark.parametrize("options", [{"acceleration": "squarem"}, {"algorithm": "gradient", "learning_rate": 1e6}])
def test_a_point_that_cannot_be_evaluated_is_not_taken(options):
    """Two rows: an extrapolation runs off to where no covariance can be factorised."""
    x = [[np.nan, 1.0, 2.0], [3.0, 1.0, 2.0]]
    model = GaussianMixture(1, **options).fit(x)
    assert model.lower_bound_ >= GaussianMixture(1, max_iter=0).fit(x).lower_bound_
    assert np.isfinite(model.score_samples(x)).all()


@pytest.mark.slow
def test_none_of_a_thousand_fits_fails_at_the_floor():
    fits = [
        (make, table(kind, seed, n))
        for seed, n in ((0, 100), (1, 12), (2, 40), (3, 100))
        for kind in TABLES
        for make in models()
    ]
    assert len(fits) >= 1000
    assert not failures(fits)
