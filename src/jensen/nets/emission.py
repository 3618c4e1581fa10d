"""p(x|z): the distribution of every column, given the outputs of a decoder.

Columns of one kind form a family, with its own outputs, and a row's ln p is the sum over families. x is in the units of
`Columns`: standardised numbers, counts, 0 and 1, and level numbers. Adding the log-Jacobian of the standardisation
gives densities in the units of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from jensen.data.columns import Columns
from jensen.data.network_columns import atom_pairs
from jensen.nets.families import Counts, Family, Grid, Levels, Numbers, YesNo
from jensen.nets.likelihoods import Options


class Emission(nn.Module):
    """ln p(x | outputs of a decoder), and expected or sampled rows.

    Args:
        columns: what networks model.
        options: the distributions of the columns.
        least_variance: of learned noise, for every number in units of its scale; None is the default.
        start: outputs that give every column its distribution in the training rows; None is 0.
        n_rows: the number of training rows.
        given: places of columns that are given and have no distribution; drawn and expected rows have NaN there.
    """

    order: Tensor
    modelled: Tensor
    log_scale: Tensor
    start: Tensor | None

    def __init__(
        self,
        columns: Columns,
        options: Options,
        least_variance: Tensor | None = None,
        start: Tensor | None = None,
        n_rows: int = 0,
        given: Collection[int] = (),
    ) -> None:
        super().__init__()
        kinds = ["given" if j in given else kind for j, kind in enumerate(columns.kinds)]
        n_levels = columns.n_levels
        self.n_columns = len(kinds)
        self.atoms = [pair for pair in atom_pairs(columns) if pair.number not in given]

        def places(kind: str) -> list[int]:
            return [j for j, own in enumerate(kinds) if own == kind]

        # Modules have the names of kinds, because the files of models have them.
        self.numbers = Numbers(places("number"), options.gaussian, columns.scale, least_variance)
        self.binary = YesNo(places("yes/no"))
        self.levels = Levels(places("level"), n_levels)
        self.counts = Counts(places("count"), options.counts)
        self.grid = Grid(places("grid"), n_levels[0] if columns.is_grid else 0, n_rows)
        found: list[Family] = [self.numbers, self.binary, self.levels, self.counts, self.grid]
        names = ("numbers", "binary", "levels", "counts", "grid")
        self.used = [name for name, family in zip(names, found, strict=True) if len(family.columns)]
        self.sizes = [family.n_outputs for family in self.families]
        self.expected = [family.n_expected for family in self.families]
        modelled = torch.cat([family.columns for family in self.families])
        self.register_buffer("order", modelled.argsort(), persistent=False)
        self.register_buffer("modelled", modelled.sort().values, persistent=False)
        scale = torch.ones_like(columns.scale) if columns.is_grid else columns.scale.clone()
        scale[list(given)] = 1.0
        self.register_buffer("log_scale", scale.log().float(), persistent=False)
        self.has_units = bool(self.log_scale.any())
        self.register_buffer("start", start, persistent=False)

    @property
    def families(self) -> list[Family]:
        """Those that have columns, in the order of their outputs."""
        return [getattr(self, name) for name in self.used]

    @property
    def n_outputs(self) -> int:
        return sum(self.sizes)

    def marginal_outputs(self, x: Tensor) -> Tensor:
        """Outputs (D,) that give every column about its distribution in rows x (n, d), as initial values."""
        return torch.cat([family.marginal(x[:, family.columns]) for family in self.families])

    def log_prob(self, outputs: Tensor, x: Tensor, observed: Tensor | None = None) -> Tensor:
        """ln p of every row, summed over its observed values; outputs may have more leading axes than x."""
        terms = self.log_prob_entries(outputs, x)
        return (terms if observed is None else terms * self.own(observed)).sum(-1)

    def log_jacobian(self, observed: Tensor | None = None) -> Tensor | float:
        """-Σ ln scale over the observed values of every row, to add to `log_prob`."""
        if not self.has_units:
            return 0.0
        return -self.log_scale.sum() if observed is None else -(observed.to(self.log_scale) @ self.log_scale)

    def log_prob_entries(self, outputs: Tensor, x: Tensor) -> Tensor:
        """ln p of every value that is not given."""
        return self.in_order([family.log_prob(own, self.of(family, x)) for family, own in self.split(outputs)])

    def expectation(self, outputs: Tensor) -> Tensor:
        """Expectations, which may be averaged over z: means, probabilities of 1 and of every level (..., D)."""
        parts = [family.expectation(own) for family, own in self.split(outputs)]
        if self.atoms:
            place = self.used.index("levels")
            parts[0] = self.with_atoms(parts[0], parts[place].unflatten(-1, self.levels.shape))
        return torch.cat(parts, -1)

    def with_atoms(self, mean: Tensor, levels: Tensor) -> Tensor:
        """P(no atom) E[x | no atom] + Σ_a P(a) a of numbers (..., J), from P(level) (..., L, columns)."""
        mean = mean.clone()
        for pair in self.atoms:
            place = int((self.numbers.columns == pair.number).nonzero()[0, 0])
            share = levels[..., int((self.levels.columns == pair.level).nonzero()[0, 0])]
            atoms = mean.new_tensor(pair.values)
            mean[..., place] = share[..., 0] * mean[..., place] + share[..., 1 : 1 + len(atoms)] @ atoms
        return mean

    def decide(self, expected: Tensor) -> Tensor:
        """Rows from expectations: means, probabilities of 1, and the most probable levels."""
        parts = expected.split(self.expected, -1)
        return self.wide(
            self.in_order([family.decide(part) for family, part in zip(self.families, parts, strict=True)])
        )

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Rows drawn from p(x | outputs)."""
        return self.wide(self.in_order([family.sample(own, generator) for family, own in self.split(outputs)]))

    def split(self, outputs: Tensor) -> list[tuple[Family, Tensor]]:
        """The outputs of every family, counted from the start."""
        parts = zip(self.families, outputs.split(self.sizes, -1), strict=True)
        if self.start is None:
            return list(parts)
        starts = self.start.split(self.sizes)
        return [(family, family.begun(own, start)) for (family, own), start in zip(parts, starts, strict=True)]

    def of(self, family: Family, x: Tensor) -> Tensor:
        """The columns of a family in rows (..., d)."""
        return x if len(family.columns) == self.n_columns else x[..., family.columns]

    def own(self, x: Tensor) -> Tensor:
        """The columns that are not given, of rows (..., d)."""
        return x if len(self.modelled) == self.n_columns else x[..., self.modelled]

    def wide(self, values: Tensor) -> Tensor:
        """Rows (..., d) with NaN where they are given."""
        if len(self.modelled) == self.n_columns:
            return values
        rows = values.new_full((*values.shape[:-1], self.n_columns), torch.nan)
        rows[..., self.modelled] = values
        return rows

    def in_order(self, parts: Sequence[Tensor]) -> Tensor:
        """The columns that are not given, in their original order."""
        return parts[0] if len(parts) == 1 else torch.cat(list(parts), -1)[..., self.order]
