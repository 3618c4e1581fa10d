"""The networks of a latent diffusion; forward gives the terms of its bound.

    z ~ a reverse chain,  x | z ~ p(x | decoder(z)),   q(z|x) as in the autoencoder
    ln p(x) ≥ E_q[ln p(x|z)] - E_q[ln q(z|x) - bound of ln p(z)]
The second term is at least KL(q(z|x) ‖ p(z)), and one draw of z, of a level and of the noise is an estimate of it.
"""

from __future__ import annotations

import os
from typing import Any, Self

import torch
from torch import Tensor, nn

from jensen.data.columns import Columns
from jensen.engines.sgd.checkpoint import check_place
from jensen.engines.sgd.plan import Trainer
from jensen.formulas.latent_gaussian import LatentGaussian, read_posterior
from jensen.models.autoencoders.inference import posterior
from jensen.models.autoencoders.module import VAEModule
from jensen.models.diffusion.build import build_module, decide
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.module import DiffusionModule
from jensen.runtime.randomness import seeded

__all__ = [
    "LatentModule",
    "build_prior",
    "decide_prior",
    "latent_moments",
    "try_prior",
]


class LatentModule(nn.Module):
    """
    Args:
        vae: the encoder and the decoder, without classes.
        prior: the diffusion of latent vectors in the units of its `Columns`.
        is_joint: whether all networks are trained, rather than the prior's alone.
    """

    location: Tensor
    scale: Tensor

    def __init__(self, vae: VAEModule, prior: DiffusionModule, *, is_joint: bool) -> None:
        super().__init__()
        self.vae, self.prior, self.is_joint = vae.requires_grad_(is_joint), prior, is_joint
        columns = prior.space.columns
        self.register_buffer("location", columns.location.float(), persistent=False)
        self.register_buffer("scale", columns.scale.float(), persistent=False)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Terms per row (b,); while the decoder stays as it is, training does not ask what it makes of z."""
        vae = self.vae
        with torch.set_grad_enabled(self.is_joint and torch.is_grad_enabled()):
            x, observed = vae.given(x)
            latent = self.posterior(x)
            z = latent.draw(torch.randn_like(latent.mean)[None])[0]
            terms = {}
            if self.is_joint or not self.training:
                outputs = vae.decode(z)
                log_prob = vae.emission.log_prob(outputs, x if observed is None else x.nan_to_num(), observed)
                terms["reconstruction"] = log_prob + vae.emission.log_jacobian(observed)
        of_z = self.prior(self.standardised(z))
        bound_of_z = of_z["reconstruction"] - of_z["prior"] - of_z["denoising"]
        return terms | {"latent": -latent.entropy() - bound_of_z, "simple": of_z["simple"]}

    def posterior(self, x: Tensor) -> LatentGaussian:
        """q(z|x), (b, m)."""
        return read_posterior(self.vae.encoder(self.vae.view(x)), self.vae.n_latent, self.vae.is_full)

    def standardised(self, z: Tensor) -> Tensor:
        """Latent vectors as the diffusion has them."""
        return (z - self.location) / self.scale

    def restored(self, z: Tensor) -> Tensor:
        """Undo `standardised`."""
        return z * self.scale + self.location

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if not self.is_joint:
            # An encoder that is not trained has no dropout.
            self.vae.eval()
        return self


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
