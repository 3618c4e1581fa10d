"""The columns of a table as the columns that networks model: numbers, yes/no and levels.

    date      a number
    constant  nothing: its value has probability 1
    number with atoms   two columns: the number, which is missing at an atom, and a level "no atom, first atom, ..."
With the second, p(x) = P(atom) at an atom and P(no atom) f(x) elsewhere, so no network needs to know of atoms: a VAE
leaves the missing number out of its bound, and a diffusion draws it. All other columns are as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jensen.data.columns import Columns


@dataclass(frozen=True)
class AtomPair:
    """A number with atoms: the places of its two columns among those of the networks, and its encoded atoms."""

    number: int
    level: int
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class NetworkColumns:
    """
    Args:
        table: the columns of the table.
        inner: the columns that networks model; those of the levels of atoms come last.
        places: the columns of the table that the other inner columns are.
    """

    table: Columns
    inner: Columns
    places: tuple[int, ...]

    @classmethod
    def of(cls, table: Columns) -> NetworkColumns:
        d = len(table.names)
        if not (any(table.atoms) or {"date", "constant"} & set(table.kinds)):
            return cls(table, table, tuple(range(d)))
        # Networks need at least one column; one level has probability 1, too.
        places = tuple(j for j, kind in enumerate(table.kinds) if kind != "constant") or (0,)
        atoms = [table.atoms[j] for j in places if table.atoms[j]]
        other = {"date": "number", "constant": "level"}
        n = len(atoms)
        inner = Columns(
            tuple(range(len(places) + n)),
            (*(other.get(table.kinds[j], table.kinds[j]) for j in places), *["level"] * n),
            (*(table.levels[j] for j in places), *(tuple(range(1 + len(own))) for own in atoms)),
            torch.cat([table.location[list(places)], torch.zeros(n, dtype=torch.float64)]),
            torch.cat([table.scale[list(places)], torch.ones(n, dtype=torch.float64)]),
            (*(table.dtypes[j] for j in places), *["int64"] * n),
            table.container,
            atoms=(*(table.atoms[j] for j in places), *[()] * n),
        )
        return cls(table, inner, places)

    @property
    def is_same(self) -> bool:
        """Whether networks model the columns of the table as they are."""
        return self.inner is self.table

    def split(self, x: Tensor) -> Tensor:
        """From encoded rows (n, d) of the table to those of networks (n, D)."""
        if self.is_same:
            return x
        own, levels = x[:, list(self.places)], []
        for pair in atom_pairs(self.inner):
            number = own[:, pair.number]
            level = torch.zeros_like(number)
            for k, atom in enumerate(pair.values, 1):
                level[number == atom] = k
            levels.append(level.masked_fill(number.isnan(), torch.nan))
            own[level > 0, pair.number] = torch.nan
        return torch.cat([own, torch.stack(levels, 1)], 1) if levels else own

    def inner_mask(self, cells: Tensor) -> Tensor:
        """The columns of networks (n, D) that belong to some cells (n, d) of the table."""
        if self.is_same:
            return cells
        own = cells[:, list(self.places)]
        return torch.cat([own, own[:, [pair.number for pair in atom_pairs(self.inner)]]], 1)

    def join(self, y: Tensor, *, is_expected: bool = False) -> Tensor:
        """Undo `split`; expected numbers have their atoms in them already."""
        if self.is_same:
            return y
        x = torch.zeros((*y.shape[:-1], len(self.table.names)), dtype=torch.float64)
        x[..., list(self.places)] = y[..., : len(self.places)].to("cpu", torch.float64)
        for pair in () if is_expected else atom_pairs(self.inner):
            column = x[..., self.places[pair.number]]
            for k, atom in enumerate(pair.values, 1):
                column[(y[..., pair.level] == k).cpu()] = atom
        return x


def atom_pairs(inner: Columns) -> list[AtomPair]:
    """The numbers with atoms of the columns of networks."""
    numbers = [j for j, atoms in enumerate(inner.atoms) if atoms]
    first = len(inner.names) - len(numbers)
    location, scale = inner.location.tolist(), inner.scale.tolist()
    return [
        # As in `encoded_rows`, so that encoded atoms are equal to the last digit.
        AtomPair(j, first + i, tuple((np.float64(atom) - location[j]) / scale[j] for atom in inner.atoms[j]))
        for i, j in enumerate(numbers)
    ]
