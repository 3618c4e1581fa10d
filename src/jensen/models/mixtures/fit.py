"""From a mixture's arguments and rows to the problem EM solves, whatever its components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch

from jensen.contract import Problem, Rows
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.seeding import check_distinct
from jensen.engines.em.sources import Source
from jensen.models.mixtures.components import C, Family, SmoothFamily
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs, SmoothMixtureVerbs
from jensen.models.mixtures.noise import Noise
from jensen.models.mixtures.partitions import Sample
from jensen.models.mixtures.start import STARTS
from jensen.runtime.threads import threads_for


class Arguments(Protocol):
    """What a mixture needs of its model's constructor."""

    n_components: int | None
    label_weight: float
    tol: float


# Draws a first theta: of the verbs, the training rows, the same rows for the engine, the frame and a generator.
Begin = Callable[[MixtureVerbs[C], Rows, Source, Frame, torch.Generator], MixtureTheta[C]]


def n_components_of(model: Arguments, rows: Rows, start: MixtureTheta[Any] | None) -> int:
    """K: that of the start, the one asked for, or the number of classes; refused where the rows cannot have it."""
    # A classifier has no such argument: its components are its classes.
    asked = getattr(model, "n_components", None)
    k = start.n_components if start is not None else asked or max(1, len(rows.classes))
    if len(rows.classes) > k:
        raise ValueError(
            f"y has {len(rows.classes)} classes, but n_components={k}; raise n_components to at least "
            f"{len(rows.classes)}, or pass y=None to ignore labels"
        )
    if start is None:
        check_distinct("n_components", k, len(rows.x))
    d = rows.x.shape[1]
    if start is not None and start.components.n_features != d:
        raise ValueError(f"warm_start: the last fit had {start.components.n_features} features, X has {d}")
    return k


def mixture_problem(
    model: Arguments,
    family: Family[C],
    k: int,
    rows: Rows,
    begin: Begin[C],
    *,
    start: MixtureTheta[C] | None = None,
    frame: Frame | None = None,
    concentration: float | None = None,
    weights: torch.Tensor | None = None,
    class_of: torch.Tensor | None = None,
    noise: Noise | None = None,
    algorithm: em.Algorithm[Any, Any] = em.plain,
) -> tuple[Problem, Frame]:
    """The problem in the frame's units.

    Args:
        model: for its arguments.
        family: of the components.
        k: their number.
        rows: training rows.
        begin: draws a first theta where `start` is None.
        start: parameters to start from, in the user's units.
        frame: the engine's coordinates; None takes them from the rows.
        concentration: of a Dirichlet prior on the weights, or None.
        weights: known weights that are kept, or None.
        class_of: the class of every component (K,) where a class may have several.
        noise: for rows that fit nowhere, or None.
        algorithm: how EM steps.
    """
    d = rows.x.shape[1]
    rows = rows.with_label_weight(model.label_weight)
    if frame is None:
        frame = family.frame(rows.extent)
    standard = family.standard(k, d)
    source = rows.source(
        frame,
        log_noise=None if noise is None else noise.log_density,
        footprint=standard.footprint,
        by_pattern=standard.by_pattern,
        # A start may have seen other values than these rows have, and its components are to read what is held.
        hold=(standard if start is None else start.components).hold,
    )
    verbs = verbs_of(family.prepared(k, frame, source), k, d, concentration, weights, class_of, noise)

    def first(generator: torch.Generator) -> MixtureTheta[C]:
        if start is not None:
            adopted = replace(start, components=family.adopted(start.components))
            return verbs.project(adopted.with_noise(noise).within(frame))
        return verbs.project(begin(verbs, rows, source, frame, generator))

    return Problem(verbs, source, first, verbs.plausibility, em.small_gain(model.tol), algorithm), frame


def verbs_of(
    family: Family[C],
    k: int,
    d: int,
    concentration: float | None,
    weights: torch.Tensor | None,
    class_of: torch.Tensor | None,
    noise: Noise | None,
) -> MixtureVerbs[C]:
    if isinstance(family, SmoothFamily):
        return SmoothMixtureVerbs(family, k, d, concentration, weights, class_of, noise)
    return MixtureVerbs(family, k, d, concentration, weights, class_of, noise)


def start_by(name: str, centres: torch.Tensor | None = None) -> Begin[Any]:
    """A first theta by one of STARTS, around centres (K, d) in the frame's units if they are given."""

    def begin(
        verbs: MixtureVerbs[Any], rows: Rows, source: Source, frame: Frame, generator: torch.Generator
    ) -> MixtureTheta[Any]:
        if verbs.standard.n_parameters == 0:
            return verbs.equal()  # components of constants have nothing to differ in
        k = verbs.n_components
        is_labelled = rows.label is not None and len(rows.classes) == k and bool((rows.label >= 0).all())
        if is_labelled or (k == 1 and verbs.noise is None):
            return verbs.of_classes(source)
        sample = Sample.of(source, verbs, frame)
        with threads_for(sample.source.n_numbers):
            return STARTS[name](replace(verbs, family=verbs.family.gentle()), sample, generator, centres)

    return begin
