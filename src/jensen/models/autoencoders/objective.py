"""The objectives of a VAE: the ELBO, with a weight β on its KL terms, and the semi-supervised objective."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from torch import Tensor

from jensen.engines.sgd.plan import Objective, Terms
from jensen.formulas.latent_gaussian import log_mean_exp


class Elbo(BaseEstimator):
    """The evidence lower bound (ELBO) as a training objective: reconstruction - β Σ kl.

    With several draws of z it is the importance-weighted bound. β and the warm-up change what training raises, not what
    the model reports: `bound` and the scores always have β = 1.

    Args:
        beta: the weight β of the KL terms (Higgins et al. 2017).
        warm_up: fraction of the training over which β rises from 0 (Bowman et al. 2016).

    Example:
        >>> from jensen import Elbo
        >>> Elbo(beta=4.0, warm_up=0.1).beta
        4.0
    """

    def __init__(self, *, beta: float = 1.0, warm_up: float = 0.0) -> None:
        self.beta = beta
        self.warm_up = warm_up

    def check(self) -> None:
        """Raise a ValueError if an option is not valid."""
        if not (isinstance(self.beta, (int, float)) and self.beta >= 0):
            raise ValueError(f"Elbo(beta={self.beta!r}) must be a number, 0 or more")
        if not (isinstance(self.warm_up, (int, float)) and 0 <= self.warm_up <= 1):
            raise ValueError(f"Elbo(warm_up={self.warm_up!r}) is a fraction of the training and must lie in [0, 1]")

    def __call__(self, terms: Terms, done: float) -> Tensor:
        weight = self.beta * (min(1.0, done / self.warm_up) if self.warm_up else 1.0)
        value = terms["reconstruction"]
        for name, term in terms.items():
            if name != "reconstruction":
                value = value - weight * term
        return log_mean_exp(value) if value.ndim == 2 else value


def semi_supervised(elbo: Elbo) -> Objective:
    """The semi-supervised objective: the ELBO plus α ln q(y|x) of every labelled row; without labels the ELBO alone."""

    def objective(terms: Terms, done: float) -> Tensor:
        value = elbo(bound_terms(terms), done)
        return value - terms["classification"] if "classification" in terms else value

    return objective


def true_bound(terms: Terms, done: float) -> Tensor:
    """The ELBO with β = 1."""
    return Elbo()(bound_terms(terms), done)


def bound_terms(terms: Terms) -> Terms:
    """The terms of the bound, without the loss of the classifier."""
    return {name: term for name, term in terms.items() if name != "classification"}


def reconstruction(terms: Terms, done: float) -> Tensor:
    """ln p(x|z) alone."""
    return terms["reconstruction"]
