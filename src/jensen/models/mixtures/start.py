"""Where a mixture starts.

The start decides which local maximum EM reaches, and no single scaling of the features wins everywhere. So a small
portfolio is tried: greedy k-means++ in the data's own units, standardised and sphered, each a few EM steps on some of
the distinct rows; EM continues from the most plausible. The start must not cost more than the fit, so the search is
thorough only among few numbers. Labelled classes start from their own M-step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

# A thorough search takes at least as long as steps over so many numbers, so beyond it is a part of the fit only.
FEW_NUMBERS = 10_000
# By whether the search is thorough.
DRAWS_PER_SCALING = {True: 4, False: 2}
# EM steps of a round, and how many candidates are left after it: some climb slowly and overtake.
ROUNDS = ((5, 4), (20, 1))
# Among levels distances mean little, and likelihoods have many maxima: partitions around random rows are tried as well.
RANDOM_PARTITIONS, ROUNDS_OF_LEVELS = {True: 24, False: 6}, ((10, 8), (60, 1))
# So many where most columns are numbers.
FEW_RANDOM_PARTITIONS = 4
# Partitions are compared on so many rows, or so many per component.
COMPARED, COMPARED_PER_COMPONENT = 2000, 100
# From this many features on a row tells components apart by itself: fewer rows and steps compare partitions as well,
# and distances along all principal axes are mostly noise.
WIDE, COMPARED_IF_WIDE, ROUNDS_IF_WIDE = 64, 1000, ((2, 1),)


@dataclass(frozen=True)
class Sample:
    """The distinct rows that a start is found on, class by class and in an order of their content.

    Args:
        rows: feature-major rows (d, n) in the engine's units, NaN where missing.
        x: points for k-means, (D, n): standardised numbers, 0 (the mean) where missing, and a coordinate per level.
        weight: (n,).
        label: class numbers (n,), -1 where unknown, or None.
        scale: (D,); times it, x is in the data's own units.
        source: the same rows for the engine.
        is_everything: whether these are all distinct rows.
    """

    rows: Tensor
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
        own = own_source(verbs, found.x, found.weight, found.label)
        return cls(found.x, points, found.weight, found.label, scale, own, found.is_everything)

    def every(self, step: int, verbs: AnyVerbs) -> Sample:
        """Every so many of the rows: in an order of content, these are spread over all of them."""
        x, weight = self.rows[:, ::step].contiguous(), self.weight[::step]
        weight = weight * (self.weight.sum() / weight.sum())
        label = None if self.label is None else self.label[::step]
        points = self.x[:, ::step].contiguous()
        return Sample(x, points, weight, label, self.scale, own_source(verbs, x, weight, label), False)


AnyVerbs = MixtureVerbs[Any]
AnyTheta = MixtureTheta[Any]


def own_source(verbs: AnyVerbs, x: Tensor, weight: Tensor, label: Tensor | None) -> Held:
    """Feature-major rows (d, n) for the engine, in whose units they are."""
    standard = verbs.standard
    return source_of(
        x.mT,
        Frame.identity(len(x)),
        weight=weight,
        label=label,
        footprint=standard.footprint,
        by_pattern=standard.by_pattern,
        hold=standard.hold,
    )


Start = Callable[[AnyVerbs, Sample, torch.Generator, Tensor | None], AnyTheta]


def portfolio(verbs: AnyVerbs, sample: Sample, generator: torch.Generator, means: Tensor | None) -> AnyTheta:
    """The most plausible of several short runs."""
    if means is not None or not needs_seeds(verbs, sample):
        return from_assignment(verbs, sample, assign(verbs, sample, generator, sample.x, means, 0))
    is_of_levels, is_of_numbers = verbs.family.share_of_levels > 0.5, verbs.family.share_of_levels == 0
    # Steps over rows with missing values cost far more, and among many rows a draw of seeds is less of a gamble.
    thorough, step = sample.is_everything and sample.source.is_complete, 1
    if is_of_numbers and sample.label is None and sample.rows.numel() > FEW_NUMBERS:
        thorough, step = False, max(1, len(sample.weight) // rows_to_compare(verbs))
    some = sample if step == 1 else sample.every(step, verbs)
    partitions: dict[bytes, tuple[Tensor, Tensor]] = {}
    for x in scalings(verbs, sample):
        for _ in range(DRAWS_PER_SCALING[thorough]):
            assignment = assign(verbs, some, generator, x[:, ::step].contiguous(), None, 10)
            partitions.setdefault(fingerprint(assignment), (x, assignment))
    if not is_of_numbers:
        for _ in range(RANDOM_PARTITIONS[thorough] if is_of_levels else FEW_RANDOM_PARTITIONS):
            assignment = assign(verbs, some, generator, some.x, random_centres(verbs, some, generator), 0)
            partitions.setdefault(fingerprint(assignment), (sample.x, assignment))
    tried = list(partitions.values())
    starts = [from_assignment(verbs, some, assignment) for _, assignment in tried]
    rounds = ROUNDS_OF_LEVELS if is_of_levels else ROUNDS
    if not thorough:
        rounds = ROUNDS_IF_WIDE if is_of_numbers and is_wide(verbs) else rounds[:1]

    def run(theta: AnyTheta, n_steps: int) -> tuple[AnyTheta, float]:
        fitted = em.short_run(verbs, theta, some.source, n_steps)
        return fitted.theta, rank(verbs, fitted)

    number, theta = tournament(starts, rounds, run)
    x, assignment = tried[number]
    if (sample.is_everything and (thorough or not is_of_numbers)) or verbs.class_of is not None:
        return theta
    # More steps would fit these few rows, not all of them: what is worth refining here is the partition.
    own = x[:, ::step]
    centres = torch.stack([cluster_mean(some, own, assignment == k) for k in range(verbs.n_components)], 1)
    if is_wide(verbs):
        # Rows of many features hardly change their component in EM, so all of them take part in this.
        return from_assignment(verbs, sample, partition(sample, x, centres, 100))
    return from_assignment(verbs, some, partition(some, own, centres, 100))


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


def is_wide(verbs: AnyVerbs) -> bool:
    return verbs.n_features > WIDE


def rows_to_compare(verbs: AnyVerbs) -> int:
    """How many rows tell good partitions from bad ones: 5 numbers for every parameter, as a row has d of them."""
    least = COMPARED_IF_WIDE if is_wide(verbs) else COMPARED
    per_parameter = 5 * verbs.standard.n_parameters // verbs.n_features
    return max(least, COMPARED_PER_COMPONENT * verbs.n_components, per_parameter)


def scalings(verbs: AnyVerbs, sample: Sample) -> Iterator[Tensor]:
    """Raw, standardised, and sphered by the principal axes of the data unless there are many."""
    yield raw(sample)
    if not (sample.scale == sample.scale[0]).all():
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


def within_classes(class_of: Tensor, sample: Sample, x: Tensor, generator: torch.Generator, n_steps: int) -> Tensor:
    """A component for every labelled row among those of its class; unlabelled rows get any."""
    assert sample.label is not None
    assignment = torch.zeros_like(sample.label)
    for number in class_of.unique().tolist():
        own, components = sample.label == number, (class_of == number).nonzero().squeeze(1)
        rows = Sample(
            sample.rows[:, own], x[:, own], sample.weight[own], None, sample.scale, sample.source, sample.is_everything
        )
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


def from_assignment(verbs: AnyVerbs, sample: Sample, assignment: Tensor) -> AnyTheta:
    """The M-step of a partition; labelled rows belong to their class."""
    assignment, weight = assignment_with_labels(verbs, sample, assignment)
    one_hot = torch.nn.functional.one_hot(assignment, verbs.n_components).to(sample.x.dtype)
    return theta_from_responsibilities(verbs, sample, one_hot * (weight > 0)[:, None])


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


def theta_from_responsibilities(verbs: AnyVerbs, sample: Sample, responsibilities: Tensor) -> AnyTheta:
    """An M-step in which a cluster of few rows is drawn towards the average, so that it does not start singular."""
    padded = torch.cat([responsibilities * sample.weight[:, None], responsibilities.new_zeros(1, verbs.n_components)])
    # Missing entries count as those of a standard component, the mean and spread of standardised data.
    seed = verbs.standard
    moments = reduce(add, (seed.moments(padded[b.rows].movedim(-1, -2), view_of(seed, b)) for b in sample.source))
    return verbs.first(moments, float((verbs.n_features + 1) * sample.weight.mean()))
