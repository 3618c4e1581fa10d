"""What a fit of k-means leaves, in the user's units, and how a stream of batches goes on from there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Stream
from jensen.engines.em import loop as em
from jensen.models.clusters.centres import CentreMoments, Pull
from jensen.models.clusters.inference import Centres
from jensen.models.clusters.kmeans_em import KMeansVerbs

__all__ = ["Outcome", "outcome", "outcome_of_stream", "resumed"]

# Below this share of the data's variance, what rows leave around their centres is rounding.
RESOLUTION = 1e-10


@dataclass(frozen=True)
class Outcome:
    """Theta, what the customers and the supply of the stores cost, and the bound per unit of weight."""

    theta: Centres
    inertia: float
    supply_cost: float
    lower_bound: float


def outcome(centres: np.ndarray, weights: np.ndarray, inertia: float, supply: float, n_entries: float) -> Outcome:
    """From centres (K, d), the weight of each (K,), the two costs and the weight of all observed entries."""
    if not math.isfinite(inertia):
        raise ValueError("X has values too large to square; rescale it")
    total = weights.sum()
    between = float(weights @ np.square(centres - weights @ centres / total).sum(1))
    variance = max(inertia, RESOLUTION * (inertia + between)) / n_entries or 1.0
    log_density = -0.5 * (n_entries * math.log(2 * math.pi * variance) + inertia / variance)
    theta = Centres(torch.from_numpy(centres), variance, torch.from_numpy(weights))
    return Outcome(theta, inertia, supply, float(log_density / total) - math.log(len(centres)))


def outcome_of_stream(centres: Tensor, stream: Stream) -> Outcome:
    """From an engine's centres and statistics, which are in the units of its frame."""
    frame, unit = stream.frame, float(stream.frame.scale[0]) ** 2
    moments: CentreMoments = stream.running.stats * stream.running.weight
    assert isinstance(stream.verbs, KMeansVerbs)
    pull = stream.verbs.pull
    return outcome(
        (centres * frame.scale + frame.origin).numpy(),
        moments.weight.numpy(),
        float(moments.loss(centres)) * unit,
        0.0 if pull is None else float(moments.weight @ pull.supply(centres)) * unit,
        float(moments.mass.sum()),
    )


def resumed(theta: Centres, pull: Pull | None) -> Stream:
    """A stream from what a file or the compiled loop leaves: as if its rows had no holes."""
    frame = theta.frame()
    local, moved = theta.within(frame), None if pull is None else pull.within(frame.origin, frame.scale)
    total = float(theta.weights.sum())
    return Stream(frame, KMeansVerbs(moved, None), em.Running(moments_of(local, moved) * (1 / total), total))


def moments_of(theta: Centres, pull: Pull | None) -> CentreMoments:
    """The statistics that rows without holes must have left at these centres."""
    means = theta.centres
    if pull is not None:
        means = means + pull.weight * (means - pull.location)
    k, d = means.shape
    within = d * theta.variance - (means - theta.centres).square().sum(1)
    second = theta.weights * (means.square().sum(1) + within.clamp(min=0))
    return CentreMoments(theta.weights, theta.weights[:, None].expand(k, d), theta.weights[:, None] * means, second)
