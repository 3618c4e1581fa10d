"""Where a mixture starts.

The start decides which local maximum EM reaches, and no single scaling of the features wins everywhere. So a small
portfolio is tried: greedy k-means++ in the data's own units, standardised and sphered, each a few EM steps on some
thousand distinct rows; EM continues from the most plausible. Labelled classes start from their own M-step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.seeding import LIMIT, check_distinct, kmeans_plus_plus, squared_distances
from jensen.engines.em.sources import Held, Source, source_of
from jensen.engines.em.tournament import rounded, tournament
from jensen.models.clusters.lloyd import lloyd
from jensen.models.mixtures.components import view_of
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs

# By whether the search is thorough.
DRAWS_PER_SCALING = {True: 4, False: 2}
# EM steps of a round, and how many candidates are left after it: some climb slowly and overtake.
ROUNDS = ((5, 4), (20, 1))
# Among levels distances mean little, and likelihoods have many maxima: partitions around random rows are tried as well.
RANDOM_PARTITIONS, ROUNDS_OF_LEVELS = {True: 24, False: 6}, ((10, 8), (60, 1))
# So many where most columns are numbers.
FEW_RANDOM_PARTITIONS = 4
# With noise some starts leave this share of the rows to it, those that are far from their neighbours among so many.
SPARSE_SHARE, NEIGHBOURHOOD = 0.25, 1000


@dataclass(frozen=True)
class Sample:
    """The distinct rows that a start is found on.

    Args:
        x: points for k-means, (D, n): standardised numbers, 0 (the mean) where missing, and a coordinate per level.
        weight: (n,).
        label: class numbers (n,), -1 where unknown, or None.
        scale: (D,); times it, x is in the data's own units.
        source: the same rows for the engine.
        is_everything: whether these are all distinct rows.
    """

    x: Tensor
    weight: Tensor
    label: Tensor | None
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
        own = source_of(
            found.x.mT,
            Frame.identity(len(found.x)),
            weight=found.weight,
            label=found.label,
            log_noise=log_noise,
            footprint=verbs.standard.footprint,
            by_pattern=verbs.standard.by_pattern,
            hold=verbs.standard.hold,
        )
        return cls(points, found.weight, found.label, scale, own, found.is_everything)


AnyVerbs = MixtureVerbs[Any]
AnyTheta = MixtureTheta[Any]
Start = Callable[[AnyVerbs, Sample, torch.Generator, Tensor | None], AnyTheta]


def portfolio(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """The most plausible of several short runs."""
    if means is not None or not needs_seeds(verbs, sample):
        return from_assignment(verbs, sample, assign(verbs, sample, generator, sample.x, means, 0))
    # Steps over rows with missing values cost far more, and among many rows a draw of seeds is less of a gamble.
    thorough = sample.is_everything and sample.source.is_complete
    partitions: dict[bytes, tuple[Tensor, Tensor]] = {}
    for x in scalings(sample):
        for _ in range(DRAWS_PER_SCALING[thorough]):
            assignment = assign(verbs, sample, generator, x, None, 10)
            partitions.setdefault(fingerprint(assignment), (x, assignment))
    is_of_levels = verbs.family.share_of_levels > 0.5
    if verbs.family.share_of_levels:
        for _ in range(RANDOM_PARTITIONS[thorough] if is_of_levels else FEW_RANDOM_PARTITIONS):
            assignment = assign(verbs, sample, generator, sample.x, random_centres(verbs, sample, generator), 0)
            partitions.setdefault(fingerprint(assignment), (sample.x, assignment))
    if verbs.noise is not None:
        for x in scalings(sample):
            assignment = assign_dense(verbs, sample, generator, x)
            partitions.setdefault(fingerprint(assignment), (x, assignment))
    tried = list(partitions.values())
    rounds = ROUNDS_OF_LEVELS if is_of_levels else ROUNDS
    starts = [from_assignment(verbs, sample, assignment) for _, assignment in tried]

    def run(theta: AnyTheta, n_steps: int) -> tuple[AnyTheta, float]:
        fitted = em.short_run(verbs, theta, sample.source, n_steps)
        return fitted.theta, rank(verbs, fitted)

    number, theta = tournament(starts, rounds if thorough else rounds[:1], run)
    x, assignment = tried[number]
    if sample.is_everything or verbs.class_of is not None or verbs.noise is not None:
        return theta
    # More steps would fit these few rows, not all of them: what is worth refining here is the partition.
    centres = torch.stack([cluster_mean(sample, x, assignment == k) for k in range(verbs.n_components)], 1)
    return from_assignment(verbs, sample, partition(sample, x, centres, 100))


def cluster_mean(sample: Sample, x: Tensor, members: Tensor) -> Tensor:
    """The mean (d,) of some rows, or of all where there are none."""
    weight = sample.weight * members if members.any() else sample.weight
    return x @ weight / weight.sum()


def rank(verbs: AnyVerbs, run: em.Fit[AnyTheta, Any]) -> float:
    """Small is good. Rounded, so that runs to one maximum tie and the first stays first, whatever the order of rows."""
    return rounded(-verbs.plausibility(run.theta, run.objective * run.weight, run.weight))


def kmeans(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """k-means in the data's own units, scikit-learn's default."""
    given = None if means is None else means * sample.scale
    return from_assignment(verbs, sample, assign(verbs, sample, generator, raw(sample), given, 300))


def plus_plus(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """Every row to the nearest k-means++ seed."""
    given = None if means is None else means * sample.scale
    return from_assignment(verbs, sample, assign(verbs, sample, generator, raw(sample), given, 0))


def random_from_data(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """Every row to the nearest of K rows drawn at random."""
    if means is None:
        means = random_centres(verbs, sample, generator)
    return from_assignment(verbs, sample, assign(verbs, sample, generator, sample.x, means, 0))


def random_centres(verbs: AnyVerbs, sample: Sample, generator: torch.Generator) -> Tensor:
    """K rows drawn at random (K, D)."""
    chosen = torch.multinomial(sample.weight.cpu(), verbs.n_components, generator=generator)
    return sample.x[:, chosen.to(sample.x.device)].T


def random(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """Responsibilities drawn at random, as scikit-learn's "random"."""
    q = torch.rand(len(sample.weight), verbs.n_components, generator=generator, dtype=sample.x.dtype)
    return theta_from_responsibilities(verbs, sample, (q / q.sum(1, keepdim=True)).to(sample.x.device))


STARTS: dict[str, Start] = {
    "portfolio": portfolio,
    "kmeans": kmeans,
    "k-means++": plus_plus,
    "random": random,
    "random_from_data": random_from_data,
}


def scalings(sample: Sample) -> Iterator[Tensor]:
    """Raw, standardised, and sphered by the principal axes of the data."""
    yield raw(sample)
    yield sample.x
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
        rows = Sample(x[:, own], sample.weight[own], None, sample.scale, sample.source, sample.is_everything)
        seeds = kmeans_plus_plus(rows.x, rows.weight, len(components), generator)
        assignment[own] = components[partition(rows, rows.x, rows.x[:, seeds], n_steps)]
    return assignment


def partition(sample: Sample, x: Tensor, centres: Tensor, n_steps: int) -> Tensor:
    """The cluster of every row of x (d, n) after at most n_steps k-means steps from centres (d, k)."""
    if n_steps == 0:
        return squared_distances(x, x.square().sum(0), centres).argmin(0)
    rows = x.T.cpu().numpy().copy()
    found = lloyd(rows, sample.weight.cpu().numpy(), centres.T.cpu().numpy(), max_iter=n_steps, tol=0.0)
    return torch.from_numpy(found.labels).to(x.device, torch.int64)


def class_means(sample: Sample, x: Tensor) -> Tensor:
    """Means of the labelled rows (d, classes)."""
    label = sample.label
    if label is None:
        return x[:, :0]
    return torch.stack([cluster_mean(sample, x, label == c) for c in range(int(label.max()) + 1)], 1)


def from_assignment(verbs: AnyVerbs, sample: Sample, assignment: Tensor) -> AnyTheta:
    """The M-step of a partition; labelled rows belong to their class."""
    assignment, weight = assignment_with_labels(verbs, sample, assignment)
    one_hot = torch.nn.functional.one_hot(assignment, verbs.n_components + 1).to(sample.x.dtype)
    # What the start says is noise belongs to no component.
    one_hot, noise = one_hot[:, :-1], sample.weight @ one_hot[:, -1] / sample.weight.sum()
    return theta_from_responsibilities(verbs, sample, one_hot * (weight > 0)[:, None], float(noise))


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


def theta_from_responsibilities(
    verbs: AnyVerbs, sample: Sample, responsibilities: Tensor, noise_share: float = 0.0
) -> AnyTheta:
    """An M-step in which a cluster of few rows is drawn towards the average, so that it does not start singular."""
    padded = torch.cat([responsibilities * sample.weight[:, None], responsibilities.new_zeros(1, verbs.n_components)])
    # Missing entries count as those of a standard component, the mean and spread of standardised data.
    seed = verbs.standard
    moments = reduce(add, (seed.moments(padded[b.rows].movedim(-1, -2), view_of(seed, b)) for b in sample.source))
    return verbs.first(moments, float((verbs.n_features + 1) * sample.weight.mean()), noise_share)
