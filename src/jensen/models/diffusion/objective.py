"""What a training of a diffusion raises: the bound, or the simple loss in its place."""

from __future__ import annotations

from torch import Tensor

from jensen.engines.sgd.loop import Objective, Terms

__all__ = ["denoising_objective"]

# What the bound counts beside the simple loss in "hybrid"; Nichol & Dhariwal (2021).
HYBRID = 1e-3


def denoising_objective(name: str, bound: Objective, n_columns: int) -> Objective:
    """What raises the bound of a diffusion of so many columns: "simple", "variational" or "hybrid"."""

    def hybrid(terms: Terms, done: float) -> Tensor:
        return HYBRID * bound(terms, done) / n_columns - terms["simple"]

    return {"simple": lambda terms, done: -terms["simple"], "variational": bound, "hybrid": hybrid}[name]
