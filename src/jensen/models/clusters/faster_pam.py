"""FasterPAM: k-medoids by swaps, on a matrix of distances.

    loss = Σ_i w_i min_j d(i, m_j)
    Δ(m→j) = Σ_i w_i min(d_ij - near_i, 0) + Σ_{i in cluster m} w_i (clamp(d_ij, near_i, second_i) - near_i)
is the change of the loss when candidate j replaces medoid m; near_i and second_i are the distances to the nearest and
the second nearest medoid. All K changes of a candidate need one pass over its distances. The best swap among a few
candidates is made at once, until no swap lowers the loss. `build` is PAM's greedy start.
Kaufman & Rousseeuw (1990), chapter 2; Schubert & Rousseeuw (2021), algorithm 3; greedy with bounds Minoux (1978).

The matrix is read in blocks of rows; other memory is a few blocks and O(n) numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jensen.formulas.neighbours import Neighbours, TwoNearest, swapped, two_smallest
from jensen.runtime.interrupt import Interrupted
from jensen.runtime.progress import Bar

# Size of a block of candidates: 1 MB of distances fits the cache, and with few candidates swaps are made early.
BLOCK_NUMBERS, BLOCK_ROWS = 2**17, 64


@dataclass(frozen=True)
class Swapped:
    """The result of the swaps; n_iter counts rounds over the candidates."""

    medoids: np.ndarray
    loss: float
    n_iter: int
    n_swaps: int
    converged: bool
    interrupted: bool = False


def faster_pam(
    distances: np.ndarray, weight: np.ndarray, medoids: np.ndarray, *, max_iter: int, progress: str | None = None
) -> Swapped:
    """Swap medoids until no swap lowers the loss, or max_iter rounds are done.

    Args:
        distances: symmetric (n, n), float32 or float64.
        weight: (n,); a point of weight 0 does not count and never becomes a medoid.
        medoids: row numbers (K,) to start from, all different.
        max_iter: rounds over all candidates.
        progress: the name of the bar shown on a terminal.
    """
    candidates = np.flatnonzero(weight > 0)
    n_blocks = math.ceil(len(candidates) / block_rows(len(distances)))
    state = neighbours(distances, weight, medoids)
    n_swaps = n_done = n_quiet = 0
    interrupted = False
    bar = Bar(progress, max_iter, unit="round")
    try:
        while n_quiet < n_blocks and n_done < max_iter * n_blocks:
            # A block takes rows from the whole range, because the rows may be sorted.
            rows = candidates[n_done % n_blocks :: n_blocks]
            block = distances[rows]
            n_done, n_quiet = n_done + 1, n_quiet + 1
            bar.beat()
            while (better := best_swap(distances, state, rows, block)) is not None:
                state, n_swaps, n_quiet = better, n_swaps + 1, 1
            if n_done % n_blocks == 0:
                bar.update()
                bar.note(f"loss {state.loss:.6g}")
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    n_iter = math.ceil(n_done / n_blocks)
    found = Swapped(state.medoids, state.loss, n_iter, n_swaps, n_quiet >= n_blocks, interrupted)
    if interrupted:
        return Interrupted(f"interrupted after {n_swaps} swaps; the best medoids so far are kept", found).kept()
    return found


def best_swap(distances: np.ndarray, state: Neighbours, rows: np.ndarray, block: np.ndarray) -> Neighbours | None:
    """The neighbours after the swap that lowers the loss most; None if none lowers it."""

    def among_medoids(medoids: np.ndarray, points: np.ndarray) -> TwoNearest:
        return two_nearest(distances, medoids, points)

    return swapped(state, rows, block, among_medoids)


def neighbours(distances: np.ndarray, weight: np.ndarray, medoids: np.ndarray) -> Neighbours:
    """The two nearest medoids of every point."""
    return Neighbours(medoids, *two_nearest(distances, medoids, np.arange(len(distances))), weight)


def two_nearest(distances: np.ndarray, medoids: np.ndarray, points: np.ndarray) -> TwoNearest:
    """The two nearest medoids of some points, from a matrix of distances."""
    step = max(1, BLOCK_NUMBERS // len(medoids))
    parts = [points[i : i + step] for i in range(0, len(points), step)]
    found = [two_smallest(distances[medoids[:, None], part]) for part in parts] or [
        two_smallest(distances[medoids, :0])
    ]
    nearest, near, runner_up, second = (np.concatenate(column) for column in zip(*found, strict=True))
    return nearest, near, runner_up, second


def build(distances: np.ndarray, weight: np.ndarray, n_medoids: int) -> np.ndarray:
    """PAM's greedy start: the point with the least total distance, then repeatedly the point with the largest gain.

    A gain Σ_i w_i max(near_i - d_ij, 0) can only fall when medoids are added, so an old gain is an upper bound: if it
    is below a gain already found, it need not be computed again.
    """
    candidates = np.flatnonzero(weight > 0)
    total = np.full(len(distances), np.inf)
    for rows in blocks(candidates, len(distances)):
        total[rows] = distances[rows] @ weight
    medoids = [int(total.argmin())]
    near = distances[medoids[0]]
    gain = np.where(weight > 0, np.inf, -np.inf)
    for _ in range(n_medoids - 1):
        gain[medoids[-1]] = -np.inf
        most = 0.0
        for rows in blocks(np.argsort(-gain, kind="stable")[: len(candidates) - len(medoids)], len(distances)):
            if gain[rows[0]] < most:
                break
            gain[rows] = np.maximum(np.subtract(near, distances[rows], dtype=np.float64), 0) @ weight
            most = max(most, float(gain[rows].max()))
        medoids.append(int(gain.argmax()))
        near = np.minimum(near, distances[medoids[-1]])
    return np.array(medoids)


def block_rows(n_points: int) -> int:
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // n_points))


def blocks(rows: np.ndarray, n_points: int) -> Iterator[np.ndarray]:
    step = block_rows(n_points)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
