"""Families of columns with small data and the same densities by scipy: the cases of the families' laws."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats

from jensen.engines.em.batch import Batch
from jensen.models.mixtures.families.bernoulli import BernoulliFamily, Bernoullis
from jensen.models.mixtures.families.categorical import CategoricalFamily, Categoricals
from jensen.models.mixtures.families.gamma import GammaFamily, Gammas
from jensen.models.mixtures.families.log_normal import LogNormalFamily, LogNormals
from jensen.models.mixtures.families.multinomial import MultinomialFamily, Multinomials
from jensen.models.mixtures.families.negative_binomial import NegativeBinomialFamily, NegativeBinomials
from jensen.models.mixtures.families.poisson import PoissonFamily, Poissons

K, D, N = 3, 2, 40


def tensor(values):
    return torch.as_tensor(np.asarray(values), dtype=torch.float64)


def batch_of(x, observed=None, weight=None):
    """Rows (n, d) with NaN where missing as one batch, with a mask (d, n) where some are."""
    x = tensor(x)
    seen = ~x.isnan().T
    if observed is None and not seen.all():
        observed = seen
    return Batch(torch.where(seen, x.T, 0.0), torch.arange(len(x)), weight, observed, None, torch.zeros(1))


def log_density(components, x):
    """(n, K)."""
    return components.log_density(components.view(batch_of(x))).T.contiguous()


@dataclass(frozen=True)
class Case:
    """A family with its prior, some components, rows (n, d), and ln p_kj(x_j) of one entry by scipy."""

    family: Any
    components: Any
    x: np.ndarray
    entry: Any


RNG = np.random.default_rng(0)
P = RNG.uniform(0.1, 0.9, (K, D))
LEVELS = (3, 4)
THETA = np.concatenate([RNG.dirichlet(np.ones(n), K) for n in LEVELS], 1)
RATES, SIZES = RNG.uniform(0.5, 4.0, (K, D)), RNG.uniform(0.5, 30.0, (K, D))
SHAPES, SCALES = RNG.uniform(0.4, 5.0, (K, D)), RNG.uniform(0.5, 4.0, (K, D))
BETA = RNG.dirichlet(np.ones(4), K)
BINARY = RNG.integers(0, 2, (N, D)).astype(float)
CODES = np.column_stack([RNG.integers(0, n, N) for n in LEVELS]).astype(float)
COUNTS = RNG.negative_binomial(1.0, 0.2, (N, D)).astype(float)
POSITIVE = RNG.gamma(2.0, 3.0, (N, D))
WORDS = RNG.poisson(2.0, (N, 4)).astype(float)
KNOWN = NegativeBinomialFamily.of(tensor(COUNTS))

CASES = {
    "bernoulli": Case(
        BernoulliFamily(), Bernoullis(tensor(P)), BINARY, lambda k, j, x: stats.bernoulli.logpmf(x, P[k, j])
    ),
    "bernoulli, Beta": Case(
        BernoulliFamily(2.5, 1.5), Bernoullis(tensor(P)), BINARY, lambda k, j, x: stats.bernoulli.logpmf(x, P[k, j])
    ),
    "categorical": Case(
        CategoricalFamily(LEVELS),
        Categoricals(tensor(THETA), LEVELS),
        CODES,
        lambda k, j, x: np.log(THETA[k, sum(LEVELS[:j]) + np.asarray(x, dtype=int)]),
    ),
    "categorical, Dirichlet": Case(
        CategoricalFamily(LEVELS, 1.7),
        Categoricals(tensor(THETA), LEVELS),
        CODES,
        lambda k, j, x: np.log(THETA[k, sum(LEVELS[:j]) + np.asarray(x, dtype=int)]),
    ),
    "poisson": Case(
        PoissonFamily(), Poissons(tensor(RATES)), COUNTS, lambda k, j, x: stats.poisson.logpmf(x, RATES[k, j])
    ),
    "poisson, gamma": Case(
        PoissonFamily(2.0, 0.5), Poissons(tensor(RATES)), COUNTS, lambda k, j, x: stats.poisson.logpmf(x, RATES[k, j])
    ),
    "negative binomial": Case(
        KNOWN,
        NegativeBinomials(tensor(RATES), tensor(SIZES), KNOWN.counts),
        COUNTS,
        lambda k, j, x: stats.nbinom.logpmf(x, SIZES[k, j], SIZES[k, j] / (SIZES[k, j] + RATES[k, j])),
    ),
    "gamma": Case(
        GammaFamily(),
        Gammas(tensor(SHAPES), tensor(SCALES)),
        POSITIVE,
        lambda k, j, x: stats.gamma.logpdf(x, SHAPES[k, j], scale=SCALES[k, j]),
    ),
    "exponential": Case(
        GammaFamily(shape=1.0),
        Gammas(torch.ones(K, D, dtype=torch.float64), tensor(SCALES), 1.0),
        POSITIVE,
        lambda k, j, x: stats.expon.logpdf(x, scale=SCALES[k, j]),
    ),
    "shape 2, gamma": Case(
        GammaFamily(shape=2.0, a=3.0, b=0.7),
        Gammas(torch.full((K, D), 2.0, dtype=torch.float64), tensor(SCALES), 2.0),
        POSITIVE,
        lambda k, j, x: stats.gamma.logpdf(x, 2.0, scale=SCALES[k, j]),
    ),
    "log-normal": Case(
        LogNormalFamily(),
        LogNormals(tensor(np.log(SCALES)), tensor(P)),
        POSITIVE,
        lambda k, j, x: stats.lognorm.logpdf(x, np.sqrt(P[k, j]), scale=SCALES[k, j]),
    ),
    "multinomial": Case(
        MultinomialFamily(length=5), Multinomials(tensor(BETA), 5), WORDS, lambda k, j, x: x * np.log(BETA[k, j])
    ),
    "multinomial, Dirichlet": Case(
        MultinomialFamily(1.4, 5), Multinomials(tensor(BETA), 5), WORDS, lambda k, j, x: x * np.log(BETA[k, j])
    ),
}
