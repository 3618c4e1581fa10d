"""The fitted average: what it expects of missing cells, and draws of them.

    p(x_j | observed) = Σ_m w_jm p_m(x_j | observed)
The last of the members are nearest rows, which need completed rows: the others complete them first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from jensen.tasks.imputation.coding import Coding
from jensen.tasks.imputation.members import STEPS, Member
from jensen.tasks.imputation.nearest import Nearest

# Rounds in which nearest rows are found for completed rows, and rounds over the columns of a draw.
ROUNDS, SWEEPS = 2, 3


@dataclass(frozen=True, eq=False)
class Ensemble:
    """
    Args:
        coding: of the columns.
        members: fitted models, M of them.
        nearest: nearest rows, or None.
        first: (M, d) weights of the members alone; the columns sum to 1.
        weights: (M + 1, d) weights of all, nearest rows last; the columns sum to 1.
    """

    coding: Coding
    members: tuple[Member, ...]
    nearest: Nearest | None
    first: np.ndarray
    weights: np.ndarray

    def expected(self, x: np.ndarray) -> np.ndarray:
        """Completed coordinates (n, D) of codes (n, d)."""
        guesses = self.guesses(x)
        z = self.averaged(x, guesses, self.first)
        if self.nearest is not None and self.weights[-1].any():
            for _ in range(ROUNDS):
                z = self.averaged(x, [*guesses, self.guess_of_nearest(x, z)], self.weights)
        return z

    def guesses(self, x: np.ndarray) -> list[np.ndarray]:
        return [member.expected(x) for member in self.members]

    def guess_of_nearest(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """What near rows have (n, D) where x has missing cells, for completed coordinates z."""
        out = np.full(z.shape, np.nan)
        if self.nearest is None:
            return out
        for j in self.nearest.metric:
            gaps = np.flatnonzero(np.isnan(x[:, j]))
            out[gaps, self.coding.places[j]] = self.nearest.expected(z[gaps], j)
        return out

    def averaged(self, x: np.ndarray, guesses: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """The coordinates of x (n, D), with the weighted mean of the guesses where a cell is missing."""
        z = self.coding.coordinates(x)
        for j, place in enumerate(self.coding.places):
            gaps = np.flatnonzero(np.isnan(x[:, j]))
            if len(gaps):
                used = [m for m in range(len(guesses)) if weights[m, j] > 0]
                z[gaps, place] = np.sum([weights[m, j] * guesses[m][gaps, place] for m in used], axis=0)
        return z

    def drawn(self, x: np.ndarray, n: int, seed: int) -> np.ndarray:
        """n draws (n, rows, d) of all missing cells of a row together, as codes.

        A single model draws them at once. Of an average, every cell in turn is drawn from one of the models of its
        column, picked with their weights, given all other cells; after some rounds the cells of a row fit each other.
        All draws are bounded: models of different columns need not agree, and a row far from all data that one of them
        extrapolates, and then the next, would leave for infinity.
        """
        rng = np.random.default_rng(seed)
        alone = self.single()
        if alone is not None:
            return alone.drawn(x, n, int(rng.integers(2**31)))
        out = self.marginal_draws(x, n, int(rng.integers(2**31)))
        for codes in out:
            for _ in range(SWEEPS):
                for j in range(self.coding.d):
                    gaps = np.flatnonzero(np.isnan(x[:, j]))
                    if len(gaps):
                        given = codes[gaps].copy()
                        given[:, j] = np.nan
                        codes[gaps, j] = self.draw_column(given, j, rng)
        return out

    def single(self) -> Member | None:
        """The one model of all columns that has all the weight, if there is one."""
        m = int(np.argmax(self.weights[:, 0]))
        is_alone = m < len(self.members) and bool((self.weights[m] == 1).all())
        return self.members[m] if is_alone and len(self.members[m].columns) == self.coding.d else None

    def draw_column(self, given: np.ndarray, column: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (n,) of one column for rows in which only this cell is missing."""
        out = np.empty(len(given))
        picked = rng.choice(len(self.weights), len(given), p=self.weights[:, column])
        for m in np.unique(picked):
            rows = np.flatnonzero(picked == m)
            if m < len(self.members):
                out[rows] = self.members[m].drawn(given[rows], 1, int(rng.integers(2**31)))[0][:, column]
            else:
                assert self.nearest is not None
                generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
                z = np.nan_to_num(self.coding.coordinates(given[rows]))
                out[rows] = self.nearest.drawn(z, column, generator)[0]
        return self.coding.bounded(out, column)

    def marginal_draws(self, x: np.ndarray, n: int, seed: int) -> np.ndarray:
        """n draws (n, rows, d) of every missing cell by itself, given the observed cells of its row."""
        rng = np.random.default_rng(seed)
        out, gaps = np.repeat(x[None], n, 0), [np.flatnonzero(np.isnan(column)) for column in x.T]
        targets = [j for j in range(self.coding.d) if len(gaps[j])]
        picked = {j: rng.choice(len(self.weights), (n, len(gaps[j])), p=self.weights[:, j]) for j in targets}
        for m, member in enumerate(self.members):
            asked = [j for j in targets if (picked[j] == m).any()]
            if asked:
                drawn = member.drawn(x, n, int(rng.integers(2**31)))
                for j in asked:
                    out[:, gaps[j], j] = np.where(picked[j] == m, drawn[:, gaps[j], j], out[:, gaps[j], j])
        asked = [j for j in targets if (picked[j] == len(self.members)).any()]
        if asked:
            assert self.nearest is not None
            generator, z = torch.Generator().manual_seed(int(rng.integers(2**31))), self.expected(x)
            for j in asked:
                drawn = self.nearest.drawn(z[gaps[j]], j, generator, n)
                out[:, gaps[j], j] = np.where(picked[j] == len(self.members), drawn, out[:, gaps[j], j])
        for j in targets:
            out[:, gaps[j], j] = self.coding.bounded(out[:, gaps[j], j], j)
        return out

    def reweighted(self, x: np.ndarray, weight: np.ndarray) -> Ensemble:
        """The models of other row weights, by EM from where they are: of training rows x (n, d)."""
        members = tuple(
            member.refitted(x, weight, STEPS) if self.weights[m].any() or self.first[m].any() else member
            for m, member in enumerate(self.members)
        )
        nearest = None if self.nearest is None else self.nearest.reweighted(weight)
        return replace(self, members=members, nearest=nearest)

    def record(self) -> dict[str, Any]:
        return {
            "coding": self.coding.record(),
            "members": [member.record() for member in self.members],
            "nearest": None if self.nearest is None else self.nearest.record(),
            "first": self.first,
            "weights": self.weights,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Ensemble:
        coding = Coding.from_record(record["coding"])
        members = tuple(Member.from_record(one, coding) for one in record["members"])
        nearest = None if record["nearest"] is None else Nearest.from_record(record["nearest"], coding)
        first, weights = (np.asarray(record[name], dtype=np.float64) for name in ("first", "weights"))
        for name, value, n in (("first", first, len(members)), ("weights", weights, len(members) + 1)):
            if value.shape != (n, coding.d) or (value < 0).any() or not np.allclose(value.sum(0), 1):
                raise ValueError(f"{name} are not weights of {n} models for {coding.d} columns; the file is damaged")
        return cls(coding, members, nearest, first, weights)
