"""Rows of any shape as networks see them: flat, (b, D), in the units of `Columns`. The shape comes back at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from jensen.data.blocks import read_all, row_blocks
from jensen.data.cells import Cells, cells_of_numbers
from jensen.data.codes import Unseen, find_unseen, known_cells
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table, as_array
from jensen.data.edits import asked_columns
from jensen.data.infer import learn_columns
from jensen.data.levels import are_on_grid, find_grid
from jensen.data.names import shown
from jensen.data.network_columns import NetworkColumns
from jensen.data.opening import Given, open_rows, remember_range
from jensen.data.reader import check_columns, read_weights
from jensen.data.scaled import columns_of_numbers, learn_scaled, with_grid

# Rows from which scaling and levels are learnt if the rows stay on disk; any scaling gives a true density.
N_LOOKED_AT = 50_000
# Deviations from the mean of its column beyond which a number is refused: networks compute in single precision, where
# the square of 1e19 overflows, and the scale may be small.
FARTHEST = 1e12


@dataclass(frozen=True)
class FittedRows:
    """All rows of a table, read for a fitted model.

    Args:
        x: (n, D) as networks see them, NaN where missing or unseen.
        kind: what the user gave.
        missing: (n, d) the cells of the table without a value.
        unseen: (n, D) the columns of networks that hold an unseen level.
        log_unseen: (n,) Σ ln ε_j over the unseen cells of the table.
    """

    x: Tensor
    kind: Kind
    missing: Tensor
    unseen: Tensor
    log_unseen: Tensor


@dataclass(frozen=True)
class ColumnRules:
    """How a model finds out what its columns are.

    Args:
        kinds: as in `learn_scaled`, by a likelihood.
        scaling: "feature", "pooled" for deviations that are drawn together a little, "common" for all entries together,
            or None: common for images.
        data_levels: as in `find_grid`, for rows of numbers; "images" finds those of images alone, and "needed" is an
            error for rows that are on none.
        columns: kinds and atoms of columns that the user asks for.
        atoms: whether frequent numbers may be atoms; not in images, nor in tables of numbers that are all on one grid.
        counts: whether there are distributions of counts; if not, a count is a number.
    """

    kinds: Any = "auto"
    scaling: str | None = None
    data_levels: Any = None
    columns: Any = None
    atoms: bool = False
    counts: bool = False

    def is_common(self, is_image: bool) -> bool:
        """Whether all numbers have one scale."""
        return self.scaling == "common" or (self.scaling is None and is_image)


@dataclass(frozen=True)
class Described:
    """What rows are.

    Args:
        n_rows: how many.
        shape: of one row, as the user has it.
        table: what its entries are.
        columns: the columns that networks model; `NetworkColumns` of the table.
        kind: what the user gave.
    """

    n_rows: int
    shape: tuple[int, ...]
    table: Columns
    columns: Columns
    kind: Kind


@dataclass(frozen=True)
class Events(Described):
    """Rows to be read by number.

    Args:
        read: the rows with these numbers, encoded (b, D) in single precision.
        is_in_memory: whether all of them may be read at once.
        can_have_missing: whether their type has missing values; integers have none.
        numbers: the user's numbers (n, d) if they are in memory.
    """

    read: Callable[[np.ndarray], Tensor]
    is_in_memory: bool
    can_have_missing: bool = True
    numbers: np.ndarray | None = None

    def all(self) -> Tensor:
        """All rows (n, D), not to be written to: where encoding changes nothing, they are the user's own memory."""
        return read_all(self.read, (self.n_rows, len(self.columns.names)), self.numbers)


def learn_events(
    estimator: BaseEstimator, X: Table, rules: ColumnRules, sample_weight: Any = None
) -> tuple[Events, Tensor | None, np.ndarray]:
    """Rows to train on, with what their columns are.

    Args:
        estimator: gets scikit-learn's `n_features_in_` and `feature_names_in_`, and for images `pixel_range_`.
        X: the rows.
        rules: how columns are found.
        sample_weight: one per row; rows of weight 0 are left out.

    Returns:
        The rows with weight, their weights, None when all are 1, and a mask (n,) of them in X.
    """
    given = open_rows(estimator, X, reset=True)
    weight = read_weights(sample_weight, given.n_rows)
    kept = np.ones(given.n_rows, bool) if weight is None else (weight > 0).numpy()
    if weight is not None:
        given, weight = given.subset(np.flatnonzero(kept)), weight[weight > 0]
    numbers = np.arange(given.n_rows)
    if not given.is_in_memory and given.n_rows > N_LOOKED_AT:
        numbers = np.sort(np.random.default_rng(0).choice(given.n_rows, N_LOOKED_AT, replace=False))
    is_image, cells = len(given.shape) > 1, given.rows(numbers)
    remember_range(estimator, cells.numbers if is_image else None)
    if all(one.kind in ("auto", "number") for one in asked_columns(rules.columns, cells.names)):
        on_grid = grid_columns(cells, rules.data_levels, is_image)
        if on_grid is not None:
            return events_of(given, replace(on_grid, n_rows=given.n_rows)), weight, kept
    if is_image and rules.kinds == "level":
        pixels = cells_of_numbers(cells.numbers.reshape(-1, 1), cells.kind)
        return events_of(given, repeated(learn_columns(pixels, "level"), len(cells.names))), weight, kept
    # Of rows on disk only some are looked at: one value of a column may be a matter of chance.
    is_whole_table = not is_image and len(numbers) == given.n_rows
    found = learn_scaled(
        cells,
        rules.kinds,
        rules.is_common(is_image),
        columns=rules.columns,
        constants=is_whole_table,
        atoms=rules.atoms and is_whole_table and not is_grid(cells),
        pooled=rules.scaling == "pooled",
        counts=rules.counts,
    )
    return events_of(given, found), weight, kept


def is_grid(cells: Cells) -> bool:
    """Whether a table has numbers only, which are all on one grid, as those of images are."""
    has_others = cells.texts or cells.orders or {"time", "bool"} & set(cells.sorts)
    return not has_others and are_on_grid(cells.numbers)


def grid_columns(cells: Cells, data_levels: Any, is_image: bool) -> Columns | None:
    """The columns of rows that are all on one grid; None if they are not, or have a density."""
    if data_levels is None or (data_levels == "images" and not is_image):
        return None
    needed = data_levels not in ("auto", "images")
    others = sorted({*cells.texts, *cells.foreign})
    if others:
        if needed:
            what = "text" if others[0] in cells.texts else "dates"
            name = shown(cells.names[others[0]])
            asked = 'likelihood="logistic"' if data_levels == "needed" else f"data_levels={data_levels}"
            raise ValueError(f"{asked} is for tables of numbers, and X has {what} in column {name}")
        return None
    if not needed and "bool" in cells.sorts:
        return None  # true and false are levels of their own, and no numbers
    grid = find_grid(cells.numbers, "auto" if isinstance(data_levels, str) else data_levels, is_image)
    if grid is None and data_levels == "needed":
        raise ValueError(
            'likelihood="logistic" is for numbers that are all on one grid, such as pixels, and those of X are not; '
            'choose likelihood="gaussian"'
        )
    if grid is None:
        return None
    check_columns(cells.numbers, [shown(name) for name in cells.names])
    return with_grid(columns_of_numbers(cells), grid)


def read_events(estimator: BaseEstimator, X: Table, columns: Columns, shape: tuple[int, ...]) -> Events:
    """Rows to train a fitted model on, which must have the shape and the levels of those it was fitted on."""
    return events_of(open_fitted(estimator, X, shape), columns)


def read_fitted(estimator: BaseEstimator, X: Table, columns: Columns, shape: tuple[int, ...]) -> FittedRows:
    """Rows for a fitted model; one warning names the first level that was not in the training data.

    In images such a level is an error: a wrong unit of pixels must not pass for unseen values.
    """
    given, parts = open_fitted(estimator, X, shape), NetworkColumns.of(columns)
    x, missing, unseen = [], [], []
    found: Unseen | None = None
    for numbers in row_blocks(given.n_rows, len(columns.names)):
        cells = given.rows(numbers)
        codes = columns.encoded(cells, is_refused=len(shape) > 1)
        refuse_far(codes.x, columns, cells)
        x.append(parts.split(codes.x).float())
        missing.append(codes.missing)
        unseen.append(codes.unseen)
        here = find_unseen(cells, columns.kept, columns.names, codes.unseen.numpy())
        found = here if found is None else found if here is None else found + here
    if found is not None:
        found.warn()
    of_cells = torch.cat(unseen)
    return FittedRows(
        torch.cat(x), given.kind, torch.cat(missing), parts.inner_mask(of_cells), columns.log_unseen(of_cells)
    )


def open_fitted(estimator: BaseEstimator, X: Table, shape: tuple[int, ...]) -> Given:
    """The same before encoding."""
    given = open_rows(estimator, X, reset=False)
    if given.shape != shape:
        raise ValueError(
            f"X has rows of shape {given.shape}, but the model was fitted on rows of shape {shape}; reshape X to "
            f"{('n', *shape)}".replace("'", "")
        )
    return given


def known_rows(
    estimator: BaseEstimator, X: Table, columns: Columns, shape: tuple[int, ...], takes_missing: bool = True
) -> np.ndarray:
    """Which rows (n,) have a score: those that are not refused and, unless missing values are allowed, complete."""
    given, places = open_fitted(estimator, X, shape), list(NetworkColumns.of(columns).places)
    known = np.ones(given.n_rows, dtype=bool)
    for numbers in row_blocks(given.n_rows, len(columns.names)):
        cells = given.rows(numbers)
        columns.check_names(cells)
        known[numbers] = known_cells(columns.scaling, cells, is_refused=len(shape) > 1).all(1)
        if not takes_missing:
            known[numbers] &= ~np.isnan(cells.numbers[:, [columns.kept[j] for j in places]]).any(1)
    return known


def presented(columns: Columns, shape: tuple[int, ...], x: Tensor, kind: Kind) -> Any:
    """Encoded rows (n, d) of the table as the kind of table that the user gave; in arrays a binary value stays grey."""
    if kind.is_frame:
        return columns.frame(x, index=kind.index, container=kind.container)
    return kind.values(decoded(columns, shape, x))


def restored(columns: Columns, shape: tuple[int, ...], X: Table, rows: FittedRows, x: Tensor) -> Any:
    """X with its missing values from encoded rows (n, d); all others bit for bit."""
    if rows.kind.is_frame:
        return columns.restore(X, x, rows.missing)
    given = torch.as_tensor(as_array(X).astype(rows.kind.dtype))
    missing = wide(columns, rows.missing, False).reshape(given.shape)
    return rows.kind.values(torch.where(missing, decoded(columns, shape, x).to(given), given))


def decoded(columns: Columns, shape: tuple[int, ...], x: Tensor) -> Tensor:
    """Encoded rows (n, d) as numbers in the shape of the table."""
    matrix = torch.from_numpy(columns.matrix(columns.as_array(x)))
    return wide(columns, matrix, torch.nan).reshape(len(matrix), *shape)


def wide(columns: Columns, values: Tensor, fill: Any) -> Tensor:
    """Values (n, d) of the modelled columns as those of all columns of the table."""
    if not columns.left_out:
        return values
    every = torch.full((len(values), len(columns.table_names)), fill, dtype=values.dtype)
    every[:, list(columns.kept)] = values
    return every


def repeated(column: Columns, n: int) -> Columns:
    """n columns like this one: all pixels have the levels that any of them has."""
    return Columns(
        tuple(range(n)),
        column.kinds * n,
        column.levels * n,
        column.location.repeat(n),
        column.scale.repeat(n),
        column.dtypes * n,
        column.container,
    )


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that networks see: images have channels."""
    return (1, *shape) if len(shape) == 2 else shape


def events_of(given: Given, columns: Columns) -> Events:
    """Rows to train on; an unseen level is an error."""
    parts = NetworkColumns.of(columns)

    def read(numbers: np.ndarray) -> Tensor:
        cells = given.rows(numbers)
        values = columns.encode(cells)
        refuse_far(values, columns, cells)
        return parts.split(values).float()

    described = given.n_rows, given.shape, columns, parts.inner, given.kind
    return Events(*described, read, given.is_in_memory, given.can_have_missing, given.numbers)


def refuse_far(values: Tensor, columns: Columns, cells: Cells) -> None:
    """An error for encoded rows (b, d) with a value that networks cannot compute with."""
    far = (values.abs() > FARTHEST).nonzero()
    if len(far):
        i, j = far[0].tolist()
        name, location, scale = shown(columns.names[j]), columns.location[j].item(), columns.scale[j].item()
        raise ValueError(
            f"X holds {values[i, j].item() * scale + location:g} in row {cells.row(i)}, column {name}, whose mean is "
            f"{location:g} and deviation {scale:g}: the model's networks cannot compute with values more than "
            f"{FARTHEST:g} deviations away; correct the value, or make it missing"
        )
