"""Dirichlet distributions, and the concentration that fits expected logarithms.

E ln θ_k = ψ(c_k) - ψ(Σ c),   ln B(c) = Σ ln Γ(c_k) - ln Γ(Σ c)
KL(Dir(c) ‖ Dir(a)) = ln B(a) - ln B(c) + Σ_k (c_k - a_k) E ln θ_k
argmax_a  Σ_k (a_k - 1) m_k - ln B(a),  m_k = mean E ln θ_k:   ψ(a_k) - ψ(Σ a) = m_k   (Minka 2000)
"""

from __future__ import annotations

import torch
from torch import Tensor

# Smallest and largest concentration that is looked for: beyond, a Dirichlet is a corner or a point to every digit.
LEAST, MOST = 1e-6, 1e6
EXACT = 1e-10


def expected_log(concentration: Tensor) -> Tensor:
    """E ln θ (..., K) under Dir(c)."""
    return torch.digamma(concentration) - torch.digamma(concentration.sum(-1, keepdim=True))


def log_beta(concentration: Tensor) -> Tensor:
    """ln B(c) (...), the normaliser of a Dirichlet density."""
    return torch.lgamma(concentration).sum(-1) - torch.lgamma(concentration.sum(-1))


def dirichlet_kl(concentration: Tensor, prior: Tensor) -> Tensor:
    """KL(Dir(c) ‖ Dir(a)) (...), with one prior (K,) for all or one for each."""
    cross = ((concentration - prior) * expected_log(concentration)).sum(-1)
    return log_beta(prior) - log_beta(concentration) + cross


def concentration_of_logs(mean_log: Tensor, start: Tensor, n_steps: int = 100) -> Tensor:
    """a (K,) with ψ(a_k) - ψ(Σ a) = m_k, from a start.

    Newton's method, whose Hessian is diagonal plus a constant (Minka 2000), so that a step costs K operations; a step
    that leaves the positive numbers, or lowers the concave objective, is halved.
    """
    a = start.clone()
    for _ in range(n_steps):
        total = a.sum()
        slope = torch.digamma(total) - torch.digamma(a) + mean_log
        curve = -torch.polygamma(1, a)
        common = (slope / curve).sum() / (1 / torch.polygamma(1, total) + (1 / curve).sum())
        step = -(slope - common) / curve
        now, share = objective(a, mean_log), 1.0
        while share > EXACT:
            new = a + share * step
            if bool((new > 0).all()) and bool(objective(new, mean_log) >= now):
                break
            share /= 2
        else:
            return a
        moved = ((new - a) / a).abs().max()
        a = new.clamp(LEAST, MOST)
        if moved < EXACT:
            break
    return a


def symmetric_concentration_of_logs(mean_log: Tensor, start: float, size: int, n_steps: int = 100) -> float:
    """a with ψ(a) - ψ(K a) = m, for K equal concentrations and the mean m of their K expected logarithms.

    ψ(a) - ψ(K a) rises from -∞ to -ln K, so there is one root for m below that; it is found on a logarithmic scale,
    within a bracket that is halved where Newton's step leaves it.
    """
    low, high = LEAST, MOST
    a = min(max(float(start), low), high)
    mean = float(mean_log)
    for _ in range(n_steps):
        here = torch.tensor([a, size * a], dtype=torch.float64)
        value = torch.digamma(here)
        gap = float(value[0] - value[1]) - mean
        low, high = (a, high) if gap < 0 else (low, a)
        trigamma = torch.polygamma(1, here)
        slope = a * float(trigamma[0] - size * trigamma[1])
        exponent = max(-50.0, min(50.0, -gap / slope))
        new = a * float(torch.tensor(exponent, dtype=torch.float64).exp())
        if not low < new < high:
            new = (low * high) ** 0.5
        moved, a = abs(new / a - 1), new
        if moved < EXACT:
            break
    return a


def objective(a: Tensor, mean_log: Tensor) -> Tensor:
    """Σ (a_k - 1) m_k - ln B(a): the expected log-density of shares under Dir(a)."""
    return ((a - 1) * mean_log).sum() - log_beta(a)
