"""Denoisers f(x, t, y): networks with the time t of the noising and, possibly, a class y as inputs.

The time runs from 0 to below 1000 and need not be whole. It is encoded as waves

    cos(ω_i t), sin(ω_i t),  ω_i = 10000^(-i/h),  i = 0..h-1
so that nearby times have similar encodings: Vaswani et al. (2017), section 3.5; Ho, Jain & Abbeel (2020), appendix B.
Classes are 0..n_classes-1, and the number n_classes stands for "unlabelled": one network is trained both with and
without the class (Ho & Salimans 2022).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from jensen.formulas.schedule import Schedule
from jensen.nets.recipe import Recipe, build_network, check_shape, is_size

Layer = TypeVar("Layer", bound=nn.Module)

# Waves of the time for recipes without a time input; sixteen frequencies distinguish a thousand times.
N_SINUSOIDS = 32


class Denoiser(Recipe):
    """Base class for your own denoisers: a constructor that only stores its arguments, and `build`.

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
        """Return a new module whose forward(x, t, y=None) maps (b, *in_shape) to (b, *out_shape), for any b.

        Times t are numbers (b,), classes y integers (b,) in 0..n_classes, where n_classes means "unlabelled"; y=None
        means that no row has a label. With n_classes=0, y is ignored. Otherwise as in `Recipe.build`.
        """

    def check_fits(self, schedule: Schedule, prediction: str) -> None:
        """Raise an error if networks of this recipe do not fit a model with this schedule and prediction."""


class TimeEmbedding(nn.Module):
    """Time and class as one vector: two linear layers applied to the waves of the time, plus a vector per class.

    The class vectors are initialised with 0, so that classes differ only after training.

    Args:
        n_sinusoids: number of waves; an odd number is rounded up.
        n_out: size of the vector.
        n_classes: number of classes without "unlabelled"; with 0, y is ignored.

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
    """A network of vectors (n,) whose input is the flattened row, the waves of its time and its one-hot class."""

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
    """Build the denoiser f(x, t, y) of a recipe and check its output shape on two rows.

    A recipe that is not a `Denoiser`, such as an `MLP`, has no inputs for time and class: it is built for vectors that
    join the flattened row, the waves of its time and its one-hot class.

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
            f"network={recipe!r} is not a recipe; give UNet() for images, ResidualMLP() for tables, or your own "
            "Denoiser"
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
                f"network={recipe!r} returns {found[1:]} for a row of shape {in_shape}; `build` must return {out_shape}"
            )
    return network.train()


def side_by_side(recipe: Recipe, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    n_in = math.prod(in_shape) + N_SINUSOIDS + (n_classes + 1 if n_classes else 0)
    try:
        return SideBySide(build_network("network", recipe, (n_in,), out_shape), n_classes)
    except ValueError as error:
        if len(in_shape) == 1:
            raise
        # The message of the error is about a vector, which a user of images does not know.
        raise ValueError(
            f"network={recipe!r} is not a Denoiser, so image and time are joined to one vector, where {error}; "
            "use UNet(), or your own Denoiser"
        ) from error


def sinusoids(t: Tensor, n_sinusoids: int) -> Tensor:
    """The waves of times (b,): (b, n_sinusoids), cosines first; their number must be even."""
    half = n_sinusoids // 2
    frequencies = torch.exp(-math.log(10_000) / half * torch.arange(half, device=t.device))
    angles = t[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1)


def zeroed(layer: Layer) -> Layer:
    """The layer with all parameters set to 0."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def check_blocks(n_blocks: Any) -> int:
    if not is_size(n_blocks):
        raise ValueError(f"n_blocks={n_blocks!r} is not a number of residual blocks; give a positive integer")
    return int(n_blocks)
