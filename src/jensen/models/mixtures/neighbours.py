"""Starts of a mixture near a fit with fewer or more components.

One component more: each component in turn is cut across its longest axis, and its halves start at μ ± √(2/π) σ, the
means of the two halves of a Gaussian. One component fewer: the component k is left out for which
    Σ_i w_i ln(1 - q_ik)
is largest. This is what ln p loses before the other components take its place. Splitting and leaving out: Ueda, Nakano,
Ghahramani & Hinton (2000).

A fit with K components is also a point of every larger model, in which a component occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from jensen.models.mixtures.em import MixtureTheta

# How many components are tried: the heaviest to be split, and the least needed to be left out.
MOST_SPLIT, MOST_LEFT_OUT = 8, 3

Theta = MixtureTheta[Any]


def starts(
    theta: Theta, n_components: int, x: np.ndarray, q: np.ndarray, weight: np.ndarray, n_classes: int
) -> Iterator[Theta]:
    """Places near a fit, with so many components.

    Args:
        theta: of the fit.
        n_components: of the places.
        x: rows (n, d), NaN where missing.
        q: their responsibilities (n, K) under theta.
        weight: of the rows (n,).
        n_classes: component k < n_classes is class k, and stays.
    """
    k = len(theta.weights)
    if n_components < k:
        n_out = k - n_components
        for first in range(min(MOST_LEFT_OUT, k - n_classes) if n_out == 1 else 1):
            yield without(theta, least_needed(q, weight, n_classes, n_out, first))
        return
    axes = longest_axes(theta, x, q * weight[:, None])
    if n_components == k + 1:
        heaviest = theta.weights.argsort(descending=True, stable=True)[:MOST_SPLIT]
        yield from (split(theta, 1 + np.eye(k, dtype=int)[j], axes) for j in heaviest.tolist())
    else:
        yield split(theta, parts_of(theta, n_components), axes)


def copies(theta: Theta, n_components: int) -> Theta:
    """The same density with more components, some of which are equal."""
    return split(theta, parts_of(theta, n_components), torch.zeros_like(theta.components.expectation))


def parts_of(theta: Theta, n_components: int) -> np.ndarray:
    """How many pieces every component becomes, so that the heaviest piece is as light as can be."""
    weights, parts = theta.weights.numpy(), np.ones(len(theta.weights), dtype=int)
    for _ in range(n_components - len(parts)):
        parts[(weights / parts).argmax()] += 1
    return parts


def split(theta: Theta, parts: np.ndarray, axes: torch.Tensor) -> Theta:
    """Component k in parts[k] pieces of equal weight along its axis (K, d), a deviation long; an axis 0 gives copies.

    The first piece keeps the component's number, which may be that of a class.
    """
    k = len(parts)
    numbers = np.concatenate([np.arange(k), np.repeat(np.arange(k), parts - 1)])
    piece = np.concatenate([np.zeros(k, dtype=int), *(np.arange(1, m) for m in parts)])
    steps = torch.tensor([slice_means(int(parts[j]))[i] for j, i in zip(numbers, piece, strict=True)])
    index = torch.from_numpy(numbers)
    moved = theta.components.pick(index).moved(steps[:, None] * axes[index])
    return MixtureTheta(theta.weights[index] / torch.from_numpy(parts)[index], moved)


@cache
def slice_means(m: int) -> np.ndarray:
    """The means of m equally probable slices of a standard normal (m,)."""
    edges = norm.pdf(norm.ppf(np.arange(m + 1) / m))
    return m * (edges[:-1] - edges[1:])


def longest_axes(theta: Theta, x: np.ndarray, mass: np.ndarray) -> torch.Tensor:
    """The direction (K, d) in which the rows x (n, d) of every component, by their mass (n, K), vary most, a standard
    deviation long; what is missing counts as the mean.
    """
    scale, axes = theta.frame().scale.numpy(), []
    for mean, r in zip(theta.components.expectation.numpy(), mass.T, strict=True):
        away = np.nan_to_num((x - mean) / scale)
        axis = away[(r * (away**2).sum(1)).argmax()]
        for _ in range(10):
            axis = away.T @ (r * (away @ axis))
            axis /= max(np.linalg.norm(axis), 1e-300)
        deviation = np.sqrt(r @ (away @ axis) ** 2 / max(r.sum(), 1e-300))
        axes.append(deviation * axis * scale)
    return torch.from_numpy(np.stack(axes))


def least_needed(q: np.ndarray, weight: np.ndarray, n_classes: int, n_out: int, first: int) -> list[int]:
    """The components whose removal costs ln p least, one after the other; the first is number `first` in that order."""
    left, out = list(range(q.shape[1])), []
    for i in range(n_out):
        # 1 - q is computed as the sum of the others: a difference would lose the digits of small sums.
        before, after = np.cumsum(q, 1), np.cumsum(q[:, ::-1], 1)[:, ::-1]
        others = np.pad(before[:, :-1], ((0, 0), (1, 0))) + np.pad(after[:, 1:], ((0, 0), (0, 1)))
        lost = weight @ np.log(np.maximum(others, 1e-300))
        lost[:n_classes] = -np.inf
        j = int(np.argsort(-lost, kind="stable")[first if i == 0 else 0])
        out.append(left.pop(j))
        q = np.delete(q, j, 1)
        q = q / np.maximum(q.sum(1, keepdims=True), 1e-300)
    return out


def without(theta: Theta, out: Sequence[int]) -> Theta:
    kept = torch.tensor([k for k in range(len(theta.weights)) if k not in out])
    return MixtureTheta(theta.weights[kept] / theta.weights[kept].sum(), theta.components.pick(kept))
