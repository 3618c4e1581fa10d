"""What the columns of a table are, found from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from jensen.data.cells import Cells
from jensen.data.columns import Columns
from jensen.data.constants import warn_of_constants
from jensen.data.dates import SECONDS
from jensen.data.edits import LEFT_OUT, Asked, asked_columns, with_asked_numbers
from jensen.data.findings import own_kind, type_of, warn_of_left_out
from jensen.data.levels import Grid, asked_kinds, learn_kind, numbers_of_text, plain
from jensen.data.names import shown
from jensen.data.reader import check_columns
from jensen.data.rules import Found, Given, find_column, is_mostly_distinct, is_running_number
from jensen.data.statistics import statistics_of_column

# Numbers of which a copy in double precision is made at a time.
MOST_AT_ONCE = 2**20


def learn_scaled(
    cells: Cells,
    kinds: str | Mapping[str | int, str],
    shared_scale: bool = False,
    *,
    columns: Any = None,
    constants: bool = True,
    atoms: bool = False,
    pooled: bool = False,
    counts: bool = False,
) -> Columns:
    """Columns for networks: numbers, yes/no and levels, dates and constants.

    Numbers and dates get their mean as location and their standard deviation (of the population) as scale; atoms do
    not count in these.

    Args:
        cells: the table.
        kinds: "number", "count", "yes/no" or "level" for all columns, or {name or number: kind} for some; or "auto":
            truth values are yes/no, text and categories are yes/no if they have two values and else levels, and numbers
            are numbers, but for a data frame's column of the values 0 and 1 only, which is yes/no. Text that names
            rows, and in a data frame running numbers, are left out.
        shared_scale: one location and scale for all numbers, as for the pixels of images.
        columns: kinds and atoms of columns as in `learn_columns`; `kinds` has precedence.
        constants: whether a column with one value is a constant. If not, it is a number with the absolute value of its
            constant as scale, or 1 if that is 0.
        atoms: whether frequent numbers may be atoms.
        pooled: whether scales have one more row, with the mean variance of all numbers; see `pooled_scale`.
        counts: whether a column that is asked to be a count is one, and no number.
    """
    n, d = cells.numbers.shape
    if n == 0 or d == 0:
        raise ValueError(f"X has {n} rows and {d} columns; give at least one of each")
    check_columns(cells.numbers, [shown(name) for name in cells.names])
    asked = network_columns_asked(columns, kinds, cells.names, counts)
    found = [find_scaled(cells, j, asked[j], constants, atoms) for j in range(d)]
    kept = columns_kept(cells.names, asked, found, lambda j: own_kind(j in cells.texts, len({*cells.texts.get(j, ())})))
    used = [found[j] for j in kept]
    location, scale = scaling_of(cells, kept, used, shared_scale)
    if pooled:
        places = [place for place, column in enumerate(used) if column.kind in ("number", "date")]
        varies = np.array([not is_constant(cells, kept[place]) for place in places])
        scale[places] = pooled_scale(np.where(varies, scale[places], 0.0), n)
    n_observed = n - np.sum([np.isnan(part).sum(0) for part in row_parts(cells.numbers)], axis=0)
    return columns_of(cells, found, kept, location, scale, n, n_observed)


def network_columns_asked(
    columns: Any, kinds: str | Mapping[str | int, str], names: tuple[str | int, ...], counts: bool
) -> list[Asked]:
    """What is asked of each column, by its options and by the kind of its likelihood."""
    both = zip(asked_columns(columns, names), asked_kinds(kinds, names), strict=True)
    return [network_asked(one, kind, counts) for one, kind in both]


def columns_kept(
    names: Sequence[str | int], asked: Sequence[Asked], found: Sequence[Found], own: Callable[[int], str | None]
) -> list[int]:
    """The columns that are modelled; warnings name identifiers, with their `own` kinds, and constants."""
    left_out = [j for j, one in enumerate(found) if one.kind == LEFT_OUT]
    warn_of_left_out({names[j]: own(j) for j in left_out if asked[j].kind != LEFT_OUT})
    if len(left_out) == len(found):
        raise ValueError("X has no column left to model; give columns={name: kind} for those that were left out")
    single = [j for j, one in enumerate(found) if one.kind == "constant"]
    warn_of_constants({names[j]: None if found[j].unit else found[j].levels[0] for j in single})
    return [j for j in range(len(found)) if j not in set(left_out)]


def columns_of(
    head: Cells,
    found: Sequence[Found],
    kept: Sequence[int],
    location: np.ndarray,
    scale: np.ndarray,
    n_rows: int,
    n_observed: np.ndarray,
) -> Columns:
    """The columns of a table with these names and types, of which some are kept."""
    used = [found[j] for j in kept]
    return Columns(
        tuple(head.names[j] for j in kept),
        tuple(column.kind for column in used),
        tuple(column.levels for column in used),
        torch.from_numpy(location),
        torch.from_numpy(scale),
        tuple(type_of(head, j) for j in kept),
        head.kind.container,
        atoms=tuple(column.atoms for column in used),
        units=tuple(column.unit for column in used),
        ranges=torch.tensor([(column.low, column.high) for column in used], dtype=torch.float64),
        whole=tuple(column.is_whole for column in used),
        categories=tuple(tuple(map(plain, head.orders.get(j, ()))) for j in kept),
        n_observed=torch.from_numpy(n_observed[list(kept)]),
        n_rows=n_rows,
        left_out=tuple(head.names[j] for j, one in enumerate(found) if one.kind == LEFT_OUT),
        kept=tuple(kept),
    )


def network_asked(one: Asked, kind: str, counts: bool) -> Asked:
    """What is asked of a column, by its options and by the kind of its likelihood."""
    for name, bound, none in (("low", one.low, -math.inf), ("high", one.high, math.inf)):
        if bound not in (None, none):
            raise ValueError(
                f"columns has {name}={bound:g}, but the density of a network has no bounds; leave it out, or fit a "
                "Mixture"
            )
    if kind != "auto":
        return replace(one, kind=kind)
    return Asked("number", ()) if one.kind == "count" and not counts else one


def find_scaled(cells: Cells, column: int, asked: Asked, constants: bool, atoms: bool) -> Found:
    """What a column is; rules that need its values are those of `find_column`."""
    kind, is_text = asked.kind, column in cells.texts
    if kind == LEFT_OUT:
        return Found(LEFT_OUT)
    if cells.sorts[column] == "time" or kind in ("date", "constant"):
        # A likelihood of numbers is one of dates, too.
        return find_column(given_of(cells, column), Asked("date" if kind in ("auto", "number") else kind), False)
    if kind == "auto" and cells.is_frame and is_identifier(cells, column):
        return Found(LEFT_OUT)
    # An asked yes/no column has two values, even if one of them does not occur.
    if constants and not (kind == "yes/no" and not is_text) and is_constant(cells, column):
        return find_column(given_of(cells, column), Asked(), False)
    kind, levels = learn_kind(cells, column, kind)
    if kind == "count":
        return find_column(given_of(cells, column), Asked(kind), False)
    if kind != "number":
        return Found(kind, levels)
    if not (atoms or asked.atoms or cells.is_frame):
        return Found(kind)
    if is_text:
        cells = with_asked_numbers(cells, [asked if j == column else Asked("level") for j in range(len(cells.names))])
    found = find_column(given_of(cells, column), Asked(kind, asked.atoms), atoms)
    if not cells.is_frame:
        return Found(kind, atoms=found.atoms)
    # Who asks for truth values as numbers wants those between them.
    return replace(found, is_whole=found.is_whole and cells.sorts[column] != "bool")


def given_of(cells: Cells, column: int) -> Given:
    statistics = statistics_of_column(cells, column)
    return Given(cells.names[column], cells.sorts[column], cells.orders.get(column), statistics)


def is_identifier(cells: Cells, column: int) -> bool:
    """Whether a column of a data frame names rows."""
    if column in cells.texts:
        return is_mostly_distinct(statistics_of_column(cells, column))
    numbers = cells.numbers[:, column]
    if column in cells.orders or not (numbers[~np.isnan(numbers)] % 1 == 0).all():
        return False
    return is_running_number(statistics_of_column(cells, column))


def is_constant(cells: Cells, column: int) -> bool:
    if column in cells.texts:
        return len(set(cells.texts[column][~np.isnan(cells.numbers[:, column])])) == 1
    low, high = cells.limits
    return bool(low[column] == high[column])


def scaling_of(
    cells: Cells, kept: Sequence[int], found: Sequence[Found], shared_scale: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale (d,) of the columns that are kept: 0 and 1 where they have levels."""
    location, scale = np.zeros(len(kept)), np.ones(len(kept))
    scaled = [place for place, column in enumerate(found) if column.kind in ("number", "date")]
    if not scaled:
        return location, scale
    whole = len(scaled) == cells.numbers.shape[1]
    numbers = cells.numbers if whole else cells.numbers[:, [kept[place] for place in scaled]]
    special = [i for i, p in enumerate(scaled) if found[p].atoms or found[p].unit or kept[p] in cells.texts]
    numbers = numbers.copy() if special and whole else numbers
    for i in special:
        column, own = kept[scaled[i]], found[scaled[i]]
        if column in cells.texts:
            numbers[:, i] = numbers_of_text(cells, column)
        if own.unit:
            numbers[:, i] /= SECONDS[own.unit]
        at_atom = np.isin(numbers[:, i], own.atoms)
        if not at_atom[~np.isnan(numbers[:, i])].all():
            numbers[at_atom, i] = np.nan
    location[scaled], scale[scaled] = moments(numbers.reshape(-1, 1) if shared_scale else numbers)
    return location, scale


def row_parts(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of numbers (n, d), so many at a time that a copy of them is small."""
    size = max(1, MOST_AT_ONCE // numbers.shape[1])
    return (numbers[start : start + size] for start in range(0, len(numbers), size))


def moments(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (d,) of the observed numbers (n, d), of any magnitude."""
    low, high = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
    # Squares of 1e200 overflow: everything is first divided by a power of two, which is exact.
    unit = np.ldexp(1.0, np.frexp(np.maximum(-low, high))[1].clip(-1000, 1000))

    def scaled(part: np.ndarray, mean: np.ndarray | float) -> np.ndarray:
        """In these units about a mean, and 0 where missing."""
        values: np.ndarray = part / unit
        values -= mean
        values[np.isnan(part)] = 0.0
        return values

    # Part by part: copies in double precision of all rows would need several times their memory.
    count = np.sum([(~np.isnan(part)).sum(axis=0) for part in row_parts(numbers)], axis=0)
    mean = np.sum([scaled(part, 0.0).sum(axis=0) for part in row_parts(numbers)], axis=0) / count
    squares = [np.einsum("ij,ij->j", own, own) for own in (scaled(part, mean) for part in row_parts(numbers))]
    std = np.sqrt(np.sum(squares, axis=0) / count)
    is_constant = low == high
    size = np.where(low == 0, 1.0, np.abs(low))
    spread = np.maximum(std * unit, np.finfo(np.float64).tiny)
    return np.where(is_constant, low, mean * unit), np.where(is_constant, size, spread)


def pooled_scale(scale: np.ndarray, n: int) -> np.ndarray:
    """The deviations (d,) of n rows, and of one more that is as far from every mean as columns are on average.

    s_j² becomes (n s_j² + s²)/(n + 1), s² = Σ_j s_j²/d. A pixel that was dark in all of n rows is bright in the next
    with a probability near 1/(n + 1), and pixels have one unit.
    """
    size = scale.max(initial=0.0)
    if size == 0:
        return np.ones_like(scale)
    square = np.square(scale / size)
    return np.asarray(size * np.sqrt((n * square + square.mean()) / (n + 1)))


def columns_of_numbers(cells: Cells) -> Columns:
    """Columns of numbers without scaling."""
    d = len(cells.names)
    location, scale = torch.zeros(d, dtype=torch.float64), torch.ones(d, dtype=torch.float64)
    return Columns(cells.names, ("number",) * d, ((),) * d, location, scale, cells.dtypes, cells.kind.container)


def with_grid(columns: Columns, grid: Grid) -> Columns:
    """Columns of numbers, all on one grid; encoded values are the numbers of levels, from 0."""
    d = len(columns.names)
    values = tuple(grid.low + grid.step * k for k in range(grid.n_levels))
    return replace(
        columns,
        whole=(columns.is_frame and values[0] % 1 == 0 == grid.step % 1,) * d,
        kinds=("grid",) * d,
        levels=(values,) * d,
        location=torch.full((d,), grid.low, dtype=torch.float64),
        scale=torch.full((d,), grid.step, dtype=torch.float64),
    )
