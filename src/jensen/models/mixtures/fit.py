"""From a mixture's arguments and rows to the problem EM solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.engines.em import loop as em
from jensen.engines.em.seeding import LIMIT, check_distinct, distinct_rows
from jensen.engines.em.sources import ArraySource, Frame
from jensen.models.mixtures.attributes import checked_matrices, checked_weights, shaped
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import GaussianTheta, MixtureVerbs
from jensen.models.mixtures.gaussians import STRUCTURES, FullGaussians, Gaussians
from jensen.models.mixtures.start import STARTS, Sample
from jensen.runtime.memory import need_memory
from jensen.runtime.threads import threads_for

__all__ = [
    "CONSTRAINTS",
    "check_classes",
    "distinct_sample",
    "mixture_problem",
    "with_label_weight",
]

PARAMETERS = ("weights", "means", "covariances")
# What each constructor argument may be, in scikit-learn's terms.
CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "covariance_type": [StrOptions(set(STRUCTURES))],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "reg_covar": [Interval(Real, 0.0, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "init_params": [StrOptions(set(STARTS))],
    "weights_init": ["array-like", None],
    "means_init": ["array-like", None],
    "precisions_init": ["array-like", None],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    "label_weight": [Interval(Real, 0.0, None, closed="neither")],
    "prior": [ConjugatePrior, None],
    "algorithm": [StrOptions({"em", "gradient"})],
    "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
    "acceleration": [StrOptions({"squarem"}), None],
    "freeze": [tuple, list],
}


def mixture_problem(
    model: Any, rows: Rows, start: GaussianTheta | None = None, frame: Frame | None = None
) -> tuple[Problem, Frame]:
    """The problem in the frame's units.

    Args:
        model: a `GaussianMixture`, for its arguments.
        rows: training rows.
        start: parameters to start from, in the user's units; None finds them.
        frame: the engine's coordinates; None takes them from the rows.
    """
    family = STRUCTURES[model.covariance_type]
    n, d = rows.x.shape
    k = len(start.weights) if start is not None else model.n_components or max(1, len(rows.classes))
    check_classes(rows, k)
    check_distinct("n_components", k, n)
    # Covariances, their factors and the statistics of a step are as large as each other.
    need_memory(
        3 * 8 * math.prod(family.covariance_shape(k, d)),
        f"covariance_type={model.covariance_type!r} with n_components={k} and {d} features",
        "choose covariance_type='diag', fewer features, or MixtureOfPPCA",
    )
    if start is not None and start.components.n_features != d:
        raise ValueError(f"warm_start: the last fit had {start.components.n_features} features, X has {d}")
    rows = with_label_weight(rows, model.label_weight)
    x = rows.x.T.clone(memory_format=torch.contiguous_format)
    frame = frame or Frame.of(x, rows.weight, family.units)
    source = ArraySource(x, frame, weight=rows.weight, label=rows.label, footprint=family.footprint(k, d))
    given = given_parameters(model, family, k, d, frame)
    prior, concentration = None, 1.0
    if model.prior is not None:
        prior = model.prior.resolve(family, k, frame, spread(source, d))
        concentration = model.prior.weight_concentration
    frozen = {name: given[name] for name in checked_freeze(model.freeze, given)}
    verbs = MixtureVerbs(family, k, d, model.reg_covar, prior, concentration, frozen)
    stop, algorithm = em.small_gain(model.tol), algorithm_of(model)

    def problem(begin: Callable[[torch.Generator], GaussianTheta]) -> Problem:
        return Problem(verbs, source, begin, verbs.plausibility, stop, algorithm)

    if start is not None:
        first = verbs.project(start.within(frame))
        return problem(lambda generator: first), frame

    def begin(generator: torch.Generator) -> GaussianTheta:
        if len(given) == len(PARAMETERS):
            theta = standard_theta(verbs)
        elif k == 1 or (rows.label is not None and len(rows.classes) == k and bool((rows.label >= 0).all())):
            # One M-step ends it from anywhere.
            theta = standard_theta(verbs)
        else:
            # No candidate may end the search by collapsing, even where the fit itself has no floor.
            gentle = replace(verbs, floor=max(verbs.floor, 1e-6))
            sample = distinct_sample(rows, frame, verbs)
            with threads_for(sample.source.n_numbers):
                theta = STARTS[model.init_params](gentle, sample, generator, given.get("means"))
        weights, means, covariances = (
            given.get(name, value)
            for name, value in zip(
                PARAMETERS, (theta.weights, theta.components.means, theta.components.covariances), strict=True
            )
        )
        return verbs.project(GaussianTheta(weights, family(means, covariances)))

    return problem(begin), frame


def algorithm_of(model: Any) -> em.Algorithm:
    if model.algorithm == "gradient":
        if model.acceleration is not None:
            raise ValueError(f"acceleration={model.acceleration!r} extrapolates EM's steps; use it with algorithm='em'")
        return em.gradient(model.learning_rate)
    return em.squarem if model.acceleration == "squarem" else em.plain


def check_classes(rows: Rows, k: int) -> None:
    if len(rows.classes) > k:
        raise ValueError(
            f"y has {len(rows.classes)} classes, but n_components={k}; raise n_components to at least "
            f"{len(rows.classes)}, or pass y=None to ignore labels"
        )


def with_label_weight(rows: Rows, label_weight: float) -> Rows:
    """Labelled rows count α times."""
    if rows.label is None or label_weight == 1:
        return rows
    weight = torch.ones(len(rows.x), dtype=rows.x.dtype) if rows.weight is None else rows.weight
    return replace(rows, weight=torch.where(rows.label >= 0, label_weight * weight, weight))


def distinct_sample(rows: Rows, frame: Frame, verbs: MixtureVerbs, by_pattern: bool = True) -> Sample:
    """Distinct rows of every class and of the unlabelled ones, each group with the weight it has in the data."""
    k, d = verbs.n_components, verbs.n_features
    # Enough rows to tell: 5 for every parameter, and no fewer than 2000.
    n_wanted = min(LIMIT, max(2000, 5 * verbs.family.n_parameters(k, d)))
    label = torch.full((len(rows.x),), -1, dtype=torch.int8) if rows.label is None else rows.label
    classes = [c for c in range(-1, len(rows.classes)) if (label == c).any()]
    numbers, counts, is_everything = [], [], True
    for c in classes:
        # Without labels there is one group, all rows, and no copy of them.
        group = slice(None) if rows.label is None else (label == c).nonzero().squeeze(1)
        x = rows.x[group].numpy()
        weight = np.ones(len(x)) if rows.weight is None else rows.weight[group].numpy()
        chosen, mass, is_whole = distinct_rows(x, weight, LIMIT // len(classes), n_wanted // len(classes))
        numbers.append(torch.arange(len(rows.x))[group][chosen])
        counts.append(torch.from_numpy(mass * (weight.sum() / mass.sum())))
        is_everything = is_everything and is_whole
    index, count = torch.cat(numbers), torch.cat(counts)
    check_distinct("n_components", k, len(index))
    standard = frame.standardise(rows.x[index].T.clone(memory_format=torch.contiguous_format))
    unit = Frame(torch.zeros_like(frame.origin), torch.ones_like(frame.scale))
    filled, known = standard.nan_to_num(nan=0.0), None if rows.label is None else label[index]
    footprint = verbs.family.footprint(k, d)
    source = ArraySource(standard, unit, weight=count, label=known, footprint=footprint, by_pattern=by_pattern)
    return Sample(filled, count, known, frame.scale, source, is_everything)


def standard_theta(verbs: MixtureVerbs) -> GaussianTheta:
    """K standard normals in the frame's units."""
    k, d = verbs.n_components, verbs.n_features
    eye = torch.eye(d, dtype=torch.float64).expand(k, d, d)
    components = verbs.family.from_full(torch.zeros(k, d, dtype=torch.float64), eye)
    return verbs.project(GaussianTheta(torch.full((k,), 1 / k, dtype=torch.float64), components))


def spread(source: ArraySource, d: int) -> Tensor:
    """The covariance of the rows in the frame's units, by one step of EM for a single Gaussian."""
    verbs = MixtureVerbs(FullGaussians, 1, d, 1e-6, None, 1.0, {})
    theta = standard_theta(verbs)
    summary = em.sweep(verbs, theta, (replace(batch, label=None) for batch in source))
    components: FullGaussians = verbs.m_step(theta, summary.stats).components
    return components.covariances[0]


def given_parameters(model: Any, family: type[Gaussians], k: int, d: int, frame: Frame) -> dict[str, Tensor]:
    """Starting values from the constructor, in the frame's units."""
    given: dict[str, Tensor] = {}
    if model.weights_init is not None:
        given["weights"] = checked_weights(shaped("weights_init", model.weights_init, (k,)), "weights_init")
    if model.means_init is not None:
        given["means"] = (shaped("means_init", model.means_init, (k, d)) - frame.origin) / frame.scale
    if model.precisions_init is not None:
        precisions = checked_matrices(family, model.precisions_init, k, d, "precisions_init")
        unscaled = family(torch.zeros(k, d, dtype=torch.float64), family.inverse(precisions))
        given["covariances"] = unscaled.affine(torch.zeros_like(frame.origin), 1 / frame.scale).covariances
    return given


def checked_freeze(freeze: Any, given: dict[str, Tensor]) -> list[str]:
    for name in freeze:
        if name not in PARAMETERS:
            raise ValueError(f"freeze names {name!r}; it can name {', '.join(PARAMETERS)}")
        if name not in given:
            argument = "precisions_init" if name == "covariances" else f"{name}_init"
            raise ValueError(f"freeze names {name!r}, but {argument} is None; give the values to keep")
    return list(freeze)
