"""Where to begin: seeds that do not depend on the order of the rows, nor on whether a row stands twice or weighs 2.

Greedy k-means++ (Arthur & Vassilvitskii 2007) on all distinct rows, or on some where there are more than LIMIT: chosen
by a hash of their content, so duplicates share their fate, sorted, and drawn by the inverse of the cumulative weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, issparse
from torch import Tensor

from jensen.formulas.neighbours import Neighbours, TwoNearest, swapped, two_smallest
from jensen.runtime.hashing import hash_rows, scrambled

# Takes feature-major points (d, n), their squared lengths (n,) and centres (d, k) to their distances (k, n).
Between = Callable[[Tensor, Tensor, Tensor], Tensor]

LIMIT = 20_000
MANY_KEYS = 16
FEW_NUMBERS = 2 * 10**7


def distinct_rows(x: Any, weight: np.ndarray | None, limit: int, n_wanted: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """All distinct rows of x (n, d) when there are at most `limit`, else between half of n_wanted and n_wanted of them.

    Their numbers in an order of their content, the weight of all copies of each, and whether these are all there are.
    """
    numbers, weights, is_everything = distinct_hashes(hash_rows(x), weight, limit, n_wanted)
    order = order_by_content(x[numbers])
    return numbers[order], weights[order], is_everything


def distinct_hashes(
    hashes: np.ndarray, weight: np.ndarray | None, limit: int, n_wanted: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The same of rows with these hashes, in an order of the hashes."""
    chosen = below = np.arange(0)
    # Double the share of hashes until there are too many: the outcome depends on the set of distinct rows alone.
    for doubling in range(25) if len(hashes) > min(limit, n_wanted) else (24,):
        below = np.flatnonzero(hashes <= np.uint64((1 << (40 + doubling)) - 1))
        n_distinct = len(below)
        if n_distinct > min(limit, n_wanted):
            n_distinct = len(np.unique(hashes[below]))
        if n_distinct <= n_wanted:
            chosen = below
        if n_distinct > limit:
            break
    else:
        chosen = below
    _, first, copy_of = np.unique(hashes[chosen], return_index=True, return_inverse=True)
    weights = np.bincount(copy_of, None if weight is None else weight[chosen]).astype(np.float64)
    return chosen[first], weights, len(chosen) == len(hashes)


def check_distinct(argument: str, n_wanted: int, n_distinct: int) -> None:
    """K centres or components need K different rows to start from; the argument names K."""
    if n_distinct < n_wanted:
        raise ValueError(
            f"{argument}={n_wanted} needs at least {n_wanted} distinct rows, got {n_distinct}; "
            f"lower {argument} or add data"
        )


def written_out(x: Any) -> Any:
    """A sparse matrix as an array, unless that is large: dense and sparse rows then have the same outcome."""
    is_sparse = bool(issparse(x))
    return x.toarray() if is_sparse and x.shape[0] * x.shape[1] <= FEW_NUMBERS else x


def order_by_content(x: Any) -> np.ndarray:
    """An order of distinct rows that survives a change of their units, for the draws from them to survive it too."""
    x = written_out(x)
    d, is_sparse = x.shape[1], bool(issparse(x))
    if d == 0:
        return np.arange(x.shape[0])
    if is_sparse:
        # Rows are too wide to sort by every column: a fixed projection sorts them, and scales as they do.
        projection = scrambled(np.arange(d, dtype=np.uint64)).astype(np.float64) / 2.0**64
        return np.argsort(x @ projection, kind="stable")
    if np.isnan(x).any():
        return np.lexsort(x.T[::-1])
    # Sorting by all columns of wide rows takes long, and the first few that vary usually tell them apart. Not so in
    # images, whose margins are nearly empty: there columns come first that seldom have their least value.
    count = np.count_nonzero(x != x.min(0), axis=0)
    keys = np.flatnonzero(count)
    if len(keys) > MANY_KEYS:
        keys = keys[np.argsort(-count[keys], kind="stable")]
    order = np.arange(len(x))
    for n_keys in sorted({min(len(keys), 4**power) for power in range(5)} | {len(keys)}) if len(keys) else ():
        order = np.lexsort(x[:, keys[:n_keys]].T[::-1])
        ranked = x[order[:, None], keys[:n_keys]]
        if (ranked[1:] != ranked[:-1]).any(1).all():
            break
    return order


def sketch(x: Any, n_coordinates: int) -> np.ndarray:
    """Rows (n, d) of an array or a CSR matrix in fewer coordinates, in which distances remain on average.

    Each feature is added to one of the coordinates, with a random sign (Charikar, Chen & Farach-Colton 2002).
    """
    d = x.shape[1]
    if d > n_coordinates:
        random = scrambled(np.arange(d, dtype=np.uint64))
        place, sign = (random % np.uint64(n_coordinates)).astype(np.int64), np.where(random >> np.uint64(63), 1.0, -1.0)
        x = x @ csr_array((sign, place, np.arange(d + 1)), (d, n_coordinates))
    is_sparse: bool = issparse(x)
    return np.asarray(x.toarray() if is_sparse else x)


def squared_distances(x: Tensor, squared: Tensor, centres: Tensor) -> Tensor:
    """‖x_i - c_j‖² (k, n) of feature-major points (d, n) and centres (d, k), through one product."""
    product = torch.addmm(squared, centres.T, x, alpha=-2)
    return product.add_(centres.square().sum(0)[:, None]).clamp_(min=0)


def kmeans_plus_plus(
    x: Tensor,
    weight: Tensor,
    n_clusters: int,
    generator: torch.Generator,
    centres: Tensor | None = None,
    between: Between = squared_distances,
) -> Tensor:
    """Column numbers of greedy k-means++ seeds in feature-major x (d, n), beyond given centres (d, k).

    Of 2 + ln k draws the one that lowers the loss most is kept. The loss is the sum of `between`.
    """
    n_draws = 2 + int(math.log(n_clusters))
    squared = x.square().sum(0)
    chosen: list[int] = []
    closest = None if centres is None else between(x, squared, centres).amin(0)
    for _ in range(n_clusters):
        mass = weight if closest is None else weight * closest
        draws = draw(mass, 1 if closest is None else n_draws, generator)
        candidate = between(x, squared, x[:, draws])
        if closest is not None:
            candidate = torch.minimum(candidate, closest)
        best = int((candidate @ weight).argmin())
        chosen.append(int(draws[best]))
        closest = candidate[best]
        closest[chosen[-1]] = 0
    return torch.tensor(chosen, device=x.device)


def swap_in(
    x: Tensor,
    weight: Tensor,
    centres: Tensor,
    n_rounds: int,
    generator: torch.Generator,
    between: Between = squared_distances,
) -> Tensor:
    """Centres (d, k) after at most `n_rounds` of swaps, each with 4 (2 + ln k) points that k-means++ draws.

    In a round the swap of a centre for one of its points that lowers the loss most is made, until none does (Lattanzi &
    Sohler 2019, who make one). A round without a swap is the last.
    """
    k, squared, centres = centres.shape[1], x.square().sum(0), centres.clone()
    n_draws = 4 * (2 + int(math.log(k)))
    # The distances of all centres (k, n): after a swap one row is new, and nothing else is computed again.
    table = between(x, squared, centres).numpy()
    everyone = np.arange(x.shape[1])
    nearest, near, runner_up, second = two_smallest(table)
    table[nearest, everyone] = near
    # Sums of losses run in double precision, whatever x is in.
    state = Neighbours(np.arange(k), nearest, near, runner_up, second, weight.to(torch.float64).numpy())
    for _ in range(n_rounds):
        draws = draw(weight * torch.from_numpy(state.near), n_draws, generator)
        block = between(x, squared, x[:, draws]).numpy()

        def two_nearest(chosen: np.ndarray, points: np.ndarray, block: np.ndarray = block) -> TwoNearest:
            part, place = table[:, points], int(chosen.argmax())
            part[place] = block[chosen[place] - k, points]
            return two_smallest(part)

        before = state
        # A centre has its number, and a point k and more: after a swap the one that came in is the largest.
        while (better := swapped(state, k + np.arange(n_draws), block, two_nearest)) is not None:
            place = int(better.medoids.argmax())
            number = int(better.medoids[place]) - k
            table[place], centres[:, place] = block[number], x[:, draws[number]]
            state = replace(better, medoids=np.arange(k))
        if state is before:
            break
    return centres


def draw(mass: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Numbers drawn in proportion to mass; where all of it is 0, each has the same chance."""
    cumulative = mass.to(torch.float64).cumsum(0)
    if not cumulative[-1] > 0:
        cumulative = torch.ones_like(cumulative).cumsum(0)
    uniform = torch.rand(n, generator=generator, dtype=torch.float64).to(mass.device)
    # right=True never lands on a mass of 0, except through rounding at the very end.
    return torch.searchsorted(cumulative, uniform * cumulative[-1], right=True).clamp(max=len(mass) - 1)


def draw_different(weight: np.ndarray, n: int, generator: torch.Generator) -> np.ndarray:
    """n different numbers, drawn in proportion to their weight."""
    drawn: np.ndarray = torch.multinomial(torch.from_numpy(weight), n, generator=generator).numpy()
    return drawn
