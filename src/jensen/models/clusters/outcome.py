"""The result of a k-means fit in the user's units, and the statistics from which batches continue."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from jensen.contract import Stream
from jensen.engines.em import loop as em
from jensen.models.clusters.centres import CentreMoments, Pull
from jensen.models.clusters.inference import Centres
from jensen.models.clusters.kmeans_em import KMeansVerbs
from jensen.models.clusters.metrics import METRICS, Metric


@dataclass(frozen=True)
class Outcome:
    """Theta, the cost of the customers and of the stores' supply, and the bound per unit of weight, None without it."""

    theta: Centres
    inertia: float
    supply_cost: float
    lower_bound: float | None


def outcome(
    centres: np.ndarray, weights: np.ndarray, inertia: float, supply: float, n_entries: float, metric: Metric
) -> Outcome:
    """From centres (K, d), their weights (K,), the two costs and the total weight of the observed entries."""
    if not math.isfinite(inertia):
        raise ValueError("X has values too large to square; rescale it")
    variance = metric.variance(inertia, n_entries or 1.0, centres, weights)
    theta = Centres(torch.from_numpy(centres), variance, torch.from_numpy(weights))
    if metric.no_density:
        return Outcome(theta, inertia, supply, None)
    log_density = float(metric.log_density(torch.tensor(inertia, dtype=torch.float64), n_entries, variance))
    return Outcome(theta, inertia, supply, log_density / float(weights.sum()) - math.log(len(centres)))


def outcome_of_stream(stream: Stream, pull: Pull | None) -> Outcome:
    """From the engine's centres and statistics, which are in the units of the stream's frame."""
    frame, centres, unit = stream.frame, stream.theta, float(stream.frame.scale[0]) ** 2
    moments: CentreMoments = stream.running.stats * stream.running.weight
    own = centres * frame.scale + frame.origin
    return outcome(
        own.numpy(),
        moments.weight.numpy(),
        float(moments.loss(centres)) * unit,
        0.0 if pull is None else float(moments.weight @ pull.supply(own)),
        float(moments.mass.sum()),
        METRICS["euclidean"],
    )


def merged(new: Stream, old: Stream, pull: Pull | None) -> tuple[Stream, float, float]:
    """The stream after a merge, the bound before it, and the squared movement of the centres in the frame's units."""
    # No site has the row that an empty cluster's centre should move to.
    is_empty = new.running.stats.weight == 0
    centres = torch.where(is_empty[:, None], old.theta, new.theta)
    before = outcome_of_stream(replace(new, theta=old.theta), pull).lower_bound
    assert before is not None
    return replace(new, theta=centres), before, float((centres - old.theta).square().sum())


def resumed(theta: Centres, pull: Pull | None) -> Stream:
    """A stream from parameters alone, after a load or the compiled loop: as if all training rows were complete."""
    frame = theta.frame()
    local, own = theta.within(frame), None if pull is None else pull.within(frame.origin, frame.scale)
    total = float(theta.weights.sum())
    running = em.Running(expected_moments(local, own) * (1 / total), total)
    return Stream(frame, KMeansVerbs(own, None), running, local.centres)


def expected_moments(theta: Centres, pull: Pull | None) -> CentreMoments:
    """The statistics that complete rows have if these are their optimal centres and variance."""
    means = theta.centres
    if pull is not None:
        means = means + pull.weight * (means - pull.location)
    k, d = means.shape
    within = d * theta.variance - (means - theta.centres).square().sum(1)
    second = theta.weights * (means.square().sum(1) + within.clamp(min=0))
    return CentreMoments(theta.weights, theta.weights[:, None].expand(k, d), theta.weights[:, None] * means, second)
