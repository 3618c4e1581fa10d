"""Covariances of K groups that share volume, shape or orientation.

    Σ_k = λ_k D_k A_k D_kᵀ,  |A_k| = 1;   min Σ_k [tr W_k Σ_k⁻¹ + N_k ln|Σ_k|]  with no eigenvalue below a floor
A structure has three letters, for the volume λ, the shape A and the orientation D: E is equal in all groups, V varies,
I is the identity. In the axes D_k the problem is one of variances v_kj with e_kj = (D_kᵀ W_k D_k)_jj, and the first
two letters solve it:

    VV  v_kj = e_kj / N_k           EE  v_j = Σ_k e_kj / N      VI  v_k = Σ_j e_kj / (d N_k)      EI  v = Σ e / (d N)
    EV  v_kj = e_kj / γ_k · Σγ / N  with the geometric means γ_k
    VE  v_kj = λ_k a_j,  in turn  a_j = Σ_k e_kj / λ_k / N  and  λ_k = Σ_j e_kj / a_j / (d N_k)
The axes are the coordinates' (I), those of each W_k (V), or common ones, found by turning pairs of them (E).
Celeux & Govaert (1995); the pairs: Flury & Gautschi (1986).

The floor is part of the problem. For VE it is a bound on λ_k that depends on the a_j and the other way round; as the
factor between λ and a is free, that is a bound on each of them alone, and as the problem is convex in the logarithms,
the steps in turn end at its minimum. For EV the variances of a group fill up above the floor until they have the
volume; there they have a ceiling, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from jensen.formulas.gaussian import cholesky, clip_eigenvalues, log_det_from_cholesky

# Steps in turn end when they change less than this share, or after so many.
CLOSE, MOST_STEPS = 1e-13, 500
# Halvings of the interval of ln λ, after which it is as short as rounding allows.
HALVINGS = 60
# A flat group of equal volume is long in the other directions, but not more than so many times its least variance, so
# that its covariance has a Cholesky factor.
WIDEST = 1e13
TINY = torch.finfo(torch.float64).tiny

# Variances (K or 1, d or 1) from squares e (K, d), masses (K,), a floor, the last variances and a number of steps.
Rule = Callable[[Tensor, Tensor, float, Tensor | None, int], Tensor]


def one_variance(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    return (e.sum() / (mass.sum() * e.shape[1])).clamp(min=floor)[None, None]


def own_variance(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    return (e.sum(1, keepdim=True) / (mass[:, None] * e.shape[1])).clamp(min=floor)


def same_variances(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    return (e.sum(0, keepdim=True) / mass.sum()).clamp(min=floor)


def own_variances(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    return (e / mass[:, None]).clamp(min=floor)


def equal_shape(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    volume = torch.ones_like(mass) if last is None else last.log().mean(1).exp()
    e = e.clamp(min=0)
    for _ in range(n_steps):
        shape = ((e / volume[:, None]).sum(0) / mass.sum()).clamp(min=floor / volume.min())
        before, volume = volume, ((e / shape).mean(1) / mass).clamp(min=floor / shape.min())
        if ((volume / before - 1).abs() < CLOSE).all():
            break
    return volume[:, None] * shape


def equal_volume(e: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    log_e = e.clamp(min=TINY).log()
    mean = log_e.mean(1, keepdim=True)
    found = (log_e - mean).exp() * (mean.exp().sum() / mass.sum())
    if floor == 0 or bool(((found >= floor) & (found <= WIDEST * floor)).all()):
        return found
    above = filled_up(log_e.cpu().numpy() - math.log(floor), float(mass.sum()))
    return floor * torch.from_numpy(above).to(e).exp()


def filled_up(log_e: np.ndarray, total: float) -> np.ndarray:
    """Logarithms (K, d) of variances v_kj = e_kj / τ_k, but from 1 to WIDEST, of equal volume s = Σ_j ln v_kj.

    The minimum has Σ_k τ_k = N, and τ_k falls as s grows. s is a piecewise linear function of ln τ_k.
    """
    most = math.log(WIDEST)
    corners = np.sort(np.concatenate([log_e, log_e - most], 1), 1)[:, ::-1]
    volumes = (log_e[:, None, :] - corners[:, :, None]).clip(0, most).sum(2)

    def log_tau(volume: float) -> np.ndarray:
        return np.array([np.interp(volume, own, at) for own, at in zip(volumes, corners, strict=True)])

    low, high = 0.0, most * log_e.shape[1]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.logaddexp.reduce(log_tau(middle)) > math.log(total) else (low, middle)
    found: np.ndarray = (log_e - log_tau(high)[:, None]).clip(0, most)
    return found


RULES: dict[str, Rule] = {
    "EI": one_variance,
    "VI": own_variance,
    "EE": same_variances,
    "VE": equal_shape,
    "EV": equal_volume,
    "VV": own_variances,
}


def structured_variances(
    letters: str,
    squares: Tensor,
    mass: Tensor,
    floor: float = 0.0,
    last: Tensor | None = None,
    n_steps: int = MOST_STEPS,
) -> Tensor:
    """The variances of a structure whose axes are the coordinates'.

    Args:
        letters: such as "VEI".
        squares: the diagonals of W_k (K, d).
        mass: N_k (K,).
        floor: the least variance.
        last: variances to start from; no result is worse than they are.
        n_steps: at most so many, where there is no closed form.

    Returns:
        (K, d), or 1 in the place of what is shared.
    """
    return RULES[letters[:2]](squares, mass, floor, last, n_steps)


def structured_covariances(
    letters: str,
    scatter: Tensor,
    mass: Tensor,
    floor: float = 0.0,
    last: Tensor | None = None,
    n_steps: int = MOST_STEPS,
) -> Tensor:
    """The covariances of a structure whose axes are not the coordinates'.

    Args:
        letters: such as "VEV".
        scatter: W_k (K, d, d); for "EEE" their sum (1, d, d) will do.
        mass: N_k (K,).
        floor: the least eigenvalue.
        last: covariances (K, d, d) to start from; no result is worse than they are.
        n_steps: at most so many, where there is no closed form.

    Returns:
        (K, d, d), or (1, d, d) for "EEE".
    """
    if letters == "VVV":
        return clip_eigenvalues(symmetric(scatter / mass[:, None, None]), floor)
    if letters == "EEE":
        return clip_eigenvalues(symmetric(scatter.sum(0, keepdim=True) / mass.sum()), floor)
    if letters == "VEE":
        return proportional(symmetric(scatter), mass, floor, last, n_steps)
    if letters[2] == "V":
        squares, axes = descending(symmetric(scatter))
        # Only equal shapes are found step by step.
        before = torch.linalg.eigvalsh(last).flip(-1) if last is not None and letters[:2] == "VE" else None
        variances = structured_variances(letters, squares, mass, floor, before, n_steps)
        return around(axes, variances)
    return with_common_axes(letters, symmetric(scatter), mass, floor, last, n_steps)


def proportional(scatter: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int) -> Tensor:
    """Σ_k = λ_k C."""
    d = scatter.shape[-1]
    volume = torch.ones_like(mass) if last is None else (log_det_from_cholesky(cholesky(last)) / d).exp()
    for _ in range(n_steps):
        values, axes = torch.linalg.eigh((scatter / volume[:, None, None]).sum(0) / mass.sum())
        values = values.clamp(min=floor / volume.min())
        squares = ((axes / values) @ axes.mT * scatter).sum((1, 2))
        before, volume = volume, (squares / (d * mass)).clamp(min=floor / values[0])
        if ((volume / before - 1).abs() < CLOSE).all():
            break
    return around(axes, volume[:, None] * values)


def with_common_axes(
    letters: str, scatter: Tensor, mass: Tensor, floor: float, last: Tensor | None, n_steps: int
) -> Tensor:
    """Σ_k = D diag(v_k) Dᵀ."""
    axes = common_axes(scatter if last is None or are_round(last) else last)
    turned = axes.mT @ scatter @ axes
    for _ in range(n_steps):
        variances = structured_variances(letters, squares_in(turned), mass, floor)
        rotation, slope = turn(turned.cpu().numpy(), (1 / variances).cpu().numpy())
        step = torch.from_numpy(rotation).to(axes)
        axes = axes @ step
        turned = step.mT @ turned @ step
        if slope < CLOSE * float(mass.sum()):
            break
    return around(axes, structured_variances(letters, squares_in(turned), mass, floor))


def turn(turned: np.ndarray, precisions: np.ndarray) -> tuple[np.ndarray, float]:
    """A rotation (d, d) of the axes in which W_k is `turned`, pair by pair, that lowers Σ_ki w_kii / v_ki, and how far
    it was from a minimum.

    The sum of both squares of a pair stays, so that only Σ_k (1/v_ki - 1/v_kj) w_kii counts: its minimum over all
    angles is an eigenvector of a 2 × 2 matrix. Pairs without a common axis turn at the same time. Numpy takes less time
    than torch for such small arrays.
    """
    d = turned.shape[-1]
    total, slope = np.eye(d), 0.0
    for i, j in rounds_of_pairs(d):
        apart = precisions[:, i] - precisions[:, j]
        both = (apart * turned[:, i, j]).sum(0)
        angle = np.arctan2(-2 * both, (apart * (turned[:, j, j] - turned[:, i, i])).sum(0)) / 2
        rotation = np.eye(d)
        rotation[i, i] = rotation[j, j] = np.cos(angle)
        rotation[j, i] = sine = np.sin(angle)
        rotation[i, j] = -sine
        total, turned = total @ rotation, rotation.T @ turned @ rotation
        slope = max(slope, float(np.abs(both).max()))
    return total, slope


@cache
def rounds_of_pairs(d: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """All pairs of d axes in rounds of disjoint ones, as a tournament is drawn up."""
    n = d + d % 2
    ring, rounds = list(range(1, n)), []
    for _ in range(n - 1):
        seats = [0, *ring]
        drawn = [(seats[m], seats[n - 1 - m]) for m in range(n // 2)]
        pairs = np.array([(min(pair), max(pair)) for pair in drawn if max(pair) < d], dtype=int).reshape(-1, 2)
        rounds.append((pairs[:, 0], pairs[:, 1]))
        ring = [*ring[1:], ring[0]]
    return [pair for pair in rounds if len(pair[0])]


def common_axes(covariances: Tensor) -> Tensor:
    """The axes (d, d) of matrices (K, d, d) that have the same, or of their average.

    Two axes that one matrix does not tell apart, another may: none has a weight that could make up for another's.
    """
    k = torch.arange(len(covariances), dtype=covariances.dtype, device=covariances.device)
    trace = covariances.diagonal(dim1=-2, dim2=-1).sum(-1)
    weight = (1 + (k * (5**0.5 - 1) / 2) % 1) / trace.clamp(min=TINY)
    return descending((weight[:, None, None] * covariances).sum(0))[1]


def are_round(covariances: Tensor) -> bool:
    """Whether matrices are multiples of the identity, so that they have no axes."""
    eye = torch.eye(covariances.shape[-1], dtype=covariances.dtype, device=covariances.device)
    return bool((covariances == covariances[:, :1, :1] * eye).all())


def descending(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues from the largest on, and eigenvectors in columns."""
    values, vectors = torch.linalg.eigh(matrices)
    return values.flip(-1), vectors.flip(-1)


def squares_in(turned: Tensor) -> Tensor:
    return turned.diagonal(dim1=-2, dim2=-1).clamp(min=0)


def around(axes: Tensor, variances: Tensor) -> Tensor:
    """D diag(v) Dᵀ."""
    return symmetric((axes * variances[:, None, :]) @ axes.mT)


def symmetric(matrices: Tensor) -> Tensor:
    return (matrices + matrices.mT) / 2
