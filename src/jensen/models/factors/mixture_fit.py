"""From the arguments of a mixture of subspaces and its rows to the problem EM solves, and where it starts.

A partition by k-means gives every component its rows; their leading principal axes, from products alone, and what these
leave for the noise are its start. No matrix of d×d is made.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.engines.em.tournament import tournament
from jensen.models.factors.fit import LEAST_LOADING, SubspaceTheta, that_vary
from jensen.models.factors.principal import leading_spectrum, principal_subspace
from jensen.models.factors.subspace import SubspaceGaussians, SubspaceStructure
from jensen.models.mixtures.conjugate_prior import ConjugatePrior, prior_of_columns
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs
from jensen.models.mixtures.fit import Begin, mixture_problem, n_components_of
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.partitions import Sample, assign, assignment_with_labels, raw
from jensen.models.mixtures.start import rank
from jensen.runtime.threads import threads_for

# Partitions tried, EM steps for each, and k-means steps for a partition.
CANDIDATES, STEPS, KMEANS_STEPS = 4, 10, 30

Verbs = MixtureVerbs[SubspaceGaussians]


class Arguments(Protocol):
    """The constructor arguments of a mixture of subspaces."""

    n_components: int | None
    label_weight: float
    tol: float
    reg_covar: float
    init_params: str
    prior: ConjugatePrior | None
    acceleration: str | None


def subspace_mixture_problem(
    model: Arguments, structure: SubspaceStructure, rows: Rows, start: SubspaceTheta | None, frame: Frame | None
) -> tuple[Problem, Frame]:
    """The problem that EM solves, in the frame's units."""
    k, d = n_components_of(model, rows, start), rows.x.shape[1]
    if structure.n_latent > d > 0:
        raise ValueError(
            f"n_latent={structure.n_latent} is more than the {d} features of X{that_vary(rows.kind)}; lower it"
        )
    return mixture_problem(
        model,
        GaussianFamily(structure, model.reg_covar, prior_of_columns(model.prior, rows.kind)),
        k,
        rows,
        subspace_start(structure, model.init_params),
        start=start,
        frame=frame,
        concentration=None if model.prior is None else model.prior.weight_concentration,
        algorithm=em.squarem if model.acceleration == "squarem" else em.plain,
    )


def subspace_start(structure: SubspaceStructure, name: str) -> Begin[SubspaceGaussians]:
    """The best of short runs from several partitions, or one partition where `name` is "kmeans" or rows are many."""

    def begin(verbs: Verbs, rows: Rows, source: Source, frame: Frame, generator: torch.Generator) -> SubspaceTheta:
        if verbs.standard.n_parameters == 0:
            return verbs.equal()  # constants
        sample = Sample.of(source, verbs, frame)
        with threads_for(sample.source.n_numbers):
            if name == "kmeans" or not sample.is_everything or verbs.n_components == 1:
                return start_from(verbs, structure, sample, generator)
            candidates = [start_from(verbs, structure, sample, generator) for _ in range(CANDIDATES)]

            def run(theta: SubspaceTheta, n_steps: int) -> tuple[SubspaceTheta, float]:
                fitted = em.short_run(verbs, theta, sample.source, n_steps)
                return fitted.theta, rank(verbs, fitted)

            return tournament(candidates, [(STEPS, 1)], run)[1]

    return begin


def start_from(verbs: Verbs, structure: SubspaceStructure, sample: Sample, generator: torch.Generator) -> SubspaceTheta:
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
        parts.append(subspace_of(sample.x[:, chosen], used[chosen], structure, generator))
    mass = torch.tensor(weights, dtype=torch.float64)
    found = SubspaceGaussians(*(torch.cat(tensors) for tensors in zip(*map(tensors_of, parts), strict=True)))
    # A cluster of few rows must not start out singular.
    pseudo = (structure.n_latent + 1) * sample.weight.mean()
    share = (mass + pseudo) / (mass + pseudo).sum()
    return verbs.project(MixtureTheta(share, found.drawn_together(mass, float(pseudo))))


def tensors_of(components: SubspaceGaussians) -> tuple[Tensor, Tensor, Tensor]:
    return components.means, components.loadings, components.noise


def subspace_of(
    x: Tensor, weight: Tensor, structure: SubspaceStructure, generator: torch.Generator
) -> SubspaceGaussians:
    """One component from the leading axes of rows (d, n)."""
    mass = float(weight.sum())
    mean = x @ weight / mass
    centred = x - mean[:, None]
    spread = centred.square() @ weight / mass
    spectrum = leading_spectrum(
        lambda q: (centred * weight) @ (centred.mT @ q),
        mass,
        float(spread.sum()),
        structure.n_latent,
        len(x),
        generator,
        n_power=3,
    )
    found = principal_subspace(mean, spectrum, structure.n_latent, 1e-3, LEAST_LOADING)
    if structure.is_isotropic:
        return found
    left = (spread - found.loadings[0].square().sum(1)).clamp(min=1e-3)
    return SubspaceGaussians(found.means, found.loadings, left[None])
