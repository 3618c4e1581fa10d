"""From a table to the rows of a mixture, and from its samples to a table of the same kind.

column of the table         column of the mixture
level, yes/no, constant     its level; a missing cell is a level of its own
number, count, date         its normal score; atoms and missing cells have a probability of their own
function of another         none: it is computed from the other
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch

from jensen.data.cells import read_cells
from jensen.data.codes import without_unseen_warning
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table
from jensen.data.functions import Function, find_functions
from jensen.models.mixtures.mixture import Mixture
from jensen.tasks.opening import empty_columns, learn_table
from jensen.tasks.synthesis.conditions import Condition, draw, read_given
from jensen.tasks.synthesis.scores import NormalScores

NUMBERS = ("number", "count", "date")


@dataclass(frozen=True, eq=False)
class Maker:
    """What turns rows of a table into rows of a mixture and back.

    Args:
        columns: what the columns of the table are.
        kind: the container of the table.
        functions: columns that follow from another.
        scores: of the columns of numbers that are drawn, by number.
        n_levels: of the columns with levels that are drawn, without the level of missing cells.
        empty: one row of each column of a data frame that has no value, by number; new rows have none either.
    """

    columns: Columns
    kind: Kind
    functions: tuple[Function, ...]
    scores: Mapping[int, NormalScores]
    n_levels: Mapping[int, int]
    empty: Mapping[int, nw.Series[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> tuple[Maker, np.ndarray]:
        """What a table needs, and its rows as codes (n, d), NaN where a cell is missing."""
        cells = read_cells(table, dates=True)
        columns = learn_table(cells, atoms=True)
        x = columns.codes(cells, is_learnt=True).x.double().numpy()
        made = cls.learn(columns, cells.kind.of_other_rows(), x)
        if not cells.is_frame:
            return made, x
        frame: Any = nw.from_native(table, eager_only=True)
        return replace(made, empty={int(j): frame[:1, int(j)] for j in empty_columns(cells)}), x

    @classmethod
    def learn(cls, columns: Columns, kind: Kind, x: np.ndarray) -> Maker:
        """What rows of codes (n, d) need, which may be a part of the table."""
        is_number = np.array([kind in NUMBERS for kind in columns.kinds])
        functions = find_functions(x, ~is_number)
        targets, sources = {one.target for one in functions}, {one.source for one in functions}
        drawn = [j for j in range(x.shape[1]) if j not in targets]
        scores = {j: NormalScores.of(x[:, j], columns.atoms[j], j in sources) for j in drawn if is_number[j]}
        n_levels = {j: len(columns.levels[j]) for j in drawn if not is_number[j]}
        return cls(columns, kind, functions, scores, n_levels)

    @property
    def drawn(self) -> list[int]:
        """The columns that the mixture models."""
        return sorted([*self.scores, *self.n_levels])

    @property
    def is_number(self) -> np.ndarray:
        """(d,): which columns are compared as numbers."""
        return np.array([kind in NUMBERS for kind in self.columns.kinds])

    @property
    def kinds(self) -> dict[str | int, Any]:
        """What the columns of the mixture are, by their place in it: its argument `columns`."""
        return {
            place: {"kind": "number", "atoms": self.scores[j].codes.tolist()} if j in self.scores else "level"
            for place, j in enumerate(self.drawn)
        }

    def forward(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of the mixture (n, m) of codes (n, d)."""
        made = [
            self.scores[j].forward(x[:, j], rng)
            if j in self.scores
            else np.where(np.isnan(x[:, j]), self.n_levels[j], x[:, j])
            for j in self.drawn
        ]
        return np.stack(made, 1)

    def backward(self, rows: np.ndarray) -> np.ndarray:
        """Codes (n, d) of rows of the mixture (n, m)."""
        x = np.full((len(rows), len(self.columns.names)), np.nan)
        for place, j in enumerate(self.drawn):
            own = rows[:, place]
            x[:, j] = (
                self.scores[j].backward(own) if j in self.scores else np.where(own == self.n_levels[j], np.nan, own)
            )
        for function in self.functions:
            x[:, function.target] = function(x[:, function.source])
        return x

    def codes(self, table: Table) -> np.ndarray:
        """Codes (n, d) of a table with the same columns; a level that was not observed is missing."""
        with without_unseen_warning():
            found: np.ndarray = self.columns.codes(table).x.double().numpy()
        return found

    def table(self, x: np.ndarray) -> Any:
        """Codes (n, d) as a table of the container that came in, with its empty columns."""
        made = self.columns.table(torch.from_numpy(x), self.kind)
        if not self.empty:
            return made
        rows = np.zeros(len(x), dtype=int)
        frame = nw.from_native(made, eager_only=True).with_columns(*(one[rows] for one in self.empty.values()))
        return frame[:, np.argsort([*self.columns.kept, *self.empty]).tolist()].to_native()

    def frame(self, x: np.ndarray) -> Any:
        """The same as a pandas frame, for a page."""
        return self.columns.frame(torch.from_numpy(x))

    def conditions(self, given: Mapping[Any, Any]) -> dict[int, Condition]:
        """Conditions by column of the table, of what a user gives."""
        return read_given(self.columns, self.functions, self.scores, given)

    def sample(self, model: Mixture, n: int, given: Mapping[Any, Any], seed: int) -> np.ndarray:
        """Codes (n, d) of n new rows."""
        rng = np.random.default_rng(seed)
        conditions = self.conditions(given)
        place = {j: i for i, j in enumerate(self.drawn)}
        rows = draw(model, n, {place[j]: one for j, one in conditions.items()}, given, rng)
        x = self.backward(rows)
        for j, one in conditions.items():
            # A score is as near to an end as floats allow, and numbers that are rounded may pass it; atoms are inside.
            x[:, j] = x[:, j].clip(*one.ends)
        return x
