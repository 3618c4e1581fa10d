"""Multilayer perceptrons: a plain one, and one with residual blocks for denoising."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.functional import silu

from jensen.nets.denoiser import Denoiser, TimeEmbedding, check_blocks, zeroed
from jensen.nets.recipe import (
    Recipe,
    activation_layer,
    check_dropout,
    check_shape,
    check_size,
    check_sizes,
    dense_layers,
)


class MLP(Recipe):
    """Multilayer perceptron: linear layers with an activation after each except the last.

    Weights are initialised as in Glorot & Bengio (2010), biases with 0. Rows that are not vectors, such as images, are
    flattened at the input and reshaped at the output.

    Args:
        hidden: sizes of the hidden layers; () is a single linear layer.
        activation: "tanh", "relu", "gelu", "silu", "softplus" or "elu".
        dropout: fraction of the hidden units that each training step drops, from 0 to below 1.

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
        activation_layer(self.activation)  # an unknown name is an error even without hidden layers
        sizes = [math.prod(in_shape), *check_sizes("hidden", self.hidden), math.prod(out_shape)]
        layers = dense_layers(sizes, self.activation, self.dropout)
        if len(in_shape) > 1:
            layers.insert(0, nn.Flatten())
        if len(out_shape) > 1:
            layers.append(nn.Unflatten(1, out_shape))
        return nn.Sequential(*layers)


class ResidualMLP(Denoiser):
    """Denoiser for tables: a multilayer perceptron with residual blocks; time and class enter every block.

    Rows that are not vectors, such as images, are flattened at the input and reshaped at the output. The last layer is
    initialised with 0, so an untrained network returns 0.

    Args:
        width: size of every hidden layer.
        n_blocks: number of residual blocks, of two linear layers each.
        dropout: fraction of the hidden units that each training step drops, from 0 to below 1.

    Example:
        >>> import torch
        >>> from jensen.nets.mlp import ResidualMLP
        >>> network = ResidualMLP(width=64).build((5,), (5,), n_classes=3)
        >>> network(torch.zeros(2, 5), torch.tensor([0.0, 999.5]), torch.tensor([2, 3])).shape
        torch.Size([2, 5])
    """

    def __init__(self, width: int = 256, n_blocks: int = 3, dropout: float = 0.0) -> None:
        self.width = width
        self.n_blocks = n_blocks
        self.dropout = dropout

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0) -> nn.Module:
        check_shape("in_shape", in_shape)
        check_shape("out_shape", out_shape)
        check_dropout(self.dropout)
        width = check_size("width", self.width)
        n_blocks = check_blocks(self.n_blocks)
        blocks = [ResidualBlock(width, self.dropout) for _ in range(n_blocks)]
        return ResidualMLPModule(in_shape, out_shape, TimeEmbedding(width, width, n_classes), width, blocks)


class ResidualMLPModule(nn.Module):
    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_shape: tuple[int, ...],
        embedding: TimeEmbedding,
        width: int,
        blocks: list[ResidualBlock],
    ) -> None:
        super().__init__()
        self.out_shape = out_shape
        self.time_embedding = embedding
        self.first = nn.Linear(math.prod(in_shape), width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.last = zeroed(nn.Linear(width, math.prod(out_shape)))

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        embedding = silu(self.time_embedding(t, y))  # once for all blocks
        x = self.first(x.flatten(1))
        for block in self.blocks:
            x = block(x, embedding)
        out: Tensor = self.last(self.norm(x)).unflatten(1, self.out_shape)
        return out


class ResidualBlock(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear_1 = nn.Linear(width, width)
        self.time = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        hidden = silu(self.linear_1(self.norm(x)) + self.time(embedding))
        out: Tensor = x + self.linear_2(self.dropout(hidden))
        return out
