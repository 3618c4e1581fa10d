"""Inference in a trained diffusion: bounds, samples and imputations of rows (n, d), as pure functions of its network.

Rows are in the units of `Columns`. Many pairs of a row and a level are evaluated at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real

import torch
from torch import Tensor

from jensen.contract import whole_number
from jensen.contract.gradient import blocks
from jensen.data.columns import Columns
from jensen.data.network_columns import NetworkColumns
from jensen.formulas.noising import Noising, prior_kl
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.masks import Known
from jensen.models.diffusion.module import DiffusionModule, evaluation_levels
from jensen.models.diffusion.samplers.ancestral import ancestral
from jensen.models.diffusion.samplers.ddim import ddim
from jensen.models.diffusion.samplers.denoise import Sampler
from jensen.models.diffusion.samplers.dpm_solver import dpm_solver
from jensen.models.diffusion.samplers.repaint import put_known, repaint
from jensen.models.diffusion.space import Belief, Space
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws, Source, copies_of, normals, part_of

# Numbers stored per row and level until a block of rows is summed: level, weight, terms and the like.
N_KEPT = 8


@dataclass(frozen=True)
class Sampled:
    """The terms of the bound of every row (n,), and the standard error of their sum."""

    reconstruction: Tensor
    prior: Tensor
    denoising: Tensor
    standard_error: Tensor


@dataclass(frozen=True)
class Profile:
    """The term of every level (n, T), L_0 or L_{t-1}, and the squared error of x̂_0 there."""

    nats: Tensor
    error: Tensor


def prior_of(module: DiffusionModule, x: Tensor) -> Tensor:
    """L_T (n,)."""
    return torch.cat([prior_kl(module.space.embed(rows).double(), module.schedule) for rows in x.split(4096)])


def all_levels(
    module: DiffusionModule, x: Tensor, draws: RowDraws, device: torch.device, is_shown: bool = False
) -> Profile:
    """The terms of all levels of every row, with one draw of the noise each."""
    n_levels, parts = module.schedule.n_levels, []
    level = torch.arange(1, n_levels + 1, device=device)
    for rows, is_only in level_blocks(len(x), n_levels, is_shown):
        own = x[rows].to(device)
        nats, _, error = module.evaluate(own, level.expand(len(own), -1), None, draws[rows], is_shown and is_only)
        parts.append((without_nan(nats.double()).cpu(), error.double().cpu()))
    nats, error = (torch.cat(part) for part in zip(*parts, strict=True))
    return Profile(nats, error)


def some_levels(
    module: DiffusionModule,
    x: Tensor,
    n_levels: int,
    draws: RowDraws,
    device: torch.device,
    is_shown: bool = False,
    y: Tensor | None = None,
) -> Sampled:
    """The bound from `n_levels` levels per row; the differences within pairs of levels give the standard error."""
    parts = []
    for rows, is_only in level_blocks(len(x), n_levels, is_shown):
        own, label = x[rows].to(device), None if y is None else y[rows].to(device)
        source = draws[rows]
        level, weight = evaluation_levels(module.share.cpu(), len(own), n_levels, source)
        nats = module.evaluate(own, level.to(device), label, source, is_shown and is_only)[0]
        values = without_nan(nats.double()).cpu() * weight
        is_first = level == 1
        reconstruction = -torch.where(is_first, values, 0.0).sum(1)
        parts.append((reconstruction, torch.where(is_first, 0.0, values).sum(1), pair_error(values)))
    reconstruction, denoising, error = (torch.cat(part) for part in zip(*parts, strict=True))
    return Sampled(reconstruction, prior_of(module, x), denoising, error)


def level_blocks(n_rows: int, n_levels: int, is_shown: bool) -> Iterator[tuple[slice, bool]]:
    """Blocks of rows whose terms at so many levels fit into memory, and whether there is one block only."""
    parts = list(blocks(n_rows, N_KEPT * n_levels))
    for rows in progress(parts, "Bound", is_shown and len(parts) > 1):
        yield rows, len(parts) == 1


def without_nan(nats: Tensor) -> Tensor:
    """NaN as infinity: rows so far away that their squares overflow have no finite bound."""
    return nats.nan_to_num(nan=math.inf, posinf=math.inf)


def pair_error(values: Tensor) -> Tensor:
    """Standard error (n,) of the sum of values (n, k), from the differences within pairs (1, 2), (3, 4), ..."""
    pairs = values[:, : values.shape[1] // 2 * 2].unflatten(1, (-1, 2))
    error: Tensor = (pairs[..., 0] - pairs[..., 1]).square().sum(1).sqrt()
    return error


@dataclass(frozen=True)
class Chain:
    """A reverse chain from pure noise to rows.

    Args:
        sampler: takes the steps.
        schedule: the levels to go through.
        is_drawn: whether the last step draws from p(x_0|x_1) or returns its most probable row.
        guidance: strength of classifier-free guidance.
        known: what the network is told of the rows.
    """

    sampler: Sampler
    schedule: Schedule
    is_drawn: bool
    guidance: float = 0.0
    known: Known | None = None

    def __call__(
        self, module: DiffusionModule, noise: Tensor, generator: Source, y: Tensor | None = None
    ) -> Iterator[Tensor]:
        """The points x_T, ..., x_1, given classes y or None."""
        table = Noising.table(self.schedule).to(noise)

        def denoise(x: Tensor, t: int) -> tuple[Tensor, Tensor]:
            belief = self.belief(module, x, table, t, y)
            return belief.mean, (0.5 * belief.log_variance).exp()

        yield noise
        yield from self.sampler(denoise, noise, self.schedule, generator)

    def decoded(self, module: DiffusionModule, x1: Tensor, generator: Source, y: Tensor | None = None) -> Tensor:
        """Rows (n, d) from p(x_0|x_1)."""
        belief = self.belief(module, x1, Noising.table(self.schedule).to(x1), 1, y)
        return module.space.draw(belief, generator if self.is_drawn else None).cpu()

    def belief(self, module: DiffusionModule, x: Tensor, table: Tensor, t: int, y: Tensor | None) -> Belief:
        level = torch.full((len(x),), t, device=x.device)
        time = torch.full((len(x),), float(self.schedule.time[t - 1]), device=x.device)
        return module.denoise(x, time, Noising.at(table, level), y, self.guidance, known=self.known)


def sample(
    module: DiffusionModule,
    chain: Chain,
    noise: Tensor,
    generator: torch.Generator,
    device: torch.device,
    y: Tensor | None = None,
    is_shown: bool = False,
) -> Tensor:
    """New rows (n, d) from noise (n, D), of classes y (n,) or of no class, one block at a time."""
    parts = []
    for rows in blocks(len(noise), module.n_entries):
        own = None if y is None else y[rows].to(device)
        walk = chain(module, noise[rows].to(device), generator, own)
        *_, last = progress(walk, "Samples", is_shown, chain.schedule.n_levels)
        parts.append(chain.decoded(module, last, generator, own))
    return torch.cat(parts)


# From what is known and noise (b, D) to a reverse chain of rows with these entries, and its start.
Way = Callable[[Space, Schedule, Known, Tensor, Source], tuple[Chain, Tensor]]


def by_repaint(
    space: Space, schedule: Schedule, known: Known, noise: Tensor, source: Source, *, resamplings: int
) -> tuple[Chain, Tensor]:
    """The chain is told nothing, and what is known replaces what it draws."""
    points, is_known = known.points, space.spread(known.mask)
    start = put_known(noise, schedule, schedule.n_levels, source, points, is_known)
    return Chain(partial(repaint, known=points, is_known=is_known, resamplings=resamplings), schedule, True), start


def by_masks(space: Space, schedule: Schedule, known: Known, noise: Tensor, source: Source) -> tuple[Chain, Tensor]:
    """The network is told what is known, and draws the rest once."""
    return Chain(ancestral, schedule, True, known=known), noise


def way_of(module: DiffusionModule, resamplings: int | None) -> Way:
    """By masks if the network was trained with them, else RePaint, with ten resamplings if None."""
    if module.masks is None:
        return partial(by_repaint, resamplings=whole_number("resamplings", 10 if resamplings is None else resamplings))
    if resamplings is not None:
        raise ValueError(
            f"resamplings={resamplings!r} is for imputation='repaint', but this model was fitted with "
            "imputation='masks', which takes every step once; leave resamplings out"
        )
    return by_masks


@dataclass(frozen=True)
class Imputer:
    """Fills in missing values by a reverse chain.

    Args:
        module: the network.
        schedule: the levels to go through.
        way: to the chain, given what is known.
        source: of the random numbers.
        device: the device of the network.
        is_shown: whether to show a progress bar.
    """

    module: DiffusionModule
    schedule: Schedule
    way: Way
    source: Source
    device: torch.device
    is_shown: bool = False

    def draws(self, x: Tensor, n_draws: int) -> Tensor:
        """Rows (n, d) with their missing values drawn n_draws times, (n_draws, n, d); all copies go together."""
        module, space, drawn, source = self.module, self.module.space, [], copies_of(self.source, n_draws)
        rows, missing = x.repeat(n_draws, 1), x.isnan().repeat(n_draws, 1)
        for part in blocks(len(rows), module.n_entries):
            generator = part_of(source, part)
            known = Known(space.embed(rows[part].to(self.device)), ~missing[part].to(self.device))
            noise = normals(generator, *known.points.shape).to(self.device)
            chain, start = self.way(space, self.schedule, known, noise, generator)
            walk = chain(module, start, generator)
            *_, last = progress(walk, "Imputation", self.is_shown, self.schedule.n_levels)
            drawn.append(chain.decoded(module, last, generator))
        # Without rows there is nothing to draw.
        return torch.where(missing, torch.cat(drawn or [rows]), rows).view(n_draws, *x.shape)

    def of_rows(self, rows: slice) -> Imputer:
        """The imputer of some of the rows."""
        return replace(self, source=part_of(self.source, rows))

    def means(self, x: Tensor, n_draws: int, columns: NetworkColumns) -> Tensor:
        """Rows (n, d) of the table with missing values at the mean of n_draws draws, one block of rows at a time."""
        parts = [
            mean_of_draws(columns.table, columns.join(self.of_rows(rows).draws(x[rows], n_draws)))
            for rows in blocks(len(x), n_draws * x.shape[1])
        ]
        return torch.cat(parts or [columns.join(x)])


def mean_of_draws(columns: Columns, draws: Tensor) -> Tensor:
    """The mean over draws (k, n, d): of numbers, of grids, of 0 and 1; for categories the most frequent level."""
    mean = draws.mean(0)
    for j, (kind, n_levels) in enumerate(zip(columns.kinds, columns.n_levels, strict=True)):
        if kind == "level":
            counts = torch.stack([(draws[:, :, j] == k).sum(0) for k in range(n_levels)])
            mean[:, j] = counts.argmax(0).to(mean)
    return mean


def number_of_levels(levels: str | int, schedule: Schedule) -> int:
    """The number of levels, given "all" or a number."""
    if levels == "all":
        return schedule.n_levels
    if not isinstance(levels, Integral) or int(levels) < 4:
        raise ValueError(f"levels={levels!r} must be 'all', or a number of levels per row, 4 or more")
    return int(levels)


SAMPLERS: dict[str, Sampler] = {"ancestral": ancestral, "ddim": ddim, "dpm": dpm_solver}


def chain_of(
    schedule: Schedule,
    steps: int | None,
    sampler: str,
    eta: float,
    guidance: float = 0.0,
    least_signal: float = 0.0,
) -> Chain:
    """The reverse chain of a sampler, through all levels of the schedule or in so many steps.

    It starts at the last level with √ᾱ_t of at least `least_signal`, except for the chain whose bound is scored.
    """
    if not isinstance(guidance, Real) or not 0 <= guidance < math.inf:
        raise ValueError(f"guidance={guidance!r} must be a number, 0 or more; 0 draws from the class itself")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler={sampler!r} is not known; choose {', '.join(map(repr, SAMPLERS))}")
    if not isinstance(eta, Real) or not 0 <= eta <= 1:
        raise ValueError(f"eta={eta!r} is the fraction of the noise that 'ddim' keeps and must lie in [0, 1]")
    if eta and sampler != "ddim":
        raise ValueError(f"eta={eta:g} is for sampler='ddim'; {sampler!r} has none")
    n = schedule.n_levels if steps is None else whole_number("steps", steps)
    least = 0.0 if sampler == "ancestral" and n == schedule.n_levels else least_signal
    levels = walked(schedule, n, "uniform" if sampler == "ancestral" else "trailing", least)
    step: Sampler = partial(ddim, eta=eta) if sampler == "ddim" else SAMPLERS[sampler]
    return Chain(step, levels, sampler == "ancestral", float(guidance))


def walked(schedule: Schedule, n_steps: int, spacing: str, least_signal: float) -> Schedule:
    """The levels of a chain of so many steps; the schedule itself if it leaves out none."""
    if n_steps == schedule.n_levels and schedule.alpha_bar[-1] >= least_signal**2:
        return schedule
    return schedule.respace(n_steps, spacing, least_signal)
