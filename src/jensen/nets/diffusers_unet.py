"""The U-Net of the library diffusers as a denoiser, for models from there.

Samplers of diffusers may clip x̂_0 to ±c at every step (`clip_sample`). This changes the model, so the network here
returns the prediction that leads to the clipped x̂_0:
    ε = (x_t - √ᾱ_t x̂_0) / √(1-ᾱ_t),   v = (√ᾱ_t x_t - x̂_0) / √(1-ᾱ_t)
diffusers is imported only when a network is built, because the import takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from jensen.formulas.noising import Noising, data_of
from jensen.formulas.schedule import Schedule
from jensen.nets.conv import check_image
from jensen.nets.denoiser import Denoiser
from jensen.nets.unet import UNet, group_count


class DiffusersUNet(Denoiser):
    """A `diffusers.UNet2DModel`, built from its configuration.

    Args:
        config: arguments of UNet2DModel; image size, channels and classes are taken from the data.
        clip: limit ± of x̂_0, as in schedulers of diffusers with `clip_sample=True`; None for no limit. A limit needs
            the model's schedule, with times 0..T-1, and prediction.
        schedule: the noise schedule, for `clip`.
        prediction: "noise", "data" or "velocity", for `clip`.

    Example:
        >>> import torch
        >>> from jensen import DiffusersUNet
        >>> blocks = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2}
        >>> recipe = DiffusersUNet({"block_out_channels": [8, 16], "norm_num_groups": 4, **blocks})
        >>> network = recipe.build((3, 8, 8), (3, 8, 8), n_classes=10)
        >>> network(torch.zeros(2, 3, 8, 8), torch.tensor([0.0, 999.5]), torch.tensor([4, 10])).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        clip: float | None = None,
        schedule: Schedule | None = None,
        prediction: str = "noise",
    ) -> None:
        self.config = config
        self.clip = clip
        self.schedule = schedule
        self.prediction = prediction

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0) -> nn.Module:
        check_image("in_shape", in_shape)
        kind = self.config.get("time_embedding_type", "positional")
        if kind != "positional":
            raise ValueError(
                f"time_embedding_type={kind!r} belongs to networks of the noise, not of its level; give a "
                "UNet2DModel with time_embedding_type='positional'"
            )
        if self.config.get("class_embed_type") is not None:
            raise ValueError(
                f"class_embed_type={self.config['class_embed_type']!r} embeds something other than classes; give a "
                "UNet2DModel with class_embed_type=None"
            )
        height, width = in_shape[1:]
        of_data = {
            "sample_size": height if height == width else [height, width],
            "in_channels": in_shape[0],
            "out_channels": out_shape[0],
            "num_class_embeds": n_classes + 1 if n_classes else None,
        }
        unet = diffusers_library().UNet2DModel(**{**self.config, **of_data})
        check_halving(in_shape, len(unet.config["block_out_channels"]))
        return DiffusersModule(unet, n_classes, self.clipping())

    def check_fits(self, schedule: Schedule, prediction: str) -> None:
        if self.clip is None or self.schedule is None:
            return
        if self.prediction != prediction:
            raise ValueError(
                f"network=DiffusersUNet(clip={self.clip!r}, prediction={self.prediction!r}) clips another x̂_0 than the "
                f"model's, whose prediction is {prediction!r}; give both the same"
            )
        if not np.array_equal(self.schedule.beta, schedule.beta):
            raise ValueError(
                f"network=DiffusersUNet(clip={self.clip!r}, schedule=...) differs from the model's schedule; "
                "give both the same"
            )

    def clipping(self) -> Clipping | None:
        """How predictions are clipped at x̂_0; None without `clip`."""
        if self.clip is None:
            return None
        if not (isinstance(self.schedule, Schedule) and self.prediction in ("noise", "data", "velocity")):
            raise ValueError(
                f"clip={self.clip!r} needs x̂_0, but schedule={self.schedule!r} and prediction="
                f"{self.prediction!r}; give the model's Schedule and 'noise', 'data' or 'velocity', or leave clip out"
            )
        return Clipping(self.clip, self.schedule, self.prediction)


class DiffusersModule(nn.Module):
    def __init__(self, unet: nn.Module, n_classes: int, clipping: Clipping | None) -> None:
        super().__init__()
        self.unet, self.n_classes, self.clipping = unet, n_classes, clipping

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        label = None
        if self.n_classes:
            label = torch.full((len(x),), self.n_classes, device=x.device) if y is None else y
        output: Tensor = self.unet(x, t, class_labels=label, return_dict=False)[0]
        # If values are missing, the channels of the mask follow those of x_t.
        return output if self.clipping is None else self.clipping(output, x[:, : output.shape[1]], t)


class Clipping(nn.Module):
    """Turns a prediction (b, c, h, w) into the one that leads to an x̂_0 within ±limit."""

    table: Tensor

    def __init__(self, limit: float, schedule: Schedule, prediction: str) -> None:
        super().__init__()
        self.limit, self.prediction = limit, prediction
        self.register_buffer("table", Noising.table(schedule).float(), persistent=False)

    def forward(self, output: Tensor, xt: Tensor, t: Tensor) -> Tensor:
        level = t.round().long().clamp(0, len(self.table) - 1) + 1
        at = Noising.at(self.table[:, None, None], level)  # (b, 1, 1, 1) each
        x0 = data_of(self.prediction, output, xt, at).clamp(-self.limit, self.limit)
        if self.prediction == "data":
            return x0
        return at.noise_of(x0, xt) if self.prediction == "noise" else (at.signal * xt - x0) / at.noise


def diffusers_library() -> Any:
    try:
        return import_module("diffusers")
    except ImportError as error:
        raise ImportError("a U-Net of diffusers needs that library: pip install 'jensen[diffusers]'") from error


def check_halving(shape: tuple[int, ...], n_stages: int) -> None:
    """Raise an error unless images (c, h, w) can be halved between all stages."""
    factor = 2 ** (n_stages - 1)
    if shape[1] % factor or shape[2] % factor:
        raise ValueError(
            f"images of {shape[1]} x {shape[2]} cannot be halved {n_stages - 1} times, as diffusers' UNet2DModel does; "
            f"pad them to multiples of {factor}, or use fewer stages"
        )


def config_of(recipe: UNet) -> dict[str, Any]:
    """The configuration of the UNet2DModel that computes the same as a UNet."""
    channels, attention = list(recipe.channels), set(recipe.attention)
    if recipe.patch != 1:
        raise ValueError(
            f"network=UNet(patch={recipe.patch}) works on patches, and diffusers' UNet2DModel on single pixels; fit "
            "with UNet(patch=1)"
        )
    if recipe.position_map:
        raise ValueError(
            "network=UNet(position_map=True) adds a learned image, but diffusers' UNet2DModel has none; fit with "
            "UNet(position_map=False)"
        )
    if channels[0] % 2:
        raise ValueError(
            f"channels={recipe.channels!r} begins with an odd number, but in diffusers' UNet2DModel it is the number "
            "of waves of the time, which must be even; fit with an even number of channels"
        )
    attending = {channels[i] for i in attention} | ({channels[-1]} if recipe.middle_attention else set())
    in_eights = {n % 8 == 0 for n in attending}
    if len(in_eights) == 2:
        raise ValueError(
            f"channels={recipe.channels!r} has stages with attention that divide by 8 and others that do not, but "
            "diffusers' UNet2DModel has one size of heads; fit with multiples of 8"
        )
    down = ["AttnDownBlock2D" if i in attention else "DownBlock2D" for i in range(len(channels))]
    return {
        "block_out_channels": channels,
        "layers_per_block": recipe.n_blocks,
        "down_block_types": down,
        "up_block_types": [name.replace("Down", "Up") for name in reversed(down)],
        "add_attention": recipe.middle_attention,
        "attention_head_dim": None if in_eights == {False} else 8,
        "norm_num_groups": group_count(channels),
        "dropout": recipe.dropout,
    }


def their_name(name: str) -> str:
    """The name that UNet2DModel has for a parameter of a UNet."""
    name = re.sub(r"^(down|up)(_blocks\.\d+)\.resample", r"\1\2.\1samplers.0.conv", name)
    return name.replace("to_out.", "to_out.0.").replace("time_embedding.class_embedding", "class_embedding")
