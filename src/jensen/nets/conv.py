"""Convolutional networks for images: an encoder that halves them stage by stage, and a decoder that doubles them.

Halved sizes are rounded up: 7 x 5 becomes 4 x 3. The decoder repeats pixels and then convolves, because transposed
convolutions overlap unevenly and produce checkerboard patterns (Odena, Dumoulin & Olah, 2016). Weights have their
channels last in memory, which makes a step on a CPU a third faster.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
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


class ConvEncoder(Recipe):
    """Convolutional encoder from images (c, h, w) to vectors: 3 x 3 convolutions of stride 2 and two dense layers.

    Args:
        channels: channels of the convolutions, one per stage.
        dense: size of the hidden dense layer.
        activation: "tanh", "relu", "gelu", "silu", "softplus" or "elu".
        dropout: fraction of the channels and hidden units that each training step drops, from 0 to below 1.

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
        return with_channels_last(nn.Sequential(*layers))


class ConvDecoder(Recipe):
    """Convolutional decoder from vectors to images (c, h, w): two dense layers, then stages that double and convolve.

    Args:
        channels: channels of the images before each doubling, the smallest image first.
        dense: size of the hidden dense layer.
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
        # The activation follows every layer except the last, whose output is the image.
        gains = [gain] * (len(channels) - 1) + [1.0]
        layers = dense_layers(widths, self.activation, last_gain=gains[0])
        layers.append(nn.Unflatten(1, (channels[0], *sizes[0])))
        if len(in_shape) > 1:
            layers.insert(0, nn.Flatten())
        for n_in, n_out, size, gain in zip(channels[:-1], channels[1:], sizes[1:], gains[1:], strict=True):
            nonlinearity, _ = activation_layer(self.activation)
            layers += [nonlinearity, nn.Upsample(size), glorot(nn.Conv2d(n_in, n_out, 3, padding=1), gain)]
        return with_channels_last(nn.Sequential(*layers))


def with_channels_last(network: nn.Module) -> nn.Module:
    for weight in network.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return network


def check_image(name: str, shape: tuple[int, ...]) -> None:
    check_shape(name, shape)
    if len(shape) != 3:
        raise ValueError(
            f"{name}={shape!r} is not an image (channels, height, width); use MLP for tables, "
            "ResidualMLP in a diffusion, or give images"
        )


def halvings(height: int, width: int, n_times: int) -> list[tuple[int, int]]:
    """Image sizes from the full one down, each half of the one before, rounded up."""
    sizes = [(height, width)]
    for _ in range(n_times):
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    return sizes
