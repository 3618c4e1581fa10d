"""The denoising function that a sampler needs, and the noise that it adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from jensen.formulas.schedule import Schedule
from jensen.runtime.row_draws import Source, normals

# From x_t (n, D) and t: x̂_0 (n, D), and the standard deviation σ_t of the step to t - 1, which broadcasts with it.
Denoise = Callable[[Tensor, int], tuple[Tensor, Tensor]]
Sampler = Callable[[Denoise, Tensor, Schedule, Source], Iterator[Tensor]]


def noise_like(x: Tensor, source: Source) -> Tensor:
    return normals(source, *x.shape).to(x)
