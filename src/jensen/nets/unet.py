"""U-Net, the usual denoiser for images: it goes down to a small image and up again, with a skip connection from each
block on the way down to its counterpart on the way up.

    block(x, e):  h = conv(silu(norm(x))) + W silu(e),  x + conv(dropout(silu(norm(h))))
Ronneberger, Fischer & Brox (2015); as a denoiser Ho, Jain & Abbeel (2020), appendix B, where e embeds time and class.
Without the position map it computes the same as diffusers' UNet2DModel, and its parameters have the same names except
for `resample` (downsamplers.0.conv, upsamplers.0.conv), `to_out` (to_out.0) and the class embedding.
"""

from __future__ import annotations

import math
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    interpolate,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    scaled_dot_product_attention,
    silu,
)

from jensen.nets.conv import check_image
from jensen.nets.denoiser import Denoiser, TimeEmbedding, check_blocks, zeroed
from jensen.nets.recipe import check_dropout, check_sizes, is_size


class UNet(Denoiser):
    """Denoiser for images (c, h, w) of any size; halved sides are rounded up.

    The last convolution is initialised with 0, so an untrained network returns 0.

    Args:
        channels: channels of the stages, the largest image first; the image is halved between stages.
        n_blocks: residual blocks per stage on the way down; there is one more on the way up.
        attention: numbers of the stages with self-attention after each block; 0 is the full image. Its cost grows with
            the square of the number of pixels.
        middle_attention: whether there is self-attention between the two middle blocks, on the smallest image.
        dropout: fraction of the hidden values that each training step drops, from 0 to below 1.
        position_map: whether to add a learned image, initially 0, after the first convolution. Convolutions alone
            cannot depend on the position; the map helps with small aligned images such as digits.
        patch: side of the squares of pixels that are one point of the largest stage, whose channels hold them all. The
            network then costs as much as one of images that many times smaller; nothing of the image is lost.

    Example:
        >>> import torch
        >>> from jensen.nets.unet import UNet
        >>> network = UNet(channels=(8, 16)).build((3, 7, 5), (3, 7, 5), n_classes=10)
        >>> network(torch.zeros(2, 3, 7, 5), torch.tensor([0.0, 999.5]), torch.tensor([4, 10])).shape
        torch.Size([2, 3, 7, 5])
    """

    def __init__(
        self,
        channels: tuple[int, ...] = (32, 64),
        n_blocks: int = 1,
        attention: tuple[int, ...] = (),
        middle_attention: bool = True,
        dropout: float = 0.1,
        position_map: bool = True,
        patch: int = 1,
    ) -> None:
        self.channels = channels
        self.n_blocks = n_blocks
        self.attention = attention
        self.middle_attention = middle_attention
        self.dropout = dropout
        self.position_map = position_map
        self.patch = patch

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0) -> nn.Module:
        check_image("in_shape", in_shape)
        check_image("out_shape", out_shape)
        if in_shape[1:] != out_shape[1:]:
            raise ValueError(
                f"out_shape={out_shape!r} has another height or width than in_shape={in_shape!r}; a UNet keeps them"
            )
        check_dropout(self.dropout)
        channels = check_sizes("channels", self.channels)
        if not channels:
            raise ValueError(f"channels={self.channels!r} has no stage; give one number or more, such as (32, 64)")
        attention = check_stages(self.attention, len(channels))
        if not is_size(self.patch) or self.patch > max(in_shape[1:]):
            raise ValueError(
                f"patch={self.patch!r} is not the side of a square within images of {in_shape[1]}x{in_shape[2]} "
                "pixels; give a whole number, 1 for single pixels"
            )
        return UNetModule(
            in_shape=in_shape,
            n_image_out=out_shape[0],
            patch=int(self.patch),
            n_classes=n_classes,
            channels=channels,
            n_blocks=check_blocks(self.n_blocks),
            attention=[stage in attention for stage in range(len(channels))],
            middle_attention=self.middle_attention,
            dropout=self.dropout,
            position_map=self.position_map,
        )


class UNetModule(nn.Module):
    def __init__(
        self,
        in_shape: tuple[int, ...],
        n_image_out: int,
        n_classes: int,
        channels: list[int],
        n_blocks: int,
        attention: list[bool],
        middle_attention: bool,
        dropout: float,
        position_map: bool,
        patch: int = 1,
    ) -> None:
        super().__init__()
        n_embed = 4 * channels[0]
        n_groups = group_count(channels)
        self.patch = patch
        n_image, n_image_out = in_shape[0] * patch**2, n_image_out * patch**2
        height, width = (-(-size // patch) for size in in_shape[1:])
        self.time_embedding = TimeEmbedding(channels[0], n_embed, n_classes)
        self.conv_in = nn.Conv2d(n_image, channels[0], 3, padding=1)
        self.position_map = nn.Parameter(torch.zeros(channels[0], height, width)) if position_map else None

        def block(n_in: int, n_out: int) -> nn.Module:
            return ResidualBlock(n_in, n_out, n_embed, n_groups, dropout)

        def mix(attends: bool, n_out: int) -> nn.Module:
            return Attention(n_out, n_groups) if attends else nn.Identity()

        self.down_blocks = nn.ModuleList()
        skips = [channels[0]]
        for i, n_out in enumerate(channels):
            blocks = [block(n_in, n_out) for n_in in chain([skips[-1]], repeat(n_out, n_blocks - 1))]
            halve = nn.Conv2d(n_out, n_out, 3, stride=2, padding=1) if i < len(channels) - 1 else None
            self.down_blocks.append(DownStage(blocks, [mix(attention[i], n_out) for _ in blocks], halve))
            skips += [n_out] * (n_blocks if halve is None else n_blocks + 1)

        n_in = channels[-1]
        blocks = [block(n_in, n_in), block(n_in, n_in)]
        self.mid_block = Stage(blocks, [mix(middle_attention, n_in), mix(False, n_in)])

        self.up_blocks = nn.ModuleList()
        for i, n_out in reversed(list(enumerate(channels))):
            blocks = [block(n + skips.pop(), n_out) for n in [n_in] + [n_out] * n_blocks]
            smooth = nn.Conv2d(n_out, n_out, 3, padding=1) if i > 0 else None
            self.up_blocks.append(UpStage(blocks, [mix(attention[i], n_out) for _ in blocks], smooth))
            n_in = n_out
        self.conv_norm_out = nn.GroupNorm(n_groups, channels[0])
        self.conv_out = zeroed(nn.Conv2d(channels[0], n_image_out, 3, padding=1))

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        if self.patch == 1:
            return self.denoised(x, t, y)
        height, width = x.shape[2:]
        whole = pad(x, (0, -width % self.patch, 0, -height % self.patch), "replicate")
        out = pixel_shuffle(self.denoised(pixel_unshuffle(whole, self.patch), t, y), self.patch)
        return out[:, :, :height, :width]

    def denoised(self, x: Tensor, t: Tensor, y: Tensor | None) -> Tensor:
        """The output for patches of pixels, which are channels of one point."""
        embedding = silu(self.time_embedding(t, y))  # once for all blocks
        # All layers keep this format, in which convolutions on a CPU need no copies: a step takes three quarters.
        x = self.conv_in(x).contiguous(memory_format=torch.channels_last)
        skips = [x if self.position_map is None else x + self.position_map]
        for stage in self.down_blocks:
            skips += stage(skips[-1], embedding)
        x = self.mid_block(skips[-1], embedding)
        for stage in self.up_blocks:
            x = stage(x, embedding, skips)
        out: Tensor = self.conv_out(silu(self.conv_norm_out(x)))
        return out


class Stage(nn.Module):
    """The layers at one image size: blocks, each with or without attention, and a convolution that changes the size."""

    def __init__(self, blocks: list[nn.Module], attentions: list[nn.Module], resample: nn.Module | None = None) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(blocks)
        self.attentions = nn.ModuleList(attentions)
        self.resample = resample

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        for block, attention in zip(self.resnets, self.attentions, strict=True):
            x = attention(block(x, embedding))
        return x


class DownStage(Stage):
    def forward(self, x: Tensor, embedding: Tensor) -> list[Tensor]:  # type: ignore[override]
        """All images of the stage, for the skip connections."""
        images = []
        for block, attention in zip(self.resnets, self.attentions, strict=True):
            x = attention(block(x, embedding))
            images.append(x)
        return images if self.resample is None else [*images, self.resample(x)]


class UpStage(Stage):
    def forward(self, x: Tensor, embedding: Tensor, skips: list[Tensor]) -> Tensor:  # type: ignore[override]
        """Each block takes a skip from the end of the list; the next skip has the size to scale up to."""
        for block, attention in zip(self.resnets, self.attentions, strict=True):
            x = attention(block(torch.cat([x, skips.pop()], 1), embedding))
        return x if self.resample is None else self.resample(interpolate(x, size=skips[-1].shape[2:]))


class ResidualBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, n_embed: int, n_groups: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(n_groups, n_in)
        self.conv1 = nn.Conv2d(n_in, n_out, 3, padding=1)
        self.time_emb_proj = nn.Linear(n_embed, n_out)
        self.norm2 = nn.GroupNorm(n_groups, n_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        hidden = self.conv1(silu(self.norm1(x))) + self.time_emb_proj(embedding)[:, :, None, None]
        hidden = self.conv2(self.dropout(silu(self.norm2(hidden))))
        out: Tensor = self.conv_shortcut(x) + hidden
        return out


class Attention(nn.Module):
    """Self-attention over the pixels, with heads of 8 channels if their number divides by 8, else with one head."""

    def __init__(self, n_channels: int, n_groups: int) -> None:
        super().__init__()
        self.n_heads = n_channels // 8 if n_channels % 8 == 0 else 1
        self.group_norm = nn.GroupNorm(n_groups, n_channels)
        self.to_q = nn.Linear(n_channels, n_channels)
        self.to_k = nn.Linear(n_channels, n_channels)
        self.to_v = nn.Linear(n_channels, n_channels)
        self.to_out = nn.Linear(n_channels, n_channels)

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.group_norm(x).flatten(2).transpose(1, 2)  # (b, h w, c)
        heads = (self.n_heads, x.shape[1] // self.n_heads)
        q, k, v = (to(pixels).unflatten(2, heads).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v))
        mixed = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = x + self.to_out(mixed).transpose(1, 2).unflatten(2, x.shape[2:])
        return out


def group_count(channels: list[int]) -> int:
    """Number of groups of all group norms: the largest, up to 32, with at least 4 channels per group.

    It divides the channels of every stage, and so those of a stage joined with a skip.
    """
    most = max(1, min(32, min(channels) // 4))
    return max(n for n in range(1, most + 1) if math.gcd(*channels) % n == 0)


def check_stages(attention: Any, n_stages: int) -> set[int]:
    numbers = range(n_stages)
    if not isinstance(attention, (tuple, list)) or not all(stage in numbers for stage in attention):
        raise ValueError(
            f"attention={attention!r} are not stage numbers; give some of 0..{n_stages - 1}, or () for none"
        )
    return {int(stage) for stage in attention}
