"""Theta of a latent curve in a file, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from jensen.contract.fitted import Values, positive, read_values
from jensen.models.curves.em import CurveTheta
from jensen.models.curves.given import GivenCurve
from jensen.models.curves.mapping import LatentSpace

# Largest number of grid points in a file.
MOST_POINTS = 10_000_000
SCHEMA = {
    "coefficients": Values("B", "d"),
    "variance": Values(check=positive),
    "width": Values(check=positive),
}
SCHEMA_OF_GIVEN = {
    "points": Values("P", "d"),
    "variance": Values(check=positive),
    "n_grid": Values(is_whole=True, check=positive),
}


def record_of(theta: CurveTheta) -> dict[str, Tensor]:
    """Theta as named tensors."""
    space, variance = theta.space, torch.tensor(theta.variance, dtype=torch.float64)
    if isinstance(space, GivenCurve):
        return {"points": theta.coefficients, "variance": variance, "n_grid": torch.tensor(space.n_grid)}
    return {
        "coefficients": theta.coefficients,
        "variance": variance,
        "space": torch.tensor([space.n_latent, space.n_grid, space.n_basis], dtype=torch.int64),
        "width": torch.tensor(space.width, dtype=torch.float64),
    }


def theta_of(record: Mapping[str, Tensor], n_features: int) -> CurveTheta:
    """Undo `record_of`."""
    if "points" in record:
        found = read_values(record, SCHEMA_OF_GIVEN, d=n_features)
        points, n_grid = found["points"], checked_grid(int(found["n_grid"]), 1)
        if len(points) < 2:
            raise ValueError(f"points has shape {tuple(points.shape)}, but a curve has 2 points or more")
        return CurveTheta(points, float(found["variance"]), GivenCurve(n_grid, len(points)))
    n_latent, n_grid, n_basis = space = Values(3, is_whole=True).read("space", record["space"]).tolist()
    if not (n_latent in (1, 2) and n_grid >= 1 and n_basis >= 0):
        raise ValueError(f"{space=} must be n_latent (1 or 2), n_grid (1 or more) and n_basis (0 or more)")
    checked_grid(n_grid, n_latent)
    # The number of coefficients is checked before the basis functions are built.
    found = read_values(record, SCHEMA, B=1 + n_latent + n_basis**n_latent, d=n_features)
    latent = LatentSpace(n_latent, n_grid, n_basis, float(found["width"]))
    return CurveTheta(found["coefficients"], float(found["variance"]), latent)


def checked_grid(n_grid: int, n_latent: int) -> int:
    """A number of grid points along each axis, refused before it is allocated if it is too large."""
    if n_grid**n_latent > MOST_POINTS:
        raise ValueError(f"{n_grid=} for {n_latent=} is more than {MOST_POINTS} grid points; give fewer")
    return n_grid
