"""K Gaussians whose covariances have one of fourteen structures.

    full       VVV  Σ_k = S_k / N_k              S_k = Σ_i r_ik (x_i-μ_k)(x_i-μ_k)ᵀ
    tied       EEE  Σ   = Σ_k S_k / Σ_k N_k
    diag       VVI  the diagonal of S_k / N_k
    spherical  VII  σ_k² = tr S_k / (d N_k)
and ten between them, by mclust's names (`structure`, `jensen.formulas.structures`). With a normal-inverse-Wishart prior
the posterior mode takes their place (Fraley & Raftery 2007); with missing features the moments are the expected ones
(Ghahramani & Jordan 1994).

Densities and moments are two matrix products with one feature map φ, ln N(x; μ_k, Σ_k) = W_k φ(x) and moments = R φᵀ,
so a row is read once. The expanded square loses digits when Σ is nearly singular; then the deviations are squared
themselves.
"""

from __future__ import annotations

from jensen.models.mixtures.gaussians.base import AnyGaussians, Gaussians
from jensen.models.mixtures.gaussians.dense import FullGaussians, TiedGaussians
from jensen.models.mixtures.gaussians.diagonal import DiagonalGaussians
from jensen.models.mixtures.gaussians.moments import Moments
from jensen.models.mixtures.gaussians.structure import CovarianceStructure

__all__ = ["FULL", "MCLUST", "STRUCTURES", "AnyGaussians", "CovarianceStructure", "Gaussians", "Moments"]

# scikit-learn's names.
USUAL = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
# mclust's, in its order.
MCLUST = ("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV")


def structure_named(name: str) -> CovarianceStructure:
    letters = USUAL.get(name, name)
    if letters == "EEE":
        return CovarianceStructure(name, letters, TiedGaussians)
    return CovarianceStructure(name, letters, DiagonalGaussians if letters[2] == "I" else FullGaussians)


STRUCTURES = {name: structure_named(name) for name in (*USUAL, *MCLUST)}
FULL = STRUCTURES["full"]
