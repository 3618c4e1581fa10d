"""Positive numbers.

    p_k(x) = Π_j x_j^(a-1) e^(-x_j/s) / (Γ(a) s^a),  shape a_kj, scale s_kj;  a = 1 is the exponential distribution
    M:  ln a - ψ(a) = ln x̄ - mean of ln x,  s = x̄/a, means weighted by r_ik
Minka (2002). With a given shape the rate 1/s may have a Gamma(α, rate β) prior: 1/s = (a N + α - 1) / (Σ r x + β).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch
from jensen.engines.em.frame import Frame
from jensen.formulas.gamma import gamma_shape
from jensen.models.mixtures.families.entries import (
    LARGEST_LOG,
    ColumnComponents,
    ColumnFamily,
    Entries,
    Hyper,
    check_concentration,
    mass_of,
    product,
)
from jensen.models.mixtures.families.poisson import check_rate, log_gamma_prior

# ln x̄ - mean of ln x ≈ 1/(2a) is held to about 1e-15: a larger shape is rounding.
LARGEST_SHAPE = 1e10
# A bound under which no candidate of a start collapses.
GENTLE = 1e6
# The mean of zeros alone, whose exponential density would be infinite.
LEAST_MEAN = 1e-300


@dataclass(frozen=True)
class View:
    """Entries, and x above ln x (*blocks, 2d, n), 0 where missing or outside the support."""

    entries: Entries
    features: Tensor


@dataclass(frozen=True)
class Sums(Additive):
    """Σ_i r_ik (K,); over the rows that have feature j the same, Σ_i r_ik x_ij and Σ_i r_ik ln x_ij (K, d)."""

    mass: Tensor
    count: Tensor
    total: Tensor
    logs: Tensor


@dataclass(frozen=True)
class Gammas(ColumnComponents[View, Sums]):
    """Shapes and scales (K, d); `shape` is the one that all components keep, or None."""

    shapes: Tensor
    scales: Tensor
    shape: float | None = None

    @property
    def expectation(self) -> Tensor:
        return self.shapes * self.scales

    @property
    def n_parameters(self) -> int:
        return self.scales.numel() * (2 if self.shape is None else 1)

    def view(self, batch: Batch) -> View:
        x = batch.x
        logs = torch.where(x > 0, x, 1.0).log()
        return View(Entries.of(batch, is_positive(x, self.shape)), torch.cat([x, logs], -2))

    def log_density(self, view: View) -> Tensor:
        constant = -torch.lgamma(self.shapes) - self.shapes * self.scales.log()
        linear = torch.cat([-1 / self.scales, self.shapes - 1], 1)
        return view.entries.excluded((linear @ view.features).add_(view.entries.total_of(constant)))

    def moments(self, responsibilities: Tensor, view: View) -> Sums:
        r = responsibilities
        total, logs = product(r, view.features).chunk(2, 1)
        return Sums(mass_of(r), view.entries.count(r), total, logs)

    def expected_moments(self, weights: Tensor) -> Sums:
        count = weights[:, None].expand_as(self.scales)
        logs = torch.digamma(self.shapes) + self.scales.log()
        return Sums(weights, count, count * self.expectation, count * logs)

    def m_step(self, moments: Sums) -> Self:
        known = moments.count > 0
        mean = (moments.total / moments.count).clamp(min=LEAST_MEAN)
        shapes = self.shapes
        if self.shape is None:
            gap = (mean.log() - moments.logs / moments.count).where(known, 1.0)
            shapes = torch.where(known, gamma_shape(gap, LARGEST_SHAPE), shapes)
        return replace(self, shapes=shapes, scales=torch.where(known, mean / shapes, self.scales))

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        where = component.to(self.scales.device)
        return torch._standard_gamma(self.shapes[where].cpu(), generator=generator) * self.scales[where].cpu()

    def collapsed(self, floor: float = 0.0) -> Tensor:
        if self.shape is not None:
            return super().collapsed(floor)
        return (1 / self.shapes <= floor).any(1)

    def roughness(self) -> Tensor:
        """1/v + ln v of the variances v ≈ 1/a of ln x, as for Gaussians."""
        return super().roughness() if self.shape is not None else (self.shapes - self.shapes.log()).sum()

    def resolution(self) -> float:
        # (a-1) ln x and a ln s nearly cancel.
        return 1e-14 * float(self.shapes.max())


def is_positive(x: Tensor, shape: float | None) -> Tensor:
    """An exponential density is finite at 0, too."""
    return ((x > 0) | (x == 0) if shape == 1 else x > 0) & (x < torch.inf)


@dataclass(frozen=True)
class GammaFamily(ColumnFamily[Gammas]):
    """
    Args:
        shape: None to fit it, or the shape of all components; 1 is the exponential distribution.
        largest_shape: 1/a, the squared standard deviation relative to the mean, is kept above 1/largest_shape.
        least_mean: the smallest mean of a component, one number or one for every column (d,): on zeros alone an
            exponential density would be infinite.
        a, b: of a Gamma(a, rate b) prior on the rates of components with a given shape; 1, 0 is maximum likelihood.
    """

    shape: float | None = None
    largest_shape: float = GENTLE
    least_mean: Hyper = 0.0
    a: Hyper = 1.0
    b: Hyper = 0.0

    @property
    def needs(self) -> str:  # type: ignore[override]
        allowed = "numbers of 0 or more" if self.shape == 1 else "numbers above 0"
        name = "an exponential" if self.shape == 1 else "a gamma"
        return f"{name} column has only {allowed}; correct the value, or give the column another family"

    def __post_init__(self) -> None:
        check_concentration("a", self.a)
        check_rate(self.a, self.b)
        if self.shape is None and bool((torch.as_tensor(self.b) > 0).any()):
            raise ValueError(f"b={self.b} is a prior on rates, but the shapes are fitted, too; give shape, or b=0")
        if self.shape is not None and not self.shape > 0:
            raise ValueError(f"shape={self.shape} is not a shape; give a number above 0, or None to fit it")

    @classmethod
    def of(cls, x: Tensor, shape: float | None = None, a: Hyper = 1.0, b: Hyper = 0.0) -> GammaFamily:
        """For rows (n, d), NaN where missing: no mean of a component falls below a millionth of the column's."""
        mean = x.nanmean(0)
        return cls(shape, least_mean=1e-6 * mean.where(mean > 0, 1.0), a=a, b=b)

    def informed(self, k: int, frame: Frame, moments: Sums) -> Self:
        mean = moments.total.sum(0) / moments.count.sum(0)
        return replace(self, least_mean=1e-6 * mean.where(mean > 0, 1.0))

    def gentle(self) -> Self:
        return replace(self, largest_shape=min(self.largest_shape, GENTLE))

    def inside(self, x: Tensor) -> Tensor:
        return is_positive(x, self.shape)

    def standard(self, k: int, d: int) -> Gammas:
        shapes = torch.full((k, d), 1.0 if self.shape is None else self.shape, dtype=torch.float64)
        return Gammas(shapes, 1 / shapes, self.shape)

    def m_step(self, components: Gammas, moments: Sums) -> Gammas:
        if self.shape is None:
            return self.project(components.m_step(moments))
        count, total = moments.count + (self.a - 1) / self.shape, moments.total + self.b
        return self.project(components.m_step(replace(moments, count=count, total=total)))

    def project(self, components: Gammas) -> Gammas:
        shapes = components.shapes
        mean = components.expectation.clamp(min=torch.as_tensor(self.least_mean, dtype=shapes.dtype))
        if self.shape is None:
            shapes = shapes.clamp(max=self.largest_shape)
        # Untouched components keep every digit of their scale.
        changed = (mean != components.expectation) | (shapes != components.shapes)
        return replace(components, shapes=shapes, scales=torch.where(changed, mean / shapes, components.scales))

    def log_prior(self, components: Gammas) -> Tensor:
        return log_gamma_prior(1 / components.scales, self.a, self.b)

    def pack(self, components: Gammas) -> Tensor:
        parts = [components.scales] if self.shape is not None else [components.shapes, components.scales]
        return torch.cat([part.log().clamp(-LARGEST_LOG, LARGEST_LOG).flatten() for part in parts])

    def unpack(self, vector: Tensor, k: int, d: int) -> Gammas:
        parts = vector.clamp(-LARGEST_LOG, LARGEST_LOG).exp().reshape(-1, k, d)
        shapes = parts[0] if self.shape is None else torch.full_like(parts[0], self.shape)
        return Gammas(shapes, parts[-1], self.shape)

    def expected_log_density(self, components: Gammas, moments: Sums) -> Tensor:
        a, s = components.shapes, components.scales
        constant = -moments.count * (torch.lgamma(a) + a * s.log())
        return (constant + (a - 1) * moments.logs - moments.total / s).sum()
