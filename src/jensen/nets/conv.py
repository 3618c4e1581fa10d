"""Convolutional networks for images: an encoder that halves them stage by stage, and a decoder that undoes it.

Sizes are halved upwards, so 7 x 5 comes from 4 x 3. The decoder repeats pixels and then convolves: transposed
convolutions overlap unevenly and leave checkerboards (Odena, Dumoulin & Olah, 2016).
"""

from __future__ import annotations

import math
from itertools import pairwise

from torch import nn

from jensen.nets.recipe import (
    Recipe,
    activation_layer,
    check_dropout,
    check_shape,
    check_size,
    check_sizes,
    dense_layers,
    glorot,
)

__all__ = ["ConvDecoder", "ConvEncoder"]


class ConvEncoder(Recipe):
    """Images (c, h, w) to numbers (p,): 3 x 3 convolutions of stride 2, one hidden dense layer and a linear one.

    Args:
        channels: of the convolutions, one stage each.
        dense: the size of the hidden dense layer.
        activation: "tanh", "relu", "gelu", "silu", "softplus" or "elu".
        dropout: the share of channels and hidden units left out of each training step, from 0 to below 1.

    Example:
        >>> import torch
        >>> from jensen.nets.conv import ConvEncoder
        >>> network = ConvEncoder(channels=(8, 16), dense=32).build((1, 28, 28), (10,))
        >>> network(torch.zeros(3, 1, 28, 28)).shape
        torch.Size([3, 10])
    """

    def __init__(
        self,
        channels: tuple[int, ...] = (32, 64),
        dense: int = 256,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        self.channels = channels
        self.dense = dense
        self.activation = activation
        self.dropout = dropout

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
        check_image("in_shape", in_shape)
        check_shape("out_shape", out_shape)
        check_dropout(self.dropout)
        n_image, height, width = in_shape
        channels = [n_image, *check_sizes("channels", self.channels)]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(channels):
            nonlinearity, gain = activation_layer(self.activation)
            layers += [glorot(nn.Conv2d(n_in, n_out, 3, stride=2, padding=1), gain), nonlinearity]
            if self.dropout:
                layers.append(nn.Dropout2d(self.dropout))
        n_flat = channels[-1] * math.prod(halvings(height, width, len(channels) - 1)[-1])
        sizes = [n_flat, check_size("dense", self.dense), math.prod(out_shape)]
        layers += [nn.Flatten(), *dense_layers(sizes, self.activation, self.dropout)]
        if len(out_shape) > 1:
            layers.append(nn.Unflatten(1, out_shape))
        return nn.Sequential(*layers)


class ConvDecoder(Recipe):
    """Numbers (m,) to images (c, h, w): two dense layers to a small image, then stages that double it and convolve.

    Args:
        channels: of the images before each doubling, the smallest first.
        dense: the size of the hidden dense layer.
        activation: "tanh", "relu", "gelu", "silu", "softplus" or "elu".

    Example:
        >>> import torch
        >>> from jensen.nets.conv import ConvDecoder
        >>> network = ConvDecoder(channels=(16, 8), dense=32).build((10,), (1, 28, 28))
        >>> network(torch.zeros(3, 10)).shape
        torch.Size([3, 1, 28, 28])
    """

    def __init__(self, channels: tuple[int, ...] = (64, 32), dense: int = 256, activation: str = "relu") -> None:
        self.channels = channels
        self.dense = dense
        self.activation = activation

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
        check_shape("in_shape", in_shape)
        check_image("out_shape", out_shape)
        n_image, height, width = out_shape
        channels = [*check_sizes("channels", self.channels), n_image]
        sizes = halvings(height, width, len(channels) - 1)[::-1]
        widths = [math.prod(in_shape), check_size("dense", self.dense), channels[0] * math.prod(sizes[0])]
        _, gain = activation_layer(self.activation)
        # The activation follows every layer but the one whose output is the image.
        gains = [gain] * (len(channels) - 1) + [1.0]
        layers = dense_layers(widths, self.activation, last_gain=gains[0])
        layers.append(nn.Unflatten(1, (channels[0], *sizes[0])))
        if len(in_shape) > 1:
            layers.insert(0, nn.Flatten())
        for n_in, n_out, size, gain in zip(channels[:-1], channels[1:], sizes[1:], gains[1:], strict=True):
            nonlinearity, _ = activation_layer(self.activation)
            layers += [nonlinearity, nn.Upsample(size), glorot(nn.Conv2d(n_in, n_out, 3, padding=1), gain)]
        return nn.Sequential(*layers)


def check_image(name: str, shape: tuple[int, ...]) -> None:
    check_shape(name, shape)
    if len(shape) != 3:
        raise ValueError(
            f"{name}={shape!r} is not an image (channels, height, width); use MLP for tables, "
            "ResidualMLP in a diffusion, or give images"
        )


def halvings(height: int, width: int, n_times: int) -> list[tuple[int, int]]:
    """Sizes from the whole image down, halved and rounded up."""
    sizes = [(height, width)]
    for _ in range(n_times):
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    return sizes
