"""How far the rows of a source spread, in its units: what priors and starts are scaled by."""

from __future__ import annotations

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.engines.em.sources import Source
from jensen.formulas.gaussian import clip_eigenvalues
from jensen.models.mixtures.gaussians.moments import LEAST_SPREAD


def covariance_of_rows(source: Source, d: int) -> Tensor:
    """The covariance (d, d); a missing entry counts as one of a standard normal, the source's own unit."""
    mass, first, second = torch.zeros(()).double(), torch.zeros(d).double(), torch.zeros(d, d).double()
    for batch in source:
        weight = weight_of(batch)
        weighted = batch.x * weight[..., None, :]
        mass += weight.sum()
        first += weighted.sum(-1).reshape(-1, d).sum(0)
        second += (weighted @ batch.x.mT).reshape(-1, d, d).sum(0)
        second.diagonal().add_(missing_mass(batch, weight))
    mean = first / mass
    cov = second / mass - mean[:, None] * mean
    return clip_eigenvalues((cov + cov.mT)[None] / 2, LEAST_SPREAD)[0]


def diagonal_of_rows(source: Source, d: int) -> Tensor:
    """The diagonal (d,) of `covariance_of_rows` of wide rows, without a matrix."""
    mass, first, second = torch.zeros(()).double(), torch.zeros(d).double(), torch.zeros(d).double()
    for batch in source:
        weight = weight_of(batch)
        weighted = batch.x * weight[..., None, :]
        mass += weight.sum()
        first += weighted.sum(-1).reshape(-1, d).sum(0)
        second += (weighted * batch.x).sum(-1).reshape(-1, d).sum(0) + missing_mass(batch, weight)
    return (second / mass - (first / mass).square()).clamp(min=LEAST_SPREAD)


def weight_of(batch: Batch) -> Tensor:
    return torch.ones_like(batch.x[..., 0, :]) if batch.weight is None else batch.weight


def missing_mass(batch: Batch, weight: Tensor) -> Tensor:
    """The weight of the rows in which every feature is missing (d,), or 0."""
    if batch.observed is None:
        return weight.new_zeros(())
    is_of_rows = batch.observed.ndim == batch.x.ndim
    missing = (
        (weight[..., None, :] * ~batch.observed).sum(-1) if is_of_rows else weight.sum(-1)[..., None] * ~batch.observed
    )
    return missing.reshape(-1, batch.x.shape[-2]).sum(0)


def variances_of_rows(source: Source, d: int) -> Tensor:
    """The mean square of every feature over the rows that have it (d,), 0 where none has."""
    sums, counts = torch.zeros(2, d, dtype=torch.float64)
    for batch in source:
        weight = torch.ones_like(batch.x[0]) if batch.weight is None else batch.weight
        sums += batch.x.square() @ weight
        counts += weight.sum() if batch.observed is None else batch.observed.to(sums.dtype) @ weight
    return torch.where(counts > 0, sums / counts, 0.0)
