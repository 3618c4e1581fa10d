"""Denoisers f(x, t, y): networks that know how far a row x has been noised, and perhaps its class.

The time t is in thousandths of the whole noising, 0 <= t < 1000, whole or not. A network sees it as waves

    cos(ω_i t), sin(ω_i t),  ω_i = 10000^(-i/h),  i = 0..h-1
so that near times look alike at every scale: Vaswani et al. (2017), section 3.5; Ho, Jain & Abbeel (2020), appendix B.
Classes are 0..n_classes-1, and the number n_classes stands for "unlabelled": Ho & Salimans (2022) train one network
both with and without the class.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from jensen.formulas.schedule import Schedule
from jensen.nets.recipe import Recipe, build_network, check_shape, is_size

__all__ = ["Denoiser", "TimeEmbedding", "build_denoiser", "check_blocks", "sinusoids", "zeroed"]

Layer = TypeVar("Layer", bound=nn.Module)

# What a recipe that knows no time is given of it; sixteen frequencies tell thousandths apart.
N_SINUSOIDS = 32


class Denoiser(Recipe):
    """What a denoiser of your own derives from: a constructor that only stores its arguments, and `build`.

    Example:
        >>> import torch
        >>> from jensen.nets.denoiser import Denoiser, TimeEmbedding, build_denoiser
        >>> class Shift(torch.nn.Module):
        ...     def __init__(self, d, n_classes):
        ...         super().__init__()
        ...         self.embed = TimeEmbedding(16, d, n_classes)
        ...
        ...     def forward(self, x, t, y=None):
        ...         return x - self.embed(t, y)
        >>> class Shifts(Denoiser):
        ...     def build(self, in_shape, out_shape, n_classes=0):
        ...         return Shift(*in_shape, n_classes)
        >>> network = build_denoiser(Shifts(), (3,), (3,), n_classes=10)
        >>> network(torch.zeros(5, 3), torch.full((5,), 250.0), torch.tensor([0, 1, 2, 9, 10])).shape
        torch.Size([5, 3])
    """

    @abstractmethod
    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0) -> nn.Module:
        """A new module whose forward(x, t, y=None) maps (b, *in_shape) to (b, *out_shape), for any number of rows b.

        Times t are (b,) numbers, classes y (b,) integers in 0..n_classes, of which the last is "unlabelled"; None
        says so of every row. Without classes y is ignored. The rest is as in `Recipe.build`.
        """

    def check_fits(self, schedule: Schedule, prediction: str) -> None:
        """An error where a network of this recipe could not serve a model with this noise, and that says this."""


class TimeEmbedding(nn.Module):
    """Time and class as one vector: two linear layers of the waves, plus a row of a table for the class.

    The table starts at 0, so that classes differ only once the data say so.

    Args:
        n_sinusoids: the number of waves; an odd one is rounded up.
        n_out: the size of the vector.
        n_classes: the number of classes without "unlabelled"; 0 has no table and ignores y.

    Example:
        >>> import torch
        >>> from jensen.nets.denoiser import TimeEmbedding
        >>> TimeEmbedding(32, 128, n_classes=10)(torch.tensor([0.0, 999.0]), torch.tensor([3, 10])).shape
        torch.Size([2, 128])
    """

    def __init__(self, n_sinusoids: int, n_out: int, n_classes: int = 0) -> None:
        super().__init__()
        self.n_sinusoids = n_sinusoids + n_sinusoids % 2
        self.linear_1 = nn.Linear(self.n_sinusoids, n_out)
        self.linear_2 = nn.Linear(n_out, n_out)
        self.class_embedding = zeroed(nn.Embedding(n_classes + 1, n_out)) if n_classes else None

    def forward(self, t: Tensor, y: Tensor | None = None) -> Tensor:
        waves = sinusoids(t, self.n_sinusoids).to(self.linear_1.weight.dtype)
        embedding: Tensor = self.linear_2(nn.functional.silu(self.linear_1(waves)))
        if self.class_embedding is None:
            return embedding
        return embedding + (self.class_embedding.weight[-1] if y is None else self.class_embedding(y))


class SideBySide(nn.Module):
    """A network of vectors (n,), given as one vector the flattened row, the waves of its time and its class 0/1."""

    def __init__(self, network: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.network = network
        self.n_classes = n_classes

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        parts = [x.flatten(1), sinusoids(t, N_SINUSOIDS).to(x.dtype)]
        if self.n_classes:
            labels = torch.full_like(t, self.n_classes, dtype=torch.long) if y is None else y
            parts.append(nn.functional.one_hot(labels, self.n_classes + 1).to(x.dtype))
        out: Tensor = self.network(torch.cat(parts, 1))
        return out


def build_denoiser(
    recipe: Recipe, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0
) -> nn.Module:
    """The denoiser f(x, t, y) of a recipe, tried on two rows.

    A recipe that is no `Denoiser`, such as an `MLP`, knows neither time nor class: it is built for vectors, and given
    the flattened row with the waves of its time and its class as 0/1 beside it.

    Example:
        >>> import torch
        >>> from jensen.nets.denoiser import build_denoiser
        >>> from jensen.nets.mlp import MLP
        >>> network = build_denoiser(MLP(hidden=(64, 64)), (2,), (2,))
        >>> network(torch.zeros(5, 2), torch.linspace(0, 999, 5)).shape
        torch.Size([5, 2])
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"network={recipe!r} is not a recipe; give UNet() for images, ResidualMLP() for tables, or a Denoiser of "
            "your own"
        )
    check_shape("in_shape", in_shape)
    check_shape("out_shape", out_shape)
    if not isinstance(recipe, Denoiser):
        return side_by_side(recipe, in_shape, out_shape, n_classes)
    network = recipe.build(in_shape, out_shape, n_classes)
    if not isinstance(network, nn.Module):
        raise ValueError(f"network={recipe!r} builds a {type(network).__name__}; return a torch.nn.Module")
    network.eval()
    for y in (None, torch.tensor([0, n_classes])):
        with torch.no_grad():
            found = tuple(network(torch.zeros(2, *in_shape), torch.tensor([0.0, 999.0]), y).shape)
        if found != (2, *out_shape):
            raise ValueError(
                f"network={recipe!r} makes {found[1:]} of a row of shape {in_shape}; `build` was asked for {out_shape}"
            )
    return network.train()


def side_by_side(recipe: Recipe, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    n_in = math.prod(in_shape) + N_SINUSOIDS + (n_classes + 1 if n_classes else 0)
    try:
        return SideBySide(build_network("network", recipe, (n_in,), out_shape), n_classes)
    except ValueError as error:
        if len(in_shape) == 1:
            raise
        # The message inside is about a vector that whoever gave images has never seen.
        raise ValueError(
            f"network={recipe!r} is not a Denoiser, so image and time reach it as one vector, where {error}; "
            "use UNet(), or a Denoiser of your own"
        ) from error


def sinusoids(t: Tensor, n_sinusoids: int) -> Tensor:
    """The waves of times (b,): (b, n_sinusoids), the cosines first; an even number of them."""
    half = n_sinusoids // 2
    frequencies = torch.exp(-math.log(10_000) / half * torch.arange(half, device=t.device))
    angles = t[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1)


def zeroed(layer: Layer) -> Layer:
    """The layer with its parameters at 0."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def check_blocks(n_blocks: Any) -> int:
    if not is_size(n_blocks):
        raise ValueError(f"n_blocks={n_blocks!r} is not a number of residual blocks; give a positive integer")
    return int(n_blocks)
