"""Unconstrained coordinates of structured covariances, for steps that are not EM's.

    ln v_kj = level_k + form_kj,  Σ_j form_kj = 0;   D = (I - S)(I + S)⁻¹ with S skew (Cayley)
What a structure shares is averaged on the way back, so that every vector has the structure. Any choice of signs of its
columns leaves D the axes of the same matrix; one of them keeps I + D away from singular (O'Dorney 2014).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from jensen.formulas.gaussian import cholesky
from jensen.formulas.structures import around, common_axes, descending


def pack_variances(variances: Tensor) -> Tensor:
    return variances.log().flatten()


def unpack_variances(letters: str, vector: Tensor, shape: tuple[int, ...]) -> Tensor:
    logs = vector.reshape(shape)
    return (shared_logs(letters, logs) if letters in ("VEI", "EVI") else logs).exp()


def shared_logs(letters: str, logs: Tensor) -> Tensor:
    """Logarithms of variances (K, d) with what the structure shares replaced by its average."""
    level = logs.mean(1, keepdim=True)
    form = logs - level
    if letters[0] == "E":
        level = level.mean(0, keepdim=True)
    if letters[1] == "E":
        form = form.mean(0, keepdim=True)
    return level + form


def pack_covariances(letters: str, covariances: Tensor) -> Tensor:
    """Of (K, d, d), or (1, d, d) for "EEE": log-Cholesky factors where shape and orientation vary together or nothing
    varies, variances and axes elsewhere.
    """
    if is_by_factors(letters):
        chol = cholesky(covariances)
        rows, cols = torch.tril_indices(chol.shape[-1], chol.shape[-1])
        return with_diagonal(chol, torch.log)[:, rows, cols].flatten()
    if letters[2] == "V":
        variances, axes = descending(covariances)
    else:
        axes = common_axes(covariances)[None]
        variances = (axes.mT @ covariances @ axes).diagonal(dim1=-2, dim2=-1)
    return torch.cat([variances.log().flatten(), skew_of(axes).flatten()])


def unpack_covariances(letters: str, vector: Tensor, shape: tuple[int, ...]) -> Tensor:
    k, d, _ = shape
    if not is_by_factors(letters):
        axes = axes_of(vector[k * d :].reshape(k if letters[2] == "V" else 1, d * (d - 1) // 2), d)
        return around(axes, shared_logs(letters, vector[: k * d].reshape(k, d)).exp())
    rows, cols = torch.tril_indices(d, d)
    lower = vector.new_zeros(shape)
    lower[:, rows, cols] = vector.reshape(k, -1)
    if letters == "EVV":
        logs = lower.diagonal(dim1=-2, dim2=-1)
        lower = lower + torch.diag_embed(shared_logs(letters, logs) - logs)
    chol = with_diagonal(lower, torch.exp)
    return chol @ chol.mT


def is_by_factors(letters: str) -> bool:
    return letters == "EEE" or letters[1:] == "VV"


def with_diagonal(lower: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    return lower + torch.diag_embed(change(diagonal) - diagonal)


def skew_of(axes: Tensor) -> Tensor:
    """The lower half of S (n, d (d-1) / 2) for orthogonal matrices (n, d, d), up to the signs of their columns."""
    d = axes.shape[-1]
    eye = torch.eye(d, dtype=axes.dtype, device=axes.device)
    signed = axes * pivoting_signs(axes)[:, None, :]
    skew: Tensor = torch.linalg.solve(eye + signed, eye - signed)
    rows, cols = torch.tril_indices(d, d, -1)
    return skew[:, rows, cols]


def axes_of(below: Tensor, d: int) -> Tensor:
    """Orthogonal matrices (n, d, d) from the lower half of S."""
    rows, cols = torch.tril_indices(d, d, -1)
    skew = below.new_zeros(len(below), d, d)
    skew[:, rows, cols] = below
    skew = skew - skew.mT
    eye = torch.eye(d, dtype=below.dtype, device=below.device)
    found: Tensor = torch.linalg.solve(eye + skew, eye - skew)
    return found


def pivoting_signs(axes: Tensor) -> Tensor:
    """Signs s (n, d) of columns such that D + diag(s) has no pivot below 1 when it is eliminated."""
    left, signs = axes.clone(), torch.ones_like(axes[..., 0])
    for i in range(axes.shape[-1]):
        signs[:, i] = torch.where(left[:, i, i] < 0, -1.0, 1.0)
        left[:, i, i] += signs[:, i]
        factor = left[:, i + 1 :, i] / left[:, i, i, None]
        left[:, i + 1 :, i + 1 :] -= factor[..., None] * left[:, i, None, i + 1 :]
    return signs
