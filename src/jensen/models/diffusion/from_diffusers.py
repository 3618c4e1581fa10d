"""Models from the library diffusers: a network and a scheduler become a `Diffusion`, with its bound.

    x_0 = pixel / 127.5 - 1,   level t = timestep + 1,   σ_t² = β̃_t ("fixed_small") or β_t ("fixed_large")
`Diffusion.to_diffusers` writes them back.
"""

from __future__ import annotations

import inspect
import math
import os
from numbers import Integral
from typing import Any, cast

import numpy as np

from jensen.contract.files import restore
from jensen.data.infer import learn_columns
from jensen.data.levels import Grid
from jensen.data.scaled import with_grid
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion.build import DiffusionFacts
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.to_diffusers import PREDICTION_TYPES, VARIANCE_TYPES, with_class
from jensen.nets.diffusers_unet import DiffusersUNet, diffusers_library

GREY_LEVELS = 256


def from_diffusers(source: Any, scheduler: Any = None, y: int | None = None) -> Diffusion:
    """A fitted `Diffusion` of images (n, c, h, w), grey levels 0 to 255, from a pipeline of diffusers.

    It has all methods of a fitted model: `bound`, `bits_per_dimension`, `sample`, `save` and the rest. The last step of
    `sample` draws from p(x_0|x_1), where a pipeline uses the mean.

    Args:
        source: a `DDPMPipeline`, or another pipeline with a `UNet2DModel` and a scheduler that has betas; a
            `UNet2DModel`; or the folder or name of a pipeline, for `DDPMPipeline.from_pretrained`.
        scheduler: replaces that of the pipeline; for a UNet2DModel alone, None is `DDPMScheduler()`.
        y: for a network with classes, the number of the class to use.

    Example:
        >>> import diffusers, numpy as np
        >>> from jensen import from_diffusers
        >>> blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
        >>> size = {"sample_size": 8, "block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1}
        >>> pipeline = diffusers.DDPMPipeline(diffusers.UNet2DModel(**size, **blocks), diffusers.DDPMScheduler(50))
        >>> model = from_diffusers(pipeline)
        >>> model.bits_per_dimension(np.zeros((2, 3, 8, 8), np.uint8)).shape, model.sample(2)[0].shape
        ((2,), (2, 3, 8, 8))
    """
    library = diffusers_library()
    if isinstance(source, (str, os.PathLike)):
        try:
            source = library.DDPMPipeline.from_pretrained(os.fspath(source))
        except OSError as error:
            raise ValueError(
                f"source={os.fspath(source)!r} is not the folder of a pipeline, and cannot be downloaded by this name: "
                f"{str(error).partition(chr(10))[0]}"
            ) from error
    unet = getattr(source, "unet", source)
    if not isinstance(unet, library.UNet2DModel):
        raise ValueError(
            f"source is a {type(source).__name__} without a UNet2DModel; give a DDPMPipeline, a UNet2DModel or the "
            "folder of a pipeline"
        )
    others = set(getattr(source, "components", ())) - {"unet", "scheduler"}
    if others:
        raise ValueError(
            f"source is a {type(source).__name__} with {', '.join(sorted(others))}, so its network does not see "
            "pixels; give a pipeline of pixels, such as a DDPMPipeline"
        )
    if scheduler is None:
        scheduler = library.DDPMScheduler() if unet is source else source.scheduler
    schedule, prediction, variance, clip = read_scheduler(scheduler)
    shape, config, weights = read_unet(unet, y)
    model = Diffusion(
        schedule,
        prediction=prediction,
        variance=variance,
        network=DiffusersUNet(config, *(() if clip is None else (clip, schedule, prediction))),
        data_levels=GREY_LEVELS,
    )
    n_pixels = math.prod(shape)
    # A black image and a white one: no pixel has one value.
    ends = np.array([[0.0], [GREY_LEVELS - 1.0]]).repeat(n_pixels, axis=1)
    columns = with_grid(learn_columns(ends, "number"), Grid(0.0, 1.0, GREY_LEVELS))
    facts = DiffusionFacts(prediction, variance, level_variance=variance)
    fitted = {
        "attributes": {"n_features_in_": n_pixels, "n_iter_": 0, "lower_bound_": math.nan},
        "kind": {"container": "numpy", "dtype": "float32"},
        "theta": {
            "columns": columns.record(),
            "shape": shape,
            "facts": facts.record(),
            "history": [],
            "weights": {f"network.unet.{name}": weight for name, weight in weights.items()},
        },
    }
    return cast(Diffusion, restore(model, fitted))


def read_scheduler(scheduler: Any) -> tuple[Schedule, str, str, float | None]:
    """The noise schedule, the prediction, the variance of the steps, and the limit of x̂_0 or None."""
    betas, config = getattr(scheduler, "betas", None), getattr(scheduler, "config", {})
    if betas is None:
        raise ValueError(f"scheduler={type(scheduler).__name__} has no betas; give scheduler=DDPMScheduler(...)")
    change = "give scheduler=DDPMScheduler.from_config(scheduler.config, {}=...)"
    beta = betas.detach().cpu().double().numpy()
    if beta.max() >= 1:
        raise ValueError(
            "the scheduler's last β is 1 (rescale_betas_zero_snr=True), so that x_T is independent of x_0; the bound "
            "needs it below 1; " + change.format("rescale_betas_zero_snr")
        )
    if config.get("thresholding"):
        raise ValueError(f"thresholding=True of the scheduler is not supported; {change.format('thresholding')}")
    predictions = {theirs: ours for ours, theirs in PREDICTION_TYPES.items()}
    predicted = config.get("prediction_type") or "epsilon"
    if predicted not in predictions:
        raise ValueError(
            f"prediction_type={predicted!r} is none of {', '.join(predictions)}; {change.format('prediction_type')}"
        )
    variances = {theirs: ours for ours, theirs in VARIANCE_TYPES.items()}
    # Schedulers of noiseless samplers, such as DDIM's, have none; with full noise their variance is β̃.
    spread = config.get("variance_type") or "fixed_small"
    if spread.removesuffix("_log") not in variances:
        raise ValueError(
            f"variance_type={spread!r} is neither fixed_small nor fixed_large, with or without _log; "
            + change.format("variance_type")
        )
    clip = float(config.get("clip_sample_range") or 1.0) if config.get("clip_sample") else None
    schedule = Schedule(beta, np.arange(len(beta)))
    return schedule, predictions[predicted], variances[spread.removesuffix("_log")], clip


def read_unet(unet: Any, y: int | None) -> tuple[list[int], dict[str, Any], dict[str, Any]]:
    """The shape of images, the configuration and the weights."""
    known = set(inspect.signature(type(unet).__init__).parameters)
    config = {name: value for name, value in unet.config.items() if name in known}
    size, n_in, n_out, n_classes = (
        config[name] for name in ("sample_size", "in_channels", "out_channels", "num_class_embeds")
    )
    if size is None:
        raise ValueError(
            "sample_size=None leaves the size of images open; call unet.register_to_config(sample_size=32)"
        )
    if n_in != n_out:
        raise ValueError(
            f"out_channels={n_out} differs from in_channels={n_in}; give a UNet2DModel that predicts one image"
        )
    weights = {name: weight.detach().cpu().float() for name, weight in unet.state_dict().items()}
    if n_classes is not None:
        if not isinstance(y, Integral) or y not in range(n_classes):
            raise ValueError(
                f"y={y!r}, but the network has {n_classes} classes, and none of them is marked as no class; give the "
                f"number of one, from 0 to {n_classes - 1}"
            )
        weights, config = with_class(weights, int(y)), {**config, "num_class_embeds": None}
    elif y is not None:
        raise ValueError(f"y={y!r} asks for a class, but the network has none; leave y out")
    height, width = (size, size) if isinstance(size, int) else size
    return [n_in, height, width], config, weights
