"""Some columns of a mixture: the marginal over them, or the mixture of the others given values of some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.gaussians import Gaussians
from jensen.models.mixtures.inference import given_observed, responsibilities
from jensen.models.mixtures.product import Product


def marginal(theta: MixtureTheta[Product], columns: Sequence[int]) -> MixtureTheta[Product]:
    """The mixture of some columns, in this order."""
    return MixtureTheta(theta.weights, selected(theta.components, columns))


def condition(theta: MixtureTheta[Product], x: Tensor, columns: Sequence[int]) -> MixtureTheta[Product]:
    """The mixture of some columns of a row x (D,), which are missing there, given its observed ones."""
    weights = responsibilities(theta, x[None])[0]
    parts = []
    for part, own in zip(theta.components.parts, theta.components.columns, strict=True):
        known = x[list(own)]
        # Other families are independent of what is observed, given the component.
        parts.append(given(part, known) if isinstance(part, Gaussians) else part)
    return MixtureTheta(weights, selected(Product(tuple(parts), theta.components.columns), columns))


def structure_of(components: Product, otherwise: str) -> str:
    """The covariance structure of the Gaussian columns by name, if there are any."""
    found = [part.form.name for part in components.parts if isinstance(part, Gaussians)]
    return found[0] if found else otherwise


def given(part: Gaussians[Any], x: Tensor) -> Any:
    """The Gaussians of a row x (d,) given its observed entries; what is observed keeps a place."""
    if not part.form.is_dense:
        return part
    means, residual = given_observed(part, x)
    # The residual is 0 where an entry is observed; any variance will do there, as the entry is left out.
    return part.form.of_some_columns.from_full(means, residual + torch.diag((~x.isnan()).to(x.dtype)))


def selected(components: Product, columns: Sequence[int]) -> Product:
    place = {column: i for i, column in enumerate(columns)}
    parts, groups = [], []
    for part, own in zip(components.parts, components.columns, strict=True):
        kept = [i for i, column in enumerate(own) if column in place]
        if kept:
            parts.append(part.select(torch.tensor(kept)))  # type: ignore[attr-defined]
            groups.append(tuple(place[own[i]] for i in kept))
    return Product(tuple(parts), tuple(groups))
