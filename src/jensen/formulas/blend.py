"""Weights of a mixture whose components are fixed.

    maximise  L(w) = mean_i ln Σ_a w_a p_a(x_i),   w ≥ 0, Σ w = 1
    EM:       w_a ← w_a g_a,   g_a = mean_i p_a(x_i) / Σ_b w_b p_b(x_i)
L is concave, and g its gradient, so for every other w' L(w') - L(w) ≤ Σ w'_a (g_a - 1) ≤ max g - 1; Jensen's inequality
gives the tighter ln max g. At the optimum no g exceeds 1. A step is EM and never lowers L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weighing:
    """
    Args:
        weights: w (A,).
        value: L(w), nats per unit of weight.
        gap: the optimum of L is at most so far above `value`.
        n_iter: number of steps.
    """

    weights: Tensor
    value: float
    gap: float
    n_iter: int


def weigh(log_p: Tensor, weight: Tensor | None = None, max_iter: int = 10_000, tol: float = 1e-6) -> Weighing:
    """The weights of components by their log-densities (n, A) of rows, which may have weights (n,).

    EM begins with equal weights and ends when the optimum is at most `tol` nats per row above.

    Example:
        >>> import torch
        >>> weigh(torch.tensor([[0.0, 1.0], [0.0, -1.0]])).weights
        tensor([0.5000, 0.5000], dtype=torch.float64)
    """
    log_p = log_p.double()
    n, n_models = log_p.shape
    share = torch.full((n,), 1 / n, dtype=torch.float64) if weight is None else weight.double() / weight.sum()
    # Relative to the best component of the row, so that nothing overflows; what underflows does not count.
    largest = log_p.amax(1, keepdim=True)
    p, offset = (log_p - largest).exp(), float(share @ largest[:, 0])
    w, step = torch.full((n_models,), 1 / n_models, dtype=torch.float64), 0
    while True:
        mixed = p @ w
        g = p.T @ (share / mixed)
        gap = max(0.0, math.log(float(g.max())))
        if gap <= tol or step == max_iter:
            return Weighing(w, float(share @ mixed.log()) + offset, gap, step)
        w, step = w * g, step + 1
        # Σ w g = 1 up to rounding, which would add up.
        w = w / w.sum()
