"""The networks of a VAE from its recipes, and batches in which labelled rows are not lost among the others."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.contract.gradient import Lesson
from jensen.data.columns import Columns
from jensen.engines.sgd.feeds import Feed, Minibatch
from jensen.formulas.latent_gaussian import n_posterior_outputs
from jensen.models.autoencoders.module import ClassVAEModule, VAEModule
from jensen.nets.conv import ConvDecoder, ConvEncoder
from jensen.nets.likelihoods import Emission, likelihood_of
from jensen.nets.mlp import MLP
from jensen.nets.recipe import Recipe, build_network
from jensen.runtime.messages import levels_inside

__all__ = [
    "ImageView",
    "Networks",
    "TableView",
    "build_module",
    "choose_n_latent",
    "labelled_feed",
    "marginal_start",
    "plan_networks",
    "read_latents",
]


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


# Numbers that the encoder of a model with classes says of x, before it is told the class.
N_SUMMARY = 128


class Arguments(Protocol):
    """What is read of a VAE to build its networks."""

    likelihood: Any
    encoder: Recipe | None
    decoder: Recipe | None
    classifier: Recipe | None
    posterior_covariance: str
    importance_samples: int


def build_module(model: Arguments, columns: Columns, shape: tuple[int, ...], facts: dict[str, Any]) -> VAEModule:
    """New networks for rows of this shape, (d,) or (c, h, w)."""
    _, gaussian, bernoulli = likelihood_of(model.likelihood)
    emission = Emission(columns.kinds, columns.n_levels, gaussian, columns.scale)
    m, n_classes, is_full = facts["n_latent"], facts["n_classes"], model.posterior_covariance == "full"
    networks = plan_networks(model, columns, shape, emission.n_outputs, facts["has_holes"])
    n_says = n_posterior_outputs(m, is_full)
    options = {
        "n_latent": m,
        "is_full": is_full,
        "n_draws": model.importance_samples,
        "has_holes": facts["has_holes"],
        "resamples": bernoulli.resample and "binary" in columns.kinds,
        "start": facts["start"],
    }
    parts = (
        networks.view,
        build_network("encoder", networks.encoder, networks.in_shape, (N_SUMMARY if n_classes else n_says,)),
        build_network("decoder", networks.decoder, (m + n_classes,), networks.out_shape),
        emission,
    )
    if not n_classes:
        return VAEModule(*parts, **options)
    head = MLP(hidden=(N_SUMMARY,), activation="relu").build((N_SUMMARY + n_classes,), (n_says,))
    # Few labels are learnt by heart at once: without dropout a classifier of 100 of them has twice the errors.
    usual = ConvEncoder(dropout=0.5) if len(shape) == 3 else MLP(activation="relu", dropout=0.5)
    classifier = build_network("classifier", model.classifier or usual, networks.in_shape, (n_classes,))
    return ClassVAEModule(
        torch.tensor(facts["prior"]).log(), classifier, head, facts["class_weight"], *parts, **options
    )


def marginal_start(model: Arguments, lesson: Lesson, rows: np.ndarray) -> dict[str, Tensor | None]:
    """Outputs of a decoder that knows the frequencies of levels; standardised numbers have mean 0 as it is."""
    columns = lesson.events.columns
    if set(columns.kinds) == {"continuous"}:
        return {"start": None}
    emission = Emission(columns.kinds, columns.n_levels, likelihood_of(model.likelihood)[1], columns.scale)
    return {"start": emission.marginal_outputs(lesson.some_rows(rows))}


@dataclass(frozen=True)
class LabelledFeed:
    """Rows without a label by number, each batch joined by labelled rows drawn at random.

    Weights make the mean over a batch an unbiased estimate of the mean over all rows.
    """

    unlabelled: Feed
    labelled: Feed
    share: float

    def __len__(self) -> int:
        return len(self.unlabelled)

    def take(self, index: Tensor) -> Minibatch:
        # Where a few labelled rows outweigh all others, the share of these may round to 0.
        fair = self.share / max(1 - self.share, torch.finfo(torch.float32).eps) * len(index)
        n = min(len(self.labelled), max(round(fair), len(index) // 2))
        # torch's own generator, whose state a checkpoint keeps.
        extra = self.labelled.take(torch.randperm(len(self.labelled))[:n])
        base = self.unlabelled.take(index)
        total = len(index) + n
        weights, device = [], next(tensor.device for tensor in base.inputs if tensor is not None)
        for batch, rows, share in ((base, len(index), 1 - self.share), (extra, n, self.share)):
            weight = torch.full((rows,), share * total / rows, device=device)
            weights.append(weight if batch.weight is None else weight * batch.weight)
        inputs = [
            None if a is None or b is None else torch.cat([a, b])
            for a, b in zip(base.inputs, extra.inputs, strict=True)
        ]
        return Minibatch(tuple(inputs), torch.cat(weights))


def labelled_feed(lesson: Lesson, rows: np.ndarray, device: torch.device) -> Feed:
    """Both kinds of rows in every batch, where there are both."""
    label = lesson.extra[0]
    assert label is not None
    is_known = (label[torch.from_numpy(rows)] >= 0).numpy()
    if is_known.all() or not is_known.any():
        return lesson.feed(rows, device)
    mass = torch.ones(len(label)) if lesson.weight is None else lesson.weight.float()
    known, unknown = rows[is_known], rows[~is_known]
    share = float(mass[torch.from_numpy(known)].sum() / mass[torch.from_numpy(rows)].sum())
    return LabelledFeed(lesson.feed(unknown, device), lesson.feed(known, device), share)
