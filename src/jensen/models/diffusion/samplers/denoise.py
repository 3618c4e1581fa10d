"""The denoising function that a sampler needs, and the noise that it adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from jensen.formulas.schedule import Schedule

# From x_t (n, D) and t: x̂_0 (n, D), and the standard deviation σ_t of the step to t - 1, which broadcasts with it.
Denoise = Callable[[Tensor, int], tuple[Tensor, Tensor]]
Sampler = Callable[[Denoise, Tensor, Schedule, torch.Generator], Iterator[Tensor]]


def noise_like(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
