"""Nearest rows with a metric of their own for every column: a mixture with one component per row.

    p(x_j | x) = Σ_i a_i δ(x_j - x_ij),   a_i ∝ w_i exp(-Σ_k m_jk² ‖z_k - z_ik‖²),   i: the rows with j observed
z are coordinates, completed by what other models expect where a cell is missing. The scales m_jk say how much column k
tells of column j: they minimise the squared error of a number, or -ln p of a level, of rows that are left out one by
one (Nadaraya 1964, Watson 1964; a metric learnt so: Goldberger et al. 2005, Weinberger & Tesauro 2007).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.tasks.imputation.coding import Coding

# Rows of a step and the rows they are compared with, size of the steps, and cells of a block of weights.
BATCH, ANCHORS, RATE, BLOCK = 256, 1536, 0.1, 4_000_000
# The metric of some rows is too wide for many: it is narrowed by the best of these.
NARROWER = (0.8, 1.0, 1.25, 1.6, 2.0, 2.5)
# Added to probabilities before their logarithm: a level that no near row has.
FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class Nearest:
    """
    Args:
        coding: of the columns.
        codes: (N, d) of the rows that are donors, NaN where missing.
        z: (N, D) their completed coordinates.
        metric: {column: m (d,)}.
        weight: (N,) of the donors; None for equal ones.
        rows: (N,) numbers of the donors among the training rows; None in a model from a file.
    """

    coding: Coding
    codes: np.ndarray
    z: np.ndarray
    metric: Mapping[int, np.ndarray]
    weight: np.ndarray | None = None
    rows: np.ndarray | None = None

    name = "nearest rows"

    def expected(self, z: np.ndarray, column: int) -> np.ndarray:
        """The mean coordinates (n, w) of a column in rows with completed coordinates z (n, D)."""
        donors = self.donors(column)
        values = torch.from_numpy(self.coding.of_column(self.codes[donors, column], column)).float()
        found = [shares @ values for shares in self.shares(z, column, donors)]
        return torch.cat(found).double().numpy() if found else np.empty((0, values.shape[1]))

    def drawn(self, z: np.ndarray, column: int, generator: torch.Generator, n: int = 1) -> np.ndarray:
        """n draws (n, rows) of a column's codes: values of near rows."""
        donors = self.donors(column)
        picks = [torch.multinomial(one, n, True, generator=generator) for one in self.shares(z, column, donors)]
        if not picks:
            return np.empty((n, 0))
        drawn: np.ndarray = self.codes[donors, column][torch.cat(picks).T.numpy()]
        return drawn

    def donors(self, column: int) -> np.ndarray:
        return np.flatnonzero(~np.isnan(self.codes[:, column]))

    def shares(self, z: np.ndarray, column: int, donors: np.ndarray) -> list[Tensor]:
        """a (rows, donors), block by block."""
        scale = torch.from_numpy(self.metric[column][self.coding.source]).float()
        own, others = torch.from_numpy(z).float() * scale, torch.from_numpy(self.z[donors]).float() * scale
        log_weight = None if self.weight is None else torch.from_numpy(self.weight[donors]).float().log()
        blocks = own.split(max(1, BLOCK // max(len(donors), 1)))
        return [near(block, others, log_weight) for block in blocks if len(block)]

    def with_donors(self, codes: np.ndarray, z: np.ndarray, rows: np.ndarray) -> Nearest:
        """The same metric with donors among rows of codes (n, d) and completed coordinates (n, D)."""
        return replace(self, codes=codes[rows], z=z[rows], rows=rows)

    def reweighted(self, weight: np.ndarray) -> Nearest:
        """The same donors with weights among those (n,) of the training rows."""
        assert self.rows is not None
        return replace(self, weight=weight[self.rows])

    def record(self) -> dict[str, Any]:
        columns = sorted(self.metric)
        metric = np.stack([self.metric[j] for j in columns])
        return {"codes": self.codes, "z": self.z, "columns": columns, "metric": metric}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], coding: Coding) -> Nearest:
        codes, z, metric = (np.asarray(record[name], dtype=np.float64) for name in ("codes", "z", "metric"))
        columns = list(record["columns"])
        if (codes.shape[1], z.shape[1], metric.shape) != (coding.d, coding.width, (len(columns), coding.d)):
            raise ValueError(f"the donors are not of {coding.d} columns; the file is damaged")
        return cls(coding, codes, z, dict(zip(columns, metric, strict=True)))


def near(own: Tensor, others: Tensor, log_weight: Tensor | None = None) -> Tensor:
    """exp(-squared distance), normalised over the others (n, N)."""
    square = (own.square().sum(1)[:, None] + others.square().sum(1) - 2 * own @ others.T).clamp_min(0.0)
    return torch.softmax(-square if log_weight is None else log_weight - square, 1)


def learn_metric(
    coding: Coding, codes: np.ndarray, z: np.ndarray, column: int, steps: int, seed: int, start: np.ndarray
) -> np.ndarray:
    """The scales m (d,) for a column, from rows (n, d) with completed coordinates z (n, D)."""
    generator = torch.Generator().manual_seed(seed)
    donors = np.flatnonzero(~np.isnan(codes[:, column]))
    y = torch.from_numpy(coding.of_column(codes[donors, column], column)).float()
    rows, source = torch.from_numpy(z[donors]).float(), torch.from_numpy(coding.source)
    rows[:, coding.places[column]] = 0.0
    log_scale = torch.from_numpy(np.log(np.maximum(start, 1e-6))).float().requires_grad_(True)
    first, second = torch.zeros(coding.d), torch.zeros(coding.d)
    for step in range(1, steps + 1):
        order = torch.randperm(len(rows), generator=generator)
        asked, anchors = order[:BATCH], order[:ANCHORS]
        loss = left_out_loss(rows * log_scale.exp()[source], y, asked, anchors, coding.is_level(column))
        (slope,) = torch.autograd.grad(loss, log_scale)
        # Adam (Kingma & Ba 2015); torch's own imports its compiler, which takes seconds.
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope.square()
        move = RATE * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        log_scale = (log_scale.detach() - move).requires_grad_(True)
    scale = log_scale.detach().exp()
    asked = torch.randperm(len(rows), generator=generator)[: 2 * BATCH]
    with torch.no_grad():
        losses = [
            float(left_out_loss(rows * (s * scale)[source], y, asked, torch.arange(len(rows)), coding.is_level(column)))
            for s in NARROWER
        ]
    found: np.ndarray = (scale * NARROWER[int(np.argmin(losses))]).double().numpy()
    found[column] = 0.0
    return found


def left_out_loss(rows: Tensor, y: Tensor, asked: Tensor, anchors: Tensor, is_level: bool) -> Tensor:
    """The mean loss of some rows, each expected from the anchors without itself."""
    own, others = rows[asked], rows[anchors]
    square = (own.square().sum(1)[:, None] + others.square().sum(1) - 2 * own @ others.T).clamp_min(0.0)
    shares = torch.softmax((-square).masked_fill(asked[:, None] == anchors, -torch.inf), 1)
    guess = shares @ y[anchors]
    if is_level:
        return -((guess * y[asked]).sum(1) + FLOOR).log().mean()
    return (guess - y[asked]).square().mean()
