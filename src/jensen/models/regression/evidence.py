"""The λ and σ² of the largest evidence: EM steps, and Newton's where it climbs higher."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas import ridge

# λ in units of the largest s²: beyond these nothing is shrunk, or nothing is left.
SMALLEST, LARGEST, PER_DECADE = -12, 12, 2
# Newton's step is at most this long in ln λ, as far as the grid's points are apart, and is tried in parts.
LONGEST, SHARES = 1.2, (1.0, 0.5, 0.25)
# Numbers at a time, so that a grid for many targets stays small.
MANY = 1_000_000


@dataclass(frozen=True)
class Maximum:
    """λ and σ² (t,), steps taken, and whether the last of them gained no more than `tol` nats for any target."""

    alpha: Tensor
    noise: Tensor
    n_iter: int
    converged: bool


def maximise_evidence(spectrum: ridge.Spectrum, noise: Tensor | None, *, tol: float, max_iter: int) -> Maximum:
    """Raise the evidence of every target to a maximum; `noise` is σ² (t,), None to find it too.

    σ² is always the best one of λ, in closed form, which raises the evidence once more after an EM step (ECME, Liu &
    Rubin 1994). A step that lowers it is not taken.
    """

    def noise_of(lam: Tensor) -> Tensor:
        return ridge.noise_variance(spectrum, lam) if noise is None else noise

    def best_of(candidates: Tensor, lam: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The λ (t,) of the most evidence among candidates (m, t) and the present ones, and that evidence."""
        found = ridge.log_evidence(spectrum, candidates, noise_of(candidates))
        # One that is no number is never better.
        found, best = torch.where(found.isnan(), -torch.inf, found).max(0)
        better = found > value
        return torch.where(better, candidates.gather(0, best[None])[0], lam), torch.where(better, found, value)

    scale = float(spectrum.singular[0].square()) or 1.0
    low, high = scale * 10.0**SMALLEST, scale * 10.0**LARGEST
    # The evidence can have several maxima in λ: begin near the highest. In doubt, shrink more.
    lam, value = torch.full_like(spectrum.rest, high), torch.full_like(spectrum.rest, -torch.inf)
    exponents = torch.linspace(LARGEST, SMALLEST, (LARGEST - SMALLEST) * PER_DECADE + 1, dtype=lam.dtype)
    for some in exponents.split(max(1, MANY // spectrum.targets.numel())):
        lam, value = best_of((scale * 10.0**some)[:, None].expand(-1, len(lam)), lam, value)
    n_iter, gain = 0, torch.full_like(lam, torch.inf)
    while n_iter < max_iter and gain.max() > tol:
        em, _ = ridge.em_update(spectrum, lam, noise_of(lam))
        newton = ridge.newton_step(spectrum, lam, noise).clamp(-LONGEST, LONGEST)
        steps = torch.stack([em, *(lam * (share * newton).exp() for share in SHARES)])
        before, n_iter = value, n_iter + 1
        lam, value = best_of(steps.clamp(low, high), lam, value)
        gain = torch.where(value > before, value - before, 0.0)
    return Maximum(lam, noise_of(lam), n_iter, bool(gain.max() <= tol))
