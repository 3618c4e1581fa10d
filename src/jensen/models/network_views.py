"""How rows meet networks: what an encoder sees of them, what a decoder says, and the networks taken by default."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.caller import levels_inside
from jensen.interop.columns import Columns
from jensen.nets.conv import ConvDecoder, ConvEncoder
from jensen.nets.mlp import MLP
from jensen.nets.recipe import Recipe

__all__ = ["ImageView", "Networks", "TableView", "choose_n_latent", "plan_networks", "read_latents"]


@dataclass(frozen=True)
class TableView:
    """Levels one-hot; where rows may have holes, also which entries are observed."""

    columns: Columns
    has_holes: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.columns.n_expanded + self.has_holes * len(self.columns.names),)

    def __call__(self, x: Tensor) -> Tensor:
        seen = self.columns.expand(x)
        return torch.cat([seen, (~x.isnan()).to(x)], -1) if self.has_holes else seen


@dataclass(frozen=True)
class ImageView:
    """Levels as numbers from -1 to 1, and a channel more for every channel that may have holes.

    Args:
        n_levels: the most of any entry, 1 for numbers.
        image: (c, h, w).
        has_holes: whether rows may have missing entries.
    """

    n_levels: int
    image: tuple[int, ...]
    has_holes: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.image[0] * (1 + self.has_holes), *self.image[1:])

    def __call__(self, x: Tensor) -> Tensor:
        top = self.n_levels - 1
        seen: Tensor = (2 * x / top - 1 if top else x).nan_to_num().unflatten(-1, self.image)
        return torch.cat([seen, (~x.isnan()).to(x).unflatten(-1, self.image)], -3) if self.has_holes else seen


@dataclass(frozen=True)
class Networks:
    """The recipes of an encoder and a decoder, and the shapes they are to be built for.

    Args:
        view: rows (b, d) in the units of `Columns`, NaN where missing, as the encoder takes them.
        encoder, decoder: the user's recipes, or those that suit the rows.
        in_shape: of what `view` gives for a row.
        out_shape: of what the decoder says of one.
    """

    view: TableView | ImageView
    encoder: Recipe
    decoder: Recipe
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]


def plan_networks(model: Any, columns: Columns, shape: tuple[int, ...], n_outputs: int, has_holes: bool) -> Networks:
    """For a model with an `encoder` and a `decoder`, rows of shape (d,) or (c, h, w) and so many outputs about each."""
    if len(shape) == 3:
        image = ImageView(max(columns.n_levels), shape, has_holes)
        out_shape = (n_outputs // math.prod(shape) * shape[0], *shape[1:])
        encoder, decoder = model.encoder or ConvEncoder(), model.decoder or ConvDecoder()
        return Networks(image, encoder, decoder, image.shape, out_shape)
    table = TableView(columns, has_holes)
    return Networks(table, model.encoder or MLP(), model.decoder or MLP(), table.shape, (n_outputs,))


def choose_n_latent(n_components: int | None, n_columns: int, way_out: str | None = "lower n_components") -> int:
    """The dimensions of z; as many as x has are pointed out, unless there is no way out of it to be named."""
    m = int(n_components or min(8, max(1, n_columns // 2)))
    if m >= n_columns > 1 and way_out is not None:
        warnings.warn(
            f"n_components={m} is not less than the {n_columns} features of X: z is no shorter than x; {way_out}",
            UserWarning,
            stacklevel=levels_inside(),
        )
    return m


def read_latents(Z: Any, n_latent: int) -> Tensor:
    """Latent vectors (n, m) in single precision."""
    z = Z.detach().cpu().float() if isinstance(Z, Tensor) else torch.as_tensor(np.asarray(Z, dtype=np.float32))
    if z.ndim != 2 or z.shape[1] != n_latent or not len(z):
        raise ValueError(f"Z has shape {tuple(z.shape)}; expected (n, {n_latent}), a latent vector for every row")
    if not z.isfinite().all():
        raise ValueError("Z holds NaN or infinity; give a finite latent vector for every row")
    return z
