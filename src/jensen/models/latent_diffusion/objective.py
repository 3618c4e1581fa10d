"""What the training of a latent diffusion raises, from the terms of its bound."""

from __future__ import annotations

from torch import Tensor

from jensen.engines.sgd.plan import Terms


def bound(terms: Terms, done: float) -> Tensor:
    """The evidence lower bound."""
    return terms["reconstruction"] - terms["latent"]


def minus_latent(terms: Terms, done: float) -> Tensor:
    """The part of the bound that depends on the prior."""
    return -terms["latent"]
