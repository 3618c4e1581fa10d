"""A diffusion of images as a pipeline of the library diffusers.

There x_0 is an image on [-1, 1], the network's time is the number 0..T-1 of the level, and the reverse steps have
σ_t² = β_t or β̃_t. Only models that match this exactly can be written. A class is a vector that is added to the
embedding of the time, so one class, or none, can be written into the bias of that embedding.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from jensen.data.columns import Columns
from jensen.data.labels import classes_to_draw
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.build import Arguments, DiffusionFacts
from jensen.models.diffusion.module import DiffusionModule
from jensen.nets.diffusers_unet import DiffusersUNet, check_halving, config_of, diffusers_library, their_name
from jensen.nets.recipe import Recipe
from jensen.nets.unet import UNet

# Our names, and those of diffusers.
PREDICTION_TYPES = {"noise": "epsilon", "data": "sample", "velocity": "v_prediction"}
VARIANCE_TYPES = {"posterior": "fixed_small", "beta": "fixed_large"}


class Exported(Arguments, Protocol):
    """The attributes of a diffusion that are written."""

    data_levels: str | int | None
    theta_: DiffusionModule
    classes_: np.ndarray
    _columns: Columns
    _facts: DiffusionFacts

    @property
    def schedule_(self) -> Schedule: ...

    @property
    def _image_shape(self) -> tuple[int, ...]: ...


def check_arguments(model: Exported) -> None:
    """Raise an error if the arguments of an unfitted model rule out that it can be written."""
    recipe = model.network or UNet()
    check_recipe(recipe)
    if isinstance(recipe, UNet):
        config_of(recipe)
    if model.data_levels is None:
        raise ValueError(
            "data_levels=None has no levels, but pipelines of diffusers have pixels from black to white; choose "
            "data_levels='auto' or 256"
        )
    check_imputation(model.imputation == "masks")
    # Only data on a grid can be written, and there "auto" is "levels".
    check_prediction("levels" if model.prediction == "auto" else model.prediction)
    if model.variance != "auto":
        check_variance(model.variance)
    check_times(model._schedule())


def write_pipeline(model: Exported, path: str | os.PathLike[str], y: Any = None) -> None:
    """Write a folder that `DDPMPipeline.from_pretrained` reads; of a model with classes, for one class or none."""
    check_images(model)
    check_chain(model)
    library = diffusers_library()
    recipe = model.network or UNet()
    config, weights = unet_of(model, recipe)
    known = getattr(model, "classes_", None)
    number = classes_to_draw(y, known, 1)
    if known is not None:
        weights = with_class(weights, len(known) if number is None else int(number[0]))
    unet = library.UNet2DModel(**config)
    unet.load_state_dict(weights)
    clip = recipe.clip if isinstance(recipe, DiffusersUNet) else None
    clip = model.theta_.space.clip if clip is None else clip
    scheduler = library.DDPMScheduler(
        num_train_timesteps=model.schedule_.n_levels,
        trained_betas=model.schedule_.beta.tolist(),
        variance_type=VARIANCE_TYPES[model._facts.variance],
        prediction_type=PREDICTION_TYPES[model._facts.prediction],
        clip_sample=clip is not None,
        clip_sample_range=1.0 if clip is None else clip,
    )
    library.DDPMPipeline(unet=unet.eval(), scheduler=scheduler).save_pretrained(path)


def check_images(model: Exported) -> None:
    shape = model._image_shape
    if len(shape) != 3:
        raise ValueError(
            f"pipelines of diffusers make images, but this model has rows of shape {shape}; use save(path)"
        )
    if shape[0] > 4:
        raise ValueError(f"pipelines of diffusers make images of 1 to 4 channels, not {shape[0]}; use save(path)")
    if not model._columns.is_grid:
        raise ValueError(
            "pipelines of diffusers have pixels from black to white, but this model was fitted on numbers that have no "
            "levels; fit on images that have levels, such as uint8 from 0 to 255"
        )
    if model._facts.has_missing:
        raise ValueError(
            "pipelines of diffusers need complete images, but this model was fitted on images with missing pixels, or "
            "on floating-point numbers from disk, which may have some; fit on complete images in memory, or on integers"
        )
    check_imputation(model._facts.is_told)


def check_imputation(is_told: bool) -> None:
    if is_told:
        raise ValueError(
            "imputation='masks' gives the network inputs beside the image, which pipelines of diffusers do not have; "
            "fit with imputation='repaint'"
        )


def check_chain(model: Exported) -> None:
    check_prediction(model._facts.prediction)
    check_variance(model._facts.variance)
    check_times(model.schedule_)


def check_prediction(prediction: str) -> None:
    if prediction not in PREDICTION_TYPES:
        raise ValueError(
            f"prediction={prediction!r} does not exist in diffusers; fit with {', '.join(map(repr, PREDICTION_TYPES))}"
        )


def check_variance(variance: str) -> None:
    if variance not in VARIANCE_TYPES:
        raise ValueError(
            f"variance={variance!r} is not the variance that diffusers learns; fit with 'beta' or 'posterior'"
        )


def check_times(schedule: Schedule) -> None:
    if not np.array_equal(schedule.time, np.arange(schedule.n_levels)):
        raise ValueError(
            f"the network has times up to {schedule.time[-1]:g} for the {schedule.n_levels} levels, but in diffusers "
            "they are the numbers of the levels from 0; fit with n_steps=1000, or with a "
            "Schedule(betas, times=range(len(betas)))"
        )


def unet_of(model: Exported, recipe: Recipe) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Configuration without classes and weights of the UNet2DModel that computes the same as the network."""
    shape, network = model._image_shape, model.theta_.network
    if isinstance(recipe, DiffusersUNet):
        unet: Any = network.unet
        config = {name: value for name, value in unet.config.items() if not name.startswith("_")}
        return {**config, "num_class_embeds": None}, own_weights(unet)
    check_recipe(recipe)
    assert isinstance(recipe, UNet)
    config = config_of(recipe)
    check_halving(shape, len(recipe.channels))
    size = shape[1] if shape[1] == shape[2] else list(shape[1:])
    weights = {their_name(name): weight for name, weight in own_weights(network).items()}
    return {**config, "sample_size": size, "in_channels": shape[0], "out_channels": shape[0]}, weights


def check_recipe(recipe: Recipe) -> None:
    if not isinstance(recipe, (UNet, DiffusersUNet)):
        raise ValueError(
            f"network={type(recipe).__name__}(...) has no counterpart in diffusers; fit with UNet(position_map=False)"
        )


def own_weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().cpu() for name, weight in network.state_dict().items()}


def with_class(weights: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """The weights of a UNet2DModel of one class, from those of a UNet2DModel with several."""
    kept = {name: weight for name, weight in weights.items() if name != "class_embedding.weight"}
    bias = "time_embedding.linear_2.bias"
    return {**kept, bias: weights[bias] + weights["class_embedding.weight"][number]}
