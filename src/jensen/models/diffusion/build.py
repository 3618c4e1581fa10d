"""From a diffusion's arguments and columns to its network, including the choices that "auto" leaves to the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from jensen.contract.image_sizes import CHANNELS
from jensen.contract.training import Facts, class_frequencies
from jensen.data.columns import Columns
from jensen.engines.sgd.streams import TrainingData
from jensen.formulas.noising import QUOTIENTS
from jensen.formulas.schedule import LARGEST_BETA, Schedule, gentle_beta
from jensen.models.diffusion.masks import Masks
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.space import MOST_OUTPUTS, Space
from jensen.nets.denoiser import Denoiser, build_denoiser
from jensen.nets.mlp import ResidualMLP
from jensen.nets.recipe import Recipe
from jensen.nets.unet import UNet
from jensen.runtime.messages import levels_inside

# Number of waves of x_t that distinguish neighbouring levels: those with the shortest periods.
N_WAVES = 3
# With more values per row, probabilities of many levels for each of them cost far more than the rest of the network.
MANY_VALUES = 4096
# Smallest √ᾱ_t that x̂_0 is divided by: below it, noiseless and long steps keep the error of x̂_0.
LEAST_SIGNAL = 0.1


class Arguments(Protocol):
    """The arguments of a diffusion that decide about its network."""

    prediction: str
    objective: str
    variance: str
    network: Recipe | None
    imputation: str

    def _schedule(self, largest_beta: float = ...) -> Schedule: ...


@dataclass(frozen=True)
class NoisedView:
    """Points (b, D) as the network's input: in the shape of the rows, with waves of every value for data on a grid.

    A wave sin(πf x) with a period of a few levels shows where between two levels x_t lies, which is hard to see from
    x_t itself; Kingma et al. (2021), appendix C. What lies beside the points, such as masks, is added as it is.

    Args:
        shape: (D,), or (c, h, w).
        frequencies: of the waves.
        n_beside: number of entries, or of channels of an image, beside those of the points.
    """

    shape: tuple[int, ...]
    frequencies: tuple[float, ...]
    n_beside: int = 0

    @property
    def in_shape(self) -> tuple[int, ...]:
        return (self.shape[0] * (1 + 2 * len(self.frequencies)) + self.n_beside, *self.shape[1:])

    def __call__(self, xt: Tensor, *beside: Tensor) -> Tensor:
        x = xt.reshape(-1, *self.shape)
        angles = [math.pi * f * x for f in self.frequencies]
        parts = [x, *(torch.sin(a) for a in angles), *(torch.cos(a) for a in angles)]
        parts += [part.to(x).unflatten(1, (-1, *self.shape[1:])) for part in beside]
        return torch.cat(parts, 1) if len(parts) > 1 else x


def waves_of(n_levels: int) -> tuple[float, ...]:
    """Frequencies: powers of two up to a period of two levels; none if there are only two levels."""
    highest = int(math.log2(n_levels - 1)) - 1 if n_levels > 2 else -1
    return tuple(2.0**k for k in range(max(0, highest - N_WAVES + 1), highest + 1))


@dataclass(frozen=True)
class DiffusionFacts(Facts):
    """What a fit derived from its columns and rows to build a diffusion.

    Defaults are for files of earlier versions, which lack these facts, and for networks from elsewhere.

    Args:
        prediction: what the network predicts.
        variance: σ_t² of numbers.
        level_variance: σ_t² of levels.
        largest_beta: the largest β of the cosine schedule.
        least_signal: the smallest √ᾱ_t at which a walk in few steps, or without noise, starts.
        n_classes: number of classes, 0 without labels.
        prior: the class frequencies (C,).
        has_missing: whether values may be missing.
        is_told: whether the network is told what is known of a row.
        start: the initial logits of levels (L, J).
        clip: the limit of x̂_0, or None.
        channels, patch: of the default network of images.
    """

    prediction: str
    variance: str
    level_variance: str
    largest_beta: float = LARGEST_BETA
    least_signal: float = 0.0
    n_classes: int = 0
    prior: list[float] | None = None
    has_missing: bool = False
    is_told: bool = False
    start: Tensor | None = None
    clip: float | None = None
    channels: list[int] = field(default_factory=lambda: list(CHANNELS))
    patch: int = 1


def decide(model: Arguments, columns: Columns) -> DiffusionFacts:
    """The facts that follow from the arguments and the columns."""
    prediction = model.prediction
    if prediction == "auto":
        is_small = columns.is_grid and (columns.n_levels[0] <= MOST_OUTPUTS or len(columns.names) <= MANY_VALUES)
        prediction = "levels" if is_small else "velocity"
    if prediction == "levels" and "number" in columns.kinds:
        raise ValueError(
            "prediction='levels' needs data on a grid, but X holds numbers between its levels; round X, give "
            "data_levels, or choose prediction='velocity'"
        )
    has_numbers = "number" in columns.kinds or (columns.is_grid and prediction != "levels")
    variance, level_variance = model.variance, "own" if model.variance in ("auto", "learned") else model.variance
    if variance == "auto":
        variance = "posterior" if columns.is_grid else "beta"
    if variance == "learned" and not has_numbers:
        raise ValueError(
            "variance='learned' needs columns of numbers, but every column of X has levels, whose variance follows "
            "from their probabilities; choose variance='auto', or for data on a grid prediction='velocity', which "
            "treats levels as numbers"
        )
    if variance == "learned" and model.objective == "simple":
        raise ValueError(
            "variance='learned' has no part in objective='simple' and would not be trained; choose "
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
    return DiffusionFacts(
        prediction, variance, level_variance, largest_beta, least_signal, is_told=model.imputation == "masks"
    )


def with_rows(facts: DiffusionFacts, data: TrainingData, rows: Any) -> DiffusionFacts:
    """The facts with the initial logits of levels and the limit of x̂_0, from the rows with these numbers."""
    space, x = Space(data.events.columns, facts.prediction, facts.variance, facts.level_variance), data.some_rows(rows)
    clip = space.largest_number(x) if facts.least_signal or (space.grid_levels and space.n_numbers) else None
    return replace(facts, start=space.marginal_start(x), clip=clip)


def with_classes(facts: DiffusionFacts, data: TrainingData, n_classes: int) -> DiffusionFacts:
    """The facts with the number of classes and their frequencies."""
    if not data.has_labels:
        return facts
    return replace(facts, n_classes=n_classes, prior=class_frequencies(data.class_counts(n_classes)))


def build_module(
    model: Arguments, columns: Columns, shape: Sequence[int], schedule: Schedule, facts: DiffusionFacts
) -> DiffusionModule:
    """A new network for rows of this shape, (d,) or (c, h, w)."""
    space = Space(
        columns,
        facts.prediction,
        facts.variance,
        facts.level_variance,
        facts.start,
        is_trained_by_levels=model.objective == "simple",
        least_signal=facts.least_signal,
        clip=facts.clip,
    )
    is_image = len(shape) == 3
    point = tuple(shape) if is_image else (space.n_dims,)
    # A mask has an entry per column, or a channel per channel of an image.
    n_mask = point[0] if is_image else len(columns.names)
    view = NoisedView(
        point,
        waves_of(space.grid_levels) if facts.prediction == "levels" else (),
        facts.has_missing * n_mask + facts.is_told * (point[0] + n_mask),
    )
    out_shape = (space.n_outputs // math.prod(point[1:]), *point[1:]) if is_image else (space.n_outputs,)
    recipe = model.network or (UNet(tuple(facts.channels), patch=facts.patch) if is_image else ResidualMLP())
    if isinstance(recipe, Denoiser):
        recipe.check_fits(schedule, facts.prediction)
    network = build_denoiser(recipe, view.in_shape, out_shape, facts.n_classes)
    if not any(weight.requires_grad for weight in network.parameters()):
        space.clip = None  # a known denoiser makes no errors
    return DiffusionModule(
        view,
        network,
        space,
        schedule,
        n_classes=facts.n_classes,
        is_uniform=model.objective != "variational",
        stops_mean=model.objective == "hybrid" and space.has_variance,
        has_missing=facts.has_missing,
        masks=Masks(tuple(shape)) if facts.is_told else None,
    )
