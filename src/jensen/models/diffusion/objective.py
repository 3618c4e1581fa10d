"""The objectives of a diffusion: the bound, the simple loss, or both."""

from __future__ import annotations

from torch import Tensor

from jensen.engines.sgd.plan import Objective, Terms

# Weight of the bound beside the simple loss in "hybrid"; Nichol & Dhariwal (2021).
HYBRID = 1e-3


def denoising_objective(name: str, bound: Objective, n_columns: int) -> Objective:
    """The objective "simple", "variational" or "hybrid", given the bound and the number of columns."""

    def hybrid(terms: Terms, done: float) -> Tensor:
        return HYBRID * bound(terms, done) / n_columns - terms["simple"]

    return {"simple": lambda terms, done: -terms["simple"], "variational": bound, "hybrid": hybrid}[name]


def denoising_bound(terms: Terms, done: float) -> Tensor:
    """The evidence lower bound."""
    return terms["reconstruction"] - terms["denoising"] - terms["prior"]
