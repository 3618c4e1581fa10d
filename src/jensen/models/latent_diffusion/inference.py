"""Inference in a trained latent diffusion: the bound, and the prior's part in imputations, as pure functions.

Rows (n, d) are in the units of `Columns`, NaN where missing; latent vectors are in those of the autoencoder.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.formulas.noising import prior_kl
from jensen.models.autoencoders.inference import Evidence, Tilt, elbo
from jensen.models.diffusion.inference import level_blocks, pair_error
from jensen.models.diffusion.module import DiffusionModule, evaluation_levels
from jensen.models.latent_diffusion.module import LatentModule
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws, Source, streams_of

# The numbers for the prior are apart from those for the decoder.
OF_PRIOR = 1


def evidence(
    module: LatentModule,
    x: Tensor,
    n_levels: int,
    n_draws: int,
    draws: RowDraws,
    device: torch.device,
    is_shown: bool = False,
    y: Tensor | None = None,
) -> Evidence:
    """The bound: the reconstruction from `n_draws` draws of z, the prior from `n_levels` levels with a draw each."""
    of_decoder = elbo(module.vae, x, n_draws, draws, device)
    cost, error = latent_cost(module, x, n_levels, draws.apart(OF_PRIOR), device, is_shown, y)
    of_draws = (of_decoder.standard_error.square() + error.square()).sqrt()
    return Evidence(of_decoder.reconstruction, {"latent": cost}, of_draws)


def class_evidence(
    module: LatentModule,
    x: Tensor,
    n_levels: int,
    n_draws: int,
    draws: RowDraws,
    device: torch.device,
    is_shown: bool = False,
) -> Tensor:
    """The bounds of ln p(x|y) of all classes (n, C), with the same draws for every class."""
    of_decoder, found = elbo(module.vae, x, n_draws, draws, device), []
    for number in progress(range(module.prior.n_classes), "Classes", is_shown):
        y = torch.full((len(x),), number)
        found.append(latent_cost(module, x, n_levels, draws.apart(OF_PRIOR), device, False, y)[0])
    return of_decoder.reconstruction[:, None] - torch.stack(found, 1)


def latent_cost(
    module: LatentModule,
    x: Tensor,
    n_levels: int,
    draws: RowDraws,
    device: torch.device,
    is_shown: bool,
    y: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """E_q[ln q(z|x) - bound of ln p(z|y)] of every row, and its standard error."""
    parts = []
    for rows, is_only in level_blocks(len(x), n_levels, is_shown):
        label = None if y is None else y[rows]
        parts.append(cost_of_block(module, x[rows], n_levels, draws[rows], device, is_shown and is_only, label))
    cost, error = (torch.cat(part) for part in zip(*parts, strict=True))
    return cost, error


def cost_of_block(
    module: LatentModule,
    x: Tensor,
    n_levels: int,
    draws: RowDraws,
    device: torch.device,
    is_shown: bool,
    y: Tensor | None,
) -> tuple[Tensor, Tensor]:
    level, weight = evaluation_levels(module.prior.share.cpu(), len(x), n_levels, draws)
    k, prior = level.shape[1], module.prior
    cost, error = [], []
    for rows in progress(list(blocks(len(x), k * prior.n_entries)), "Bound", is_shown):
        latent, source = module.posterior(x[rows].to(device)), draws[rows]
        noise = source.normal(k, latent.mean.shape[1]).transpose(0, 1).to(device)
        z = module.standardised(latent.draw(noise)).transpose(0, 1).flatten(0, 1)
        label = None if y is None else y[rows].repeat_interleave(k).to(device)
        row, number = np.divmod(np.arange(len(z)), k)
        nats = prior.evaluate(z, level[rows].reshape(-1, 1).to(device), label, source.own(row, number))[0]
        # Each of the k draws contributes a k-th of L_T.
        terms = nats.view(-1, k).cpu() * weight[rows] + prior_kl(z, prior.schedule).view(-1, k).cpu() / k
        cost.append(terms.sum(1) - latent.entropy().cpu())
        error.append(pair_error(terms))
    return torch.cat(cost), torch.cat(error)


def tilt_of(module: LatentModule, n_levels: int) -> Tilt:
    """The bound of ln p(z) - ln N(z; 0, I), for all draws of a row at the same levels and with the same noise.

    Only differences between the draws of a row matter, and noise that is common to all of them cancels.
    """
    return partial(log_tilt, module, n_levels)


def log_tilt(module: LatentModule, n_levels: int, z: Tensor, source: Source) -> Tensor:
    """The same for draws (k, 1, b, m): (k, 1, b)."""
    prior, (k, _, n, m) = module.prior, z.shape
    draws = streams_of(source, n)
    level, weight = (part.to(z.device) for part in evaluation_levels(prior.share.cpu(), n, n_levels, draws))
    noise = draws.normal(level.shape[1], m).to(z)
    rows = module.standardised(z[:, 0])
    log_normal = -0.5 * (z.square() + math.log(2 * math.pi)).sum(-1).double()
    cost = prior_kl(rows, prior.schedule).double()
    for j in range(level.shape[1]):
        at = level[:, j].repeat(k)
        nats = nats_of(prior, rows.flatten(0, 1), at, noise[:, j].repeat(k, 1))
        cost = cost + weight[:, j] * nats.view(k, n).double()
    return -cost[:, None] - log_normal


def nats_of(prior: DiffusionModule, z: Tensor, level: Tensor, noise: Tensor) -> Tensor:
    """L_{t-1} of latent vectors (b, m) at levels (b,), in blocks."""
    parts = []
    for rows in blocks(len(z), prior.n_entries):
        parts.append(prior.terms(z[rows], z[rows], level[rows], noise[rows]).nats)
    return torch.cat(parts)
