"""The Gaussian posterior given by an encoder, and the importance-weighted bound from its draws.

    q(z|x) = N(μ, L Lᵀ),  z = μ + L ε,   KL(q ‖ N(0, I)) = ½(‖μ‖² + tr L Lᵀ - m) - Σ ln L_ii
    L_k = ln (1/k) Σ_j p(x, z_j) / q(z_j|x);   E[L_k] ≤ ln p(x), and E[L_k] increases with k
Kingma & Welling (2014); Burda, Grosse & Salakhutdinov (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LatentGaussian:
    """One Gaussian per row.

    Args:
        mean: (..., m).
        log_diagonal: ln L_ii (..., m).
        lower: L below its diagonal (..., m, m), or None if L is diagonal.
    """

    mean: Tensor
    log_diagonal: Tensor
    lower: Tensor | None = None

    def draw(self, noise: Tensor) -> Tensor:
        """z = μ + L ε for noise (k, ..., m)."""
        z = self.mean + self.log_diagonal.exp() * noise
        return z if self.lower is None else z + (self.lower @ noise[..., None]).squeeze(-1)

    def noise_of(self, z: Tensor) -> Tensor:
        """ε of z = μ + L ε, (k, ..., m)."""
        centred = z - self.mean
        if self.lower is None:
            return centred / self.log_diagonal.exp()
        noise: Tensor = torch.linalg.solve_triangular(self.scale_tril(), centred[..., None], upper=False)
        return noise.squeeze(-1)

    def kl(self) -> Tensor:
        """KL(q ‖ N(0, I)), (...)."""
        trace = (2 * self.log_diagonal).exp()
        if self.lower is not None:
            trace = trace + self.lower.square().sum(-1)
        return 0.5 * (self.mean.square() + trace - 1 - 2 * self.log_diagonal).sum(-1)

    def entropy(self) -> Tensor:
        """-E_q ln q(z|x), (...)."""
        return self.log_diagonal.sum(-1) + 0.5 * self.mean.shape[-1] * (1 + math.log(2 * math.pi))

    def log_ratio(self, z: Tensor, noise: Tensor) -> Tensor:
        """ln q(z|x) - ln N(z; 0, I) of draws, (k, ...)."""
        return 0.5 * (z.square() - noise.square()).sum(-1) - self.log_diagonal.sum(-1)

    def scale_tril(self) -> Tensor:
        """L, (..., m, m)."""
        diagonal = torch.diag_embed(self.log_diagonal.exp())
        return diagonal if self.lower is None else diagonal + self.lower

    def map(self, change: Callable[[Tensor], Tensor]) -> LatentGaussian:
        """The same function applied to every tensor, for example to select rows."""
        return LatentGaussian(
            change(self.mean), change(self.log_diagonal), None if self.lower is None else change(self.lower)
        )

    def distribution(self) -> torch.distributions.Distribution:
        if self.lower is None:
            return torch.distributions.Independent(
                torch.distributions.Normal(self.mean, self.log_diagonal.exp(), validate_args=False), 1
            )
        return torch.distributions.MultivariateNormal(self.mean, scale_tril=self.scale_tril(), validate_args=False)


def n_posterior_outputs(m: int, is_full: bool) -> int:
    """How many numbers describe a posterior."""
    return 2 * m + (m * (m - 1) // 2 if is_full else 0)


def read_posterior(outputs: Tensor, m: int, is_full: bool) -> LatentGaussian:
    """The posterior from an encoder's outputs."""
    mean, log_diagonal, rest = outputs.split([m, m, outputs.shape[-1] - 2 * m], -1)
    if not is_full:
        return LatentGaussian(mean, log_diagonal)
    lower = outputs.new_zeros((*outputs.shape[:-1], m, m))
    row, column = torch.tril_indices(m, m, -1, device=outputs.device)
    lower[..., row, column] = rest
    return LatentGaussian(mean, log_diagonal, lower)


def log_mean_exp(log_weight: Tensor) -> Tensor:
    """ln (1/k) Σ_j w_j over the first axis."""
    return log_weight.logsumexp(0) - math.log(len(log_weight))


def weighted_error(log_weight: Tensor) -> Tensor:
    """The standard error of ln (1/k) Σ w by the delta method: std(w) / (√k mean(w)); NaN for one draw."""
    k = len(log_weight)
    share = (log_weight - log_mean_exp(log_weight)).exp()
    return (share.var(0) / k).sqrt() if k > 1 else share[0] * math.nan
