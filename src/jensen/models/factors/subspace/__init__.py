"""Gaussians around a subspace: probabilistic PCA and factor analysis, K at a time.

    z ~ N(0, I_m),  x | z ~ N(μ + W z, Ψ),  Ψ = σ²I (PPCA) or diag(ψ) (factor analysis);   x ~ N(μ, W Wᵀ + Ψ)
    z | x_o ~ N(H⁻¹ b, H⁻¹),   H = I + W_oᵀ Ψ_o⁻¹ W_o,   b = W_oᵀ Ψ_o⁻¹ (x_o - μ_o)
    ln|C_oo| = ln|Ψ_o| + ln|H|,   (x-μ)_oᵀ C_oo⁻¹ (x-μ)_o = (x-μ)_oᵀ Ψ_o⁻¹ (x-μ)_o - bᵀ H⁻¹ b
    M:  with z̃ = (z, 1),  (W, μ)_j = [Σ_i r_i ⟨z̃z̃ᵀ⟩_i]⁻¹ Σ_i r_i x_ij ⟨z̃⟩_i over the rows that have feature j,
        ψ_j = their mean squared residual;  then z ~ N(α, Φ) is fitted, too, and taken into μ + W α and W Φ^½
Only m×m matrices are factorised, a row costs d m, and a missing entry is simply not there. The last step is PX-EM (Liu,
Rubin & Wu 1998): it never falls and needs fewer steps; with complete rows it puts μ at the mean of the rows.
Tipping & Bishop (1999); Ghahramani & Hinton (1996); Rubin & Thayer (1982).
"""

from __future__ import annotations

from jensen.models.factors.subspace.gaussians import SubspaceGaussians, SubspaceStructure
from jensen.models.factors.subspace.latent import LatentMoments, LatentView, inverse_and_log_det

__all__ = ["LatentMoments", "LatentView", "SubspaceGaussians", "SubspaceStructure", "inverse_and_log_det"]
