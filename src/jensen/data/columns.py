"""What each column of a table is: its kind, its levels and its scale.

    continuous   x -> (x - location) / scale
    grid         equal steps -> 0, 1, 2, ... (all columns or none)
    binary       two levels -> 0, 1; or numbers from 0 to 1, grey values, as they are
    categorical  levels -> 0, 1, 2, ...
The density of the data follows from that of encoded values: ln p(x) = ln p(encoded) - Σ ln scale over observed cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.cells import Cells, read_cells
from jensen.data.container import CONTAINERS, FRAMES, Table, fill_frame, fill_matrix, is_frame, make_frame
from jensen.data.levels import (
    KINDS,
    check_grey,
    find_levels,
    is_off,
    level_numbers,
    level_values,
    numbers_of_text,
    numbers_on_grid,
    numpy_type,
)
from jensen.data.names import listed, shown


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table, as `learn_columns` finds them.

    Args:
        names: for messages and data frames; the numbers of the columns of an array.
        kinds: "continuous", "binary", "categorical" or "grid", one per column.
        levels: the values of a column that is not continuous, in order; () for a continuous one.
        location: (d,) float64, subtracted from numbers; 0 for levels without an order.
        scale: (d,) float64, by which numbers are divided, for a grid its step; 1 for levels without an order.
        dtypes: the types of the columns as their container writes them.
        container: "numpy", "torch", "pandas", "polars" or "pyarrow".

    Example:
        >>> import pandas as pd
        >>> from jensen.data.infer import learn_columns
        >>> X = pd.DataFrame({"age": [20, None, 60], "smokes": [True, False, None], "town": ["Bonn", "Rome", "Oslo"]})
        >>> columns = learn_columns(X)
        >>> columns.kinds
        ('continuous', 'binary', 'categorical')
        >>> columns.encode(X)
        tensor([[-1.,  1.,  0.],
                [nan,  0.,  2.],
                [ 1., nan,  1.]], dtype=torch.float64)
        >>> columns.n_expanded
        5
    """

    names: tuple[str | int, ...]
    kinds: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    location: Tensor
    scale: Tensor
    dtypes: tuple[str, ...]
    container: str

    @property
    def n_levels(self) -> tuple[int, ...]:
        """The number of levels of each column; 1 for a continuous one."""
        return tuple(max(len(levels), 1) for levels in self.levels)

    @property
    def measure(self) -> tuple[str, ...]:
        """For each column "density" (of its numbers) or "probability" (of its levels)."""
        return tuple("density" if kind == "continuous" else "probability" for kind in self.kinds)

    @property
    def n_expanded(self) -> int:
        """The width of what `expand` returns."""
        return len(self.plan.source)

    @property
    def is_uniform(self) -> bool:
        """Whether all columns are of one kind."""
        return len(set(self.kinds)) == 1

    @property
    def is_grid(self) -> bool:
        """Whether all numbers are on one grid."""
        return self.kinds[0] == "grid"

    @property
    def is_frame(self) -> bool:
        return self.container in FRAMES

    def encode(self, X: Table | Cells) -> Tensor:
        """Numbers (n, d) float64 as a model sees them, NaN where missing; a new tensor."""
        cells = read_cells(X)
        self.check_names(cells)
        values = (cells.numbers - self.location.numpy()) / self.scale.numpy()
        if self.is_grid:
            return torch.from_numpy(numbers_on_grid(cells, values, self.names, self.levels[0]))
        grey = self.grey_columns(cells)
        check_grey(cells, grey)
        for j in sorted(set(range(len(self.names))) - set(grey)):
            if self.kinds[j] != "continuous":
                values[:, j] = level_numbers(cells, j, self.levels[j])
            elif j in cells.texts:
                values[:, j] = (numbers_of_text(cells, j) - self.location[j].item()) / self.scale[j].item()
        return torch.from_numpy(values)

    def are_known(self, X: Table | Cells, takes_missing: bool = True) -> np.ndarray:
        """Which cells (n, d) of X hold a number or a level of the fit, or are missing where `takes_missing`."""
        cells = read_cells(X)
        self.check_names(cells)
        is_there: np.ndarray = takes_missing | ~np.isnan(cells.numbers)
        if self.is_grid:
            is_there &= ~is_off((cells.numbers - self.location.numpy()) / self.scale.numpy(), self.n_levels[0])
            return is_there
        known, grey = np.ones(cells.numbers.shape, dtype=bool), self.grey_columns(cells)
        known[:, grey] = ~((cells.numbers[:, grey] < 0) | (cells.numbers[:, grey] > 1))
        for j in sorted(set(range(len(self.names))) - set(grey)):
            if self.kinds[j] != "continuous":
                known[:, j] = ~(find_levels(cells, j, self.levels[j]) < 0)
        known &= is_there
        return known

    def grey_columns(self, cells: Cells) -> list[int]:
        """The binary columns whose numbers may lie between 0 and 1."""
        return [
            j
            for j, (kind, levels) in enumerate(zip(self.kinds, self.levels, strict=True))
            if kind == "binary" and levels == (0, 1) and j not in cells.texts
        ]

    def decode(self, values: Tensor) -> Any:
        """Undo `encode`: {name: array (n,)} for the columns of a data frame, else an array (n, d) of floats.

        A binary value counts as its second level from ½ on. A continuous column of whole numbers comes back as floats,
        since a sample of it is not a whole number. NaN comes back as missing.
        """
        numbers = self.as_array(values)
        if not self.is_frame:
            return self.matrix(numbers)
        return {name: self.decode_column(j, numbers[:, j]) for j, name in enumerate(self.names)}

    def frame(self, values: Tensor, index: Any = None, container: str = "pandas") -> Any:
        """`decode` as a data frame, in pandas with an index; with its own types if it came from the same library."""
        numbers = self.as_array(values)
        decoded = [self.decode_column(j, numbers[:, j]) for j in range(len(self.names))]
        if container not in FRAMES:
            raise ValueError(f'container={container!r} is not known; choose "pandas" or "polars" or "pyarrow"')
        dtypes = self.dtypes if container == self.container else ("",) * len(self.names)
        return make_frame(container, self.names, decoded, dtypes, self.levels, index)

    def restore(self, X: Table, values: Tensor, missing: Tensor | None = None) -> Any:
        """X with its missing cells, and no others, taken from `decode(values)`; a new table of the same container.

        `missing` (n, d) marks these cells, if the caller has read X already.
        """
        numbers = self.as_array(values)
        if missing is None:
            cells = read_cells(X)
            self.check_names(cells)
            missing = torch.from_numpy(np.isnan(cells.numbers))
        if numbers.shape != missing.shape:
            raise ValueError(
                f"values has shape {numbers.shape}, but X has {tuple(missing.shape)}; encode X for its values"
            )
        filled = missing.cpu().numpy() & ~np.isnan(numbers)
        if not is_frame(X):
            return fill_matrix(X, filled, self.matrix(numbers))
        columns = np.flatnonzero(filled.any(axis=0)).tolist()
        return fill_frame(X, filled, {j: self.decode_column(j, numbers[:, j]) for j in columns})

    def log_jacobian(self, observed: Tensor) -> Tensor:
        """-Σ_j ln scale_j over the observed continuous cells (n, d) of each row: (n,)."""
        if self.is_grid:
            return torch.zeros(len(observed), dtype=torch.float64)  # a probability has no units
        return -(observed.double() @ self.scale.log().to(observed.device))

    def expand(self, encoded: Tensor) -> Tensor:
        """What a network sees (n, D): continuous as is, binary ±1, grid -1 to 1, categorical one-hot, missing 0."""
        kinds = set(self.kinds)
        if self.is_grid:
            return without_nan(2 * encoded / (self.n_levels[0] - 1) - 1)
        if kinds == {"continuous"}:
            return without_nan(encoded)
        if kinds == {"binary"}:
            return without_nan(2 * encoded - 1)
        plan = self.plan.to(encoded)
        repeated = encoded[:, plan.source]
        numeric = without_nan(repeated * plan.gain - plan.shift)
        return torch.where(plan.is_level, (repeated == plan.level).to(encoded.dtype), numeric)

    @cached_property
    def plan(self) -> Plan:
        source, level = [], []
        for j, (kind, n_levels) in enumerate(zip(self.kinds, self.n_levels, strict=True)):
            own = list(range(n_levels)) if kind == "categorical" else [-1]
            source += [j] * len(own)
            level += own
        is_binary = torch.tensor([self.kinds[j] == "binary" for j in source], dtype=torch.float64)
        number = torch.tensor(level, dtype=torch.float64)
        return Plan(torch.tensor(source), number, number >= 0, 1 + is_binary, is_binary)

    def record(self) -> dict[str, Any]:
        """Values that a file can hold; the levels of a grid, which all columns share, once."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"levels": self.levels[:1]} if self.is_grid else values

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Columns:
        """Undo `record`; what does not describe columns is an error."""
        names = {field.name for field in fields(cls)}
        if not isinstance(record, Mapping) or set(record) != names:
            given = sorted(map(str, record)) if isinstance(record, Mapping) else record
            raise ValueError(f"columns are described by {sorted(names)}, got {given}; the file is damaged")
        columns = cls(**record)
        if columns.kinds and columns.is_grid and len(columns.levels) == 1:
            columns = replace(columns, levels=columns.levels * len(columns.names))
        for what, is_right in claims(columns):
            if not is_right:
                raise ValueError(f"{what}={record[what]!r} does not describe columns; the file is damaged")
        return columns

    def check_names(self, cells: Cells) -> None:
        d = len(self.names)
        if len(cells.names) != d:
            raise ValueError(
                f"X has {len(cells.names)} columns, but the model was fitted on {d}: {listed(self.names)}; give these"
            )
        if not (self.is_frame and cells.is_frame):
            return
        for j, (given, known) in enumerate(zip(cells.names, self.names, strict=True)):
            if given != known:
                raise ValueError(
                    f"X has {shown(given)} as column {j}, but the model was fitted on {shown(known)}; "
                    f"give the columns {listed(self.names)} in this order"
                )

    def as_array(self, values: Tensor) -> np.ndarray:
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(f"values has shape {tuple(values.shape)}; expected (n, {len(self.names)}), as encoded")
        return np.asarray(values.detach().to("cpu", torch.float64))

    def matrix(self, numbers: np.ndarray) -> np.ndarray:
        """Decoded numbers of all columns in one array."""
        decoded: np.ndarray = numbers * self.scale.numpy() + self.location.numpy()
        for j, levels in enumerate(self.levels):
            if any(isinstance(level, str) for level in levels):
                raise ValueError(
                    f"column {shown(self.names[j])} has text as levels, {listed(levels)}; give a data frame"
                )
        binary = [j for j, kind in enumerate(self.kinds) if kind == "binary"]
        if binary:
            low, high = np.array([self.levels[j] for j in binary], dtype=np.float64).T
            # A slice of all columns needs no copy.
            where = binary if len(binary) < len(self.kinds) else slice(None)
            block = numbers[:, where]
            decoded[:, where] = low + block * (high - low)
        for j, kind in enumerate(self.kinds):
            if kind == "categorical":
                decoded[:, j] = self.decode_column(j, numbers[:, j])
        return decoded

    def decode_column(self, j: int, numbers: np.ndarray) -> np.ndarray:
        """Decoded cells of one column, in its own type where numpy has it."""
        own = numpy_type(self.dtypes[j])
        if self.kinds[j] in ("continuous", "grid"):
            decoded = numbers * self.scale[j].item() + self.location[j].item()
            return decoded.astype(own) if own is not None and own.kind == "f" else decoded
        number = np.where(np.isnan(numbers), -1, numbers >= 0.5 if self.kinds[j] == "binary" else np.rint(numbers))
        wrong = np.flatnonzero((number >= self.n_levels[j]) | (numbers < -0.5))
        if len(wrong):
            raise ValueError(
                f"values holds {numbers[wrong[0]]} in row {wrong[0]}, column {shown(self.names[j])}, "
                f"whose levels are numbered 0 to {self.n_levels[j] - 1}"
            )
        return level_values(self.levels[j], number.astype(np.int64), own)


@dataclass(frozen=True)
class Plan:
    """How columns become the inputs of a network: y = gain x[source] - shift, or 1 where x[source] is the level."""

    source: Tensor
    level: Tensor
    is_level: Tensor
    gain: Tensor
    shift: Tensor

    def to(self, like: Tensor) -> Plan:
        return Plan(
            self.source.to(like.device),
            self.level.to(like),
            self.is_level.to(like.device),
            self.gain.to(like),
            self.shift.to(like),
        )


def without_nan(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def claims(columns: Columns) -> Iterator[tuple[str, bool]]:
    """Fields of columns, and whether their values are possible; later checks rely on earlier ones."""
    names, kinds, levels = columns.names, columns.kinds, columns.levels
    yield "names", isinstance(names, tuple) and all_are((str, int), names) and 0 < len(names) == len(set(names))
    d = len(names)
    yield "kinds", isinstance(kinds, tuple) and len(kinds) == d and are_kinds(kinds)
    yield "levels", isinstance(levels, tuple) and len(levels) == d and all_are_levels(levels, kinds)
    yield "dtypes", isinstance(columns.dtypes, tuple) and len(columns.dtypes) == d and all_are(str, columns.dtypes)
    yield "container", columns.container in CONTAINERS
    is_other = torch.tensor([kind not in ("continuous", "grid") for kind in kinds])
    for what, value, neutral in (("location", columns.location, 0.0), ("scale", columns.scale, 1.0)):
        is_vector = isinstance(value, Tensor) and value.dtype == torch.float64 and value.shape == (d,)
        yield what, is_vector and bool(value.isfinite().all() and (value[is_other] == neutral).all())
    yield "scale", bool((columns.scale > 0).all())


def are_kinds(kinds: tuple[Any, ...]) -> bool:
    return set(kinds) == {"grid"} or all(kind in KINDS for kind in kinds)


def all_are_levels(levels: tuple[Any, ...], kinds: tuple[str, ...]) -> bool:
    # The columns of a grid share their levels, which are checked once.
    different = {(id(own), kind): own for own, kind in zip(levels, kinds, strict=True)}
    return all(are_levels(own, kind) for (_, kind), own in different.items())


def are_levels(levels: Any, kind: str) -> bool:
    if not isinstance(levels, tuple) or kind == "continuous":
        return isinstance(levels, tuple) and not levels
    right_count = len(levels) == 2 if kind == "binary" else len(levels) >= 1 + (kind == "grid")
    one_type = len({type(level) for level in levels}) == 1 and all_are((str, int, float), levels)
    return right_count and one_type and len({level for level in levels if level == level}) == len(levels)


def all_are(types: type | tuple[type, ...], values: Iterable[Any]) -> bool:
    return all(isinstance(value, types) for value in values)
