"""Atoms: numbers with a probability of their own, such as a gain of exactly 0.

    p_k(x) = ω_ka at an atom a,  (1 - Σ_a ω_ka) f_k(x) elsewhere
A column of numbers with atoms becomes two columns of the engine: the number, which is missing at an atom, and the level
"no atom, first atom, second atom, ...". The product of both is p_k, so no family needs to know of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.data.columns import Columns
from jensen.engines.em.batch import Batch
from jensen.formulas.responsibilities import posterior_in_place
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.categorical import Categoricals
from jensen.models.mixtures.inference import answers, log_joint
from jensen.models.mixtures.product import Product


@dataclass(frozen=True)
class Atoms:
    """The columns that have atoms, with them; column `d + i` of the engine holds the levels of the i-th of these."""

    d: int
    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, columns: Columns) -> Atoms:
        found = [(j, atoms) for j, atoms in enumerate(columns.atoms) if atoms]
        return cls(len(columns.names), tuple(j for j, _ in found), tuple(atoms for _, atoms in found))

    @property
    def n_levels(self) -> tuple[int, ...]:
        return tuple(1 + len(atoms) for atoms in self.values)

    def of_columns(self, columns: Sequence[int]) -> list[int]:
        """The columns of the engine that belong to some columns."""
        return [*columns, *(self.d + self.columns.index(j) for j in columns if j in self.columns)]

    def expand(self, x: Tensor) -> Tensor:
        """From rows (n, d) to those of the engine (n, D)."""
        if not self.columns:
            return x
        own, levels = x.clone(), []
        for j, atoms in zip(self.columns, self.values, strict=True):
            level = torch.zeros_like(x[:, j])
            for number, atom in enumerate(atoms, 1):
                level[x[:, j] == atom] = number
            own[level > 0, j] = torch.nan
            levels.append(level.masked_fill(x[:, j].isnan(), torch.nan))
        return torch.cat([own, torch.stack(levels, 1)], 1)

    def contract(self, y: Tensor) -> Tensor:
        """Undo `expand`."""
        if not self.columns:
            return y
        x = y[:, : self.d].clone()
        for i, (j, atoms) in enumerate(zip(self.columns, self.values, strict=True)):
            level = y[:, self.d + i]
            for number, atom in enumerate(atoms, 1):
                x[level == number, j] = atom
        return x

    def expected(self, theta: MixtureTheta[Product], y: Tensor, filled: Tensor) -> Tensor:
        """Rows (n, d) with missing numbers that may be atoms at their mean, Σ_k q_k [ω_k0 E_k x + Σ_a ω_ka a].

        Args:
            theta: the mixture.
            y: rows of the engine (n, D), NaN where missing.
            filled: the same rows with all other entries filled.
        """
        x = self.contract(torch.where(y.isnan(), filled, y))
        for i, j in enumerate(self.columns):
            missing = y[:, self.d + i].isnan()
            if bool(missing.any()):
                x[missing, j] = self.mean_of(theta, y[missing], i)
        return x

    def mean_of(self, theta: MixtureTheta[Product], y: Tensor, i: int) -> Tensor:
        """The posterior mean (n,) of the i-th column with atoms, in rows where it is missing."""
        shares = level_shares(theta.components, self.d + i)
        atoms = torch.tensor(self.values[i], dtype=y.dtype)
        frame, j = theta.frame(), self.columns[i]

        def mean(local: MixtureTheta[Product], batch: Batch) -> Tensor:
            _, q = posterior_in_place(log_joint(local, batch))
            # Expected rows are linear in the responsibilities.
            weighted = q * shares[:, :1]
            number = local.components.given(batch).expected(weighted)[..., j : j + 1, :] * frame.scale[j]
            number = number + frame.origin[j] * weighted.sum(-2, keepdim=True)
            return number + (shares[:, 1:] @ atoms)[None] @ q

        return answers(theta, y, mean)[:, 0]


def level_shares(components: Product, column: int) -> Tensor:
    """The probabilities (K, L) of the levels of a column of the engine."""
    for part, own in zip(components.parts, components.columns, strict=True):
        if column in own:
            assert isinstance(part, Categoricals)
            place = own.index(column)
            start = sum(part.levels[:place])
            return part.probabilities[:, start : start + part.levels[place]]
    raise ValueError(f"there is no column {column}")


def engine_families(families: Sequence[str], atoms: Atoms) -> tuple[str, ...]:
    """The families of the engine's columns."""
    return (*families, *("categorical" for _ in atoms.columns))
