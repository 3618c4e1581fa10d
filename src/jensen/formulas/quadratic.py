"""Squares of rows as matrix products, at half the cost that symmetry saves."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_squares(responsibilities: Tensor, x: Tensor) -> Tensor:
    """Σ_i r_ik x_i x_iᵀ (*blocks, K, d, d): the lower half of the rows against all, the rest by symmetry."""
    k, d = responsibilities.shape[-2], x.shape[-2]
    second = x.new_empty(*x.shape[:-2], k, d, d)
    for start, stop in halves(d):
        weighted = responsibilities[..., :, None, :] * x[..., None, start:stop, :]
        second[..., start:stop, :stop] = (weighted.flatten(-3, -2) @ x[..., :stop, :].mT).unflatten(
            -2, (k, stop - start)
        )
    middle = d // 2
    second[..., :middle, middle:] = second[..., middle:, :middle].mT
    return second


def halves(d: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, d // 2), (d // 2, d)


def n_quadratic(d: int) -> int:
    return 1 + d + d * (d + 1) // 2


def quadratic_features(x: Tensor) -> Tensor:
    """φ(x) = [1, x, upper(x xᵀ)] of feature-major rows (*blocks, d, n)."""
    d = x.shape[-2]
    phi = x.new_empty(*x.shape[:-2], n_quadratic(d), x.shape[-1])
    phi[..., 0, :] = 1
    phi[..., 1 : 1 + d, :] = x
    start = 1 + d
    for i in range(d):
        torch.mul(x[..., i:, :], x[..., i : i + 1, :], out=phi[..., start : start + d - i, :])
        start += d - i
    return phi
