"""How unusual rows are, by the bound of a diffusion split into bands of noise levels.

        v_b(x) = Σ_{t in band b} L_{t-1}(x),   f_b = ln(v_b + δ),   score = (f - m)ᵀ S⁻¹ (f - m)
with the mean m and the shrunk covariance S (Ledoit & Wolf 2004) of f over reference rows. A row may be unusual at one
level of detail although its total is ordinary: a strange shape in smooth strokes, or an image simpler than real ones.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.data.container import Kind, Table
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.inference import number_of_levels
from jensen.models.diffusion.module import DiffusionModule
from jensen.runtime.progress import progress

N_BANDS = 10
# δ, as a fraction of the median total of reference rows: it hides differences in bands with almost no cost.
FLOOR = 1e-3
# Value of terms that overflow, for rows very far away: its logarithm is finite.
LARGEST = 1e300
# Least number of reference rows for the means and covariances of ten bands.
LEAST_REFERENCE = 20


class Profiled(Protocol):
    """The parts of a diffusion that a profile needs."""

    evaluation_levels: str | int
    verbose: int

    @property
    def schedule_(self) -> Schedule: ...

    def _read_complete(self, X: Table) -> tuple[Tensor, Kind]: ...

    def _generator(self, random_state: Any = None) -> torch.Generator: ...

    def _inference(self) -> AbstractContextManager[tuple[DiffusionModule, torch.device]]: ...


def profile_distances(model: Profiled, X: Table, reference: Table) -> Any:
    """The distance of every row (n,) from the reference rows, from the model's `evaluation_levels` levels."""
    from sklearn.covariance import LedoitWolf

    # One state for both, even if the model has no seed: rows are compared under the same noise.
    noise = model._generator().get_state()
    usual, _ = profile(model, reference, noise)
    if len(usual) < LEAST_REFERENCE:
        raise ValueError(f"reference has {len(usual)} rows; give {LEAST_REFERENCE} or more to estimate what is usual")
    if bool((usual == usual[0]).all()):
        raise ValueError(f"reference has {len(usual)} rows that are all equal; give rows that vary")
    found, kind = profile(model, X, noise)
    least = FLOOR * usual.sum(1).quantile(0.5)
    features = [torch.log(nats.clamp_min(0.0) + least).numpy() for nats in (usual, found)]
    return kind.values(torch.from_numpy(LedoitWolf().fit(features[0]).mahalanobis(features[1])))


def profile(model: Profiled, X: Table, noise: Tensor | None = None) -> tuple[Tensor, Kind]:
    """v (n, B) of rows, finest band first, with the noise of this generator state, and the kind of table."""
    x, kind = model._read_complete(X)
    n_levels = number_of_levels(model.evaluation_levels, model.schedule_)
    generator = model._generator()
    if noise is not None:
        generator.set_state(noise)
    with model._inference() as (module, device):
        return band_nats(module, x.to(device), n_levels, generator, bool(model.verbose)), kind


def band_nats(module: DiffusionModule, x: Tensor, n_levels: int, generator: torch.Generator, is_shown: bool) -> Tensor:
    """v (n, B) of rows (n, d), from about `n_levels` levels.

    All rows have the same levels and the same noise, which then contribute equally to every row, and the score of a row
    does not depend on the other rows. Neighbouring levels have noise of opposite sign, so that the product of row and
    noise, which differs between rows, nearly cancels in their sum.
    """
    level, weight, band = band_levels(module.share.cpu(), n_levels)
    if "number" not in module.space.columns.kinds:
        # L_0 of a probability belongs to the finest band; of a density it may be negative and has no logarithm.
        level = torch.cat([level.new_ones(1), level])
        weight, band = torch.cat([weight.new_ones(1), weight]), torch.cat([band.new_zeros(1), band])
    found = torch.zeros((len(x), int(band.max()) + 1), dtype=torch.float64)
    half = torch.randn(((len(level) + 1) // 2, 1, module.space.n_dims), generator=generator)
    noises = torch.stack([half, -half], 1).flatten(0, 1)[: len(level)].to(x.device)
    for t, w, b, noise in progress(list(zip(level, weight, band, noises, strict=True)), "Levels", is_shown):
        for rows in blocks(len(x), module.n_entries):
            x0 = module.space.embed(x[rows])
            at = torch.full((len(x0),), int(t), device=x.device)
            nats = module.terms(x[rows], x0, at, noise.expand_as(x0)).nats.double().cpu()
            found[rows, int(b)] += w * nats.nan_to_num(nan=LARGEST, posinf=LARGEST)
    return found


def band_levels(share: Tensor, n_levels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Levels from 2 on, the weights with which their terms sum to those of all levels, and the band of each.

    Bands are equal parts of the distribution (T,) from which scores draw levels; the levels used are the middles of
    equal parts of a band. If n_levels is T or more, all levels are used.
    """
    if len(share) < 2:
        raise ValueError("by='profile' needs 2 noise levels or more, but the model has 1; choose by='bound'")
    others = share[1:] / share[1:].sum()
    end = others.cumsum(0)
    if n_levels >= len(share):
        level, weight, place = torch.arange(2, len(share) + 1), torch.ones(len(others)), end - others / 2
    else:
        n_levels = max(n_levels // N_BANDS, 1) * N_BANDS
        place = (torch.arange(n_levels, dtype=share.dtype) + 0.5) / n_levels
        index = torch.searchsorted(end, place).clamp_max(len(others) - 1)
        level, weight = index + 2, 1 / (n_levels * others[index])
    band = (place * N_BANDS).long().clamp_max(N_BANDS - 1)
    # With few levels some bands are empty.
    return level, weight.double(), band.unique(return_inverse=True)[1]
