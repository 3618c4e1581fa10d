"""The one map between rows of the user and rows of the engine, y = [g(x), missing at an atom | levels of atoms].

    bounds:  g is monotone and leads out of the bounds;  ln p(x) = ln p(y) + Σ ln g'(x) over observed bounded numbers
    atoms:   p_k(x) = ω_ka at an atom a,  (1 - Σ_a ω_ka) f_k(x) elsewhere
Numbers with bounds, such as a share or a price, are Gaussian after g, together with all other numbers. A column with
atoms, such as a gain of exactly 0, becomes two columns of the engine: the number, which is missing at an atom, and the
level "no atom, first atom, second atom, ...". The product of both is p_k, so no family needs to know of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.data.columns import Columns
from jensen.data.names import shown
from jensen.engines.em.batch import Batch
from jensen.formulas.monotone import expectation, forward, inverse, log_derivative
from jensen.formulas.responsibilities import posterior_in_place
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.categorical import Categoricals
from jensen.models.mixtures.families.choice import POSITIVE
from jensen.models.mixtures.gaussians.base import Gaussians
from jensen.models.mixtures.inference import answers, log_joint
from jensen.models.mixtures.noise import Noise
from jensen.models.mixtures.product import Product


@dataclass(frozen=True)
class Coordinates:
    """
    Args:
        families: of the user's columns.
        bounds: (low, high) of every column that g transforms.
        atoms: of every column that has some; column d + i of the engine holds the levels of the i-th of these.
    """

    families: tuple[str, ...]
    bounds: Mapping[int, tuple[float, float]]
    atoms: Mapping[int, tuple[float, ...]]

    @classmethod
    def of(cls, columns: Columns, families: Sequence[str]) -> Coordinates:
        """Families of positive numbers have the bound 0 without g."""
        has_bounds = columns.support.isfinite().any(1).tolist()
        chosen = [j for j, family in enumerate(families) if has_bounds[j] and family == "gaussian"]
        bounds = {j: (float(columns.support[j, 0]), float(columns.support[j, 1])) for j in chosen}
        return cls(tuple(families), bounds, {j: atoms for j, atoms in enumerate(columns.atoms) if atoms})

    @property
    def d(self) -> int:
        """The number of the user's columns."""
        return len(self.families)

    @property
    def engine_families(self) -> tuple[str, ...]:
        """The families of the engine's columns."""
        return (*self.families, *("categorical" for _ in self.atoms))

    @property
    def n_levels(self) -> tuple[int, ...]:
        return tuple(1 + len(atoms) for atoms in self.atoms.values())

    def of_columns(self, columns: Sequence[int]) -> list[int]:
        """The columns of the engine that belong to some columns."""
        return [*columns, *(self.level_of(j) for j in columns if j in self.atoms)]

    def level_of(self, column: int) -> int:
        """The engine's column with the levels of the atoms of a column."""
        return self.d + list(self.atoms).index(column)

    def expand(self, x: Tensor) -> Tensor:
        """From rows (n, d) to those of the engine (n, D); a number outside of its bounds becomes a missing one."""
        if not self.atoms and not self.bounds:
            return x
        own, levels = x.clone(), []
        for j, ends in self.bounds.items():
            own[:, j] = forward(x[:, j], *ends)
        for j, atoms in self.atoms.items():
            level = torch.zeros_like(x[:, j])
            for number, atom in enumerate(atoms, 1):
                level[x[:, j] == atom] = number
            levels.append(level.masked_fill((level == 0) & own[:, j].isnan(), torch.nan))
            own[level > 0, j] = torch.nan
        return torch.cat([own, torch.stack(levels, 1)], 1) if levels else own

    def contract(self, y: Tensor) -> Tensor:
        """Undo `expand`."""
        if not self.atoms and not self.bounds:
            return y
        x = y[:, : self.d].clone()
        for j, ends in self.bounds.items():
            x[:, j] = inverse(x[:, j], *ends)
        for j, atoms in self.atoms.items():
            for number, atom in enumerate(atoms, 1):
                x[y[:, self.level_of(j)] == number, j] = atom
        return x

    def log_jacobian(self, x: Tensor) -> Tensor:
        """Σ_j ln g'(x_j) (n,) over observed numbers that are no atoms; -∞ for a row with a number outside of bounds."""
        total = torch.zeros(x.shape[0], dtype=torch.float64)
        for j, ends in self.bounds.items():
            total += log_derivative(x[:, j], *ends).masked_fill(~self.has_density(x, j), 0.0)
        return total

    def outside(self, x: Tensor) -> Tensor:
        """Which numbers (n, d) are no atoms and have no density: at or beyond bounds, or excluded by a family; (1, d)
        where no number can be that.
        """
        inside = {j: POSITIVE[family].inside for j, family in enumerate(self.families) if family in POSITIVE}
        found = torch.zeros(x.shape[0] if self.bounds or inside else 1, x.shape[1], dtype=torch.bool)
        for j, (low, high) in self.bounds.items():
            found[:, j] = ((x[:, j] <= low) | (x[:, j] >= high)) & self.has_density(x, j)
        for j, is_inside in inside.items():
            found[:, j] = ~is_inside(x[:, j]) & self.has_density(x, j)
        return found

    def has_density(self, x: Tensor, column: int) -> Tensor:
        """Which numbers (n,) of a column are neither missing nor atoms."""
        atoms = torch.tensor(self.atoms.get(column, ()), dtype=x.dtype)
        return ~(x[:, column].isnan() | torch.isin(x[:, column], atoms))

    def noise(self, y: Tensor, n_levels: Sequence[int]) -> Noise:
        """The noise of rows of the engine (n, D), whose columns have so many levels."""
        if "multinomial" in self.families:
            raise ValueError(
                "noise=True has a range for every column, and families='multinomial' makes all columns one text; leave "
                "noise out, or choose 'poisson' or 'negative binomial'"
            )
        families = dict(enumerate(self.engine_families))
        levels = {j: n_levels[j] for j, family in families.items() if family == "categorical"}
        levels |= {j: 2 for j, family in families.items() if family == "bernoulli"}
        counts = [j for j, family in families.items() if family in ("poisson", "negative binomial")]
        return Noise.of(y, levels, counts, self.bounds, [self.level_of(j) for j in self.atoms])

    def check(self, x: Tensor, names: Sequence[str | int]) -> None:
        """An error for training rows (n, d) outside of the bounds that the columns have since the first batch."""
        for j, (low, high) in self.bounds.items():
            outside = forward(x[:, j], low, high).isnan() & self.has_density(x, j)
            if bool(outside.any()):
                wrong = float(x[outside, j][0])
                raise ValueError(
                    f"X holds {wrong:g} in column {shown(names[j])}, whose numbers are between {low:g} and {high:g} "
                    "since the first batch; correct the value, or give the column other bounds from the beginning"
                )

    def expected(self, theta: MixtureTheta[Product], y: Tensor, filled: Tensor, ranges: Tensor | None = None) -> Tensor:
        """Rows (n, d) with missing numbers at their mean, Σ_k q_k [ω_k0 E_k g⁻¹(y) + Σ_a ω_ka a].

        Args:
            theta: the mixture.
            y: rows of the engine (n, D), NaN where missing.
            filled: the same rows with all other entries filled.
            ranges: (d, 2), where numbers end that have a bound on the other side only; None for nowhere.
        """
        x = self.contract(torch.where(y.isnan(), filled, y))
        for j in {**self.bounds, **self.atoms}:
            missing = y[:, self.level_of(j) if j in self.atoms else j].isnan()
            if bool(missing.any()):
                ends = () if ranges is None else tuple(ranges[j].tolist())
                x[missing, j] = self.mean_of(theta, y[missing], j, ends)
        return x

    def mean_of(self, theta: MixtureTheta[Product], y: Tensor, j: int, ends: tuple[float, ...] = ()) -> Tensor:
        """The posterior mean (n,) of a column with bounds or atoms, in rows where it is missing."""
        atoms = torch.tensor(self.atoms.get(j, ()), dtype=y.dtype)
        shares = theta.weights.new_ones(theta.n_components, 1)
        if j in self.atoms:
            shares = level_shares(theta.components, self.level_of(j))
        frame, noise = theta.frame(), theta.noise
        level = self.level_of(j) if j in self.atoms else None
        of_noise = 0.0 if noise is None else noise.mean_of(j, level, self.atoms.get(j, ()))

        def mean(local: MixtureTheta[Product], batch: Batch) -> Tensor:
            _, every = posterior_in_place(log_joint(local, batch))
            q = every[..., : local.n_components, :]
            elsewhere = (shares[:, 1:] @ atoms)[None] @ q + of_noise * every[..., local.n_components :, :].sum(-2, True)
            weighted = q * shares[:, :1]
            if j in self.bounds:
                centre, variance = given_number(local.components, batch, j)
                centre, variance = centre * frame.scale[j] + frame.origin[j], variance * frame.scale[j].square()
                number = expectation(centre, variance.expand_as(centre), *self.bounds[j], *ends)
                return (weighted * number).sum(-2, keepdim=True) + elsewhere
            # Expected rows are linear in the responsibilities.
            number = local.components.given(batch).expected(weighted)[..., j : j + 1, :] * frame.scale[j]
            return number + frame.origin[j] * weighted.sum(-2, keepdim=True) + elsewhere

        return answers(theta, y, mean)[:, 0]


def given_number(components: Product, batch: Batch, column: int) -> tuple[Tensor, Tensor]:
    """Mean (*blocks, K, n) and variance (*blocks, K or 1, n or 1) of a Gaussian column, given what is observed."""
    for (part, own), columns in zip(components.split(batch), components.columns, strict=True):
        if column in columns:
            assert isinstance(part, Gaussians)
            found: tuple[Tensor, Tensor] = part.given(own).number(columns.index(column))
            return found
    raise ValueError(f"there is no column {column}")


def level_shares(components: Product, column: int) -> Tensor:
    """The probabilities (K, L) of the levels of a column of the engine."""
    for part, own in zip(components.parts, components.columns, strict=True):
        if column in own:
            assert isinstance(part, Categoricals)
            place = own.index(column)
            start = sum(part.levels[:place])
            return part.probabilities[:, start : start + part.levels[place]]
    raise ValueError(f"there is no column {column}")
