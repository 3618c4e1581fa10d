"""The network of a diffusion from its recipe, and what the data decide where the user has not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.contract.gradient import Lesson
from jensen.data.columns import Columns
from jensen.formulas.noising import QUOTIENTS
from jensen.formulas.schedule import LARGEST_BETA, Schedule, gentle_beta
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.space import Space
from jensen.nets.denoiser import Denoiser, build_denoiser
from jensen.nets.mlp import ResidualMLP
from jensen.nets.recipe import Recipe
from jensen.nets.unet import UNet
from jensen.runtime.messages import levels_inside

__all__ = ["NoisedView", "build_module", "class_facts", "decide", "marginal_start"]

# Of the waves of x_t that tell neighbouring levels apart, those with the shortest periods.
N_WAVES = 3
# Where x̂_0 is a quotient by less, a step without noise keeps its error, and so does a long one.
LEAST_SIGNAL = 0.1


class Arguments(Protocol):
    """What is read of a diffusion to build its network."""

    prediction: str
    objective: str
    variance: str
    network: Recipe | None
    classes_: np.ndarray

    def _schedule(self, largest_beta: float = ...) -> Schedule: ...


@dataclass(frozen=True)
class NoisedView:
    """Points (b, D) as a network takes them: in the shape of the rows, and of a grid with waves of every number.

    A wave sin(πf x) with the period of a few levels says where between two of them x_t lies, which is hard to read off
    x_t itself; Kingma et al. (2021), appendix C. Where rows may have holes, 1 stands for what is observed, and 0 for
    what is not.

    Args:
        shape: (D,), or (c, h, w).
        frequencies: of the waves.
        n_masks: numbers or channels that say what is observed: as many as a table has columns or an image channels,
            and 0 where rows have no holes.
    """

    shape: tuple[int, ...]
    frequencies: tuple[float, ...]
    n_masks: int = 0

    @property
    def in_shape(self) -> tuple[int, ...]:
        return (self.shape[0] * (1 + 2 * len(self.frequencies)) + self.n_masks, *self.shape[1:])

    def __call__(self, xt: Tensor, observed: Tensor | None = None) -> Tensor:
        x = xt.reshape(-1, *self.shape)
        angles = [math.pi * f * x for f in self.frequencies]
        parts = [x, *(torch.sin(a) for a in angles), *(torch.cos(a) for a in angles)]
        if observed is not None:
            parts.append(observed.to(x).reshape(-1, self.n_masks, *self.shape[1:]))
        return torch.cat(parts, 1) if len(parts) > 1 else x


def waves_of(n_levels: int) -> tuple[float, ...]:
    """Powers of two up to a period of two levels; none where there are just two."""
    highest = int(math.log2(n_levels - 1)) - 1 if n_levels > 2 else -1
    return tuple(2.0**k for k in range(max(0, highest - N_WAVES + 1), highest + 1))


def decide(model: Arguments, columns: Columns) -> dict[str, Any]:
    """What is left to the columns about the module."""
    prediction = model.prediction
    if prediction == "auto":
        prediction = "levels" if columns.is_grid else "velocity"
    if prediction == "levels" and "continuous" in columns.kinds:
        raise ValueError(
            "prediction='levels' needs data on a grid, and X holds numbers between its levels; round X, give "
            "data_levels, or choose prediction='velocity'"
        )
    has_numbers = "continuous" in columns.kinds or (columns.is_grid and prediction != "levels")
    variance, level_variance = model.variance, "own" if model.variance in ("auto", "learned") else model.variance
    if variance == "auto":
        variance = "posterior" if columns.is_grid else "beta"
    if variance == "learned" and not has_numbers:
        raise ValueError(
            "variance='learned' needs columns of numbers, and every column of X has levels, whose variance follows "
            "from their probabilities; choose variance='auto', or for data on a grid prediction='velocity', which "
            "treats levels as numbers"
        )
    if variance == "learned" and model.objective == "simple":
        raise ValueError(
            "variance='learned' has no part in objective='simple', and would stay as it was; choose "
            "objective='hybrid' or 'variational'"
        )
    largest_beta, least_signal = LARGEST_BETA, 0.0
    if has_numbers and prediction in QUOTIENTS:
        least_signal = LEAST_SIGNAL
        given = model._schedule()
        largest_beta = gentle_beta(given.n_levels)
        if model._schedule(largest_beta).beta.max() > largest_beta:
            warnings.warn(
                f"schedule has β up to {given.beta.max():.3g}, where prediction={prediction!r} multiplies the errors "
                "of the network, so samples may lie far from the data; choose prediction='velocity', or "
                "schedule='cosine', whose last β are then smaller",
                UserWarning,
                stacklevel=levels_inside(),
            )
    return {
        "prediction": prediction,
        "variance": variance,
        "level_variance": level_variance,
        "largest_beta": largest_beta,
        "least_signal": least_signal,
    }


def marginal_start(lesson: Lesson, facts: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The logits of levels that a network begins with, and the limit of x̂_0, from the rows with these numbers."""
    space = Space(lesson.events.columns, facts["prediction"], facts["variance"], facts["level_variance"])
    x = lesson.some_rows(rows)
    return {"start": space.marginal_start(x), "clip": space.largest_number(x) if facts["least_signal"] else None}


def class_facts(model: Arguments, lesson: Lesson) -> dict[str, Any]:
    """How many classes there are, and how frequent."""
    label = lesson.extra[0] if lesson.extra else None
    if label is None:
        return {"n_classes": 0}
    known = label >= 0
    weight = torch.ones(len(label)).double() if lesson.weight is None else lesson.weight.double()
    # One row more for every class: none is impossible.
    counts = torch.bincount(label[known], weight[known], minlength=len(model.classes_)) + 1
    return {"n_classes": len(counts), "prior": (counts / counts.sum()).tolist()}


def build_module(
    model: Arguments, columns: Columns, shape: Sequence[int], schedule: Schedule, facts: dict[str, Any]
) -> DiffusionModule:
    """A new network for rows of this shape, (d,) or (c, h, w)."""
    space = Space(
        columns,
        facts["prediction"],
        facts["variance"],
        facts["level_variance"],
        facts["start"],
        is_trained_by_levels=model.objective == "simple",
        least_signal=facts.get("least_signal", 0.0),
        clip=facts.get("clip"),
    )
    is_image = len(shape) == 3
    point = tuple(shape) if is_image else (space.n_dims,)
    # Networks from elsewhere know nothing of holes.
    has_holes = facts.get("has_holes", False)
    view = NoisedView(
        point,
        waves_of(space.grid_levels) if facts["prediction"] == "levels" else (),
        has_holes * (point[0] if is_image else len(columns.names)),
    )
    out_shape = (space.n_outputs // math.prod(point[1:]), *point[1:]) if is_image else (space.n_outputs,)
    recipe = model.network or (UNet() if is_image else ResidualMLP())
    if isinstance(recipe, Denoiser):
        recipe.check_fits(schedule, facts["prediction"])
    network = build_denoiser(recipe, view.in_shape, out_shape, facts["n_classes"])
    if not any(weight.requires_grad for weight in network.parameters()):
        space.clip = None  # a denoiser that is known makes no errors
    return DiffusionModule(
        view,
        network,
        space,
        schedule,
        n_classes=facts["n_classes"],
        is_uniform=model.objective != "variational",
        stops_mean=model.objective == "hybrid" and space.has_variance,
        has_holes=has_holes,
    )
