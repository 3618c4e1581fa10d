"""Some columns of a mixture: the marginal over them, or the mixture of the others given values of some."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.data.names import shown
from jensen.data.some import places_of, row_of, some_columns
from jensen.models.mixtures.coordinates import Coordinates
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.gaussians import Gaussians
from jensen.models.mixtures.inference import given_observed, log_evidence, responsibilities
from jensen.models.mixtures.noise import Noise
from jensen.models.mixtures.product import Product


def marginal(theta: MixtureTheta[Product], columns: Sequence[int]) -> MixtureTheta[Product]:
    """The mixture of some columns, in this order."""
    return MixtureTheta(theta.weights, selected(theta.components, columns), some_noise(theta, columns))


def condition(theta: MixtureTheta[Product], x: Tensor, columns: Sequence[int]) -> MixtureTheta[Product]:
    """The mixture of some columns of a row x (D,), which are missing there, given its observed ones."""
    weights = responsibilities(theta, x[None])[0]
    parts = []
    for part, own in zip(theta.components.parts, theta.components.columns, strict=True):
        known = x[list(own)]
        # Other families are independent of what is observed, given the component.
        parts.append(given(part, known) if isinstance(part, Gaussians) else part)
    components = selected(Product(tuple(parts), theta.components.columns), columns)
    return MixtureTheta(weights, components, some_noise(theta, columns))


def some_noise(theta: MixtureTheta[Product], columns: Sequence[int]) -> Noise | None:
    return None if theta.noise is None else theta.noise.select(columns)


def derived(model: Any, theta: MixtureTheta[Product], places: list[int]) -> Any:
    """A fitted mixture of some of the columns of a model."""
    params: dict[str, Any] = model.get_params(deep=False)
    other = type(model)(**params)
    if "n_components" in params:
        other.n_components = theta.n_components
        other.covariance_type = structure_of(theta.components, model.covariance_type)
    other.theta_, other.total_weight_ = theta, model.total_weight_
    other._columns = some_columns(model._columns, places)
    other._families = tuple(model._families[j] for j in places)
    other.n_features_in_ = len(places)
    kept = [model._columns.kept[j] for j in places]
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        other.feature_names_in_ = names[kept]
    own = None if model._kind.columns is None else [model._kind.columns[j] for j in kept]
    other._kind = replace(model._kind, index=None, columns=own)
    if hasattr(model, "classes_"):
        other.classes_ = model.classes_
    return other


def check_possible(
    theta: MixtureTheta[Product], coordinates: Coordinates, x: Tensor, given: Mapping[Any, Any], places: Sequence[int]
) -> None:
    """An error for a row x (1, d) of probability 0, which names the value of these that no component can have."""
    if log_density(theta, coordinates, x) > -math.inf:
        return
    for (name, value), j in zip(given.items(), places, strict=True):
        alone = torch.full_like(x, torch.nan)
        alone[:, j] = x[:, j]
        if log_density(theta, coordinates, alone) == -math.inf:
            raise ValueError(
                f"given holds {value!r} for column {shown(name)}, which has probability 0 in every component; give a "
                "value that the column can have"
            )
    raise ValueError(f"given={dict(given)!r} has probability 0: no component has all of these values; give other ones")


def log_density(theta: MixtureTheta[Product], coordinates: Coordinates, x: Tensor) -> float:
    """ln p of one row x (1, d)."""
    return float(log_evidence(theta, coordinates.expand(x)) + coordinates.log_jacobian(x))


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


def of_columns(model: Any, columns: Sequence[str | int]) -> Any:
    """A fitted mixture of some columns, by name or number."""
    check_is_fitted(model)
    places = places_of(model._columns, columns)
    return derived(model, marginal(model.theta_, model._coordinates.of_columns(places)), places)


def given_values(model: Any, given: Mapping[str | int, Any]) -> Any:
    """A fitted mixture of the other columns given values of some."""
    check_is_fitted(model)
    x, coordinates = row_of(model._columns, given), model._coordinates
    check_possible(model.theta_, coordinates, x, given, places_of(model._columns, given))
    rest = x[0].isnan().nonzero().flatten().tolist()
    theta = condition(model.theta_, coordinates.expand(x)[0], coordinates.of_columns(rest))
    return derived(model, theta, rest)
