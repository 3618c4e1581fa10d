"""Columns of any family given the others, in every row of a table: see `given_rest`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from torch import Tensor

from jensen.contract.given_rest import GivenRest, NoClosedFormError, check_coverage
from jensen.data.codes import Codes
from jensen.data.columns import Columns
from jensen.data.container import Kind
from jensen.data.names import listed as listed_names
from jensen.data.names import shown
from jensen.engines.em.batch import Batch
from jensen.engines.em.frame import Frame
from jensen.formulas.counts import log_negative_binomial, log_poisson
from jensen.models.mixtures.components import AnyComponents
from jensen.models.mixtures.coordinates import Coordinates, given_number, level_shares
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.bernoulli import Bernoullis
from jensen.models.mixtures.families.categorical import Categoricals
from jensen.models.mixtures.families.negative_binomial import NegativeBinomials
from jensen.models.mixtures.families.poisson import Poissons
from jensen.models.mixtures.gaussians import Gaussians
from jensen.models.mixtures.given_rest import (
    FREE,
    Cells,
    Ends,
    Normals,
    answered,
    cells_with_atoms,
    discrete_cells,
    in_place,
    in_units,
    joint,
    normalised,
    number_cells,
    numbers_given_rest,
)
from jensen.models.mixtures.inference import answers
from jensen.models.mixtures.product import Product

Theta = MixtureTheta[Product]
# Values of a count whose probabilities are listed; of more, every second, third, ... one is.
MOST_VALUES = 4096
# Families of which one column given the others is found in closed form.
EXACT = ("gaussian", "bernoulli", "categorical", "poisson", "negative binomial")


def table_cells(
    theta: Theta, coordinates: Coordinates, columns: Columns, codes: Codes, kind: Kind, coverage: float
) -> GivenRest:
    """Cells of a table for the user."""
    ranges = columns.ranges if kind.is_frame else None
    found = product_cells(theta, coordinates, columns, codes, check_coverage(coverage), ranges)

    def table(values: Tensor) -> Any:
        made = columns.table(values, kind)
        numbers = [j for j, own in enumerate(columns.kinds) if own == "number"]
        # What is expected of a cell may lie outside of the range of the training rows.
        return with_numbers(made, {columns.names[j]: values[:, j].numpy() for j in numbers}) if kind.is_frame else made

    return answered(found, table)


def with_numbers(frame: Any, columns: Mapping[Any, np.ndarray]) -> Any:
    """A data frame with some of its columns replaced."""
    if hasattr(frame, "iloc"):
        other = frame.copy()
        for name, values in columns.items():
            other[name] = values
        return other
    own = nw.from_native(frame, eager_only=True)
    made = [nw.new_series(str(name), values, backend=own.implementation) for name, values in columns.items()]
    return own.with_columns(*made).to_native()


def product_cells(
    theta: Theta, coordinates: Coordinates, columns: Columns, codes: Codes, coverage: float, ranges: Tensor | None
) -> Cells:
    """Cells (n, d) of a table, in codes; `ranges` (d, 2), if given, is where means of numbers end."""
    for name, family in zip(columns.names, coordinates.families, strict=True):
        if family not in EXACT:
            raise NoClosedFormError(
                f"column {shown(name)} has the family {family!r}; given_rest is exact for {listed_names(EXACT)}"
            )
    theta = theta.with_noise(None)
    x = torch.as_tensor(codes.x).double()
    y = coordinates.expand(x)
    numbers = GaussianColumns.of(theta, y)
    unseen = torch.as_tensor(codes.unseen).expand(x.shape)
    reach = [(float(low), float(high)) for low, high in ranges] if ranges is not None else [FREE] * x.shape[1]

    def column(j: int) -> Cells:
        seen = ~x[:, j].isnan()
        if not bool(seen.any()):
            found = Cells(*torch.full((5, len(x)), torch.nan, dtype=torch.float64))
        elif j in coordinates.atoms:
            found = in_place(seen, atoms_of(theta, coordinates, x[seen], y[seen], j, coverage, reach[j]))
        elif numbers is not None and j in numbers.place:
            ends = coordinates.bounds.get(j, FREE)
            found = in_place(seen, numbers.cells(x[seen, j], seen, j, coverage, ends, reach[j]))
        else:
            found = in_place(seen, values_of(theta, y[seen], j, coverage))
        if not bool(unseen[:, j].any()):
            return found
        # All levels that no training row had share one probability.
        epsilon = 1 / (float(columns.n_observed[j]) + 1)
        rows, level = unseen[:, j], most_probable(theta, y[unseen[:, j]], j)
        one = torch.full_like(level, epsilon)
        own = in_place(rows, Cells(one.log(), one, level, level, level))
        parts = ((getattr(found, name), getattr(own, name)) for name in ("nats", "tail", "expected", "low", "high"))
        return Cells(*(torch.where(rows, new, old) for old, new in parts))

    return Cells.side_by_side([column(j) for j in range(x.shape[1])])


class GaussianColumns:
    """The Gaussian columns of rows, each given all others."""

    def __init__(self, theta: Theta, y: Tensor, part: Any, own: tuple[int, ...]) -> None:
        self.place = {column: i for i, column in enumerate(own)}
        self.y, self.shares, self.log_joint = y, theta.shares, joint(theta, y)
        frame = Frame(*(values[list(own)] for values in (theta.frame().origin, theta.frame().scale)))
        local = part.affine(-frame.origin / frame.scale, 1 / frame.scale)
        standardised = (y[:, list(own)] - frame.origin) / frame.scale
        found = numbers_given_rest(local.means, local.full(), standardised)
        self.mean, self.variance = in_units(frame, *found)

    @classmethod
    def of(cls, theta: Theta, y: Tensor) -> GaussianColumns | None:
        for part, own in zip(theta.components.parts, theta.components.columns, strict=True):
            if isinstance(part, Gaussians):
                return cls(theta, y, part, own)
        return None

    def cells(self, x: Tensor, seen: Tensor, j: int, coverage: float, ends: Ends, reach: Ends) -> Cells:
        i = self.place[j]
        of_rest = self.log_joint[seen], self.mean[seen, :, i], self.variance[seen, :, i]
        return number_cells(x, self.y[seen, j], *of_rest, self.shares, coverage, ends, reach)


def log_weights_of_rest(theta: Theta, y: Tensor, columns: list[int]) -> Tensor:
    """ln w (n, K) given all columns of the engine but these."""
    rest = y.clone()
    rest[:, columns] = torch.nan
    return normalised(joint(theta, rest), theta.shares)


def atoms_of(
    theta: Theta, coordinates: Coordinates, x: Tensor, y: Tensor, j: int, coverage: float, reach: Ends
) -> Cells:
    """A column of numbers with atoms, all rows of which have a value."""
    level, frame = coordinates.level_of(j), theta.frame()
    rest = y.clone()
    rest[:, [j, level]] = torch.nan

    def number(local: Theta, batch: Batch) -> Tensor:
        centre, variance = given_number(local.components, batch, j)
        return torch.cat([centre, variance.expand_as(centre)], -2)

    log_weights = log_weights_of_rest(theta, y, [j, level])
    log_shares = level_shares(theta.components, level).log()
    log_levels = torch.logsumexp(log_weights[:, :, None] + log_shares, 1)
    centre, variance = answers(theta, rest, number).chunk(2, 1)
    # Numbers that are no atoms come from the components in proportion to ω_k0.
    of_numbers = normalised(log_weights + log_shares[:, 0], theta.shares)
    found = Normals(
        of_numbers,
        centre * frame.scale[j] + frame.origin[j],
        variance.sqrt() * frame.scale[j],
        coordinates.bounds.get(j, FREE),
        reach,
    )
    return cells_with_atoms(x[:, j], y[:, j], found, log_levels, coordinates.atoms[j], coverage)


def values_of(theta: Theta, y: Tensor, j: int, coverage: float) -> Cells:
    """A column of levels, yes/no or counts, all rows of which have a value."""
    part, place = part_of(theta.components, j)
    values, width = listed(part, place, y[:, j])
    log_weights = log_weights_of_rest(theta, y, [j])
    log_table = log_probabilities(part, place, values)
    probabilities = log_weights.exp() @ log_table.exp()
    own = log_probabilities(part, place, y[:, j]).T
    nats = torch.logsumexp(log_weights + own, 1)
    has_order = isinstance(part, Poissons | NegativeBinomials)
    return discrete_cells(values, probabilities, nats, coverage, has_order, width)


def most_probable(theta: Theta, y: Tensor, j: int) -> Tensor:
    """The level (n,) that rows without one most probably have."""
    part, place = part_of(theta.components, j)
    values, _ = listed(part, place, y[:, j])
    log_table = log_probabilities(part, place, values)
    return values[(log_weights_of_rest(theta, y, [j]).exp() @ log_table.exp()).argmax(1)]


def part_of(components: Product, j: int) -> tuple[AnyComponents, int]:
    """The part of a product that has a column, and the place of the column in it."""
    for part, own in zip(components.parts, components.columns, strict=True):
        if j in own:
            return part, own.index(j)
    raise ValueError(f"there is no column {j}")


def listed(part: AnyComponents, place: int, x: Tensor) -> tuple[Tensor, float]:
    """The values of a column, and how many neighbours each of them stands for."""
    if isinstance(part, Categoricals):
        return torch.arange(part.levels[place], dtype=torch.float64), 1.0
    if isinstance(part, Bernoullis):
        return torch.arange(2, dtype=torch.float64), 1.0
    if isinstance(part, NegativeBinomials):
        mean, size = part.means[:, place], part.sizes[:, place]
    else:
        assert isinstance(part, Poissons)
        mean = part.rates[:, place]
        size = torch.full_like(mean, torch.inf)
    variance = mean + mean.square() / size
    # Tails fall at least by a factor e in every 1 + μ/s counts, and 40 such steps leave nothing.
    end = float((mean + 8 * variance.sqrt() + 40 * (1 + mean / size)).max())
    end = max(end, float(x.nan_to_num(nan=0.0).max()) if len(x) else 0.0) + 1
    width = max(1, math.ceil(end / MOST_VALUES))
    return torch.arange(width // 2, math.ceil(end) + 1, width, dtype=torch.float64), float(width)


def log_probabilities(part: AnyComponents, place: int, values: Tensor) -> Tensor:
    """ln p_k (K, V) of values of a column."""
    if isinstance(part, Categoricals):
        start = sum(part.levels[:place])
        return part.probabilities[:, start : start + part.levels[place]].log()[:, values.long()]
    if isinstance(part, Bernoullis):
        p = part.probabilities[:, place, None]
        return torch.where(values == 1, p.log(), (1 - p).log())
    if isinstance(part, NegativeBinomials):
        return log_negative_binomial(values, part.means[:, place, None], part.sizes[:, place, None])
    assert isinstance(part, Poissons)
    return log_poisson(values, part.rates[:, place, None])
