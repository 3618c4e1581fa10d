"""A recipe of a network: arguments only, so that a model which holds one can be cloned, searched over and saved."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from sklearn.base import BaseEstimator
from torch import nn

__all__ = ["Recipe", "build_network"]


class Recipe(BaseEstimator, ABC):
    """What a network of your own derives from: a constructor that only stores its arguments, and `build`.

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
        """A new module that maps (b, *in_shape) to (b, *out_shape), for any number of rows b.

        Its parameters come from torch's global generator, which the caller seeds. Arguments are checked here, not in
        the constructor: scikit-learn's `clone` and `set_params` need one that only stores.
        """


def build_network(name: str, recipe: Recipe, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> nn.Module:
    """What a recipe builds, tried on two rows: a network of another shape would fail later, or not at all."""
    network = recipe.build(in_shape, out_shape)
    if not isinstance(network, nn.Module):
        raise ValueError(f"{name}={recipe!r} builds a {type(network).__name__}; return a torch.nn.Module")
    network.eval()
    with torch.no_grad():
        found = tuple(network(torch.zeros(2, *in_shape)).shape)
    if found != (2, *out_shape):
        raise ValueError(
            f"{name}={recipe!r} makes {found[1:]} of a row of shape {in_shape}; `build` was asked for {out_shape}"
        )
    return network.train()
