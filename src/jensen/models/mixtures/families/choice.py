"""Which family models a column, and the product of the families of all columns.

number, date    gaussian, one covariance for all of them; or gamma, exponential, log-normal for positive numbers
count           negative binomial, whose limit is Poisson; or poisson, gaussian; or all of them one multinomial
yes/no          bernoulli
level           categorical
constant        categorical with one level, 0 nats
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor

from jensen.contract import Rows
from jensen.contract.fitted import Values, not_negative, positive, probabilities, read_values
from jensen.data.cells import Cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.infer import count_columns, learn_columns
from jensen.data.names import column_name, listed, shown
from jensen.data.sparse import some_features
from jensen.data.statistics import TableStatistics
from jensen.models.mixtures.components import AnyComponents, SmoothFamily
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.bernoulli import BernoulliFamily, Bernoullis
from jensen.models.mixtures.families.categorical import CategoricalFamily, Categoricals
from jensen.models.mixtures.families.entries import ColumnFamily
from jensen.models.mixtures.families.gamma import GammaFamily, Gammas
from jensen.models.mixtures.families.log_normal import LogNormalFamily, LogNormals
from jensen.models.mixtures.families.multinomial import MultinomialFamily, Multinomials
from jensen.models.mixtures.families.negative_binomial import NegativeBinomialFamily, NegativeBinomials
from jensen.models.mixtures.families.poisson import PoissonFamily, Poissons
from jensen.models.mixtures.gaussians import STRUCTURES, AnyGaussians
from jensen.models.mixtures.gaussians.base import GaussianComponents
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.noise import Noise
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
    "log-normal": "number",
    "poisson": "count",
    "negative binomial": "count",
    "multinomial": "count",
    "bernoulli": "yes/no",
    "categorical": "level",
}
FAMILIES = tuple(KIND_OF)
# Those of positive numbers; counts and levels are checked when they are read.
POSITIVE: dict[str, ColumnFamily[Any]] = {
    "gamma": GammaFamily(),
    "exponential": GammaFamily(shape=1.0),
    "log-normal": LogNormalFamily(),
}


def learn_for_families(
    X: Table | Cells | TableStatistics, families: str | Mapping[str | int, str], columns: Mapping[str | int, Any] | None
) -> Columns:
    """What the columns are; a family that does not suit what a column looks like asks for another kind of it."""
    if takes_sparse(families):
        check_no_kinds(families, columns)
        assert not isinstance(X, TableStatistics)  # a scan counts less
        return count_columns(X)
    with_atoms = families == "auto"
    found = learn_columns(X, columns, kinds="all", atoms=with_atoms)
    if isinstance(families, str):
        return found
    kinds = dict(zip(found.names, found.kinds, strict=True))
    given = {column_name(name) for name in columns or ()}
    other: dict[str | int, Any] = {}
    for name, family in ((column_name(name), checked(family)) for name, family in families.items()):
        if name not in (*kinds, *found.left_out):
            raise ValueError(f"families names the column {shown(name)}, which X does not have; {named(found)}")
        if name in kinds and (can_be(family, kinds[name]) or kinds[name] == "constant"):
            continue
        if name in given:
            raise ValueError(
                f"families asks for {family!r} in column {shown(name)}, but columns makes it a {kinds.get(name)}; "
                "change one of them"
            )
        other[name] = KIND_OF[family]
    if not other:
        return found
    try:
        return learn_columns(X, {**(columns or {}), **other}, kinds="all", atoms=with_atoms)
    except ValueError as error:
        raise ValueError(f"families={dict(families)!r} needs other columns: {error}") from None


def takes_sparse(families: Any) -> bool:
    """Whether all columns are one block of counts, which may be sparse."""
    return isinstance(families, str) and families == "multinomial"


def check_not_sparse(X: Any, families: Any) -> None:
    """An error for a sparse matrix, if its families are left to the rules, which read dense columns."""
    if issparse(X) and isinstance(families, str) and families == "auto":
        raise TypeError(
            "X is sparse, and families='auto' takes dense data; choose families=\"multinomial\" for counts, such "
            "as the words of a text, or give X.toarray()"
        )


def check_no_kinds(families: Any, columns: Mapping[str | int, Any] | None) -> None:
    """An error for one family of all columns beside kinds of some."""
    if columns:
        raise ValueError(
            f"families={families!r} is for all columns, and columns={dict(columns)!r} names the kinds of some; "
            "give families by column, as {column: family}"
        )


def named(columns: Columns) -> str:
    return f"its columns are {listed(columns.names)}"


def checked(family: str) -> str:
    if family not in FAMILIES:
        raise ValueError(f"families names {family!r}; choose {listed(FAMILIES)}, or 'auto' for all columns")
    return family


def chosen_families(families: str | Mapping[str | int, str], columns: Columns) -> tuple[str, ...]:
    """The family of every modelled column."""
    asked = {} if isinstance(families, str) else {column_name(name): family for name, family in families.items()}
    # One family for all columns is for those that can have it; a constant has nothing to model.
    wanted = families if isinstance(families, str) and families != "auto" else None
    found = []
    for name, kind in zip(columns.names, columns.kinds, strict=True):
        usual = asked.get(name) or (wanted if wanted is not None and can_be(wanted, kind) else AUTO[kind])
        found.append(usual if can_be(usual, kind) else AUTO[kind])
    check_bounds(columns, found)
    return tuple(found)


def check_bounds(columns: Columns, families: Sequence[str]) -> None:
    """An error for given bounds that a family does not have; a Gaussian takes any."""
    for name, family, ends in zip(columns.names, families, columns.support.tolist(), strict=True):
        low, high = ends
        if family in POSITIVE and (low not in (0, -np.inf) or high != np.inf):
            raise ValueError(
                f"families asks for {family!r} in column {shown(name)}, which has no bound but 0, and columns gives "
                f"the bounds {low:g} and {high:g}; give it the family 'gaussian', which takes any bounds, or leave "
                "them out"
            )


def measure_of(columns: Columns, families: Sequence[str]) -> tuple[str, ...]:
    """For every column what its family gives: a Gaussian of counts has a density."""
    measures = zip(columns.measure, families, strict=True)
    return tuple("density" if KIND_OF[family] == "number" and own != "both" else own for own, family in measures)


def can_be(family: str, kind: str) -> bool:
    return kind == KIND_OF[family] or (family == "gaussian" and kind in ("date", "count")) or AUTO[kind] == family


@dataclass(frozen=True)
class Options:
    """What the families need to know of a model's arguments."""

    covariance_type: str
    reg_covar: float
    prior: ConjugatePrior | None
    alpha: float


def product_family(
    names: Sequence[str], n_levels: Sequence[int], labels: Sequence[str], rows: Rows, options: Options
) -> ProductFamily:
    """The families of all columns of the engine; rows that they cannot model are refused.

    Args:
        names: of the families.
        n_levels: of every column, 1 where it has no levels.
        labels: names of the columns, for messages.
        rows: training rows (n, D).
        options: of the model.
    """
    groups, x = groups_of(names), rows.examples
    families: list[SmoothFamily[Any]] = []
    for name, own in groups.items():
        # Numbers may be anything, and codes of levels are in the support by how they are made.
        part = x if KIND_OF[name] in ("yes/no", "level") or name == "gaussian" else some_features(x.mT, own).mT
        family = family_named(name, part, tuple(n_levels[j] for j in own), options, partial(length_of, rows, own))
        if part is not x:
            family.check(part, [labels[j] for j in own])
        families.append(family)
    return ProductFamily(tuple(families), tuple(groups.values()))


def groups_of(names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The columns of every family that occurs, in the order of FAMILIES."""
    return {family: own for family in FAMILIES if (own := tuple(j for j, name in enumerate(names) if name == family))}


def length_of(rows: Rows, own: Sequence[int]) -> int:
    """The mean of the sum over some columns, as a whole number of at least 1."""
    spread = rows.extent.some(own).spread
    return max(1, round(float(spread.mass @ spread.mean) / max(rows.mass, 1e-300)))


def family_named(name: str, x: Tensor, levels: tuple[int, ...], options: Options, length: Callable[[], int]) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: GaussianFamily(STRUCTURES[options.covariance_type], options.reg_covar, options.prior),
        "gamma": lambda: GammaFamily.of(x),
        "exponential": lambda: GammaFamily.of(x, shape=1.0),
        "log-normal": lambda: LogNormalFamily.of(x, options.reg_covar),
        "poisson": lambda: PoissonFamily(),
        "negative binomial": lambda: NegativeBinomialFamily.of(x),
        "multinomial": lambda: MultinomialFamily(1 + options.alpha, length()),
        "bernoulli": lambda: BernoulliFamily(1 + options.alpha, 1 + options.alpha),
        "categorical": lambda: CategoricalFamily(levels, 1 + options.alpha if options.alpha else None),
    }
    return makers[name]()


def column_parameters(components: Product) -> list[dict[str, np.ndarray]]:
    """For every column of the engine {parameter: array (K, ...)}."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for part, own in zip(components.parts, components.columns, strict=True):
        for place, j in enumerate(own):
            found[j] = {name: values.numpy() for name, values in described(part, place).items()}
    return [found[j] for j in sorted(found)]


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
    if isinstance(part, LogNormals):
        return {"location": part.locations[:, place], "variance": part.variances[:, place]}
    assert isinstance(part, Gammas)
    return {"shape": part.shapes[:, place], "scale": part.scales[:, place]}


# Files


def theta_record(theta: MixtureTheta[Product], names: Sequence[str]) -> dict[str, Any]:
    """Weights, and for every family its parameters."""
    parts = zip(groups_of(names), theta.components.parts, strict=True)
    own = {"weights": theta.weights, "families": tuple(names)} | {name: fields_of(part) for name, part in parts}
    return own if theta.noise is None else own | {"noise": theta.noise.record()}


def fields_of(part: AnyComponents) -> dict[str, Any]:
    # The form of Gaussians follows from the model's arguments.
    return {field.name: getattr(part, field.name) for field in fields(part) if field.name != "form"}


def share(name: str, values: Tensor) -> Tensor:
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"{name} must be between 0 and 1, got {float(values.min())} to {float(values.max())}")
    return values


def theta_from(record: Mapping[str, Any], n_levels: Sequence[int], covariance_type: str) -> MixtureTheta[Product]:
    """Undo `theta_record`; values that no fit could have left are refused."""
    names = tuple(record["families"])
    if len(names) != len(n_levels) or not all(name in FAMILIES for name in names):
        raise ValueError(f"families={names} do not suit the columns; the file is damaged")
    weights = Values("K", check=probabilities).read("weights", record["weights"])
    noise = Noise.from_record(record["noise"], len(names)) if "noise" in record else None
    groups, k = groups_of(names), len(weights) - (noise is not None)
    parts = [
        part_from(name, record[name], tuple(n_levels[j] for j in own), k, covariance_type)
        for name, own in groups.items()
    ]
    return MixtureTheta(weights, Product(tuple(parts), tuple(groups.values())), noise)


def part_from(
    name: str, record: Mapping[str, Any], levels: tuple[int, ...], k: int, covariance_type: str
) -> AnyComponents:
    """The components of one family, for columns with so many levels."""
    d = len(levels)
    sizes = {"K": k, "d": d}
    if name == "gaussian":
        structure = STRUCTURES[covariance_type]
        means = Values("K", "d").read("means", record["means"], **sizes)
        user = structure.user_shape(record["covariances"])
        gaussians: AnyGaussians = structure(means, checked_matrices(structure, user, k, d, "covariances"))
        return gaussians
    if name == "bernoulli":
        return Bernoullis(Values("K", "d", check=share).read("probabilities", record["probabilities"], **sizes))
    if name == "multinomial":
        words = Values("K", "d", check=share).read("probabilities", record["probabilities"], **sizes)
        return Multinomials(words, int(record["length"]))
    if name == "categorical":
        total = Values("K", sum(levels), check=share).read("probabilities", record["probabilities"], **sizes)
        return Categoricals(total, levels)
    if name == "poisson":
        return Poissons(Values("K", "d", check=not_negative).read("rates", record["rates"], **sizes))
    if name == "negative binomial":
        means = Values("K", "d", check=not_negative).read("means", record["means"], **sizes)
        # An infinite size is a Poisson distribution.
        sizes_read = record["sizes"].clone()
        if tuple(sizes_read.shape) != (k, d) or not bool((sizes_read > 0).all()):
            raise ValueError("sizes of negative binomials must be positive; the file is damaged")
        return NegativeBinomials(means, sizes_read, tuple(tuple(map(int, values)) for values in record["counts"]))
    if name == "log-normal":
        schema = {"locations": Values("K", "d"), "variances": Values("K", "d", check=positive)}
        return LogNormals(**read_values(record, schema, **sizes))
    schema = {"shapes": Values("K", "d", check=positive), "scales": Values("K", "d", check=positive)}
    found = read_values(record, schema, **sizes)
    return Gammas(found["shapes"], found["scales"], 1.0 if name == "exponential" else None)
