"""Which family models a column, and the product of the families of all columns.

number, date    gaussian, one covariance for all of them; or gamma, exponential for positive numbers
count           negative binomial, whose limit is Poisson; or poisson, gaussian; or all of them one multinomial
yes/no          bernoulli
level           categorical
constant        categorical with one level, 0 nats
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from torch import Tensor

from jensen.contract.fitted import Values, not_negative, positive, probabilities, read_values
from jensen.data.columns import Columns
from jensen.data.names import column_name, listed, shown
from jensen.models.mixtures.components import AnyComponents, SmoothFamily
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.bernoulli import BernoulliFamily, Bernoullis
from jensen.models.mixtures.families.categorical import CategoricalFamily, Categoricals
from jensen.models.mixtures.families.gamma import GammaFamily, Gammas
from jensen.models.mixtures.families.multinomial import MultinomialFamily, Multinomials
from jensen.models.mixtures.families.negative_binomial import NegativeBinomialFamily, NegativeBinomials
from jensen.models.mixtures.families.poisson import PoissonFamily, Poissons
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.models.mixtures.gaussians.base import GaussianComponents
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.parameters import checked_matrices
from jensen.models.mixtures.product import Product, ProductFamily

# By kind, the family that "auto" chooses; and the kind that a column has if a family is asked for it.
AUTO = {
    "number": "gaussian",
    "date": "gaussian",
    "count": "negative binomial",
    "yes/no": "bernoulli",
    "level": "categorical",
    "constant": "categorical",
}
KIND_OF = {
    "gaussian": "number",
    "gamma": "number",
    "exponential": "number",
    "poisson": "count",
    "negative binomial": "count",
    "multinomial": "count",
    "bernoulli": "yes/no",
    "categorical": "level",
}
FAMILIES = tuple(KIND_OF)


def kinds_asked(
    families: str | Mapping[str | int, str], columns: Mapping[str | int, Any] | None
) -> dict[str | int, Any]:
    """The kinds that a user asks for, by `columns` or by the families of some columns."""
    asked = {} if isinstance(families, str) else {name: KIND_OF[checked(family)] for name, family in families.items()}
    return asked | dict(columns or {})


def checked(family: str) -> str:
    if family not in FAMILIES:
        raise ValueError(f"families names {family!r}; choose {listed(FAMILIES)}, or 'auto' for all columns")
    return family


def chosen_families(families: str | Mapping[str | int, str], columns: Columns) -> tuple[str, ...]:
    """The family of every modelled column."""
    asked = {} if isinstance(families, str) else {column_name(name): family for name, family in families.items()}
    unknown = [name for name in asked if name not in columns.names]
    if unknown:
        raise ValueError(
            f"families names the column {shown(unknown[0])}, which is not modelled; the columns are "
            f"{listed(columns.names)}"
        )
    # One family for all columns is for those that can have it; a constant has nothing to model.
    wanted = families if isinstance(families, str) and families != "auto" else None
    found = []
    for name, kind in zip(columns.names, columns.kinds, strict=True):
        usual = asked.get(name) or (wanted if wanted is not None and can_be(wanted, kind) else AUTO[kind])
        found.append(usual if can_be(usual, kind) else AUTO[kind])
    return tuple(found)


def can_be(family: str, kind: str) -> bool:
    return kind == KIND_OF[family] or (family == "gaussian" and kind in ("date", "count")) or AUTO[kind] == family


@dataclass(frozen=True)
class Options:
    """What the families need to know of a model's arguments."""

    covariance_type: str
    reg_covar: float
    prior: ConjugatePrior | None
    alpha: float


def product_family(names: Sequence[str], columns: Columns, x: Tensor, options: Options) -> ProductFamily:
    """The families of all columns; rows (n, d) that they cannot model are refused."""
    groups = groups_of(names)
    families: list[SmoothFamily[Any]] = []
    for name, own in groups.items():
        part, levels = x[:, list(own)], tuple(max(len(columns.levels[j]), 1) for j in own)
        family = family_named(name, part, levels, options)
        if not isinstance(family, GaussianFamily):
            family.check(part, [str(columns.names[j]) for j in own])
        families.append(family)
    return ProductFamily(tuple(families), tuple(groups.values()))


def groups_of(names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The columns of every family that occurs, in the order of FAMILIES."""
    return {family: own for family in FAMILIES if (own := tuple(j for j, name in enumerate(names) if name == family))}


def family_named(name: str, x: Tensor, levels: tuple[int, ...], options: Options) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: GaussianFamily(STRUCTURES[options.covariance_type], options.reg_covar, options.prior),
        "gamma": lambda: GammaFamily.of(x),
        "exponential": lambda: GammaFamily.of(x, shape=1.0),
        "poisson": lambda: PoissonFamily(),
        "negative binomial": lambda: NegativeBinomialFamily.of(x),
        "multinomial": lambda: MultinomialFamily(1 + options.alpha, max(1, round(float(x.nansum(1).mean())))),
        "bernoulli": lambda: BernoulliFamily(1 + options.alpha, 1 + options.alpha),
        "categorical": lambda: CategoricalFamily(levels, 1 + options.alpha),
    }
    return makers[name]()


def column_parameters(
    components: Product, names: Sequence[str], columns: Columns
) -> dict[str | int, dict[str, np.ndarray]]:
    """{column: {parameter: array (K, ...)}}."""
    found: dict[str | int, dict[str, np.ndarray]] = {}
    for part, own in zip(components.parts, components.columns, strict=True):
        for place, j in enumerate(own):
            found[columns.names[j]] = {name: values.numpy() for name, values in described(part, place).items()}
    return {name: found[name] for name in columns.names}


def described(part: AnyComponents, place: int) -> dict[str, Tensor]:
    """The parameters of one column of a part."""
    if isinstance(part, GaussianComponents):
        return {"mean": part.means[:, place], "variance": part.feature_variances()[:, place]}
    if isinstance(part, Categoricals):
        start = sum(part.levels[:place])
        return {"probabilities": part.probabilities[:, start : start + part.levels[place]]}
    if isinstance(part, Bernoullis | Multinomials):
        return {"probability": part.probabilities[:, place]}
    if isinstance(part, Poissons):
        return {"rate": part.rates[:, place]}
    if isinstance(part, NegativeBinomials):
        return {"mean": part.means[:, place], "size": part.sizes[:, place]}
    assert isinstance(part, Gammas)
    return {"shape": part.shapes[:, place], "scale": part.scales[:, place]}


# Files


def theta_record(theta: MixtureTheta[Product], names: Sequence[str]) -> dict[str, Any]:
    """Weights, and for every family its parameters."""
    parts = zip(groups_of(names), theta.components.parts, strict=True)
    return {"weights": theta.weights, "families": tuple(names)} | {name: fields_of(part) for name, part in parts}


def fields_of(part: AnyComponents) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def share(name: str, values: Tensor) -> Tensor:
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"{name} must be between 0 and 1, got {float(values.min())} to {float(values.max())}")
    return values


def theta_from(record: Mapping[str, Any], columns: Columns, covariance_type: str) -> MixtureTheta[Product]:
    """Undo `theta_record`; values that no fit could have left are refused."""
    names = tuple(record["families"])
    if len(names) != len(columns.names) or not all(
        name in FAMILIES and can_be(name, kind) for name, kind in zip(names, columns.kinds, strict=False)
    ):
        raise ValueError(f"families={names} do not suit the columns; the file is damaged")
    weights = Values("K", check=probabilities).read("weights", record["weights"])
    groups = groups_of(names)
    parts = [part_from(name, record[name], own, len(weights), columns, covariance_type) for name, own in groups.items()]
    return MixtureTheta(weights, Product(tuple(parts), tuple(groups.values())))


def part_from(
    name: str, record: Mapping[str, Any], own: tuple[int, ...], k: int, columns: Columns, covariance_type: str
) -> AnyComponents:
    sizes, d = {"K": k, "d": len(own)}, len(own)
    if name == "gaussian":
        structure = STRUCTURES[covariance_type]
        means = Values("K", "d").read("means", record["means"], **sizes)
        user = structure.user_shape(record["covariances"])
        return structure(means, checked_matrices(structure, user, k, d, "covariances"))
    if name == "bernoulli":
        return Bernoullis(Values("K", "d", check=share).read("probabilities", record["probabilities"], **sizes))
    if name == "multinomial":
        found = Values("K", "d", check=share).read("probabilities", record["probabilities"], **sizes)
        return Multinomials(found, int(record["length"]))
    if name == "categorical":
        levels = tuple(max(len(columns.levels[j]), 1) for j in own)
        total = Values("K", sum(levels), check=share).read("probabilities", record["probabilities"], **sizes)
        return Categoricals(total, levels)
    if name == "poisson":
        return Poissons(Values("K", "d", check=not_negative).read("rates", record["rates"], **sizes))
    if name == "negative binomial":
        means = Values("K", "d", check=not_negative).read("means", record["means"], **sizes)
        counts = tuple(tuple(int(value) for value in values) for values in record["counts"])
        return NegativeBinomials(means, record["sizes"].clone(), counts)
    values = read_values(
        record, {"shapes": Values("K", "d", check=positive), "scales": Values("K", "d", check=positive)}, **sizes
    )
    return Gammas(values["shapes"], values["scales"], 1.0 if name == "exponential" else None)
