"""From the arguments of a mixture of subspaces and its rows to the problem EM solves, and where it starts.

A partition by k-means gives every component its rows; their leading principal axes, from products alone, and what these
leave for the noise are its start. No matrix of d×d is made.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.engines.em import loop as em
from jensen.engines.em.seeding import check_distinct
from jensen.engines.em.sources import ArraySource, Frame
from jensen.models.factors.fit import LEAST_LOADING, SubspaceTheta, variances
from jensen.models.factors.principal import leading_spectrum, principal_subspace
from jensen.models.factors.subspace import SubspaceFamily, SubspaceGaussians
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs
from jensen.models.mixtures.fit import check_classes, distinct_sample, with_label_weight
from jensen.models.mixtures.start import Sample, assign, assignment_with_labels, rank, raw
from jensen.runtime.threads import threads_for

__all__ = ["subspace_mixture_problem"]

# Partitions tried, EM steps for each, and k-means steps for a partition.
CANDIDATES, STEPS, KMEANS_STEPS = 4, 10, 30


def subspace_mixture_problem(
    model: Any, rows: Rows, family: SubspaceFamily, start: SubspaceTheta | None, frame: Frame | None
) -> tuple[Problem, Frame]:
    """The problem in the frame's units.

    Args:
        model: for its arguments.
        rows: training rows.
        family: the latent dimensions and the noise.
        start: parameters to start from, in the user's units; None finds them.
        frame: the engine's coordinates; None takes them from the rows.
    """
    n, d = rows.x.shape
    k = len(start.weights) if start is not None else model.n_components or max(1, len(rows.classes))
    check_classes(rows, k)
    check_distinct("n_components", k, n)
    if family.n_latent > d:
        raise ValueError(f"n_latent={family.n_latent} is more than the {d} features of X; lower it")
    rows = with_label_weight(rows, model.label_weight)
    x = rows.x.T.clone(memory_format=torch.contiguous_format)
    frame = frame or Frame.of(x, rows.weight, family.units)
    source = ArraySource(
        x, frame, weight=rows.weight, label=rows.label, footprint=family.footprint(k, d), by_pattern=False
    )
    prior, concentration = None, 1.0
    if model.prior is not None:
        prior = model.prior.resolve(family, k, frame, variances(source, d))
        concentration = model.prior.weight_concentration
    verbs = MixtureVerbs(family, k, d, model.reg_covar, prior, concentration, {})

    def begin(generator: torch.Generator) -> SubspaceTheta:
        if start is not None:
            return verbs.project(start.within(frame))
        sample = distinct_sample(rows, frame, verbs, by_pattern=False)
        with threads_for(sample.source.n_numbers):
            if model.init_params == "kmeans" or not sample.is_everything or k == 1:
                return start_from(verbs, sample, generator)
            return most_plausible(verbs, sample, generator)

    algorithm = em.squarem if model.acceleration == "squarem" else em.plain
    return Problem(verbs, source, begin, verbs.plausibility, em.small_gain(model.tol), algorithm), frame


def most_plausible(verbs: MixtureVerbs, sample: Sample, generator: torch.Generator) -> SubspaceTheta:
    """The best of short runs from several partitions."""
    candidates = [start_from(verbs, sample, generator) for _ in range(CANDIDATES)]
    runs = [em.short_run(verbs, theta, sample.source, STEPS) for theta in candidates]
    best: SubspaceTheta = min(runs, key=partial(rank, verbs)).theta
    return best


def start_from(verbs: MixtureVerbs, sample: Sample, generator: torch.Generator) -> SubspaceTheta:
    """Every component from the rows of its cluster or class."""
    assignment, counts = torch.zeros(sample.x.shape[1], dtype=torch.int64), sample.weight
    if verbs.n_components > 1:
        assignment = assign(verbs, sample, generator, raw(sample), None, KMEANS_STEPS)
        assignment, counts = assignment_with_labels(verbs, sample, assignment)
    weights, parts = [], []
    for k in range(verbs.n_components):
        weight = torch.where(assignment == k, counts, 0.0)
        chosen = weight > 0 if bool((weight > 0).any()) else torch.ones_like(weight, dtype=torch.bool)
        weights.append(float(weight.sum()))
        used = weight if weights[-1] else counts
        parts.append(subspace_of(sample.x[:, chosen], used[chosen], verbs.family, generator))
    mass = torch.tensor(weights, dtype=torch.float64)
    noise = torch.cat([part.noise for part in parts])
    # A cluster of few rows must not start out singular.
    pseudo = (verbs.family.n_latent + 1) * sample.weight.mean()
    average = (mass[:, None] * noise).sum(0) / mass.sum()
    noise = (mass[:, None] * noise + pseudo * average) / (mass[:, None] + pseudo)
    means, loadings = torch.cat([part.means for part in parts]), torch.cat([part.loadings for part in parts])
    share = (mass + pseudo) / (mass + pseudo).sum()
    return verbs.project(MixtureTheta(share, SubspaceGaussians(means, loadings, noise)))


def subspace_of(x: Tensor, weight: Tensor, family: SubspaceFamily, generator: torch.Generator) -> SubspaceGaussians:
    """One component from the leading axes of rows (d, n)."""
    mass = float(weight.sum())
    mean = x @ weight / mass
    centred = x - mean[:, None]
    spread = centred.square() @ weight / mass
    spectrum = leading_spectrum(
        lambda q: (centred * weight) @ (centred.mT @ q),
        mass,
        float(spread.sum()),
        family.n_latent,
        len(x),
        generator,
        n_power=3,
    )
    found = principal_subspace(mean, spectrum, family.n_latent, 1e-3, LEAST_LOADING)
    if family.is_isotropic:
        return found
    left = (spread - found.loadings[0].square().sum(1)).clamp(min=1e-3)
    return SubspaceGaussians(found.means, found.loadings, left[None])
