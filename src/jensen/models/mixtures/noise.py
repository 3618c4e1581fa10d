"""Noise: one more component, for rows that fit nowhere.

    p(x) = π_0 u(x) + Σ_k π_k p_k(x),   u(x) = Π_j u_j(x_j) over the observed columns
    u_j = 1/range of a number inside its range and 0 outside, 1/(range + 1) of a count, 1/L of a level
u is fixed, so the noise has one parameter, its weight. Rows far from all components belong to it, and do not bend the
others. A column with atoms keeps their shares: ω_a at an atom, (1 - Σω)/range elsewhere.
Banfield & Raftery (1993). mclust has the smaller of two boxes as the volume, and counts it as a parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from jensen.formulas.monotone import forward, inverse, log_derivative

# A row at the edge of the box is inside it whatever rounding makes of it.
SLACK = 1e-9
Bounds = Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class Noise:
    """The uniform distribution over the box of the rows of a fit, in the units of these rows.

    Args:
        low, high: ends of the range of every column (D,); ∓∞ where a column has no say, as it has one value.
        size: what 1/u_j is (D,): the range of a number, the number of values of a count or of levels.
        is_whole: which columns (D,) hold whole numbers.
        has_mean: which columns (D,) have a mean; levels have none.
        bounds: (low, high) of columns whose numbers stand in the rows as g(x); u is uniform in x.
        atoms: the shares of the levels of a column that says which numbers are atoms.
    """

    low: Tensor
    high: Tensor
    size: Tensor
    is_whole: Tensor
    has_mean: Tensor
    bounds: Bounds
    atoms: Mapping[int, Tensor]

    @classmethod
    def of(
        cls,
        x: Tensor,
        n_values: Mapping[int, int] | None = None,
        counts: Sequence[int] = (),
        bounds: Bounds | None = None,
        atoms: Sequence[int] = (),
    ) -> Noise:
        """The box of rows (n, D), NaN where missing.

        Args:
            x: rows.
            n_values: how many values columns of levels have.
            counts: columns of counts.
            bounds: of columns that hold g(x).
            atoms: columns of levels that keep the shares that they have in x.
        """
        d, levels, bounds = x.shape[1], dict(n_values or {}), bounds or {}
        low, high, size = torch.zeros(3, d, dtype=torch.float64)
        for j in range(d):
            seen = x[:, j][~x[:, j].isnan()].double()
            if j in levels:
                low[j], high[j], size[j] = 0, levels[j] - 1, levels[j]
                continue
            low[j], high[j] = (seen.min(), seen.max()) if len(seen) else (0.0, 0.0)
            ends = inverse(torch.stack([low[j], high[j]]), *bounds.get(j, (-math.inf, math.inf)))
            size[j] = ends[1] - ends[0] + (j in counts)
        # A column with one value, as a first batch may have, says nothing about where rows can lie.
        is_silent = size <= 0
        low, high = low.masked_fill(is_silent, -math.inf), high.masked_fill(is_silent, math.inf)
        is_whole, has_mean = torch.zeros(d, dtype=torch.bool), torch.ones(d, dtype=torch.bool)
        is_whole[[*levels, *counts]], has_mean[list(levels)] = True, False
        shares = {j: level_shares(x[:, j], levels[j]) for j in atoms}
        return cls(low, high, size.masked_fill(is_silent, 1.0), is_whole, has_mean, bounds, shares)

    def joined(self, other: Noise) -> Noise:
        """The noise of the box that holds both boxes; the shares of atoms stay."""
        is_silent, is_new = self.low.isinf(), ~other.low.isinf()
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        low, high = torch.where(is_new, low, self.low), torch.where(is_new, high, self.high)
        low, high = torch.where(is_silent, other.low, low), torch.where(is_silent, other.high, high)
        found = replace(self, low=low, high=high)
        ranges = torch.tensor([end - start for start, end in map(found.ends, range(len(low)))], dtype=low.dtype)
        size = torch.where(low.isinf(), 1.0, ranges + self.is_whole.double())
        return replace(found, size=size)

    def log_density(self, x: Tensor) -> Tensor:
        """ln u of rows (n, D) over what is observed of them: (n,)."""
        total = x.new_zeros(len(x), dtype=torch.float64)
        for j in range(len(self.size)):
            value = x[:, j].double()
            missing = value.isnan()
            if j in self.atoms:
                log_share = self.atoms[j].log()[value.masked_fill(missing, 0.0).long()]
                total += log_share.masked_fill(missing, 0.0)
                continue
            log_u = torch.full_like(value, -math.log(float(self.size[j])))
            if j in self.bounds:
                log_u -= log_derivative(inverse(value, *self.bounds[j]), *self.bounds[j])
            slack = SLACK * (self.high[j] - self.low[j]).nan_to_num(posinf=0.0)
            is_outside = (value < self.low[j] - slack) | (value > self.high[j] + slack)
            total += log_u.masked_fill(is_outside, -math.inf).masked_fill(missing, 0.0)
        return total

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Rows (n, D); the number of a column with atoms is drawn as well where it is at one."""
        rows = torch.empty(n, len(self.size), dtype=torch.float64)
        for j in range(rows.shape[1] if n else 0):
            rows[:, j] = self.draw_column(j, n, generator)
        return rows

    def draw_column(self, j: int, n: int, generator: torch.Generator) -> Tensor:
        if j in self.atoms:
            return torch.multinomial(self.atoms[j], n, replacement=True, generator=generator).double()
        u = torch.rand(n, generator=generator, dtype=torch.float64)
        low = float(self.low[j])
        if not math.isfinite(low):
            return torch.zeros_like(u)
        if self.is_whole[j]:
            return low + (u * self.size[j]).floor()
        if j in self.bounds:
            return as_coordinates(self.ends(j)[0] + u * self.size[j], *self.bounds[j])
        return low + u * self.size[j]

    @property
    def mean(self) -> Tensor:
        """E[x] (D,) in the units of the rows; 0 for levels, which have none, and where g has no mean of its own."""
        centre = ((self.low + self.high) / 2).nan_to_num(nan=0.0)
        return centre.masked_fill(~self.has_mean, 0.0)

    def mean_of(self, j: int, level: int | None, atoms: Sequence[float]) -> float:
        """E[x_j] in the user's own units, of a column with bounds, or with these atoms told by a column of levels."""
        low, high = self.ends(j)
        centre = (low + high) / 2 if math.isfinite(low) else 0.0
        if level is None:
            return centre
        shares = self.atoms[level].tolist()
        return float(shares[0] * centre + sum(share * atom for share, atom in zip(shares[1:], atoms, strict=True)))

    def ends(self, j: int) -> tuple[float, float]:
        """The range of a column in the user's own units."""
        ends = inverse(torch.stack([self.low[j], self.high[j]]), *self.bounds.get(j, (-math.inf, math.inf)))
        return float(ends[0]), float(ends[1])

    def select(self, columns: Sequence[int]) -> Noise:
        """The noise of some columns, in this order."""
        own = list(columns)
        return Noise(
            self.low[own],
            self.high[own],
            self.size[own],
            self.is_whole[own],
            self.has_mean[own],
            {i: self.bounds[j] for i, j in enumerate(own) if j in self.bounds},
            {i: self.atoms[j] for i, j in enumerate(own) if j in self.atoms},
        )

    def record(self) -> dict[str, Any]:
        """Values that a file can hold."""
        return {
            "low": self.low,
            "high": self.high,
            "size": self.size,
            "is_whole": self.is_whole,
            "has_mean": self.has_mean,
            "bounds": tuple((j, *ends) for j, ends in self.bounds.items()),
            "atoms": tuple((j, tuple(shares.tolist())) for j, shares in self.atoms.items()),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], d: int) -> Noise:
        """Undo `record`; an error where it does not describe noise of d columns."""
        low, high, size = (record[name].double() for name in ("low", "high", "size"))
        is_whole, has_mean = record["is_whole"].bool(), record["has_mean"].bool()
        if any(tensor.shape != (d,) for tensor in (low, high, size, is_whole, has_mean)):
            raise ValueError(f"noise has {tuple(low.shape)} columns, but the model has {d}; the file is damaged")
        if not bool((low <= high).all() and (size > 0).all()):
            raise ValueError("noise must have a box with positive sides; the file is damaged")
        bounds = {int(j): (float(a), float(b)) for j, a, b in record["bounds"]}
        atoms = {int(j): torch.tensor(shares, dtype=torch.float64) for j, shares in record["atoms"]}
        return cls(low, high, size, is_whole, has_mean, bounds, atoms)


def level_shares(column: Tensor, n_levels: int) -> Tensor:
    """How often each level occurs among the observed entries of a column (n,), as shares."""
    counts = torch.bincount(column[~column.isnan()].long(), minlength=n_levels).double()
    return counts / counts.sum()


def as_coordinates(x: Tensor, low: float, high: float) -> Tensor:
    """g(x), for numbers that may lie at a bound by rounding."""
    return forward(x.clamp(math.nextafter(low, math.inf), math.nextafter(high, -math.inf)), low, high)
