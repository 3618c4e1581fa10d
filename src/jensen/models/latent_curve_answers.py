"""What a curve or surface says about rows: pure functions of its theta and of rows (n, d) in the user's units."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from jensen.batch import Batch
from jensen.engines.sources import ArraySource, in_row_order
from jensen.formulas.mixture import posterior_in_place
from jensen.models.topographic import CurveTheta, log_densities, log_joint

__all__ = [
    "bound_terms",
    "draw",
    "fill",
    "fill_draws",
    "latent_means",
    "latent_modes",
    "log_evidence",
    "responsibilities",
]


def log_evidence(theta: CurveTheta, x: Tensor) -> Tensor:
    """ln p(x), over the observed features (n,)."""
    return over_rows(theta, x, lambda local, batch: posterior_in_place(log_joint(local, batch))[0][None])[:, 0]


def responsibilities(theta: CurveTheta, x: Tensor) -> Tensor:
    """q(z_g | x), (n, G)."""
    return over_rows(theta, x, lambda local, batch: posterior_in_place(log_joint(local, batch))[1])


def latent_means(theta: CurveTheta, x: Tensor) -> Tensor:
    """E[z | x], (n, L)."""
    return over_rows(theta, x, lambda local, batch: local.space.grid.T @ posterior_in_place(log_joint(local, batch))[1])


def latent_modes(theta: CurveTheta, x: Tensor) -> Tensor:
    """The most probable grid point (n, L)."""
    return over_rows(theta, x, lambda local, batch: local.space.grid[log_joint(local, batch).argmax(0)].T)


def bound_terms(theta: CurveTheta, x: Tensor, q: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Σ_g q_g ln N(x; f(z_g), σ²I) and KL(q ‖ 1/G) per row, for any q (n, G) or the posterior."""

    def terms(local: CurveTheta, batch: Batch) -> Tensor:
        log_density = log_densities(local, batch)
        r = posterior_in_place(log_density.clone())[1] if q is None else q[batch.rows].T
        reconstruction = torch.where(r > 0, r * log_density, 0.0).sum(0)
        kl = (torch.special.xlogy(r, r) + torch.special.xlogy(r, len(r))).sum(0)
        return torch.stack([reconstruction, kl])

    both = over_rows(theta, x, terms)
    return both[:, 0], both[:, 1]


def fill(theta: CurveTheta, x: Tensor) -> Tensor:
    """E[x | x_o]: holes take the mean of f under the posterior."""
    means = over_rows(theta, x, lambda local, batch: theta.points.T @ posterior_in_place(log_joint(local, batch))[1])
    return torch.where(x.isnan(), means, x)


def fill_draws(theta: CurveTheta, x: Tensor, n_draws: int, generator: torch.Generator) -> list[Tensor]:
    """Draws of the missing entries given the observed ones: first the grid point, then the noise."""
    d = x.shape[1]

    def draws(local: CurveTheta, batch: Batch) -> Tensor:
        _, q = posterior_in_place(log_joint(local, batch))
        chosen = torch.multinomial(q.T, n_draws, replacement=True, generator=generator)
        noise = torch.randn(n_draws, d, len(chosen), generator=generator, dtype=torch.float64)
        values: Tensor = theta.points[chosen.T].mT + theta.variance**0.5 * noise
        return values.flatten(0, 1)

    versions = over_rows(theta, x, draws).reshape(len(x), n_draws, d)
    return [torch.where(x.isnan(), values, x) for values in versions.unbind(1)]


def draw(theta: CurveTheta, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """n rows, and the grid point (n, L) each came from."""
    chosen = torch.randint(len(theta.points), (n,), generator=generator)
    noise = torch.randn(n, theta.points.shape[1], generator=generator, dtype=torch.float64)
    return theta.points[chosen] + theta.variance**0.5 * noise, theta.space.grid[chosen]


def over_rows(theta: CurveTheta, x: Tensor, answer: Callable[[CurveTheta, Batch], Tensor]) -> Tensor:
    """Answers (m, n) of every batch, in the order of the rows (n, m)."""
    frame = theta.frame()
    local = theta.within(frame)
    source = ArraySource(
        x.T.clone(memory_format=torch.contiguous_format),
        frame,
        footprint=theta.space.footprint(x.shape[1]),
        by_pattern=False,
    )
    return in_row_order(source, lambda batch: answer(local, batch))
