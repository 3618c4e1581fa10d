"""Rows of a diffusion that lack a value for a known reason, completed by draws: a number at an atom, an unseen level.

    ln p(x) ≥ E_{u~r} [ln p(x, u) - ln r(u)]
by Jensen's inequality, for every r. A diffusion has a bound for complete rows only, so u takes the place of the value,
with r = N(0, 1) for a standardised number and the training frequencies for a level. The bound is tight if the model
draws u from r whatever the rest of the row is, which training on such rows achieves for the numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jensen.models.diffusion.space import Space
from jensen.runtime.row_draws import RowDraws


def with_atoms(space: Space, x: Tensor, draws: RowDraws | None = None) -> tuple[Tensor, Tensor]:
    """Rows (n, D) with a draw in place of every number at an atom, and -ln r (n,), in the units of the data."""
    cost = x.new_zeros(len(x))
    for pair in space.atoms:
        is_atom = x[:, pair.level] > 0
        u = torch.randn_like(cost) if draws is None else draws.normal().to(x)
        x = x.index_copy(
            1, torch.tensor([pair.number], device=x.device), torch.where(is_atom, u, x[:, pair.number])[:, None]
        )
        log_scale = math.log(float(space.columns.scale[pair.number]))
        cost = cost + torch.where(is_atom, 0.5 * u.square() + 0.5 * math.log(2 * math.pi) + log_scale, 0.0)
    return x, cost


def with_levels(space: Space, x: Tensor, unseen: Tensor, draws: RowDraws) -> tuple[Tensor, Tensor]:
    """Rows (n, D) with a draw in place of every unseen level (n, D), and -ln r (n,)."""
    x, cost = x.clone(), x.new_zeros(len(x))
    u = draws.uniform(len(space.level_columns))
    for place, column in enumerate(space.level_columns.tolist()):
        rows = unseen[:, column].nonzero()[:, 0]
        if len(rows):
            log_share = space.log_frequencies(place).to(x)
            cdf = log_share.double().exp().cumsum(0)
            level = torch.searchsorted(cdf, u[rows, place] * cdf[-1], right=True).clamp_max(len(cdf) - 1)
            x[rows, column] = level.to(x)
            cost[rows] -= log_share[level]
    return x, cost
