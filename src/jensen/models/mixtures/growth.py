"""A mixture whose columns got more levels, as in `partial_fit`.

Before a batch that holds them, new levels share ε = 1/(n+1) in every component, and the others have (1-ε) times their
probability: the slot of unseen values, which tells nothing about the component. Their statistics of earlier batches are
0, so those of all batches add as if the levels had been known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from jensen.contract.problem import Stream
from jensen.data.columns import Columns
from jensen.models.mixtures.coordinates import Coordinates
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.choice import groups_of
from jensen.models.mixtures.product import Product


class Fitted(Protocol):
    """What a fitted mixture has."""

    theta_: MixtureTheta[Product]
    _columns: Columns
    _families: tuple[str, ...]


def with_levels_of(columns: Columns, model: Fitted) -> tuple[MixtureTheta[Product], Stream | None]:
    """theta and what stepwise EM keeps, if it keeps anything, with the levels of columns that have grown."""
    theta, stream = model.theta_, getattr(model, "_stream", None)
    if columns.n_levels == model._columns.n_levels:
        return theta, stream
    coordinates = Coordinates.of(columns, model._families)
    families, n_levels = coordinates.engine_families, (*columns.n_levels, *coordinates.n_levels)
    share = torch.zeros(len(n_levels), dtype=torch.float64)
    share[: len(columns.names)] = 1 / (model._columns.n_observed.double() + 1)
    grown = theta_with_levels(theta, families, n_levels, share)
    return grown, None if stream is None else stream_with_levels(stream, families, n_levels, share)


def theta_with_levels(
    theta: MixtureTheta[Product], families: Sequence[str], n_levels: Sequence[int], share: Tensor
) -> MixtureTheta[Product]:
    """A mixture with so many levels of every column of the engine, the new ones with a share (D,) of the column's."""
    place, own = place_of_levels(families)
    parts: list[Any] = list(theta.components.parts)
    parts[place] = parts[place].with_levels(tuple(n_levels[j] for j in own), share[list(own)])
    return replace(theta, components=replace(theta.components, parts=tuple(parts)))


def stream_with_levels(stream: Stream, families: Sequence[str], n_levels: Sequence[int], share: Tensor) -> Stream:
    """The same for what stepwise EM keeps."""
    place, own = place_of_levels(families)
    levels = tuple(n_levels[j] for j in own)
    verbs: Any = stream.verbs
    own = verbs.own(stream.running.stats)
    groups, parts = list(own.groups), list(verbs.family.families)
    groups[place] = groups[place].with_levels(stream.theta.components.parts[place].levels, levels)
    parts[place] = replace(parts[place], levels=levels)
    family = replace(verbs.family, families=tuple(parts))
    grown = replace(own, groups=tuple(groups))
    stats = grown if verbs.noise is None else replace(stream.running.stats, own=grown)
    return replace(
        stream,
        theta=theta_with_levels(stream.theta, families, n_levels, share),
        verbs=replace(verbs, family=family),
        running=replace(stream.running, stats=stats),
    )


def place_of_levels(families: Sequence[str]) -> tuple[int, tuple[int, ...]]:
    """The number of the group of levels, and its columns."""
    groups = groups_of(families)
    return list(groups).index("categorical"), groups["categorical"]
