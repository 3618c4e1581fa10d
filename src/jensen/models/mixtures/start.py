"""Where a mixture starts.

The start decides which local maximum EM reaches, and no single scaling of the features wins everywhere. So a small
portfolio is tried: greedy k-means++ in the data's own units, standardised and sphered, each a few EM steps on some of
the distinct rows; EM continues from the most plausible. The start must not cost more than the fit, so the search is
thorough only among few numbers. Labelled classes start from their own M-step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.tournament import rounded, tournament
from jensen.models.mixtures.components import view_of
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.partitions import (
    AnyVerbs,
    Sample,
    assign,
    assign_dense,
    assignment_with_labels,
    cluster_mean,
    fingerprint,
    is_wide,
    needs_seeds,
    partition,
    random_centres,
    raw,
    scalings,
)

# A thorough search takes at least as long as steps over so many numbers, so beyond it is a part of the fit only.
FEW_NUMBERS = 10_000
# By whether the search is thorough.
DRAWS_PER_SCALING = {True: 4, False: 2}
# EM steps of a round, and how many candidates are left after it: some climb slowly and overtake.
ROUNDS = ((5, 4), (20, 1))
# The same among many numbers, where the partition of the winner is refined: one step tells most of them apart.
ROUNDS_OF_MANY = ((1, 2), (3, 1))
# Among levels distances mean little, and likelihoods have many maxima: partitions around random rows are tried as well.
RANDOM_PARTITIONS, ROUNDS_OF_LEVELS = {True: 24, False: 6}, ((10, 8), (60, 1))
# So many where most columns are numbers.
FEW_RANDOM_PARTITIONS = 4
# Partitions are compared on so many rows, or so many per component.
COMPARED, COMPARED_PER_COMPONENT = 1000, 100
# Wide rows are compared after one short round.
ROUNDS_IF_WIDE = ((2, 1),)

AnyTheta = MixtureTheta[Any]
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
    for x in scalings(verbs, sample, thorough):
        for _ in range(DRAWS_PER_SCALING[thorough]):
            assignment = assign(verbs, some, generator, x[:, ::step].contiguous(), None, 10)
            partitions.setdefault(fingerprint(assignment), (x, assignment))
    if not is_of_numbers:
        for _ in range(RANDOM_PARTITIONS[thorough] if is_of_levels else FEW_RANDOM_PARTITIONS):
            assignment = assign(verbs, some, generator, some.x, random_centres(verbs, some, generator), 0)
            partitions.setdefault(fingerprint(assignment), (sample.x, assignment))
    if verbs.noise is not None:
        for x in scalings(verbs, sample, thorough):
            assignment = assign_dense(verbs, some, generator, x[:, ::step].contiguous())
            partitions.setdefault(fingerprint(assignment), (x, assignment))
    tried = list(partitions.values())
    starts = [from_assignment(verbs, some, assignment) for _, assignment in tried]
    rounds: tuple[tuple[int, int], ...] = ROUNDS_OF_LEVELS if is_of_levels else ROUNDS
    if not thorough:
        of_many = ROUNDS_IF_WIDE if is_wide(verbs) else ROUNDS_OF_MANY
        rounds = of_many if is_of_numbers else rounds[:1]

    def run(theta: AnyTheta, n_steps: int) -> tuple[AnyTheta, float]:
        fitted = em.short_run(verbs, theta, some.source, n_steps)
        return fitted.theta, rank(verbs, fitted)

    number, theta = tournament(starts, rounds, run)
    x, assignment = tried[number]
    is_settled = sample.is_everything and (thorough or not is_of_numbers)
    if is_settled or verbs.class_of is not None or verbs.noise is not None:
        return theta
    # More steps would fit these few rows, not all of them: what is worth refining here is the partition.
    own = x[:, ::step]
    centres = torch.stack([cluster_mean(some, own, assignment == k) for k in range(verbs.n_components)], 1)
    if is_wide(verbs):
        # Rows of many features hardly change their component in EM, so all of them take part in this.
        return from_assignment(verbs, sample, partition(sample, x, centres, 100))
    return from_assignment(verbs, some, partition(some, own, centres, 100))


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


def rows_to_compare(verbs: AnyVerbs) -> int:
    """How many rows tell good partitions from bad ones: 5 numbers for every parameter, as a row has d of them."""
    per_parameter = 5 * int(verbs.standard.n_parameters) // verbs.n_features
    return max(COMPARED, COMPARED_PER_COMPONENT * verbs.n_components, per_parameter)


def from_assignment(verbs: AnyVerbs, sample: Sample, assignment: Tensor) -> AnyTheta:
    """The M-step of a partition; labelled rows belong to their class."""
    assignment, weight = assignment_with_labels(verbs, sample, assignment)
    one_hot = torch.nn.functional.one_hot(assignment, verbs.n_components + 1).to(sample.x.dtype)
    # What the start says is noise belongs to no component.
    one_hot, noise = one_hot[:, :-1], sample.weight @ one_hot[:, -1] / sample.weight.sum()
    return theta_from_responsibilities(verbs, sample, one_hot * (weight > 0)[:, None], float(noise))


def theta_from_responsibilities(
    verbs: AnyVerbs, sample: Sample, responsibilities: Tensor, noise_share: float = 0.0
) -> AnyTheta:
    """An M-step in which a cluster of few rows is drawn towards the average, so that it does not start singular."""
    padded = torch.cat([responsibilities * sample.weight[:, None], responsibilities.new_zeros(1, verbs.n_components)])
    # Missing entries count as those of a standard component, the mean and spread of standardised data.
    seed = verbs.standard
    moments = reduce(add, (seed.moments(padded[b.rows].movedim(-1, -2), view_of(seed, b)) for b in sample.source))
    return verbs.first(moments, float((verbs.n_features + 1) * sample.weight.mean()), noise_share)
