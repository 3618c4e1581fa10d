"""Columns of positive numbers whose logarithm is Gaussian.

    ln p_k(x) = Σ_j [-½ (ln 2πv_kj + (ln x_j - m_kj)² / v_kj) - ln x_j],   x_j > 0
    M:  m_kj and v_kj are the weighted mean and variance of ln x_j
The last term is the log-Jacobian of the logarithm: a density of x, in the units of x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch
from jensen.engines.em.frame import Frame
from jensen.formulas.gaussian import LOG_2PI
from jensen.models.mixtures.families.entries import (
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Entries,
    Hyper,
    mass_of,
    product,
)


@dataclass(frozen=True)
class View:
    """Entries, and ln x above (ln x)² (*blocks, 2d, n), 0 where missing or outside the support."""

    entries: Entries
    features: Tensor


@dataclass(frozen=True)
class Sums(Additive):
    """Σ_i r_ik (K,); over the rows that have feature j the same, Σ_i r_ik ln x_ij and Σ_i r_ik (ln x_ij)² (K, d)."""

    mass: Tensor
    count: Tensor
    logs: Tensor
    squares: Tensor


@dataclass(frozen=True)
class LogNormals(ColumnComponents[View, Sums]):
    """Means m and variances v of ln x (K, d)."""

    locations: Tensor
    variances: Tensor

    @property
    def expectation(self) -> Tensor:
        return (self.locations + self.variances / 2).exp()

    @property
    def n_parameters(self) -> int:
        return 2 * self.locations.numel()

    def view(self, batch: Batch) -> View:
        logs = torch.where(batch.x > 0, batch.x, 1.0).log()
        return View(Entries.of(batch, is_positive(batch.x)), torch.cat([logs, logs.square()], -2))

    def log_density(self, view: View) -> Tensor:
        m, v = self.locations, self.variances
        constant = -0.5 * (LOG_2PI + v.log() + m.square() / v)
        linear = torch.cat([m / v - 1, -0.5 / v], 1)
        return view.entries.excluded((linear @ view.features).add_(view.entries.total_of(constant)))

    def moments(self, responsibilities: Tensor, view: View) -> Sums:
        logs, squares = product(responsibilities, view.features).chunk(2, 1)
        return Sums(mass_of(responsibilities), view.entries.count(responsibilities), logs, squares)

    def expected_moments(self, weights: Tensor) -> Sums:
        count = weights[:, None].expand_as(self.locations)
        return Sums(weights, count, count * self.locations, count * (self.variances + self.locations.square()))

    def m_step(self, moments: Sums) -> Self:
        known = moments.count > 0
        locations = torch.where(known, moments.logs / moments.count, self.locations)
        variances = (moments.squares / moments.count - locations.square()).clamp(min=0)
        return replace(self, locations=locations, variances=torch.where(known, variances, self.variances))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        where = component.to(self.locations.device)
        noise = torch.randn(len(component), self.n_features, generator=generator, dtype=torch.float64)
        return (self.locations[where].cpu() + self.variances[where].sqrt().cpu() * noise).exp()

    def collapsed(self, floor: float = 0.0) -> Tensor:
        return (self.variances <= floor).any(1)

    def roughness(self) -> Tensor:
        """1/v + ln v of the variances of ln x, as for Gaussians."""
        return (1 / self.variances + self.variances.log()).sum()

    def resolution(self) -> float:
        # The expanded square loses the digits of m² / v.
        return 1e-15 * float((self.locations.square() / self.variances).sum(1).max())


def is_positive(x: Tensor) -> Tensor:
    return (x > 0) & (x < torch.inf)


@dataclass(frozen=True)
class LogNormalFamily(ColumnFamily[LogNormals]):
    """
    Args:
        floor: the smallest variance of ln x, one number or one for every column (d,).
        share: of the variance of the column, from which `of` takes the floor.
    """

    floor: Hyper = 1e-10
    share: float = 1e-6
    needs = "a log-normal column has only numbers above 0; correct the value, or give the column another family"

    @classmethod
    def of(cls, x: Tensor, share: float = 1e-6) -> LogNormalFamily:
        """For rows (n, d), NaN where missing: no variance of ln x falls below this share of the column's."""
        logs = torch.where(x > 0, x, torch.nan).log()
        variance = (logs - logs.nanmean(0)).square().nanmean(0).nan_to_num(nan=1.0)
        return cls(max(share, 1e-10) * variance.where(variance > 0, 1.0), share)

    def informed(self, k: int, frame: Frame, moments: Sums) -> Self:
        count = moments.count.sum(0)
        variance = (moments.squares.sum(0) / count - (moments.logs.sum(0) / count).square()).nan_to_num(nan=1.0)
        return replace(self, floor=max(self.share, 1e-10) * variance.where(variance > 0, 1.0))

    def inside(self, x: Tensor) -> Tensor:
        return is_positive(x)

    def points(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return super().points(torch.where(x > 0, x, torch.nan).log(), scale)

    def standard(self, k: int, d: int) -> LogNormals:
        return LogNormals(torch.zeros(k, d, dtype=torch.float64), torch.ones(k, d, dtype=torch.float64))

    def project(self, components: LogNormals) -> LogNormals:
        least = torch.as_tensor(self.floor, dtype=components.variances.dtype)
        return replace(components, variances=components.variances.maximum(least))

    def pack(self, components: LogNormals) -> Tensor:
        return torch.cat([components.locations.flatten(), components.variances.log().flatten()])

    def unpack(self, vector: Tensor, k: int, d: int) -> LogNormals:
        locations, logs = vector.reshape(2, k, d)
        return LogNormals(locations, logs.clamp(-LARGEST_LOG, LARGEST_LOG).exp())

    def expected_log_density(self, components: LogNormals, moments: Sums) -> Tensor:
        m, v = components.locations, components.variances
        square = moments.squares - 2 * m * moments.logs + moments.count * m.square()
        return (-0.5 * (moments.count * (LOG_2PI + v.log()) + square / v) - moments.logs).sum()
