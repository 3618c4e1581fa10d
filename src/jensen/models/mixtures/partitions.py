"""The rows on which a mixture's start is found, and partitions of them.

Greedy k-means++ (Arthur & Vassilvitskii 2007) and a few steps of k-means, in the data's own units, standardised or
sphered; around the means of labelled classes; or among rows in dense places, with the others left to the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, some_rows
from jensen.engines.em.frame import Frame
from jensen.engines.em.seeding import LIMIT, check_distinct, kmeans_plus_plus, squared_distances
from jensen.engines.em.sources import Held, Source, source_of
from jensen.models.clusters.lloyd import lloyd
from jensen.models.mixtures.em import MixtureVerbs

# With noise some starts leave this share of the rows to it, those that are far from their neighbours among so many.
SPARSE_SHARE, NEIGHBOURHOOD = 0.25, 1000
# From this many features on a row tells components apart by itself, and distances along all axes are mostly noise.
WIDE = 64

AnyVerbs = MixtureVerbs[Any]


@dataclass(frozen=True)
class Sample:
    """The distinct rows that a start is found on, class by class and in an order of their content.

    Args:
        rows: feature-major rows (d, n) in the engine's units, NaN where missing.
        x: points for k-means, (D, n): standardised numbers, 0 (the mean) where missing, and a coordinate per level.
        weight: (n,).
        label: class numbers (n,), -1 where unknown, or None.
        log_noise: the log-density of the noise (n,) in the engine's units, or None.
        scale: (D,); times it, x is in the data's own units.
        source: the same rows for the engine.
        is_everything: whether these are all distinct rows.
    """

    rows: Tensor
    x: Tensor
    weight: Tensor
    label: Tensor | None
    log_noise: Tensor | None
    scale: Tensor
    source: Held
    is_everything: bool

    @classmethod
    def of(cls, source: Source, verbs: AnyVerbs, frame: Frame) -> Sample:
        """Rows of every class and of the unlabelled ones, each group with the weight it has in the data."""
        # 5 rows for every parameter, and at least 2000, are enough to compare starts.
        found = source.sample(min(LIMIT, max(2000, 5 * verbs.standard.n_parameters)), LIMIT)
        check_distinct("n_components", verbs.n_components, found.x.shape[1])
        points, scale = verbs.family.points(found.x, frame.scale)
        log_noise = None
        if verbs.noise is not None:
            log_noise = verbs.noise.log_density((found.x * frame.scale[:, None] + frame.origin[:, None]).mT)
            # The sample is in the frame's units, as its source is.
            log_noise += (~found.x.isnan()).to(frame.scale.dtype).mT @ frame.scale.log()
        own = own_source(verbs, found.x, found.weight, found.label, log_noise)
        return cls(found.x, points, found.weight, found.label, log_noise, scale, own, found.is_everything)

    def every(self, step: int, verbs: AnyVerbs) -> Sample:
        """Every so many of the rows: in an order of content, these are spread over all of them."""
        kept = slice(None, None, step)
        x = some_rows(self.rows.mT, kept).mT if is_sparse(self.rows) else self.rows[:, kept].contiguous()
        weight = self.weight[kept]
        weight = weight * (self.weight.sum() / weight.sum())
        label = None if self.label is None else self.label[::step]
        log_noise = None if self.log_noise is None else self.log_noise[::step]
        points = self.x[:, ::step].contiguous()
        own = own_source(verbs, x, weight, label, log_noise)
        return Sample(x, points, weight, label, log_noise, self.scale, own, False)


def own_source(
    verbs: AnyVerbs, x: Tensor, weight: Tensor, label: Tensor | None, log_noise: Tensor | None = None
) -> Held:
    """Feature-major rows (d, n) for the engine, in whose units they are."""
    standard = verbs.standard
    return source_of(
        x.mT,
        Frame.identity(len(x)),
        weight=weight,
        label=label,
        log_noise=log_noise,
        footprint=standard.footprint,
        by_pattern=standard.by_pattern,
        hold=standard.hold,
    )


def cluster_mean(sample: Sample, x: Tensor, members: Tensor) -> Tensor:
    """The mean (d,) of some rows, or of all where there are none."""
    weight = sample.weight * members if members.any() else sample.weight
    return x @ weight / weight.sum()


def random_centres(verbs: AnyVerbs, sample: Sample, generator: torch.Generator) -> Tensor:
    """K rows drawn at random (K, D)."""
    chosen = torch.multinomial(sample.weight.cpu(), verbs.n_components, generator=generator)
    return sample.x[:, chosen.to(sample.x.device)].T


def is_wide(verbs: AnyVerbs) -> bool:
    return verbs.n_features > WIDE


def scalings(verbs: AnyVerbs, sample: Sample, thorough: bool) -> Iterator[Tensor]:
    """Raw, standardised, and sphered by the principal axes of the data unless there are many.

    Where the first two are the same, only a thorough search looks twice.
    """
    yield raw(sample)
    if thorough or not (sample.scale == sample.scale[0]).all():
        yield sample.x
    if is_wide(verbs):
        return
    centred = sample.x - (sample.x @ sample.weight / sample.weight.sum())[:, None]
    values, vectors = torch.linalg.eigh((centred * sample.weight) @ centred.T / sample.weight.sum())
    # Directions without spread carry rounding only.
    kept = values > 1e-9 * values[-1]
    yield (vectors[:, kept] / values[kept].sqrt()).T @ centred


def raw(sample: Sample) -> Tensor:
    """The data's own units, up to one factor."""
    return sample.x * sample.scale[:, None]


def fingerprint(assignment: Tensor) -> bytes:
    """The same for two assignments that differ only in the clusters' numbers."""
    _, first, number = np.unique(assignment.cpu().numpy(), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number].tobytes()


def needs_seeds(verbs: AnyVerbs, sample: Sample) -> bool:
    return sample.label is None or int(sample.label.max()) + 1 < verbs.n_components


def assign(
    verbs: AnyVerbs, sample: Sample, generator: torch.Generator, x: Tensor, means: Tensor | None, n_steps: int
) -> Tensor:
    """A component for every row: around given means (K, d), or the labelled classes' and k-means++ seeds beyond."""
    if verbs.class_of is not None and means is None:
        return within_classes(verbs.class_of, sample, x, generator, n_steps)
    if means is None:
        centres = class_means(sample, x)
        n_seeds = verbs.n_components - centres.shape[1]
        if n_seeds:
            seeds = kmeans_plus_plus(x, sample.weight, n_seeds, generator, centres if centres.numel() else None)
            centres = torch.cat([centres, x[:, seeds]], 1)
    else:
        centres = means.T
    return partition(sample, x, centres, n_steps)


def assign_dense(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, x: Tensor) -> Tensor:
    """A component for every row in a dense place, and K, the number of the noise, for the others.

    Dense rows are those with the smallest distance to their m-th neighbour, after Byers & Raftery (1998), among some
    rows drawn at random. They are three quarters of all: EM then takes back what is not noise.
    """
    n = x.shape[1]
    some = torch.randperm(n, generator=generator)[:NEIGHBOURHOOD].to(x.device)
    m = min(len(some), max(5, len(some) // (20 * verbs.n_components)))
    others = x[:, some]
    # Parts of the rows, so that distances to all of them are never held at once.
    far = [squared_distances(part, part.square().sum(0), others).kthvalue(m, 0).values for part in x.split(4096, 1)]
    distance = torch.cat(far)
    dense = distance <= distance.quantile(1 - SPARSE_SHARE)
    rows = replace(sample, x=x[:, dense], weight=sample.weight[dense], label=None)
    assignment = torch.full((n,), verbs.n_components, device=x.device)
    if dense.sum() < verbs.n_components:
        return torch.zeros_like(assignment)
    seeds = kmeans_plus_plus(rows.x, rows.weight, verbs.n_components, generator)
    assignment[dense] = partition(rows, rows.x, rows.x[:, seeds], 10)
    return assignment


def within_classes(class_of: Tensor, sample: Sample, x: Tensor, generator: torch.Generator, n_steps: int) -> Tensor:
    """A component for every labelled row among those of its class; unlabelled rows get any."""
    assert sample.label is not None
    assignment = torch.zeros_like(sample.label)
    for number in class_of.unique().tolist():
        own, components = sample.label == number, (class_of == number).nonzero().squeeze(1)
        rows = replace(sample, x=x[:, own], weight=sample.weight[own], label=None)
        seeds = kmeans_plus_plus(rows.x, rows.weight, len(components), generator)
        assignment[own] = components[partition(rows, rows.x, rows.x[:, seeds], n_steps)]
    return assignment


def partition(sample: Sample, x: Tensor, centres: Tensor, n_steps: int) -> Tensor:
    """The cluster of every row of x (d, n) after at most n_steps k-means steps from centres (d, k)."""
    if n_steps == 0:
        return squared_distances(x, x.square().sum(0), centres).argmin(0)
    # The partition is a start only: single precision is enough, and products of wide rows take half the time in it.
    rows = x.T.cpu().numpy().astype(np.float32 if len(x) > WIDE else np.float64, order="C", copy=True)
    found = lloyd(rows, sample.weight.cpu().numpy(), centres.T.cpu().numpy(), max_iter=n_steps, tol=0.0)
    return torch.from_numpy(found.labels).to(x.device, torch.int64)


def class_means(sample: Sample, x: Tensor) -> Tensor:
    """Means of the labelled rows (d, classes)."""
    label = sample.label
    if label is None:
        return x[:, :0]
    return torch.stack([cluster_mean(sample, x, label == c) for c in range(int(label.max()) + 1)], 1)


def assignment_with_labels(verbs: AnyVerbs, sample: Sample, assignment: Tensor) -> tuple[Tensor, Tensor]:
    """The component of every row, labelled rows to their class's, and the weight it starts with."""
    if sample.label is None:
        return assignment, sample.weight
    if verbs.class_of is not None:
        return assignment, torch.where(sample.label >= 0, sample.weight, 0.0)
    assignment = torch.where(sample.label >= 0, sample.label, assignment)
    if needs_seeds(verbs, sample):
        return assignment, sample.weight
    # Every component is a class: start from the labelled rows alone.
    return assignment, torch.where(sample.label >= 0, sample.weight, 0.0)
