"""The conjugate prior of a Gaussian's mean and covariance.

    Σ ~ inverse-Wishart(ν, Λ),  μ | Σ ~ N(μ_p, Σ/κ);  for one variance σ² ~ inverse-gamma(ν/2, λ/2)
Fraley & Raftery (2007).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas.gaussian import LOG_2PI, cholesky, log_det_from_cholesky, solve_lower


@dataclass(frozen=True)
class NormalInverseWishart:
    """Hyper-parameters.

    Args:
        mean: μ_p (d,).
        mean_precision: κ.
        degrees_of_freedom: ν.
        scale: Λ (d, d), or for diagonal structures λ per feature or one for all.
        log_volume: ln |∂θ̃/∂θ|, for parameters θ̃ in these units and θ in the user's.
    """

    mean: Tensor
    mean_precision: float
    degrees_of_freedom: float
    scale: Tensor
    log_volume: float = 0.0


def log_inverse_wishart(chol: Tensor, degrees_of_freedom: float, scale: Tensor) -> Tensor:
    """ln inverse-Wishart(Σ; ν, Λ) with Σ = chol cholᵀ, over any leading axes."""
    d = scale.shape[-1]
    half = degrees_of_freedom / 2
    trace = solve_lower(chol, cholesky(scale).expand_as(chol))
    normaliser = half * torch.logdet(scale) - half * d * math.log(2) - torch.mvlgamma(torch.tensor(half).double(), d)
    return normaliser - (half + (d + 1) / 2) * log_det_from_cholesky(chol) - 0.5 * trace.square().sum((-2, -1))


def log_inverse_gamma(variance: Tensor, degrees_of_freedom: float, scale: Tensor) -> Tensor:
    """ln inverse-gamma(σ²; ν/2, λ/2) for every element."""
    half = degrees_of_freedom / 2
    return half * (scale / 2).log() - math.lgamma(half) - (half + 1) * variance.log() - scale / (2 * variance)


def log_mean_given_covariance(square: Tensor, log_det: Tensor, mean_precision: float, d: int) -> Tensor:
    """ln N(μ; μ_p, Σ/κ) from (μ-μ_p)ᵀΣ⁻¹(μ-μ_p) and ln|Σ|."""
    return -0.5 * (d * (LOG_2PI - math.log(mean_precision)) + log_det + mean_precision * square)
