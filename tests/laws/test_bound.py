"""ln p(x) = ELBO(q) + KL(q ‖ posterior)."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import xlogy

from jensen.formulas.information import entropies
from own_draws import own_draws

pytestmark = pytest.mark.asks("score_samples")

# Of three features: weights of three components, means (of points), and what is around them.
N_PARAMETERS = {
    "mixture-full": 2 + 3 * 3 + 3 * 6,
    "mixture-tied": 2 + 3 * 3 + 6,
    "mixture-diag": 2 + 3 * 3 + 3 * 3,
    "mixture-spherical": 2 + 3 * 3 + 3,
    "mixture-EVI": 2 + 3 * 3 + 1 + 3 * 2,
    "mixture-VVE": 2 + 3 * 3 + 3 * 3 + 3,
    "mixture-labels": 2 + 3 * 3 + 3 * 6,
    "mixture-noise": 3 + 3 * 3 + 3 * 6,
    "discriminant-analysis": 2 + 3 * 3 + 6,
    "your-own-model": 2 + 3 * 3,
    "bernoulli-mixture": 2 + 3 * 3,
    "poisson-mixture": 2 + 3 * 3,
    # Three levels have two free probabilities.
    "latent-class-analysis": 2 + 3 * 3 * 2,
    # A mean and a variance, a yes/no, three levels.
    "naive-bayes": 2 + 3 * (2 + 1 + 2),
    "mixture-columns": 2 + 3 * (2 + 1 + 2),
    "mixture-bounds": 2 + 3 * 3 + 3 * 6,
    # One variance for all.
    "kmeans": 3 * 3 + 1,
    "kmeans-depot": 3 * 3 + 1,
    "kmeans-manhattan": 3 * 3 + 1,
    # A line, whose direction and extent are 3 numbers, and one variance or three; with three, all 6 of a covariance.
    "mixture-of-ppca": 2 + 3 * 3 + 3 * (3 + 1),
    "mixture-of-ppca-labels": 2 + 3 * 3 + 3 * (3 + 1),
    "mixture-of-factor-analysers": 2 + 3 * 3 + 3 * (3 + 3),
    "ppca": 3 + 3 + 1,
    "factor-analysis": 3 + 3 + 3,
    # A constant, slopes and bumps for every feature, and one variance.
    "latent-curve": 3 * (1 + 1 + 4) + 1,
    "latent-curve-prior": 3 * (1 + 1 + 5) + 1,
    "latent-curve-given": 1,
    "latent-surface": 3 * (1 + 2 + 2 * 2) + 1,
}


@pytest.mark.asks("computed")
def test_the_bound_is_what_it_claims_by_enumeration(case, model):
    bound = model.bound(case.x)
    assert bound.is_exact == case.is_exact
    assert_allclose(bound.total, case.score(model, case.x), rtol=1e-9)
    assert_allclose(model.score_samples(case.x), bound.total, rtol=1e-9)


def test_no_bound_lies_above_the_log_likelihood(case, model, scored_rows):
    for rows in scored_rows:
        bound, error = model.bound(rows).total, 0.0
        if case.is_sampled:
            # An estimate is below on average over its draws; five deviations of the average happen once in millions.
            with own_draws():
                draws = model.bound(np.repeat(rows, 100, axis=0)).total.reshape(-1, 100)
            bound, error = draws.mean(1), 1e-3 + 5 * draws.std(1) / np.sqrt(100)
        assert (bound <= case.log_likelihood(model, rows) + 1e-9 + error).all()


def test_every_kl_is_at_least_zero(case, model, scored_rows):
    for rows in scored_rows:
        bound = model.bound(rows)
        for name, kl in bound.kl.items():
            if case.has_sampled_kl:
                # Of estimates the mean, within the error of the draws.
                assert kl.mean() > -4 * np.sqrt((bound.standard_error**2).mean() / len(kl)), name
            else:
                assert (kl >= -1e-12).all(), name


@pytest.mark.asks("exact", "predict_proba")
def test_any_other_q_lies_below_by_its_divergence_from_the_posterior(case, model):
    rng = np.random.default_rng(1)
    posterior = model.predict_proba(case.x)
    q = rng.dirichlet(np.ones(posterior.shape[1]), size=len(case.x))
    bound = model.bound(case.x, q=q)
    assert not bound.is_exact
    log_joint = case.log_joint(model, case.x)
    assert_allclose(bound.total, (q * (log_joint - np.log(q))).sum(1), rtol=1e-9)
    log_posterior = log_joint - case.log_likelihood(model, case.x)[:, None]
    gap = (q * (np.log(q) - log_posterior)).sum(1)
    assert_allclose(model.score_samples(case.x) - bound.total, gap, rtol=1e-7, atol=1e-9)


@pytest.mark.asks("ecll")
def test_the_bound_is_the_expected_complete_log_likelihood_and_the_entropy_of_q(case, model, scored_rows):
    """ELBO(q) = E_q[ln p(x, z)] + H(q), for the model's own q and, where z can be enumerated, for any other."""
    rng = np.random.default_rng(3)
    for rows in scored_rows:
        posterior = model.posterior(rows)
        found = model.ecll(rows)
        # A row without observed values has 0 nats, up to the rounding of entropies of about 1.
        assert_allclose(found + entropies(posterior).numpy(), model.bound(rows).total, rtol=1e-9, atol=1e-12)
        if not isinstance(posterior, torch.distributions.Categorical):
            continue
        k = posterior.probs.shape[1]
        one_hot, dense = np.eye(k)[rng.integers(k, size=len(rows))], rng.dirichlet(np.ones(k), size=len(rows))
        log_joint = None if case.log_joint is None else case.log_joint(model, rows)
        for q in (one_hot, dense):
            found = model.ecll(rows, q)
            assert_allclose(found - xlogy(q, q).sum(1), model.bound(rows, q).total, rtol=1e-9, atol=1e-12)
            if log_joint is not None:
                # A component without a row's value has log-joint -inf, and no part where q is 0.
                expected = np.where(q > 0, q * log_joint, 0.0).sum(1)
                assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.asks("exact", "predict_proba")
def test_a_one_hot_q_gives_the_joint(case, model):
    rng = np.random.default_rng(2)
    n_components = len(model.weights_)
    z = rng.integers(n_components, size=len(case.x))
    expected = case.log_joint(model, case.x)[np.arange(len(z)), z]
    assert_allclose(model.bound(case.x, q=np.eye(n_components)[z]).total, expected, rtol=1e-9)


@pytest.mark.asks("exact", "predict_proba")
def test_the_posterior_is_bayes_rule(case, model, holes):
    for rows in (case.x, holes):
        log_joint = case.log_joint(model, rows)
        expected = np.exp(log_joint - case.log_likelihood(model, rows)[:, None])
        assert_allclose(model.predict_proba(rows), expected, atol=1e-9)
        posterior = model.posterior(rows)
        components = getattr(posterior, "mixture_distribution", posterior)
        assert_allclose(components.probs.numpy(), expected, atol=1e-9)


def test_bits_are_nats_over_ln_2(case, model):
    bound = model.bound(case.x)
    assert_allclose(bound.in_bits().total * np.log(2), bound.total)
    assert_allclose(bound.in_bits().in_bits().total, bound.in_bits().total)


def test_a_score_is_no_looser_than_the_bound(case, model, scored_rows):
    """On average over rows, where both are estimates."""
    for rows in scored_rows:
        bound = model.bound(rows)
        error = 0 if bound.standard_error is None else 3 * np.sqrt((bound.standard_error**2).sum()) / len(rows)
        assert model.score_samples(rows).mean() >= bound.total.mean() - 1e-9 - error


@pytest.mark.asks("exact", "mean_score")
def test_score_is_the_mean_over_rows(case, model):
    assert_allclose(model.score(case.x), model.score_samples(case.x).mean())


@pytest.mark.asks("bic")
def test_information_criteria_count_parameters(case, model):
    total, n_parameters = case.score(model, case.x).sum(), N_PARAMETERS[case.name]
    assert model.n_parameters_ == n_parameters
    assert_allclose(model.bic(case.x), -2 * total + n_parameters * np.log(len(case.x)))
    assert_allclose(model.aic(case.x), -2 * total + 2 * n_parameters)
