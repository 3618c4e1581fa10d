"""Multilayer perceptron: linear layers with a nonlinearity between them."""

from __future__ import annotations

import math

from torch import nn

from jensen.nets.layers import activation_layer, check_dropout, check_shape, check_sizes, dense_layers
from jensen.nets.recipe import Recipe

__all__ = ["MLP"]


class MLP(Recipe):
    """Linear layers with an activation after each but the last; weights by Glorot & Bengio (2010), biases 0.

    Rows of another shape than (d,), such as images, are flattened on the way in and reshaped on the way out.

    Args:
        hidden: the sizes of the layers in between; () is one linear layer.
        activation: "tanh", "relu", "gelu", "silu", "softplus" or "elu".
        dropout: the share of hidden units left out of each training step, from 0 to below 1.

    Example:
        >>> import torch
        >>> from jensen.nets.mlp import MLP
        >>> network = MLP(hidden=(50,), activation="relu").build((4,), (2,))
        >>> network(torch.zeros(10, 4)).shape
        torch.Size([10, 2])
    """

    def __init__(self, hidden: tuple[int, ...] = (200, 200), activation: str = "tanh", dropout: float = 0.0) -> None:
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
        check_shape("in_shape", in_shape)
        check_shape("out_shape", out_shape)
        check_dropout(self.dropout)
        activation_layer(self.activation)  # an unknown one is an error even where no layer needs it
        sizes = [math.prod(in_shape), *check_sizes("hidden", self.hidden), math.prod(out_shape)]
        layers = dense_layers(sizes, self.activation, self.dropout)
        if len(in_shape) > 1:
            layers.insert(0, nn.Flatten())
        if len(out_shape) > 1:
            layers.append(nn.Unflatten(1, out_shape))
        return nn.Sequential(*layers)
