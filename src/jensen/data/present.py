"""The way back: encoded numbers as the cells of a column, in the type that came in.

An array gets numbers as they are. A data frame gets whole numbers where all training values were whole, and nothing
beyond the range of the training values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from jensen.data.container import backend_of, new_column, numpy_type, pandas_column
from jensen.data.dates import SECONDS, frame_times, pandas_times, python_times
from jensen.data.levels import level_values
from jensen.data.names import listed, shown


@dataclass(frozen=True)
class ColumnView:
    """One column of `Columns`."""

    name: str | int
    kind: str
    levels: tuple[Any, ...]
    location: float
    scale: float
    dtype: str
    unit: str
    is_whole: bool
    low: float
    high: float
    categories: tuple[Any, ...] = ()
    atoms: tuple[float, ...] = ()

    @property
    def n_levels(self) -> int:
        return max(len(self.levels), 1)

    @property
    def own_dtype(self) -> str:
        """The type in which a data frame gets the column; "" for numbers of an integer column that are not whole."""
        return "" if self.kind == "number" and "int" in self.dtype.lower() and not self.is_whole else self.dtype


def views_of(columns: Mapping[str, Any]) -> tuple[ColumnView, ...]:
    """The columns one by one, from the fields of `Columns`."""
    each = ("names", "kinds", "levels", "dtypes", "units", "whole", "categories", "atoms")
    location, scale = columns["location"].tolist(), columns["scale"].tolist()
    low, high = columns["ranges"].T.tolist()
    return tuple(
        ColumnView(name, kind, levels, location[j], scale[j], dtype, unit, whole, low[j], high[j], categories, atoms)
        for j, (name, kind, levels, dtype, unit, whole, categories, atoms) in enumerate(
            zip(*(columns[what] for what in each), strict=True)
        )
    )


def with_exact_atoms(view: ColumnView, numbers: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """Decoded numbers (n,) with atoms as they are: a number that is scaled and scaled back may differ in a digit."""
    for atom in view.atoms:
        decoded = np.where(numbers == (atom - view.location) / view.scale, atom, decoded)
    return decoded


def numbers_in_units(view: ColumnView, numbers: np.ndarray, is_for_frame: bool) -> np.ndarray:
    """Decoded numbers (n,) of a column without levels."""
    decoded: np.ndarray = numbers * view.scale + view.location
    if is_for_frame:
        decoded = np.rint(decoded) if view.is_whole else decoded
        decoded = decoded.clip(view.low, view.high)
    return with_exact_atoms(view, numbers, decoded)


def decode_column(view: ColumnView, numbers: np.ndarray) -> np.ndarray:
    """Decoded cells (n,) for a data frame, in the column's own type where numpy has it."""
    own = numpy_type(view.dtype)
    if view.unit:
        return python_times(seconds_in(view, numbers), view.dtype)
    if view.kind in ("number", "count", "grid"):
        decoded = numbers_in_units(view, numbers, is_for_frame=True)
        if own is None or (own.kind in "iu" and (not view.is_whole or np.isnan(decoded).any())):
            return decoded
        return decoded.astype(own)
    number = np.where(np.isnan(numbers), -1, numbers >= 0.5 if view.kind == "yes/no" else np.rint(numbers))
    wrong = np.flatnonzero((number >= view.n_levels) | (numbers < -0.5))
    if len(wrong):
        raise ValueError(
            f"values holds {numbers[wrong[0]]} in row {wrong[0]}, column {shown(view.name)}, "
            f"whose levels are numbered 0 to {view.n_levels - 1}"
        )
    return level_values(view.levels, number.astype(np.int64), own)


def seconds_in(view: ColumnView, numbers: np.ndarray) -> np.ndarray:
    """Seconds (n,) of dates and times."""
    if view.levels:
        return np.where(np.isnan(numbers), np.nan, view.levels[0])
    return numbers_in_units(view, numbers, is_for_frame=True) * SECONDS[view.unit]


def decode_matrix(views: Sequence[ColumnView], numbers: np.ndarray) -> np.ndarray:
    """Decoded numbers (n, d) of all columns in one array; neither rounded nor clipped."""
    location, scale = np.array([[view.location, view.scale] for view in views]).T
    decoded: np.ndarray = numbers * scale + location
    for view in views:
        if isinstance(next(iter(view.levels), None), str):
            raise ValueError(f"column {shown(view.name)} has text as levels, {listed(view.levels)}; give a data frame")
    binary = [j for j, view in enumerate(views) if view.kind == "yes/no"]
    if binary:
        low, high = np.array([views[j].levels for j in binary], dtype=np.float64).T
        # A slice of all columns needs no copy.
        where = binary if len(binary) < len(views) else slice(None)
        block = numbers[:, where]
        decoded[:, where] = low + block * (high - low)
    for j, view in enumerate(views):
        if view.kind in ("level", "constant"):
            decoded[:, j] = decode_column(view, numbers[:, j])
        elif view.atoms:
            decoded[:, j] = with_exact_atoms(view, numbers[:, j], decoded[:, j])
    return decoded


def make_frame(container: str, views: Sequence[ColumnView], numbers: np.ndarray, index: Any) -> Any:
    """A data frame of columns; the views' types may be "", which leaves the type to the container."""
    made = {j: frame_column(container, str(view.name), view, numbers[:, j], index) for j, view in enumerate(views)}
    if container == "pandas":
        import pandas as pd

        frame = pd.DataFrame(made, index=index)
        frame.columns = pd.Index([view.name for view in views])
        return frame
    # Native ones, whose types arrow takes as they are; those of others it guesses from the values.
    named = {str(view.name): made[j].to_native() for j, view in enumerate(views)}
    return nw.from_dict(named, backend=backend_of(container)).to_native()


def frame_column(container: str, name: str, view: ColumnView, numbers: np.ndarray, index: Any) -> Any:
    if view.unit and container == "pandas":
        return pandas_times(seconds_in(view, numbers), view.dtype, index)
    if view.unit:
        return frame_times(name, seconds_in(view, numbers), view.dtype, backend_of(container))
    cells = decode_column(view, numbers)
    if container == "pandas":
        return pandas_column(cells, view.own_dtype, view.categories or view.levels, index)
    return new_column(container, name, cells, view.own_dtype, view.categories or view.levels)


def restored_column(X: Any, column: int, view: ColumnView, numbers: np.ndarray) -> Any:
    """Cells (n,) to fill the missing ones of a column of the data frame X with; those without a number are not used."""
    if view.unit and hasattr(X, "iloc"):
        own = str(X.dtypes.iloc[column])
        return pandas_times(seconds_in(view, numbers), view.dtype if own == "object" else own).array
    # A missing number would make floats of whole numbers.
    return decode_column(view, np.nan_to_num(numbers) if view.is_whole else numbers)
