"""What a training raises: the bound, or the bound with another weight on its divergences."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from torch import Tensor

from jensen.engines.sgd.loop import Terms
from jensen.formulas.latent_gaussian import log_mean_exp

__all__ = [
    "Elbo",
]


class Elbo(BaseEstimator):
    """reconstruction - β Σ kl; of several draws of z the importance-weighted bound.

    It is what training raises. The model's `bound` and scores are the true ones, β = 1, whatever was trained.

    Args:
        beta: β (Higgins et al. 2017).
        warm_up: the share of the training over which β rises from 0 (Bowman et al. 2016).

    Example:
        >>> from jensen import Elbo
        >>> Elbo(beta=4.0, warm_up=0.1).beta
        4.0
    """

    def __init__(self, *, beta: float = 1.0, warm_up: float = 0.0) -> None:
        self.beta = beta
        self.warm_up = warm_up

    def check(self) -> None:
        if not (isinstance(self.beta, (int, float)) and self.beta >= 0):
            raise ValueError(f"Elbo(beta={self.beta!r}) must be a number, 0 or more")
        if not (isinstance(self.warm_up, (int, float)) and 0 <= self.warm_up <= 1):
            raise ValueError(f"Elbo(warm_up={self.warm_up!r}) is a share of the training and must lie in [0, 1]")

    def __call__(self, terms: Terms, done: float) -> Tensor:
        weight = self.beta * (min(1.0, done / self.warm_up) if self.warm_up else 1.0)
        value = terms["reconstruction"]
        for name, term in terms.items():
            if name != "reconstruction":
                value = value - weight * term
        return log_mean_exp(value) if value.ndim == 2 else value
