"""Starting values of a latent curve.

A straight start along the principal axes finds curves that are graphs over these axes. A spiral is not such a graph:
rows that are far apart along it are close in space. So other starts take z from geodesic distances, which are sums of
steps between neighbours (Isomap; Tenenbaum, de Silva & Langford 2000), for several sizes of neighbourhood. Every
candidate takes a few EM steps, and the fit continues from the best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import torch
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from torch import Tensor

from jensen.contract import Rows
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch
from jensen.engines.em.frame import Frame
from jensen.engines.em.seeding import distinct_rows, squared_distances
from jensen.engines.em.sources import ArraySource, Source
from jensen.engines.em.tournament import rounded, tournament
from jensen.models.clusters.centres import moments_of
from jensen.models.curves.em import CurveTheta, CurveVerbs
from jensen.models.curves.given import GivenCurve
from jensen.models.curves.mapping import LatentSpace

NEIGHBOURS = (5, 10, 20)
# Geodesic distances between n rows take n² numbers and n² ln n steps.
MANY_ROWS = 1000
STEPS = 20
# The noise variance of a start is at least this share of the data's variance.
SMALL = 1e-6


def straight(verbs: CurveVerbs, rows: Rows, frame: Frame, source: Source) -> CurveTheta:
    """The line or plane along the leading principal axes, with the data's variance along them.

    σ² is the next eigenvalue, or more if the grid is coarse: Bishop, Svensén & Williams (1998).
    """
    values, axes = principal_axes(source)
    space = verbs.space
    assert isinstance(space, LatentSpace)
    coefficients = torch.zeros(space.n_features, len(axes), dtype=torch.float64)
    # A uniform z in [0, 1] has variance 1/12.
    lengths = (12 * values[: space.n_latent]).sqrt()
    coefficients[1 : 1 + space.n_latent] = lengths[:, None] * axes[: space.n_latent]
    left = values[space.n_latent :]
    spacing = float(lengths.max()) / space.n_grid
    variance = max(float(left[0]) if len(left) else 0.0, (spacing / 2) ** 2, verbs.floor, SMALL)
    return CurveTheta(coefficients, variance, space)


def principal_axes(source: Source) -> tuple[Tensor, Tensor]:
    """Eigenvalues, largest first, and eigenvectors as rows, of the covariance over pairs of observed entries."""
    product = mass = torch.zeros(())
    for batch in source:
        seen = torch.ones_like(batch.x) if batch.observed is None else batch.observed.to(batch.x.dtype)
        weight = torch.ones_like(batch.x[0]) if batch.weight is None else batch.weight
        product = product + (weight * batch.x) @ batch.x.T
        mass = mass + (weight * seen) @ seen.T
    # With missing values, entries come from different rows, and an eigenvalue can be negative.
    values, vectors = torch.linalg.eigh(product / mass.clamp(min=torch.finfo(mass.dtype).tiny))
    axes = vectors.T.flip(0)
    # The sign of an axis is arbitrary: its largest entry is made positive.
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return values.flip(0).clamp(min=0), axes * largest.sign()


def around(points: Tensor, space: GivenCurve) -> CurveTheta:
    """A given curve, with σ² as if z did not depend on x; in the frame's units rows have mean 0 and variance 1."""
    theta = CurveTheta(points, 1.0, space)
    return CurveTheta(points, 1.0 + float(theta.points.square().mean()), space)


def best_of_all(verbs: CurveVerbs, rows: Rows, frame: Frame, source: Source) -> CurveTheta:
    """The straight start or a geodesic one, whichever is better after a few steps."""
    first = straight(verbs, rows, frame, source)
    sample = distinct_sample(verbs, rows, frame)
    return best(verbs, [first, *geodesics(verbs, first, sample)], sample)


def geodesic(verbs: CurveVerbs, rows: Rows, frame: Frame, source: Source) -> CurveTheta:
    """The best of the geodesic starts; the straight one if too few rows are complete."""
    first = straight(verbs, rows, frame, source)
    sample = distinct_sample(verbs, rows, frame)
    return best(verbs, geodesics(verbs, first, sample) or [first], sample)


STARTS = {"auto": best_of_all, "pca": straight, "geodesic": geodesic}


@dataclass(frozen=True)
class Sample:
    """Distinct rows (d, n) in the frame's units, NaN where missing, their weights, and both as a source."""

    x: Tensor
    weight: Tensor
    source: ArraySource


def distinct_sample(verbs: CurveVerbs, rows: Rows, frame: Frame) -> Sample:
    """All distinct rows, or a part of them if there are many."""
    weight = np.ones(len(rows.x)) if rows.weight is None else rows.weight.numpy()
    numbers, mass, _ = distinct_rows(rows.x.numpy(), weight, MANY_ROWS, MANY_ROWS)
    x = frame.standardise(rows.x[numbers].T.clone(memory_format=torch.contiguous_format))
    unit = Frame(torch.zeros_like(frame.origin), torch.ones_like(frame.scale))
    count = torch.from_numpy(mass)
    source = ArraySource(x.clone(), unit, weight=count, footprint=verbs.space.footprint(len(x)), by_pattern=False)
    return Sample(x, count, source)


def best(verbs: CurveVerbs, candidates: list[CurveTheta], sample: Sample) -> CurveTheta:
    """The candidate with the largest objective after a short run."""
    if len(candidates) == 1:
        return candidates[0]
    # A collapsing candidate must not end the search, even if the fit itself has no floor.
    gentle = replace(verbs, floor=max(verbs.floor, SMALL))

    def run(theta: CurveTheta, n_steps: int) -> tuple[CurveTheta, float]:
        found = em.short_run(gentle, gentle.project(theta), sample.source, n_steps)
        return found.theta, rounded(-found.objective)

    return tournament(candidates, [(STEPS, 1)], run)[1]


def geodesics(verbs: CurveVerbs, theta: CurveTheta, sample: Sample) -> list[CurveTheta]:
    """One M-step each, with every complete row assigned to the grid point of its geodesic coordinates."""
    complete = ~sample.x.isnan().any(0)
    x, weight = sample.x[:, complete], sample.weight[complete]
    n = len(weight)
    if n <= max(NEIGHBOURS):
        return []
    gentle = replace(verbs, floor=max(verbs.floor, SMALL))
    batch = Batch(x, torch.arange(n), weight, None, None, x.new_zeros(1))
    distance = squared_distances(x, x.square().sum(0), x).sqrt().numpy()
    tree = minimum_spanning_tree(distance).toarray()
    out = []
    for n_neighbours in NEIGHBOURS:
        z = geodesic_coordinates(distance, tree, weight.numpy(), n_neighbours, verbs.space.n_latent)
        one_hot = x.new_zeros(len(verbs.space.grid), n)
        one_hot[cell_of(z, verbs.space.n_grid), torch.arange(n)] = weight
        out.append(gentle.m_step(theta, moments_of(one_hot, batch)))
    return out


def geodesic_coordinates(
    distance: np.ndarray, tree: np.ndarray, mass: np.ndarray, n_neighbours: int, n_latent: int
) -> Tensor:
    """z (n, L) of rows from the distances (n, n) between them: classical scaling of shortest paths, then ranks.

    Paths use the edges to each row's nearest neighbours and those of the minimum spanning tree (n, n), which keeps the
    graph connected.
    """
    edges = np.zeros_like(distance)
    near = np.argpartition(distance, n_neighbours, axis=1)[:, : n_neighbours + 1]
    np.put_along_axis(edges, near, np.take_along_axis(distance, near, 1), 1)
    squared = shortest_path(np.maximum(edges, tree), method="D", directed=False) ** 2
    centred = squared - squared.mean(0)
    centred -= centred.mean(1, keepdims=True)
    n = len(centred)
    _, vectors = scipy.linalg.eigh(-centred / 2, subset_by_index=(n - n_latent, n - 1))
    return torch.from_numpy(np.stack([ranks(axis, mass) for axis in vectors.T[::-1]], 1))


def ranks(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Mid-ranks in (0, 1): z is uniform, like its prior. The axis is flipped if its largest entry is negative."""
    values = values * np.sign(values[np.abs(values).argmax()])
    order = np.argsort(values, kind="stable")
    out = np.empty_like(values)
    out[order] = (np.cumsum(mass[order]) - mass[order] / 2) / mass.sum()
    return out


def cell_of(z: Tensor, n_grid: int) -> Tensor:
    """The number of the grid point nearest to z (n, L)."""
    places = (z * n_grid).long().clamp(0, n_grid - 1)
    powers = [n_grid**axis for axis in reversed(range(z.shape[1]))]
    return (places * torch.tensor(powers)).sum(1)
