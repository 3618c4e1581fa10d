"""One system of coordinates for numbers and levels, in which an expectation is an average.

    number, count, date   (x - location) / scale          1 coordinate
    level, yes/no         one-hot                         L coordinates, whose expectations are probabilities
So what several models expect of a cell can be averaged, whatever the column is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jensen.data.columns import Columns

LEVELS = ("level", "yes/no", "constant")


@dataclass(frozen=True, eq=False)
class Coding:
    """Codes (n, d), as `Columns.codes` has them, and coordinates (n, D).

    Args:
        kinds: of the columns, as in `Columns`.
        n_levels: of each column; 1 for a number.
        location: (d,) subtracted from numbers, their mean.
        scale: (d,) by which they are divided, their standard deviation.
        bounds: (2, d) between which numbers are drawn: the range of the observed ones and a standard deviation on
            either side; None for no bounds.
    """

    kinds: tuple[str, ...]
    n_levels: tuple[int, ...]
    location: np.ndarray
    scale: np.ndarray
    bounds: np.ndarray | None = None

    @classmethod
    def of(cls, columns: Columns, x: np.ndarray) -> Coding:
        """For columns and the codes (n, d) they were learnt from."""
        is_level = np.array([kind in LEVELS for kind in columns.kinds])
        location = np.where(is_level, 0.0, np.nanmean(x, 0))
        deviation = np.nanstd(x, 0)
        scale = np.where(is_level | (deviation == 0), 1.0, deviation)
        bounds = np.stack([np.nanmin(x, 0) - scale, np.nanmax(x, 0) + scale])
        return cls(columns.kinds, columns.n_levels, location, scale, bounds)

    @property
    def d(self) -> int:
        return len(self.kinds)

    def is_level(self, column: int) -> bool:
        return self.kinds[column] in LEVELS

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The coordinates of each column."""
        ends = np.cumsum([n if self.is_level(j) else 1 for j, n in enumerate(self.n_levels)]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))

    @property
    def width(self) -> int:
        return int(self.places[-1].stop)

    @cached_property
    def source(self) -> np.ndarray:
        """The column (D,) that each coordinate belongs to."""
        return np.concatenate([np.full(place.stop - place.start, j) for j, place in enumerate(self.places)])

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Codes (n, d) as coordinates (n, D), NaN where missing."""
        out = np.empty((len(x), self.width))
        for j, place in enumerate(self.places):
            out[:, place] = self.of_column(x[:, j], j)
        return out

    def of_column(self, codes: np.ndarray, column: int) -> np.ndarray:
        """The codes (n,) of a column as its coordinates (n, w)."""
        if not self.is_level(column):
            scaled: np.ndarray = (codes - self.location[column]) / self.scale[column]
            return scaled[:, None]
        one_hot: np.ndarray = (codes[:, None] == np.arange(self.n_levels[column])).astype(np.float64)
        one_hot[np.isnan(codes)] = np.nan
        return one_hot

    def codes(self, z: np.ndarray) -> np.ndarray:
        """Expected coordinates (n, D) as codes (n, d): means of numbers, the most probable levels."""
        out = np.empty((len(z), self.d))
        for j, place in enumerate(self.places):
            if self.is_level(j):
                out[:, j] = z[:, place].argmax(1)
            else:
                out[:, j] = z[:, place.start] * self.scale[j] + self.location[j]
        return out

    def bounded(self, codes: np.ndarray, column: int) -> np.ndarray:
        """Drawn codes of a column, within its bounds."""
        if self.bounds is None or self.is_level(column):
            return codes
        found: np.ndarray = np.clip(codes, *self.bounds[:, column])
        return found

    def within(self, codes: np.ndarray, column: int) -> np.ndarray:
        """Expected codes of a column of numbers, within the range of the observed ones."""
        if self.bounds is None:
            return codes
        low, high = self.bounds[:, column] + np.array([1.0, -1.0]) * self.scale[column]
        found: np.ndarray = np.clip(codes, low, high)
        return found

    def completed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The coordinates (n, D) of rows x, with z where a cell is missing."""
        own = self.coordinates(x)
        return np.where(np.isnan(own), z, own)

    def record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("kinds", "n_levels", "location", "scale", "bounds")}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Coding:
        d = len(record["kinds"])
        location, scale = (np.asarray(record[name], dtype=np.float64) for name in ("location", "scale"))
        if location.shape != (d,) or scale.shape != (d,) or not (scale > 0).all():
            raise ValueError(f"location and scale are not {d} numbers, the scale positive; the file is damaged")
        bounds = None if record["bounds"] is None else np.asarray(record["bounds"], dtype=np.float64)
        if bounds is not None and (bounds.shape != (2, d) or not (bounds[0] <= bounds[1]).all()):
            raise ValueError(f"bounds are not a range for each of {d} columns; the file is damaged")
        return cls(tuple(record["kinds"]), tuple(record["n_levels"]), location, scale, bounds)
