"""The encoder's Gaussian against torch's distributions, and the importance-weighted bound against its definition."""

import math

import pytest
import torch
from numpy.testing import assert_allclose
from torch.distributions import MultivariateNormal, kl_divergence

from jensen.formulas.latent_gaussian import (
    LatentGaussian,
    log_mean_exp,
    n_posterior_outputs,
    read_posterior,
    weighted_error,
)

M = 3


@pytest.fixture(params=[False, True], ids=["diagonal", "full"])
def latent(request):
    outputs = torch.randn((7, n_posterior_outputs(M, request.param)), generator=torch.Generator().manual_seed(0))
    return read_posterior(outputs.double(), M, request.param)


def prior():
    return MultivariateNormal(torch.zeros(M).double(), torch.eye(M).double())


def test_the_divergence_from_the_prior(latent):
    q = MultivariateNormal(latent.mean, scale_tril=latent.scale_tril())
    assert_allclose(latent.kl(), kl_divergence(q, prior()), rtol=1e-12)


def test_the_entropy(latent):
    q = MultivariateNormal(latent.mean, scale_tril=latent.scale_tril())
    assert_allclose(latent.entropy(), q.entropy(), rtol=1e-12)


def test_draws_have_their_density_ratio(latent):
    noise = torch.randn((5, 7, M), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    z = latent.draw(noise)
    q = MultivariateNormal(latent.mean, scale_tril=latent.scale_tril())
    assert_allclose(z, latent.mean + (latent.scale_tril() @ noise[..., None])[..., 0], rtol=1e-12)
    assert_allclose(latent.noise_of(z), noise, rtol=1e-9, atol=1e-12)
    assert_allclose(latent.log_ratio(z, noise), q.log_prob(z) - prior().log_prob(z), rtol=1e-9, atol=1e-9)


def test_the_distribution_is_the_same_one(latent):
    z = torch.zeros((7, M)).double()
    q = MultivariateNormal(latent.mean, scale_tril=latent.scale_tril())
    assert_allclose(latent.distribution().log_prob(z), q.log_prob(z), rtol=1e-12)


def test_the_prior_itself_has_no_divergence():
    assert float(LatentGaussian(torch.zeros(M), torch.zeros(M)).kl()) == 0


def test_log_mean_exp_and_its_error():
    log_weight = torch.randn((400, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 1000
    shifted = (log_weight + 1000).exp()
    assert_allclose(log_mean_exp(log_weight), shifted.mean(0).log() - 1000, rtol=1e-12)
    # The delta method: d ln w̄ = d w̄ / w̄.
    assert_allclose(weighted_error(log_weight), shifted.std(0) / math.sqrt(400) / shifted.mean(0), rtol=1e-12)
