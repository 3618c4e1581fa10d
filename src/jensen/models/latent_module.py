"""The networks of a latent diffusion; forward gives the terms of its bound.

    z ~ a reverse chain,  x | z ~ p(x | decoder(z)),   q(z|x) as in the autoencoder
    ln p(x) ≥ E_q[ln p(x|z)] - E_q[ln q(z|x) - bound of ln p(z)]
The second term is at least KL(q(z|x) ‖ p(z)), and one draw of z, of a level and of the noise is an estimate of it.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from jensen.formulas.latent_gaussian import LatentGaussian, read_posterior
from jensen.models.diffusion_module import DiffusionModule
from jensen.models.vae_module import VAEModule

__all__ = ["LatentModule"]


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
