"""K Gaussians under one of four covariance structures.

    full       Σ_k = S_k / N_k              S_k = Σ_i r_ik (x_i-μ_k)(x_i-μ_k)ᵀ
    tied       Σ   = Σ_k S_k / Σ_k N_k
    diag       the diagonal of S_k / N_k
    spherical  σ_k² = tr S_k / (d N_k)
With a normal-inverse-Wishart prior the posterior mode takes their place (Fraley & Raftery 2007); with missing features
the moments are the expected ones (Ghahramani & Jordan 1994).

Each structure is a class of frozen values with the same verbs. Densities and moments are two matrix products with one
feature map φ, ln N(x; μ_k, Σ_k) = W_k φ(x) and moments = R φᵀ, so a row is read once. The expanded square loses digits
when Σ is nearly singular; then the deviations are squared themselves.
"""

from __future__ import annotations

from typing import Any

from jensen.models.mixtures.gaussians.base import Gaussians, Moments
from jensen.models.mixtures.gaussians.dense import FullGaussians, TiedGaussians
from jensen.models.mixtures.gaussians.diagonal import DiagGaussians, SphericalGaussians

__all__ = [
    "STRUCTURES",
    "AnyGaussians",
    "DiagGaussians",
    "FullGaussians",
    "Gaussians",
    "Moments",
    "SphericalGaussians",
    "TiedGaussians",
]

AnyGaussians = Gaussians[Any]

STRUCTURES: dict[str, type[AnyGaussians]] = {
    structure.name: structure for structure in (FullGaussians, TiedGaussians, DiagGaussians, SphericalGaussians)
}
