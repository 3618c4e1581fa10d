"""Inference in a trained VAE: bounds, posteriors and imputations of rows (n, d), as pure functions of its networks.

Rows, given and returned, are in the units of `Columns`, NaN where missing. There are k draws per class and row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.contract.gradient import MOST_ROWS, blocks
from jensen.formulas.latent_gaussian import LatentGaussian, log_mean_exp
from jensen.formulas.pareto import checked_error, effective_samples, pareto_k
from jensen.models.autoencoders.module import VAEModule
from jensen.runtime.progress import progress
from jensen.runtime.randomness import mixed
from jensen.runtime.row_draws import RowDraws, Source, normals

DIAGNOSTICS = ("pareto_k", "effective_samples")

# For draws z (k, C, b, m), ln p(z) - ln N(z; 0, I) (k, C, b) of a model with another prior than N(0, I).
Tilt = Callable[[Tensor, Source], Tensor]


@dataclass(frozen=True)
class Evidence:
    """A bound of every row (n,): reconstruction, KL terms by name, the standard error of their sum, and diagnostics of
    the importance weights p(x, z) / q(z|x), if there are any.
    """

    reconstruction: Tensor
    kl: dict[str, Tensor]
    standard_error: Tensor
    diagnostics: dict[str, Tensor] | None = None


@dataclass(frozen=True)
class Drawn:
    """Draws z ~ q(z|x,y) and their densities.

    Args:
        log_likelihood: ln p(x|y,z), (k, C, b).
        log_ratio: ln q(z|x,y) - ln p(z), (k, C, b).
        outputs: the decoder's outputs, (k, C, b, D).
        latent, log_q: q(z|x,y) and ln q(y|x) (C, b).
    """

    log_likelihood: Tensor
    log_ratio: Tensor
    outputs: Tensor
    latent: LatentGaussian
    log_q: Tensor


def draw(module: VAEModule, x: Tensor, k: int, source: Source, tilt: Tilt | None = None) -> Drawn:
    latent, log_q = module.latents(x)
    noise = normals(source, len(x), k, len(latent.mean), module.n_latent).movedim(0, 2).to(latent.mean)
    z = latent.draw(noise)
    outputs = module.decode_classes(z, x)
    log_likelihood = module.emission.log_prob(outputs, x.nan_to_num(), ~x.isnan())
    log_ratio = latent.log_ratio(z, noise).double()
    if tilt is not None:
        log_ratio = log_ratio - tilt(z, source)
    return Drawn(log_likelihood.double(), log_ratio, outputs, latent, log_q.T.double())


def draw_prior(
    module: VAEModule, x: Tensor, k: int, latent: LatentGaussian, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """ln p(x|y,z) and ln q(z|x,y) - ln p(z) (k, C, b) for z ~ p(z), the same for all rows: one pass of the decoder."""
    z = torch.randn((k, module.n_classes, 1, module.n_latent), generator=generator).to(latent.mean)
    outputs = module.decode_classes(z, x).expand(-1, -1, len(x), -1)
    log_likelihood = module.emission.log_prob(outputs, x.nan_to_num(), ~x.isnan())
    return log_likelihood.double(), latent.log_ratio(z, latent.noise_of(z)).double()


def row_blocks(module: VAEModule, x: Tensor, k: int, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    per_row = k * module.n_classes * max(module.emission.n_outputs, 1)
    for rows in progress(list(blocks(len(x), per_row, MOST_ROWS)), "rows"):
        yield rows, x[rows].to(device)


def elbo(module: VAEModule, x: Tensor, k: int, draws: RowDraws, device: torch.device) -> Evidence:
    """The ELBO with its KL terms in closed form; the reconstruction is the mean over k draws."""
    parts = []
    for place, rows in row_blocks(module, x, k, device):
        drawn = draw(module, rows, k, draws[place])
        q = drawn.log_q.exp()
        per_draw = (q * drawn.log_likelihood).sum(1)
        latent = (q * drawn.latent.kl().double()).sum(0)
        log_prior = module.log_prior_class().double()[:, None]
        by_class = (q * (drawn.log_q - log_prior)).sum(0)
        log_weight = (log_prior + drawn.log_likelihood - drawn.log_ratio).logsumexp(1)
        parts.append((per_draw.mean(0), latent, by_class, (per_draw.var(0) / k).sqrt(), *diagnostics(log_weight)))
    reconstruction, latent, by_class, error, *tail = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    kl = {"latent": latent} | ({"class": by_class} if module.n_classes > 1 else {})
    return Evidence(reconstruction, kl, error, dict(zip(DIAGNOSTICS, tail, strict=True)))


def evidence(module: VAEModule, x: Tensor, k: int, draws: RowDraws, seed: int, device: torch.device) -> Evidence:
    """The importance-weighted bound of k draws per class: ln (1/k) Σ_j Σ_y π_y p(x|y,z_j) p(z_j) / q(z_j|x,y).

    Its standard error is checked with as many draws from the prior, the same for all rows, from the seed.
    """
    parts = []
    # Few draws at a time allow many rows at a time: the decoder's outputs are large.
    per_time = min(k, 1000)
    for place, rows in row_blocks(module, x, per_time, device):
        source, of_prior = draws[place], torch.Generator().manual_seed(mixed(seed))
        log_prior = module.log_prior_class().double()[:, None]
        log_likelihood, log_weight, by_both = [], [], []
        for size in [per_time] * (k // per_time) + [k % per_time] * bool(k % per_time):
            drawn = draw(module, rows, size, source)
            log_likelihood.append(drawn.log_likelihood)
            log_weight.append(log_prior + drawn.log_likelihood - drawn.log_ratio)
            both = (drawn.log_likelihood, drawn.log_ratio), draw_prior(module, rows, size, drawn.latent, of_prior)
            by_both.append(torch.stack([(log_prior + p - log_half_sum(q)).logsumexp(1) for p, q in both]))
        weight = torch.cat(log_weight)
        total = weight.logsumexp(1)
        share = weight.flatten(0, 1).softmax(0)
        reconstruction = (share * torch.cat(log_likelihood).flatten(0, 1)).sum(0)
        bound = log_mean_exp(total)
        error = checked_error(total, torch.cat(by_both, 1))
        parts.append((reconstruction, reconstruction - bound, error, *diagnostics(total)))
    reconstruction, divergence, error, *tail = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    return Evidence(reconstruction, {"latent": divergence}, error, dict(zip(DIAGNOSTICS, tail, strict=True)))


def log_half_sum(log_ratio: Tensor) -> Tensor:
    """ln (½ q + ½ p) - ln p, from ln q - ln p."""
    return torch.logaddexp(log_ratio, torch.zeros_like(log_ratio)) - math.log(2)


def diagnostics(log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """The `DIAGNOSTICS` of the weights of all draws (k, b)."""
    return pareto_k(log_weight), effective_samples(log_weight)


def importance(module: VAEModule, rows: Tensor, k: int, source: Source, tilt: Tilt | None) -> tuple[Drawn, Tensor]:
    """Draws, and their normalised weights (k·C, b), which approximate p(y, z | observed values)."""
    drawn = draw(module, rows, k, source, tilt)
    log_weight = module.log_prior_class().double()[:, None] + drawn.log_likelihood - drawn.log_ratio
    return drawn, log_weight.flatten(0, 1).softmax(0)


def fill(
    module: VAEModule,
    x: Tensor,
    k: int,
    draws: RowDraws,
    device: torch.device,
    tilt: Tilt | None = None,
) -> Tensor:
    """Missing values at their posterior mean or most probable level, by self-normalised importance sampling."""
    out = x.clone()
    missing = x.isnan()
    for rows, block in row_blocks(module, x, k, device):
        drawn, share = importance(module, block, k, draws[rows], tilt)
        expected = module.emission.expectation(drawn.outputs).flatten(0, 1)
        mean = module.emission.decide((share.to(expected)[..., None] * expected).sum(0)).cpu()
        out[rows] = torch.where(missing[rows], mean, x[rows])
    return out


def fill_draws(
    module: VAEModule,
    x: Tensor,
    n_draws: int,
    k: int,
    generator: torch.Generator,
    device: torch.device,
    tilt: Tilt | None = None,
) -> list[Tensor]:
    """Copies with missing values drawn: first one of the draws of z by its weight, then x given z."""
    copies = [x.clone() for _ in range(n_draws)]
    missing = x.isnan()
    for rows, block in row_blocks(module, x, k, device):
        drawn, share = importance(module, block, k, generator, tilt)
        outputs = drawn.outputs.flatten(0, 1)
        chosen = torch.multinomial(share.T.cpu().float(), n_draws, replacement=True, generator=generator)
        every = torch.arange(len(block), device=outputs.device)
        for i, copy in enumerate(copies):
            values = module.emission.sample(outputs[chosen[:, i].to(outputs.device), every], generator).cpu()
            copy[rows] = torch.where(missing[rows], values, x[rows])
    return copies


def posterior(module: VAEModule, x: Tensor, device: torch.device) -> tuple[LatentGaussian, Tensor]:
    """q(z|x,y) (C, n, m) and ln q(y|x) (C, n)."""
    parts = [module.latents(rows) for _, rows in row_blocks(module, x, 1, device)]
    latents = [latent for latent, _ in parts]
    lower = None if latents[0].lower is None else torch.cat([p.lower for p in latents if p.lower is not None], 1).cpu()
    mean, diagonal = (torch.cat([getattr(p, name) for p in latents], 1).cpu() for name in ("mean", "log_diagonal"))
    return LatentGaussian(mean, diagonal, lower), torch.cat([log_q for _, log_q in parts]).T.cpu()


def latent_means(module: VAEModule, x: Tensor, device: torch.device) -> Tensor:
    """E_q[z], (n, m)."""
    latent, log_q = posterior(module, x, device)
    return (log_q.exp()[..., None] * latent.mean).sum(0)


def reconstruction(module: VAEModule, x: Tensor, device: torch.device) -> Tensor:
    """The expected rows at the posterior mean, averaged over classes."""
    parts = []
    for _, rows in row_blocks(module, x, 1, device):
        latent, log_q = module.latents(rows)
        expected = module.emission.expectation(module.decode_classes(latent.mean, rows))
        decided = module.emission.decide((log_q.T.exp()[..., None] * expected).sum(0))
        parts.append(torch.where(decided.isnan(), rows, decided).cpu())
    return torch.cat(parts)
