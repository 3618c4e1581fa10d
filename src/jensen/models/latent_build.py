"""The diffusion of latent vectors from its recipe, and what is left to decide about it."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from jensen.engines.checkpoint import check_place
from jensen.engines.randomness import seeded
from jensen.engines.trainer import Trainer
from jensen.interop.columns import Columns
from jensen.models.diffusion import Diffusion
from jensen.models.diffusion_build import build_module, decide
from jensen.models.diffusion_module import DiffusionModule
from jensen.models.vae_answers import posterior
from jensen.models.vae_module import VAEModule

__all__ = ["build_prior", "decide_prior", "latent_moments", "try_prior"]


def decide_prior(recipe: Diffusion, is_joint: bool) -> dict[str, Any]:
    """Of a diffusion of numbers, whatever the rows are; mistakes are found here, before anything is fitted."""
    recipe._validate_params()
    recipe._schedule()
    (recipe.trainer or Trainer()).check()
    if recipe.checkpoint is not None:
        check_place(os.fspath(recipe.checkpoint))
    if recipe.data_levels not in ("auto", None):
        raise ValueError(
            f"diffusion has data_levels={recipe.data_levels}, but latent vectors are on no grid; leave data_levels out"
        )
    if recipe.prediction not in ("auto", "velocity"):
        raise ValueError(
            f"diffusion has prediction={recipe.prediction!r}, with which the prior does not begin as N(0, I), and the "
            "bound not at the autoencoder's; choose 'velocity'"
        )
    if is_joint and recipe.objective != "variational":
        raise ValueError(
            f"training='joint' raises one bound of all networks, but diffusion has objective={recipe.objective!r}; "
            "choose Diffusion(objective='variational'), or training='two-stage'"
        )
    return decide(recipe, latent_columns(torch.zeros(1), torch.ones(1))) | {"n_classes": 0, "start": None}


def latent_moments(module: VAEModule, x: Tensor, scaling: str | None) -> dict[str, Tensor]:
    """What is subtracted from latent vectors and what they are divided by (m,): nothing and 1, or by their moments.

    With moments the Gaussian that the prior begins with is the one next to the latent vectors of rows x (n, d).
    """
    m = module.n_latent
    if scaling is None:
        return {"location": torch.zeros(m).double(), "scale": torch.ones(m).double()}
    with torch.inference_mode():
        latent, _ = posterior(module.eval(), x, next(module.parameters()).device)
    mean, own = latent.mean[0].double(), latent.scale_tril()[0].double().square().sum(-1)
    variance = mean.var(0, correction=0) + own.mean(0)
    scale = variance.sqrt() if scaling == "feature" else variance.mean().sqrt().expand(m)
    return {"location": mean.mean(0), "scale": scale.clone()}


def build_prior(recipe: Diffusion, n_latent: int, facts: dict[str, Any]) -> DiffusionModule:
    """A new network for latent vectors (m,)."""
    columns = latent_columns(facts["location"], facts["scale"])
    return build_module(recipe, columns, (n_latent,), recipe._schedule(), facts["diffusion"])


def try_prior(recipe: Diffusion, n_latent: int, of_prior: dict[str, Any]) -> None:
    """An error where its network is none for so many latent dimensions; random states are left as they are."""
    facts = {"location": torch.zeros(n_latent), "scale": torch.ones(n_latent), "diffusion": of_prior}
    with seeded(0, torch.device("cpu")):
        build_prior(recipe, n_latent, facts)


def latent_columns(location: Tensor, scale: Tensor) -> Columns:
    m = len(location)
    return Columns(
        names=tuple(range(m)),
        kinds=("continuous",) * m,
        levels=((),) * m,
        location=location,
        scale=scale,
        dtypes=("float32",) * m,
        container="numpy",
    )
