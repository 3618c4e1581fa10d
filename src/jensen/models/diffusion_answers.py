"""What a trained diffusion says of rows (n, d), as pure functions of its network.

Rows are in the units of `Columns`. Pairs of a row and a level are evaluated together, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.formulas.diffusion import Noising, prior_kl
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion_module import DiffusionModule, evaluation_levels
from jensen.models.diffusion_space import Belief
from jensen.samplers.denoise import Sampler

__all__ = [
    "Chain",
    "Profile",
    "Sampled",
    "all_levels",
    "decoded",
    "entries_per_pair",
    "prior_of",
    "some_levels",
]

# Numbers that a network computes in between for every one it is given, roughly: they decide how many pairs fit.
N_HIDDEN = 32


@dataclass(frozen=True)
class Sampled:
    """The terms of the bound of every row (n,), and the standard error of their sum."""

    reconstruction: Tensor
    prior: Tensor
    denoising: Tensor
    standard_error: Tensor


@dataclass(frozen=True)
class Profile:
    """Terms of rows at levels (n, k), L_0 or L_{t-1}, and the squared error of x̂_0 there."""

    nats: Tensor
    error: Tensor


def entries_per_pair(module: DiffusionModule) -> int:
    """Of the tensors that a row at a level needs."""
    return module.space.n_outputs + N_HIDDEN * module.space.n_dims


def prior_of(module: DiffusionModule, x: Tensor) -> Tensor:
    """L_T (n,)."""
    return torch.cat([prior_kl(module.space.embed(rows).double(), module.schedule) for rows in x.split(4096)])


def evaluate(
    module: DiffusionModule, x: Tensor, level: Tensor, generator: torch.Generator, device: torch.device
) -> Profile:
    """Terms of rows x (n, d) at levels (n, k), as pairs in blocks."""
    n, k = level.shape
    flat, found = level.reshape(-1), torch.empty((2, n * k), dtype=torch.float64)
    for pairs in blocks(n * k, entries_per_pair(module)):
        rows = x[torch.arange(pairs.start, min(pairs.stop, n * k)) // k].to(device)
        x0 = module.space.embed(rows)
        noise = torch.randn(x0.shape, generator=generator, dtype=x0.dtype).to(device)
        terms = module.terms(rows, x0, flat[pairs].to(device), noise)
        found[0, pairs], found[1, pairs] = terms.nats.double().cpu(), terms.error.double().cpu()
    return Profile(*found.view(2, n, k))


def all_levels(module: DiffusionModule, x: Tensor, generator: torch.Generator, device: torch.device) -> Profile:
    """Every level of every row, with one draw of the noise each."""
    n, n_levels = len(x), module.schedule.n_levels
    level = torch.arange(1, n_levels + 1).expand(n, n_levels)
    return evaluate(module, x, level, generator, device)


def some_levels(
    module: DiffusionModule, x: Tensor, n_levels: int, generator: torch.Generator, device: torch.device
) -> Sampled:
    """The bound from so many levels per row; the error is that of draws in pairs, which differ by it."""
    level, weight = evaluation_levels(module.share.cpu(), len(x), n_levels, generator)
    values = evaluate(module, x, level, generator, device).nats * weight
    is_first = level == 1
    return Sampled(
        reconstruction=-torch.where(is_first, values, 0.0).sum(1),
        prior=prior_of(module, x),
        denoising=torch.where(is_first, 0.0, values).sum(1),
        standard_error=pair_error(values),
    )


def pair_error(values: Tensor) -> Tensor:
    """Standard error (n,) of the sum of values (n, k), from the differences within pairs (1, 2), (3, 4), ..."""
    pairs = values[:, : values.shape[1] // 2 * 2].unflatten(1, (-1, 2))
    error: Tensor = (pairs[..., 0] - pairs[..., 1]).square().sum(1).sqrt()
    return error


@dataclass(frozen=True)
class Chain:
    """A way down from pure noise.

    Args:
        sampler: the steps.
        schedule: the levels to go through.
        is_drawn: whether the last step is a draw from p(x_0|x_1) rather than its most probable row.
    """

    sampler: Sampler
    schedule: Schedule
    is_drawn: bool

    def __call__(self, module: DiffusionModule, noise: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Points x_T, ..., x_1."""
        table = Noising.table(self.schedule).to(noise)

        def denoise(x: Tensor, t: int) -> tuple[Tensor, Tensor]:
            belief = belief_at_level(module, x, self.schedule, table, t)
            return belief.mean, (0.5 * belief.log_variance).exp()

        yield noise
        yield from self.sampler(denoise, noise, self.schedule, generator)


def decoded(module: DiffusionModule, x1: Tensor, schedule: Schedule, generator: torch.Generator | None) -> Tensor:
    """Rows (n, d) drawn from p(x_0|x_1), without a generator the most probable."""
    belief = belief_at_level(module, x1, schedule, Noising.table(schedule).to(x1), 1)
    return module.space.draw(belief, generator).cpu()


def belief_at_level(module: DiffusionModule, x: Tensor, schedule: Schedule, table: Tensor, t: int) -> Belief:
    level = torch.full((len(x),), t, device=x.device)
    time = torch.full((len(x),), float(schedule.time[t - 1]), device=x.device)
    return module.denoise(x, time, Noising.at(table, level))
