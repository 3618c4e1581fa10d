"""Where to begin: seeds that do not depend on the order of the rows, nor on whether a row stands twice or weighs 2.

Greedy k-means++ (Arthur & Vassilvitskii 2007) on all distinct rows, or on some where there are more than LIMIT: chosen
by a hash of their content, so duplicates share their fate, sorted, and drawn by the inverse of the cumulative weight.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

__all__ = ["LIMIT", "distinct_rows", "kmeans_plus_plus", "lloyd"]

LIMIT = 20_000


def distinct_rows(x: np.ndarray, weight: np.ndarray, limit: int, n_wanted: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """All distinct rows of x (n, d) when there are at most `limit`, else between half of n_wanted and n_wanted of them.

    Their numbers in lexicographic order, the weight of all copies of each, and whether these are all there are.
    """
    hashes = hash_rows(x)
    chosen = below = np.arange(0)
    # Double the share of hashes until there are too many: the outcome depends on the set of distinct rows alone.
    for doubling in range(25):
        below = np.flatnonzero(hashes >> np.uint64(40) < (1 << doubling))
        n_distinct = len(np.unique(hashes[below]))
        if n_distinct <= n_wanted:
            chosen = below
        if n_distinct > limit:
            break
    else:
        chosen = below
    _, first, copy_of = np.unique(hashes[chosen], return_index=True, return_inverse=True)
    weights = np.bincount(copy_of, weight[chosen])
    numbers = chosen[first]
    order = np.lexsort(x[numbers].T[::-1])
    return numbers[order], weights[order], len(chosen) == len(x)


def hash_rows(x: np.ndarray) -> np.ndarray:
    """A 64-bit hash per row: the multiply-xorshift finaliser of splitmix64, chained over the columns."""
    state = np.full(len(x), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in x.T:
        # Adding 0 turns -0 into 0, and every NaN gets one bit pattern: equal values hash equally.
        bits = np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64).view(np.uint64)
        state ^= bits
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state ^= state >> np.uint64(shift)
            state *= np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state


def kmeans_plus_plus(
    x: Tensor, weight: Tensor, n_clusters: int, generator: torch.Generator, centres: Tensor | None = None
) -> Tensor:
    """Column numbers of greedy k-means++ seeds in feature-major x (d, n), beyond given centres (d, k).

    Of 2 + ln k draws the one that lowers the loss most is kept.
    """
    n_draws = 2 + int(math.log(n_clusters))
    squared = x.square().sum(0)
    chosen: list[int] = []
    closest = None if centres is None else squared_distances(x, squared, centres).amin(0)
    for _ in range(n_clusters):
        mass = weight if closest is None else weight * closest
        draws = draw(mass, 1 if closest is None else n_draws, generator)
        candidate = squared_distances(x, squared, x[:, draws])
        if closest is not None:
            candidate = torch.minimum(candidate, closest)
        best = int((candidate @ weight).argmin())
        chosen.append(int(draws[best]))
        closest = candidate[best]
        closest[chosen[-1]] = 0
    return torch.tensor(chosen, device=x.device)


def draw(mass: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Numbers drawn in proportion to mass; where all of it is 0, each has the same chance."""
    cumulative = mass.cumsum(0)
    if not cumulative[-1] > 0:
        cumulative = torch.ones_like(mass).cumsum(0)
    uniform = torch.rand(n, generator=generator, dtype=mass.dtype).to(mass.device)
    # right=True never lands on a mass of 0, except through rounding at the very end.
    return torch.searchsorted(cumulative, uniform * cumulative[-1], right=True).clamp(max=len(mass) - 1)


def squared_distances(x: Tensor, squared: Tensor, centres: Tensor) -> Tensor:
    """‖x_i - c_j‖² (k, n) of feature-major points (d, n) and centres (d, k), through one product."""
    product = torch.addmm(squared, centres.T, x, alpha=-2)
    return product.add_(centres.square().sum(0)[:, None]).clamp_(min=0)


def lloyd(x: Tensor, weight: Tensor, centres: Tensor, max_iter: int) -> Tensor:
    """The cluster of every point of feature-major x (d, n) after at most max_iter k-means steps from centres (d, k).

    An emptied cluster keeps its centre.
    """
    k = centres.shape[1]
    squared = x.square().sum(0)
    assignment = squared_distances(x, squared, centres).argmin(0)
    weighted = x * weight
    for _ in range(max_iter):
        mass = weight.new_zeros(k).index_add_(0, assignment, weight)
        total = torch.zeros_like(centres).index_add_(1, assignment, weighted)
        centres = torch.where(mass > 0, total / mass.where(mass > 0, 1.0), centres)
        new = squared_distances(x, squared, centres).argmin(0)
        if torch.equal(new, assignment):
            break
        assignment = new
    return assignment
