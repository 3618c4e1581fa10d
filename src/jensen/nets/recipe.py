"""Recipes of networks: they store arguments only, so that a model with recipes can be cloned, tuned and saved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import nn


class Recipe(BaseEstimator, ABC):
    """Base class for your own networks: a constructor that only stores its arguments, and `build`.

    Example:
        >>> import torch
        >>> from jensen.nets.recipe import Recipe
        >>> class Linear(Recipe):
        ...     def __init__(self, bias=True):
        ...         self.bias = bias
        ...
        ...     def build(self, in_shape, out_shape):
        ...         return torch.nn.Linear(*in_shape, *out_shape, bias=self.bias)
        >>> Linear(bias=False).build((3,), (2,))(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    @abstractmethod
    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
        """Return a new module that maps (b, *in_shape) to (b, *out_shape), for any number of rows b.

        Initialise its parameters from torch's global generator, which the caller seeds. Check arguments here, not in
        the constructor: scikit-learn's `clone` and `set_params` need a constructor that only stores them.
        """


def build_network(name: str, recipe: Recipe, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
    """Build the network of a recipe and check its output shape on two rows."""
    network = recipe.build(in_shape, out_shape)
    if not isinstance(network, nn.Module):
        raise ValueError(f"{name}={recipe!r} builds a {type(network).__name__}; return a torch.nn.Module")
    network.eval()
    with torch.no_grad():
        found = tuple(network(torch.zeros(2, *in_shape)).shape)
    if found != (2, *out_shape):
        raise ValueError(
            f"{name}={recipe!r} returns {found[1:]} for a row of shape {in_shape}; `build` must return {out_shape}"
        )
    return network.train()


# The gain of the weights before an activation keeps the variance of the signal; 1 if none is derived.
ACTIVATIONS: dict[str, tuple[type[nn.Module], float]] = {
    "tanh": (nn.Tanh, 5 / 3),
    "relu": (nn.ReLU, math.sqrt(2)),
    "gelu": (nn.GELU, math.sqrt(2)),
    "silu": (nn.SiLU, math.sqrt(2)),
    "softplus": (nn.Softplus, 1.0),
    "elu": (nn.ELU, 1.0),
}


def activation_layer(activation: str) -> tuple[nn.Module, float]:
    """The layer, and the gain of the weights before it."""
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(f"activation={activation!r} is not known; choose one of {', '.join(map(repr, ACTIVATIONS))}")
    layer, gain = ACTIVATIONS[activation]
    return layer(), gain


def glorot(layer: nn.Linear | nn.Conv2d, gain: float = 1.0) -> nn.Module:
    """Uniform weights of variance 2 gain² / (fan in + fan out) and zero biases; Glorot & Bengio (2010)."""
    nn.init.xavier_uniform_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def dense_layers(sizes: list[int], activation: str, dropout: float = 0.0, last_gain: float = 1.0) -> list[nn.Module]:
    """Linear layers with these sizes, each except the last followed by the activation."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes[:-1]):
        nonlinearity, gain = activation_layer(activation)
        layers += [glorot(nn.Linear(n_in, n_out), gain), nonlinearity]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return [*layers, glorot(nn.Linear(sizes[-2], sizes[-1]), last_gain)]


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    if not shape or not all(is_size(size) for size in shape):
        raise ValueError(f"{name}={shape!r} is not the shape of a row; give positive integers, such as (784,)")


def check_sizes(name: str, sizes: Any) -> list[int]:
    if not isinstance(sizes, (tuple, list)) or not all(is_size(size) for size in sizes):
        raise ValueError(f"{name}={sizes!r} are not layer sizes; give a tuple of positive integers, such as (64,)")
    return [int(size) for size in sizes]


def check_size(name: str, size: Any) -> int:
    if not is_size(size):
        raise ValueError(f"{name}={size!r} is not a layer size; give a positive integer")
    return int(size)


def check_dropout(dropout: float) -> None:
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout!r} is not a fraction of the units; give a number from 0 to below 1")


def is_size(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0
