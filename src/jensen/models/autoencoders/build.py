"""From a VAE's arguments and rows to its networks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.contract.training import Facts
from jensen.data.columns import Columns
from jensen.data.network_columns import NetworkColumns
from jensen.engines.sgd.streams import TrainingData
from jensen.formulas.latent_gaussian import n_posterior_outputs
from jensen.models.autoencoders.covariates import GivenView, kept_rows, places_of
from jensen.models.autoencoders.module import ClassVAEModule, Parts, VAEModule
from jensen.nets.conv import ConvDecoder, ConvEncoder
from jensen.nets.emission import Emission
from jensen.nets.likelihoods import Likelihood, likelihood_of
from jensen.nets.mlp import MLP
from jensen.nets.recipe import Recipe, build_network
from jensen.runtime.messages import levels_inside


@dataclass(frozen=True)
class TableView:
    """Rows of a table as the encoder's input: levels one-hot, and a mask of observed values if some may be missing."""

    columns: Columns
    has_missing: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.columns.n_expanded + self.has_missing * len(self.columns.names),)

    def __call__(self, x: Tensor) -> Tensor:
        seen = self.columns.expand(x)
        return torch.cat([seen, (~x.isnan()).to(x)], -1) if self.has_missing else seen


@dataclass(frozen=True)
class ImageView:
    """Images as the encoder's input: levels from -1 to 1 and, if pixels may be missing, a mask per channel.

    Args:
        n_levels: the largest number of levels of a pixel, 1 for numbers.
        image: (c, h, w).
        has_missing: whether values may be missing.
    """

    n_levels: int
    image: tuple[int, ...]
    has_missing: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.image[0] * (1 + self.has_missing), *self.image[1:])

    def __call__(self, x: Tensor) -> Tensor:
        top = self.n_levels - 1
        seen: Tensor = (2 * x / top - 1 if top else x).nan_to_num().unflatten(-1, self.image)
        return torch.cat([seen, (~x.isnan()).to(x).unflatten(-1, self.image)], -3) if self.has_missing else seen


@dataclass(frozen=True)
class Networks:
    """The recipes of an encoder and a decoder, and the shapes to build them for.

    Args:
        view: turns rows (b, d) in the units of `Columns`, NaN where missing, into the encoder's input.
        encoder, decoder: the user's recipes, or the defaults for tables or images.
        in_shape: shape of the encoder's input for a row.
        out_shape: shape of the decoder's output for a row.
    """

    view: TableView | ImageView
    encoder: Recipe
    decoder: Recipe
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]


class Recipes(Protocol):
    """The arguments of a model with an encoder and a decoder."""

    encoder: Recipe | None
    decoder: Recipe | None


def plan_networks(
    model: Recipes, columns: Columns, shape: tuple[int, ...], n_outputs: int, has_missing: bool
) -> Networks:
    """The networks for rows of shape (d,) or (c, h, w), with so many outputs of the decoder per row."""
    if len(shape) == 3:
        image = ImageView(max(columns.n_levels), shape, has_missing)
        out_shape = (n_outputs // math.prod(shape) * shape[0], *shape[1:])
        encoder, decoder = model.encoder or ConvEncoder(), model.decoder or ConvDecoder()
        return Networks(image, encoder, decoder, image.shape, out_shape)
    table = TableView(columns, has_missing)
    return Networks(table, model.encoder or MLP(), model.decoder or MLP(), table.shape, (n_outputs,))


def choose_n_latent(n_components: int | None, n_columns: int, way_out: str | None = "lower n_components") -> int:
    """The dimension of z; warns with this remedy if it is no smaller than that of x, unless the remedy is None."""
    m = int(n_components or min(8, max(1, n_columns // 2)))
    if m >= n_columns > 1 and way_out is not None:
        warnings.warn(
            f"n_components={m} is not less than the {n_columns} features of X, so z does not compress x; {way_out}",
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


# Outputs of the encoder of a model with classes, which a second network combines with the class.
N_SUMMARY = 128


@dataclass(frozen=True)
class VAEFacts(Facts):
    """What a fit derived from its rows to build a VAE.

    Args:
        n_latent: m, the dimension of z.
        n_classes: number of classes, 0 without labels.
        has_missing: whether values may be missing.
        prior: π (C,), the class frequencies.
        class_weight: the weight of ln q(y|x) of a labelled row in the objective.
        class_length: the length of the class that the decoder sees beside z; None, in files before 0.3, is 1.
        start: the initial outputs of the decoder (D,), or None for 0.
        condition_on: names of the columns that are given and not modelled.
        covariates: their values in the training rows (n, j).
    """

    n_latent: int
    n_classes: int
    has_missing: bool
    prior: list[float] | None = None
    class_weight: float | None = None
    class_length: float | None = None
    start: Tensor | None = None
    condition_on: list[str | int] = field(default_factory=list)
    covariates: Tensor | None = None


class Arguments(Recipes, Protocol):
    """The arguments of a VAE that decide about its networks."""

    likelihood: Likelihood
    classifier: Recipe | None
    posterior_covariance: str
    importance_samples: int
    scaling: str | None


def build_module(model: Arguments, parts: NetworkColumns, shape: tuple[int, ...], facts: VAEFacts) -> VAEModule:
    """New networks for rows of this shape, (d,) or (c, h, w)."""
    columns, n_rows = parts.inner, parts.table.n_rows
    options, places = likelihood_of(model.likelihood), places_of(facts.condition_on, parts)
    least = least_variance(columns, n_rows, places) if model.scaling == "pooled" else None
    emission = Emission(columns, options, least, facts.start, n_rows, places)
    given = GivenView.of(columns, places) if places else None
    m, n_classes, is_full = facts.n_latent, facts.n_classes, model.posterior_covariance == "full"
    networks = plan_networks(model, columns, shape, emission.n_outputs, facts.has_missing)
    n_posterior = n_posterior_outputs(m, is_full)
    n_encoded = N_SUMMARY if n_classes else n_posterior
    n_seen = m + n_classes + (0 if given is None else given.n_expanded)
    made = Parts(
        view=networks.view,
        encoder=build_network("encoder", networks.encoder, networks.in_shape, (n_encoded,)),
        decoder=build_network("decoder", networks.decoder, (n_seen,), networks.out_shape),
        emission=emission,
        n_latent=m,
        is_full=is_full,
        n_draws=model.importance_samples,
        has_missing=facts.has_missing,
        resamples=options.bernoulli.resample and "yes/no" in columns.kinds,
        given=given,
    )
    if not n_classes:
        return VAEModule(made)
    head = MLP(hidden=(N_SUMMARY,), activation="relu").build((N_SUMMARY + n_classes,), (n_posterior,))
    # A classifier memorises a few labels at once: trained on 100 of them, without dropout it makes twice the errors.
    default = ConvEncoder(dropout=0.5) if len(shape) == 3 else MLP(activation="relu", dropout=0.5)
    classifier = build_network("classifier", model.classifier or default, networks.in_shape, (n_classes,))
    assert facts.class_weight is not None
    length = facts.class_length or 1.0
    return ClassVAEModule(made, torch.tensor(facts.prior).log(), classifier, head, facts.class_weight, length)


def least_variance(columns: Columns, n_rows: int, given: Collection[int]) -> Tensor:
    """The least noise of every number after n rows, in units of its pooled scale: that of the one row more alone.

    s²/(n+1) with s² the mean variance; one more row of this size leaves the mean as it is.
    """
    numbers = [j for j, kind in enumerate(columns.kinds) if kind == "number" and j not in given]
    square = columns.scale[numbers].square()
    return square.mean() / ((n_rows + 1) * square)


def with_frequencies(model: Arguments, facts: VAEFacts, data: TrainingData, rows: Any) -> VAEFacts:
    """The facts with decoder outputs that give every column about its distribution in these rows, and with covariates.

    There are no such outputs if all columns are numbers, whose mean is 0 anyway.
    """
    columns, places = data.events.columns, places_of(facts.condition_on, NetworkColumns.of(data.events.table))
    if set(columns.kinds) == {"number"} and not places:
        return facts
    x, emission = data.some_rows(rows), Emission(columns, likelihood_of(model.likelihood), given=places)
    covariates = kept_rows(x, places) if places else None
    return replace(facts, start=emission.marginal_outputs(x), covariates=covariates)
