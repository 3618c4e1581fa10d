"""λ and σ² with the largest evidence: EM steps, or Newton steps if these gain more."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas import ridge

# Limits of log10 λ relative to the largest s²: beyond them nothing is shrunk, or everything.
SMALLEST, LARGEST, PER_DECADE = -12, 12, 2
# A Newton step in ln λ is at most LONGEST, the spacing of the grid; these shares of it are tried.
LONGEST, SHARES = 1.2, (1.0, 0.5, 0.25)
# Largest size of a temporary array, for grids of many targets.
MANY = 1_000_000


@dataclass(frozen=True)
class Maximum:
    """λ and σ² (t,), the number of steps, and whether the last one gained at most `tol` nats for every target."""

    alpha: Tensor
    noise: Tensor
    n_iter: int
    converged: bool


def maximise_evidence(spectrum: ridge.Spectrum, noise: Tensor | None, *, tol: float, max_iter: int) -> Maximum:
    """Maximise the evidence of every target; `noise` is σ² (t,), or None to estimate it too.

    σ² is always the best for the current λ, in closed form, which raises the evidence further after an EM step (ECME,
    Liu & Rubin 1994). A step that lowers the evidence is not taken.
    """

    def noise_of(lam: Tensor) -> Tensor:
        return ridge.noise_variance(spectrum, lam) if noise is None else noise

    def best_of(candidates: Tensor, lam: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The λ (t,) with the largest evidence among candidates (m, t) and the current λ, and this evidence."""
        found = ridge.log_evidence(spectrum, candidates, noise_of(candidates))
        # NaN is never better.
        found, best = torch.where(found.isnan(), -torch.inf, found).max(0)
        better = found > value
        return torch.where(better, candidates.gather(0, best[None])[0], lam), torch.where(better, found, value)

    scale = float(spectrum.singular[0].square()) or 1.0
    low, high = scale * 10.0**SMALLEST, scale * 10.0**LARGEST
    # The evidence can have several maxima in λ: start near the highest. Ties go to the larger λ.
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
