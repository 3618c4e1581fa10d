"""What the columns of a scan are, found in one sweep over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jensen.data.cells import check_finite
from jensen.data.columns import Columns
from jensen.data.edits import asked_columns, with_asked_numbers
from jensen.data.reader import LARGEST, known_names, read_rows, read_weights
from jensen.data.statistics import TableStatistics, statistics_of
from jensen.engines.em.streamed import Shown, sum_over
from jensen.files.scan import Block, Scan


@dataclass(frozen=True)
class BlockStatistics:
    """Statistics of the columns of a block; rows of weight 0 do not count."""

    model: Any

    def __call__(self, block: Block) -> TableStatistics | None:
        cells = read_rows(self.model, block.table, reset=False)
        check_finite(cells, LARGEST, known_names(self.model))
        weight = read_weights(block.weight, block.n_rows)
        if weight is not None:
            cells = cells.take(np.flatnonzero(weight.numpy() > 0))
        if not len(cells.numbers):
            return None
        return statistics_of(with_asked_numbers(cells, asked_columns(self.model.columns, cells.names)))


def find_columns(model: Any, scan: Scan) -> Columns:
    """The columns of a scan for a model that has not seen it yet."""
    read_rows(model, scan.head().table, reset=True)
    shown = Shown("columns", bool(model.verbose))
    columns: Columns = model._learn(sum_over(scan, BlockStatistics(model), shown))
    return columns
