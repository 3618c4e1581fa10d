"""The λ and σ² of the largest evidence: EM steps, and Newton's where it climbs higher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas import ridge

__all__ = ["Maximum", "maximise_evidence"]

# λ in units of the largest s²: beyond these nothing is shrunk, or nothing is left.
SMALLEST, LARGEST, PER_DECADE = -12, 12, 4


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

    def evidence(lam: Tensor) -> Tensor:
        return ridge.log_evidence(spectrum, lam, noise_of(lam))

    scale = float(spectrum.singular[0].square()) or 1.0
    low, high = scale * 10.0**SMALLEST, scale * 10.0**LARGEST
    # The evidence can have several maxima in λ: begin near the highest. In doubt, shrink more.
    lam = torch.full_like(spectrum.rest, high)
    value, gain = evidence(lam), torch.full_like(lam, torch.inf)
    for exponent in torch.linspace(LARGEST, SMALLEST, (LARGEST - SMALLEST) * PER_DECADE + 1).tolist():
        lam, value = higher(lam, value, torch.full_like(lam, scale * 10.0**exponent), evidence)
    n_iter = 0
    while n_iter < max_iter and gain.max() > tol:
        em, _ = ridge.em_update(spectrum, lam, noise_of(lam))
        newton = ridge.newton_update(spectrum, lam, noise)
        before, n_iter = value, n_iter + 1
        for candidate in (em, newton):
            lam, value = higher(lam, value, candidate.clamp(low, high), evidence)
        gain = torch.where(value > before, value - before, 0.0)
    return Maximum(lam, noise_of(lam), n_iter, bool(gain.max() <= tol))


def higher(
    lam: Tensor, value: Tensor, candidate: Tensor, evidence: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """The λ with more evidence, target by target, and that evidence; a candidate that is no number is never it."""
    found = evidence(candidate)
    better = found > value
    return torch.where(better, candidate, lam), torch.where(better, found, value)
