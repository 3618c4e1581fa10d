"""The networks of a latent diffusion; forward returns the terms of its bound.

    z ~ a reverse chain,  x | z ~ p(x | decoder(z)),   q(z|x) as in the autoencoder
    ln p(x) ≥ E_q[ln p(x|z)] - E_q[ln q(z|x) - bound of ln p(z)],   ln p(x|y) with the bound of ln p(z|y)
The second term is at least KL(q(z|x) ‖ p(z)); one draw of z, of a level and of the noise estimates it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from jensen.contract.training import Facts
from jensen.data.columns import Columns
from jensen.engines.sgd.checkpoint import check_place
from jensen.engines.sgd.plan import HistoryRow, Trainer
from jensen.formulas.latent_gaussian import LatentGaussian, read_posterior
from jensen.models.autoencoders.build import VAEFacts
from jensen.models.autoencoders.inference import posterior
from jensen.models.autoencoders.module import VAEModule
from jensen.models.diffusion.build import DiffusionFacts, build_module, decide
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.module import DiffusionModule
from jensen.runtime.randomness import seeded


@dataclass(frozen=True)
class FirstStage:
    """How the training of the autoencoder went: its history, number of epochs and mean objective."""

    history: list[HistoryRow]
    n_iter: int
    lower_bound: float


@dataclass(frozen=True)
class LatentFacts(Facts):
    """What a fit derived from its rows to build a latent diffusion.

    Args:
        vae: the facts of the autoencoder.
        stage: its training.
        diffusion: the facts of the prior.
        location, scale: standardisation of the latent vectors (m,).
    """

    vae: VAEFacts
    stage: FirstStage
    diffusion: DiffusionFacts
    location: Tensor
    scale: Tensor

    def record(self) -> dict[str, Any]:
        # Latent vectors have no missing values, and no limit.
        prior = {name: value for name, value in self.diffusion.record().items() if name not in ("has_holes", "clip")}
        parts = {"vae": self.vae.record(), "stage": vars(self.stage), "diffusion": prior}
        return parts | {"location": self.location, "scale": self.scale}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        parts = {
            "vae": VAEFacts.from_record(record["vae"]),
            "stage": FirstStage(**record["stage"]),
            "diffusion": DiffusionFacts.from_record(record["diffusion"]),
        }
        return cls(**{**record, **parts})


class LatentModule(nn.Module):
    """
    Args:
        vae: the encoder and the decoder, without classes.
        prior: the diffusion of latent vectors, in the units of its `Columns`.
        is_joint: whether all networks are trained, or only that of the prior.
    """

    location: Tensor
    scale: Tensor

    def __init__(self, vae: VAEModule, prior: DiffusionModule, *, is_joint: bool) -> None:
        super().__init__()
        self.vae, self.prior, self.is_joint = vae.requires_grad_(is_joint), prior, is_joint
        columns = prior.space.columns
        self.register_buffer("location", columns.location.float(), persistent=False)
        self.register_buffer("scale", columns.scale.float(), persistent=False)

    def forward(self, x: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
        """Terms per row (b,), of ln p(x|y) where there is a label; while the decoder is not trained, training does not
        compute its output.
        """
        vae = self.vae
        with torch.set_grad_enabled(self.is_joint and torch.is_grad_enabled()):
            x, observed = vae.given(x)
            latent = self.posterior(x)
            z = latent.draw(torch.randn_like(latent.mean)[None])[0]
            terms = {}
            if self.is_joint or not self.training:
                outputs = vae.decode(z, x)
                log_prob = vae.emission.log_prob(outputs, x if observed is None else x.nan_to_num(), observed)
                terms["reconstruction"] = log_prob + vae.emission.log_jacobian(observed)
        of_z = self.prior(self.standardised(z), label)
        bound_of_z = of_z["reconstruction"] - of_z["prior"] - of_z["denoising"]
        return terms | {"latent": -latent.entropy() - bound_of_z, "simple": of_z["simple"]}

    def posterior(self, x: Tensor) -> LatentGaussian:
        """q(z|x), (b, m)."""
        return read_posterior(self.vae.encoder(self.vae.view(x)), self.vae.n_latent, self.vae.is_full)

    def standardised(self, z: Tensor) -> Tensor:
        """Latent vectors in the units of the diffusion."""
        return (z - self.location) / self.scale

    def restored(self, z: Tensor) -> Tensor:
        """Undo `standardised`."""
        return z * self.scale + self.location

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if not self.is_joint:
            # Networks that are not trained have no dropout.
            self.vae.eval()
        return self


def decide_prior(recipe: Diffusion, is_joint: bool) -> DiffusionFacts:
    """The facts of the prior; errors in its arguments are raised here, before anything is fitted."""
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
            f"diffusion has prediction={recipe.prediction!r}, with which the prior does not begin as N(0, I), nor the "
            "bound as that of the autoencoder; choose 'velocity'"
        )
    if recipe.imputation != "repaint":
        raise ValueError(
            f"diffusion has imputation={recipe.imputation!r}, but a LatentDiffusion imputes rows by their latent "
            "vectors; leave imputation out"
        )
    if is_joint and recipe.objective != "variational":
        raise ValueError(
            f"training='joint' raises one bound of all networks, but diffusion has objective={recipe.objective!r}; "
            "choose Diffusion(objective='variational'), or training='two-stage'"
        )
    return decide(recipe, latent_columns(torch.zeros(1), torch.ones(1)))


def latent_moments(module: VAEModule, x: Tensor, scaling: str | None) -> tuple[Tensor, Tensor]:
    """Location and scale (m,) to standardise latent vectors with: 0 and 1, or their moments over rows x (n, d).

    With the moments, the prior begins as the Gaussian closest to the latent vectors of these rows.
    """
    m = module.n_latent
    if scaling is None:
        return torch.zeros(m).double(), torch.ones(m).double()
    with torch.inference_mode():
        latent, _ = posterior(module.eval(), x, next(module.parameters()).device)
    mean, own = latent.mean[0].double(), latent.scale_tril()[0].double().square().sum(-1)
    variance = mean.var(0, correction=0) + own.mean(0)
    scale = variance.sqrt() if scaling == "feature" else variance.mean().sqrt().expand(m)
    return mean.mean(0), scale.clone()


def build_prior(recipe: Diffusion, location: Tensor, scale: Tensor, facts: DiffusionFacts) -> DiffusionModule:
    """A new network for latent vectors (m,) with this location and scale."""
    return build_module(recipe, latent_columns(location, scale), (len(location),), recipe._schedule(), facts)


def try_prior(recipe: Diffusion, n_latent: int, facts: DiffusionFacts) -> None:
    """Raise an error if the network cannot be built for so many latent dimensions; random states do not change."""
    with seeded(0, torch.device("cpu")):
        build_prior(recipe, torch.zeros(n_latent), torch.ones(n_latent), facts)


def latent_columns(location: Tensor, scale: Tensor) -> Columns:
    m = len(location)
    return Columns(
        names=tuple(range(m)),
        kinds=("number",) * m,
        levels=((),) * m,
        location=location,
        scale=scale,
        dtypes=("float32",) * m,
        container="numpy",
    )


def copy_features(source: BaseEstimator, target: BaseEstimator) -> None:
    """Copy the attributes about X."""
    for name in ("n_features_in_", "feature_names_in_", "pixel_range_"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))
        elif hasattr(target, name):
            delattr(target, name)
