"""What each column of a table is, and in which measure it is scored: the one place that says so.

    kind      encoded values                                                            measure
    number    x -> (x - location) / scale; a mixture has location 0 and scale 1         density (with atoms: both)
    date      days or seconds                                                           density
    count     0, 1, 2, ... as they are                                                  probability
    level     levels -> 0, 1, 2, ...                                                    probability
    yes/no    two levels -> 0, 1; for networks also grey values from 0 to 1 as they are probability
    constant  one level -> 0                                                            probability
    grid      equal steps -> 0, 1, 2, ... (all columns or none)                         probability
The density of the data follows from that of encoded values: ln p(x) = ln p(encoded) - Σ ln scale over observed cells.
An atom has a probability of its own beside the density of the other numbers, which may end at bounds, their `support`.

A level that was not in the training data is *unseen*. All unseen values of column j share one slot of probability
ε_j = 1 / (n_j + 1), with n_j observed training entries; beside it a seen level has (1 - ε_j) times its probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.cells import Cells, read_cells
from jensen.data.claims import WITH_LEVELS, checked_record, neutral
from jensen.data.codes import UNSEEN, Codes, Scaling, coded, codes_of_sparse, encoded_rows
from jensen.data.container import FRAMES, Kind, Table, fill_frame, fill_matrix, is_frame, names_in
from jensen.data.describe import describe
from jensen.data.expand import Plan, expand, without_nan
from jensen.data.names import column_name, listed, shown
from jensen.data.present import ColumnView, decode_column, decode_matrix, make_frame, restored_column, views_of


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """The columns of a table, as `learn_columns` finds them. Print it for a summary.

    Args:
        names: for messages and data frames; the numbers of the columns of an array.
        kinds: "number", "count", "level", "yes/no", "date", "constant" or "grid", one per column.
        levels: the values of a column that has levels, in order; () for others.
        location: (d,) float64, subtracted from numbers; 0 for levels without an order.
        scale: (d,) float64, by which numbers are divided, for a grid its step; 1 for levels without an order.
        dtypes: the types of the columns as their container writes them.
        container: "numpy", "torch", "pandas", "polars" or "pyarrow".
        bounds: (d, 2) float64, the least and the greatest number that is no error, ∓inf where there is none.
        atoms: numbers that have a probability of their own, () for most columns.
        units: "days" or "seconds" of a date, "" for others.
        ranges: (d, 2) float64, observed; a data frame gets no number outside of it. ∓inf for no such limit.
        whole: whether a data frame gets whole numbers, because all observed ones were.
        categories: all values that the type of a column lists, () if it lists none.
        n_observed: (d,) int64, training entries that were not missing; 0 if they were not counted.
        n_rows: of the training table; 0 if they were not counted.
        left_out: names of the columns of the table that are not modelled.
        kept: numbers, in the table, of the columns that are; everything else is about these.
        support: (d, 2) float64, the open interval in which numbers have a density, by bounds that are given or natural.

    Example:
        >>> import pandas as pd
        >>> from jensen.data.infer import learn_columns
        >>> X = pd.DataFrame({"age": [20, None, 60], "smokes": [True, False, None], "town": ["Bonn", "Rome", "Oslo"]})
        >>> columns = learn_columns(X)
        >>> columns.kinds
        ('number', 'yes/no', 'level')
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
    bounds: Tensor = None  # type: ignore[assignment]  # the defaults are below
    atoms: tuple[tuple[float, ...], ...] = ()
    units: tuple[str, ...] = ()
    ranges: Tensor = None  # type: ignore[assignment]
    whole: tuple[bool, ...] = ()
    categories: tuple[tuple[Any, ...], ...] = ()
    n_observed: Tensor = None  # type: ignore[assignment]
    n_rows: int = 0
    left_out: tuple[str | int, ...] = ()
    kept: tuple[int, ...] = ()
    support: Tensor = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        d = len(self.names)
        for name, value in neutral(d).items():
            if getattr(self, name) is None or (getattr(self, name) == () and d):
                object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return describe(self.record(), self.measure)

    @property
    def n_levels(self) -> tuple[int, ...]:
        """The number of levels of each column; 1 for one without levels."""
        return tuple(max(len(levels), 1) for levels in self.levels)

    @property
    def measure(self) -> tuple[str, ...]:
        """For each column "density" (of its numbers), "probability" (of its values), or "both" (with atoms)."""
        found = {"number": "density", "date": "density"}
        return tuple(
            "both" if atoms else found.get(kind, "probability")
            for kind, atoms in zip(self.kinds, self.atoms, strict=True)
        )

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

    @property
    def table_names(self) -> tuple[str | int, ...]:
        """The names of all columns of the table, those left out included."""
        left_out = iter(self.left_out)
        place = dict(zip(self.kept, self.names, strict=True))
        return tuple(place[j] if j in place else next(left_out) for j in range(len(self.names) + len(self.left_out)))

    @cached_property
    def has_levels(self) -> Tensor:
        """(d,) bool: the columns whose values are levels, one of them or more."""
        return torch.tensor([kind in WITH_LEVELS for kind in self.kinds])

    def codes(self, X: Table | Cells, is_learnt: bool = False, meaning: str = UNSEEN) -> Codes:
        """Rows (n, d) as a model sees them, NaN where missing or unseen, and which cells (n, d) are unseen levels.

        One warning names the first unseen value and its meaning. Dates are in their unit, numbers may share memory with
        X. No level is looked for in vain if the columns were learnt from these cells, as `is_learnt` says.
        """
        cells = read_cells(X, dates=True)
        self.check_names(cells)
        if cells.is_sparse:
            return codes_of_sparse(cells)
        return coded(cells, self.kept, self.views, self.bounds.tolist(), is_learnt, meaning)

    def log_unseen(self, unseen: Any) -> Tensor:
        """Σ_j ln ε_j over the unseen cells (n, d) of each row: (n,)."""
        return torch.as_tensor(unseen).double() @ -(self.n_observed.double() + 1).log()

    def log_seen_discount(self, seen: Any) -> Tensor:
        """Σ_j ln(1 - ε_j) over the seen cells (n, d) with levels of each row: (n,); other columns do not count."""
        n = self.n_observed.double()
        return (torch.as_tensor(seen) & self.has_levels).double() @ (n / (n + 1)).clamp_min(1e-300).log()

    def encode(self, X: Table | Cells) -> Tensor:
        """Numbers (n, d) float64 as a network sees them, NaN where missing; a new tensor. Unseen levels are errors."""
        return self.encoded(read_cells(X, dates=not isinstance(X, Cells)), is_refused=True).x

    def encoded(self, cells: Cells, is_refused: bool) -> Codes:
        """The same, and which cells are unseen levels; these are errors if they are refused, or were not counted."""
        self.check_names(cells)
        return encoded_rows(self.scaling, cells, is_refused)

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.views, self.kept, self.location.numpy(), self.scale.numpy(), self.n_observed.numpy() > 0)

    def decode(self, values: Tensor) -> Any:
        """Undo `encode`: {name: array (n,)} for the columns of a data frame, else an array (n, d) of floats.

        A yes/no value counts as its second level from ½ on. NaN comes back as missing. A column of whole numbers that
        is not marked as `whole` comes back as floats, since a sample of it is not a whole number.
        """
        numbers = self.as_array(values)
        if not self.is_frame:
            return decode_matrix(self.views, numbers)
        return {view.name: decode_column(view, numbers[:, j]) for j, view in enumerate(self.views)}

    def matrix(self, numbers: np.ndarray) -> np.ndarray:
        """Decoded numbers of all columns in one array."""
        return decode_matrix(self.views, numbers)

    def frame(self, values: Tensor, index: Any = None, container: str = "pandas") -> Any:
        """`decode` as a data frame, in pandas with an index; with its own types if it came from the same library.

        Columns that were left out are not in it.
        """
        numbers = self.as_array(values)
        if container not in FRAMES:
            raise ValueError(f'container={container!r} is not known; choose "pandas" or "polars" or "pyarrow"')
        # Dates keep their type, which both libraries can read.
        own = [v if container == self.container or v.unit else replace(v, dtype="") for v in self.views]
        return make_frame(container, own, numbers, index)

    def table(self, x: Tensor, kind: Kind, index: Any = None) -> Any:
        """Encoded rows (n, d) as the kind of table that the user gave, with the types that came in.

        Data frames get whole numbers in the observed range where all training values were whole; arrays and tensors
        get numbers as they are. Columns that were left out are not in a data frame; in an array they are missing.
        """
        if kind.is_frame:
            own = kind.index if kind.index is not None and len(kind.index) == len(x) else None
            made = self.frame(x, own if index is None else index, kind.container)
            if kind.container == "pandas" and kind.columns is not None:
                # Names that are neither text nor whole numbers.
                made.columns = [kind.columns[j] for j in self.kept]
            return made
        decoded = decode_matrix(self.views, self.as_array(x))
        if self.left_out:
            wide = np.full((len(decoded), len(self.table_names)), np.nan)
            wide[:, list(self.kept)] = decoded
            decoded = wide
        return kind.values(torch.from_numpy(decoded))

    def restore(self, X: Table, values: Tensor, missing: Tensor | None = None) -> Any:
        """X with its missing cells, and no others, taken from `decode(values)`; a new table of the same container.

        `missing` (n, d) marks these cells, if the caller has read X already, as `Codes.missing` does. Columns that were
        left out stay as they are.
        """
        numbers = self.as_array(values)
        if missing is None:
            cells = read_cells(X, dates="date" in self.kinds or bool(self.left_out) or "constant" in self.kinds)
            self.check_names(cells)
            missing = torch.from_numpy(np.isnan(cells.numbers[:, list(self.kept)]))
        if numbers.shape != missing.shape:
            raise ValueError(
                f"values has shape {numbers.shape}, but X has {tuple(missing.shape)}; encode X for its values"
            )
        filled = missing.cpu().numpy() & ~np.isnan(numbers)
        given = [column_name(name) for name in names_in(X)] if is_frame(X) else self.table_names
        # A frame may lack columns that were left out.
        kept = self.kept if len(given) == len(self.table_names) else tuple(map(given.index, self.names))
        wide = np.zeros((len(filled), len(given)), dtype=bool)
        wide[:, list(kept)] = filled
        if not is_frame(X):
            every = np.zeros(wide.shape)
            every[:, list(self.kept)] = decode_matrix(self.views, numbers)
            return fill_matrix(X, wide, every)
        columns = np.flatnonzero(filled.any(axis=0)).tolist()
        return fill_frame(
            X, wide, {kept[j]: restored_column(X, kept[j], self.views[j], numbers[:, j]) for j in columns}
        )

    def log_jacobian(self, observed: Tensor) -> Tensor:
        """-Σ_j ln scale_j over the observed cells (n, d) of numbers of each row: (n,)."""
        if self.is_grid:
            return torch.zeros(len(observed), dtype=torch.float64)  # a probability has no units
        return -(observed.double() @ self.scale.log().to(observed.device))

    def expand(self, encoded: Tensor) -> Tensor:
        """What a network sees (n, D): numbers as is, counts ln(1+n), yes/no ±1, grid -1 to 1, levels one-hot."""
        if self.is_grid:
            return without_nan(2 * encoded / (self.n_levels[0] - 1) - 1)
        return expand(self.plan, self.kinds, encoded)

    @cached_property
    def plan(self) -> Plan:
        return Plan.of(self.kinds, self.n_levels)

    @cached_property
    def views(self) -> tuple[ColumnView, ...]:
        """The columns one by one."""
        return views_of(vars(self))

    def record(self) -> dict[str, Any]:
        """Values that a file can hold; the levels of a grid, which all columns share, once."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"levels": self.levels[:1]} if self.is_grid else values

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Columns:
        """Undo `record`; what does not describe columns is an error."""
        return cls(**checked_record(record, {field.name for field in fields(cls)}))

    def check_names(self, cells: Cells) -> None:
        names = self.table_names
        if len(cells.names) != len(names):
            raise ValueError(
                f"X has {len(cells.names)} columns, but the model was fitted on {len(names)}: {listed(names)}; "
                "give these"
            )
        if not (self.is_frame and cells.is_frame):
            return
        for j, (given, known) in enumerate(zip(cells.names, names, strict=True)):
            if given != known:
                raise ValueError(
                    f"X has {shown(given)} as column {j}, but the model was fitted on {shown(known)}; "
                    f"give the columns {listed(names)} in this order"
                )

    def as_array(self, values: Tensor) -> np.ndarray:
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(f"values has shape {tuple(values.shape)}; expected (n, {len(self.names)}), as encoded")
        return np.asarray(values.detach().to("cpu", torch.float64))
