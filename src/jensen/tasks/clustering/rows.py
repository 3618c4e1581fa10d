"""The rows that are clustered: columns that tell nothing are left out, and numbers are standardised.

Six structures of covariances depend on the units of columns (EII, VII, EVE, VVE, EEV, VEV). They are fitted to
standardised columns, so that a change of units changes nothing; `in_units` gives the same Gaussians in the units of the
data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from jensen.data.columns import Columns
from jensen.data.container import as_array, is_frame, n_rows, take, to_take_apart
from jensen.data.names import listed
from jensen.evaluate.kinds import some_columns
from jensen.evaluate.trial import Task
from jensen.evaluate.warm_starts import run
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.runtime.messages import own_filters
from jensen.tasks.opening import learn_table, opened

# Beyond this many columns a covariance for every cluster has too many parameters.
WIDE = 20
# What a structure that depends on units is in other units.
IN_OTHER_UNITS = {"EII": "diag", "VII": "diag", "EVE": "full", "VVE": "full", "EEV": "full", "VEV": "full"}


@dataclass(frozen=True, eq=False)
class Rows:
    """A table to cluster.

    Args:
        X: the columns that are used, as they came in.
        columns: what they are.
        ignored: the names of the others, which identify rows, or have one value or none.
        are_numbers: whether all columns are numbers without atoms.
        table_names: of all columns.
    """

    X: Any
    columns: Columns
    ignored: tuple[str | int, ...]
    are_numbers: bool
    table_names: tuple[str | int, ...]

    @property
    def n_rows(self) -> int:
        return n_rows(self.X)

    @property
    def n_columns(self) -> int:
        return len(self.columns.names)

    @property
    def is_wide(self) -> bool:
        return self.n_columns > WIDE

    @property
    def n_numbers(self) -> int:
        return sum(kind in ("number", "date") for kind in self.columns.kinds)

    def of(self, table: Any) -> Any:
        """The same columns of another table."""
        if not self.ignored:
            return table
        kept = [j for j, name in enumerate(self.table_names) if name not in self.ignored]
        return some_columns(table, kept) if is_frame(table) else table[:, kept]


@dataclass(frozen=True, eq=False)
class Scaled:
    """Rows for the search: X standardised or as it is, and what the logarithm of its density lacks."""

    X: Any
    location: np.ndarray | None = None
    scale: np.ndarray | None = None
    log_jacobian: float = 0.0

    @classmethod
    def of(cls, rows: Rows) -> Scaled:
        """Narrow tables of numbers are standardised; all that is fitted to others does not depend on units."""
        if not rows.are_numbers or rows.is_wide:
            return cls(rows.X)
        x = as_array(rows.X).astype(np.float64)
        location, scale = np.nanmean(x, 0), np.nanstd(x, 0)
        return cls((x - location) / scale, location, scale).measured()

    def measured(self) -> Scaled:
        assert self.scale is not None
        return replace(self, log_jacobian=-float((~np.isnan(self.X)).sum(0) @ np.log(self.scale)))

    def take(self, rows: np.ndarray) -> Scaled:
        part = replace(self, X=take(self.X, rows))
        return part if self.scale is None else part.measured()

    def bic(self, model: Any) -> float:
        """BIC in the units of the data."""
        return float(model.bic(self.X)) - 2 * self.log_jacobian


def read_table(table: Any) -> Any:
    """The table, or that in a file."""
    table = to_take_apart(opened(table))
    if not is_frame(table) and not hasattr(table, "shape"):
        table = np.asarray(table)
    return table


def find_rows(table: Any) -> Rows:
    """The columns of a table that clusters can differ in."""
    if len(table.shape) != 2:
        raise ValueError(f"table has shape {tuple(table.shape)}; give rows and columns (n, d)")
    columns = silently_learnt(table)
    constants = [name for name, kind in zip(columns.names, columns.kinds, strict=True) if kind == "constant"]
    ignored = (*columns.left_out, *constants)
    names = columns.table_names
    kept = [j for j, name in enumerate(names) if name not in ignored]
    if not kept:
        raise ValueError(
            f"table has no column to find clusters in: {listed(ignored)} identify rows, or have one value or none"
        )
    X = some_columns(table, kept) if ignored and is_frame(table) else table[:, kept] if ignored else table
    columns = silently_learnt(X)
    holds_text = any(isinstance(level, str | bool) for levels in columns.levels for level in levels)
    are_numbers = all(kind == "number" and not atoms for kind, atoms in zip(columns.kinds, columns.atoms, strict=True))
    # In a wide table of numbers, such as pixels, it is their common variation that tells clusters apart.
    is_wide = len(kept) > WIDE and not holds_text and "date" not in columns.kinds
    return Rows(X, columns, ignored, are_numbers or is_wide, names)


def silently_learnt(table: Any) -> Columns:
    with own_filters():
        warnings.simplefilter("ignore")
        return learn_table(table, atoms=True)


def in_units(model: Any, rows: Rows, scaled: Scaled) -> Any:
    """A mixture fitted to standardised rows, as the same mixture of the rows in their own units."""
    if scaled.scale is None or scaled.location is None:
        return model
    origin, scale = torch.from_numpy(scaled.location), torch.from_numpy(scaled.scale)
    name, own = IN_OTHER_UNITS.get(model.covariance_type, model.covariance_type), model.theta_.components
    if name == model.covariance_type:
        own = own.affine(origin, scale)
    else:
        own = STRUCTURES[name].from_full(origin + scale * own.means, own.full() * scale * scale[:, None])
    theta = replace(model.theta_, components=own)
    entry = type(model)(**model.get_params() | {"covariance_type": name})
    task = Task(rows.X, None, None, 2, 1, 0)
    moved = run(entry, theta, task, max_iter=0)
    if moved is None:
        raise ValueError(f"the mixture of structure {model.covariance_type} collapses in the units of the data")
    return moved.set_params(max_iter=model.max_iter)
