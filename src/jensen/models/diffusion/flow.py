"""ln p(x) of the path without noise: an estimate by the probability-flow ODE.

With √ᾱ = cos θ and √(1-ᾱ) = sin θ, the path whose x_θ has the density of x_t at every level is
    dx/dθ = v(x, θ) = (cos θ x - x̂_0(x, θ)) / sin θ,   v(x, 0) = 0,   d ln p(x_θ)/dθ = -∇·v
    ln p(x_0) = ln N(x at the last level; 0, I) + ∫ ∇·v dθ,   ∇·v = E rᵀ (∂v/∂x) r for signs r = ±1
In y = x/√ᾱ and u = tan θ it is dy/du = ε̂. v is bounded and 0 for N(0, I), so steps of Heun's method in θ may be long.
Song et al. (2021); signs Hutchinson (1990). This density is not that of the reverse chain, and no bound of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.data.columns import Columns
from jensen.formulas.noising import Noising
from jensen.models.diffusion.module import DiffusionModule
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws

# With gradients, a network keeps the outputs of all its layers.
N_KEPT = 4


@dataclass(frozen=True)
class OdeLogProb:
    """An estimate of ln p(x) by the probability-flow ODE, as arrays of the kind of X.

    Args:
        value: of every row (n,), in nats.
        standard_error: of the random signs (n,); 0 if the divergence is exact,
            NaN for one draw. It does not cover the error of the steps, nor that of the network.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import Diffusion
        >>> X = load_iris().data
        >>> model = Diffusion(n_steps=50, max_epochs=20, random_state=0).fit(X)
        >>> model.ode_log_prob(X[:5]).value.shape
        (5,)
    """

    value: Any
    standard_error: Any


def check_columns(columns: Columns) -> None:
    """Raise an error if some column has levels, of which a path of numbers has no density."""
    if columns.is_grid:
        raise ValueError(
            f"method='ode' needs columns of numbers, but X is on a grid of {columns.n_levels[0]} levels, for which the "
            "estimate can be far too high; choose method='bound', or fit with data_levels=None for a density"
        )
    names = [name for name, kind in zip(columns.names, columns.kinds, strict=True) if kind != "number"]
    if names:
        raise ValueError(
            f"method='ode' needs columns of numbers, but {', '.join(map(repr, names[:3]))} "
            f"{'has' if len(names) == 1 else 'have'} levels, whose probabilities the ODE does not give; choose "
            "method='bound'"
        )


def ode_levels(share: Tensor, k: int) -> list[int]:
    """k levels, or all if there are fewer, from the first to the last: dense where `share` is large."""
    n_levels = len(share)
    if k >= n_levels:
        return list(range(1, n_levels + 1))
    cdf = share.double().cumsum(0)
    place = cdf[0] + (cdf[-1] - cdf[0]) * torch.linspace(0, 1, k, dtype=torch.float64)
    return sorted({*(torch.searchsorted(cdf, place).clamp(0, n_levels - 1) + 1).tolist(), 1, n_levels})


def ode_log_prob(
    module: DiffusionModule,
    x: Tensor,
    levels: list[int],
    n_draws: int,
    draws: RowDraws,
    device: torch.device,
    y: Tensor | None = None,
    is_shown: bool = False,
) -> tuple[Tensor, Tensor]:
    """ln p(x) of rows (n, d) and its standard error, from `n_draws` draws of the signs."""
    found, d = [], module.space.n_dims
    # With as many draws as dimensions, unit vectors in place of signs give the divergence itself.
    is_exact = d <= n_draws
    parts = list(blocks(len(x), module.n_entries * N_KEPT))
    for rows in progress(parts, "Paths", is_shown and len(parts) > 1):
        own, label, source = x[rows].to(device), None if y is None else y[rows].to(device), draws[rows]
        steps = progress(levels, "Path", is_shown and len(parts) == 1)
        signs = torch.eye(d).expand(len(own), d, d) if is_exact else 1 - 2 * (source.uniform(n_draws, d) < 0.5).float()
        signs = signs.to(device)
        if is_exact:
            end, change = of_numbers(module, own, steps, signs, label)
            found.append((end + change.sum(1), torch.zeros_like(end)))
            continue
        end, change = of_numbers(module, own, steps, signs, label)
        value = end[:, None] + change
        found.append((value.mean(1), (value.var(1) / n_draws).sqrt() if n_draws > 1 else value[:, 0] * math.nan))
    of_rows, error = (torch.cat(part).cpu() for part in zip(*found, strict=True))
    return of_rows, error


def of_numbers(
    module: DiffusionModule, x: Tensor, levels: Iterable[int], signs: Tensor, y: Tensor | None
) -> tuple[Tensor, Tensor]:
    """ln N of rows (b, d) at the end of their paths, in the units of the data, and ∫ ∇·v dθ by signs (b, k, D)."""
    end, change = walk(module, module.space.embed(x), levels, signs, y)
    return end - float(module.space.log_scale.double().sum()), change


def walk(
    module: DiffusionModule, x: Tensor, levels: Iterable[int], signs: Tensor, y: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The path from points x (b, D) of the data, through the levels to the last one: ln N(x; 0, I) there
    (b,), and ∫ ∇·v dθ by every sign (b, k).

    Heun's method: a step along v is corrected by v at its end; the integral is a sum of trapezoids over the corrected
    points.
    """
    angles = torch.atan2(module.table[:, 1].double(), module.table[:, 0].double()).tolist()
    before, total = 0.0, torch.zeros(signs.shape[:2], dtype=torch.float64, device=x.device)
    v, slope = torch.zeros_like(x), torch.zeros_like(total)
    for t in levels:
        level = torch.full((len(x),), t, device=x.device)
        h = angles[t - 1] - before
        ahead = velocity(module, x + h * v, level, y)
        x = x + 0.5 * h * (v + ahead)
        here = slope
        v, slope = with_divergence(module, x, level, signs, y)
        total = total + 0.5 * h * (here + slope)
        before = angles[t - 1]
    normal = -0.5 * (x.double().square() + math.log(2 * math.pi)).sum(1)
    return normal, total


def velocity(module: DiffusionModule, x: Tensor, level: Tensor, y: Tensor | None) -> Tensor:
    """v of points (b, D) at levels (b,)."""
    at = Noising.at(module.table, level)
    return (at.signal * x - module.belief(x, level, y, at).mean) / at.noise


def with_divergence(
    module: DiffusionModule, x: Tensor, level: Tensor, signs: Tensor, y: Tensor | None
) -> tuple[Tensor, Tensor]:
    """v, and rᵀ (∂v/∂x) r for every r (b, k, D)."""
    with torch.enable_grad():
        point = x.detach().requires_grad_()
        v = velocity(module, point, level, y)
        found: list[Tensor] = []
        for r in signs.unbind(1):
            (back,) = torch.autograd.grad(v, point, r, retain_graph=len(found) + 1 < signs.shape[1])
            found.append((back * r).sum(1).double())
    return v.detach(), torch.stack(found, 1)
