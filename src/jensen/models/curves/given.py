"""A curve that is given, not fitted: straight lines between points, whose z are equally spaced from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.engines.em.batch import Footprint
from jensen.engines.em.frame import Frame
from jensen.models.curves.mapping import midpoints


@dataclass(frozen=True)
class GivenCurve:
    """A curve that is not fitted: straight lines between points, whose z are equally spaced from 0 to 1.

    It has what EM and inference ask of a `LatentSpace`; its coefficients are the points (P, d).

    Args:
        n_grid: grid points.
        n_points: P.
    """

    n_grid: int
    n_points: int
    n_latent: int = 1

    @cached_property
    def grid(self) -> Tensor:
        """(G, 1)."""
        return midpoints(self.n_grid, 1)

    @cached_property
    def constant(self) -> Tensor:
        """The coefficients (P,) of f = 1."""
        return torch.ones(self.n_points, dtype=torch.float64)

    @cached_property
    def is_penalised(self) -> Tensor:
        """(P,): nothing is."""
        return torch.zeros(self.n_points, dtype=torch.float64)

    def footprint(self, n_features: int) -> Footprint:
        """Memory of an E-step: responsibilities and rows."""
        return Footprint(per_row=2 * self.n_grid + 2 * n_features, per_block=1)

    def values(self, z: Tensor, coefficients: Tensor) -> Tensor:
        """f(z), (n, d)."""
        place = z * (self.n_points - 1)
        left = place.long().clamp(max=self.n_points - 2)[:, 0]
        return torch.lerp(coefficients[left], coefficients[left + 1], place - left[:, None])

    def jacobian(self, z: Tensor, coefficients: Tensor) -> Tensor:
        """∂f/∂z (n, d, 1), by differences over the distance between neighbouring points."""
        step = 0.5 / (self.n_points - 1)
        low, high = (z - step).clamp(min=0), (z + step).clamp(max=1)
        rise = self.values(high, coefficients) - self.values(low, coefficients)
        return (rise / (high - low))[..., None]


def points_of(mapping: Callable[[np.ndarray], Any] | Any, n_grid: int, n_features: int | None = None) -> Tensor:
    """Points (P, d) of a curve: those given, or the values of a function of z (P,) in [0, 1].

    A function is asked for both ends of every cell of the grid and for its middle, where the grid points are.
    """
    z = np.linspace(0, 1, 2 * n_grid + 1)
    found = mapping(z) if callable(mapping) else mapping
    try:
        points = np.array(found.detach().cpu().numpy() if isinstance(found, Tensor) else found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"mapping must give an array of numbers: {error}") from None
    if callable(mapping) and (points.ndim != 2 or len(points) != len(z) or not points.shape[1]):
        raise ValueError(f"mapping(z) has shape {points.shape} for z of shape {z.shape}; return points ({len(z)}, d)")
    if points.ndim != 2 or len(points) < 2 or not points.shape[1]:
        raise ValueError(f"mapping has shape {points.shape}; give 2 or more points (P, d) along it, or a function of z")
    if n_features not in (None, points.shape[1]):
        raise ValueError(f"mapping has points of {points.shape[1]} features, but X has n_features={n_features}")
    if not np.isfinite(points).all():
        raise ValueError("mapping holds NaN or infinity; give finite points for all z in [0, 1]")
    return torch.from_numpy(points)


def points_in(frame: Frame, points: Tensor) -> Tensor:
    """Points (P, d) in units of the frame."""
    return (points - frame.origin) / frame.scale
