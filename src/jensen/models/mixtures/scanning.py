"""What the columns of a scan are, found in one sweep over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jensen.data.cells import check_finite
from jensen.data.columns import Columns
from jensen.data.edits import asked_columns, with_asked_numbers
from jensen.data.infer import count_columns
from jensen.data.reader import LARGEST, column_names, known_names, read_rows, read_weights
from jensen.data.statistics import CountStatistics, TableStatistics, statistics_of
from jensen.engines.em.streamed import Shown, sum_over
from jensen.files.scan import Block, Scan
from jensen.models.mixtures.families.choice import check_no_kinds
from jensen.models.mixtures.families.multinomial import MultinomialFamily


@dataclass(frozen=True)
class BlockStatistics:
    """Statistics of the columns of a block; rows of weight 0 do not count."""

    model: Any

    def __call__(self, block: Block) -> TableStatistics | CountStatistics:
        is_words = self.model._takes_sparse
        cells = read_rows(self.model, block.table, reset=False, sparse=is_words)
        check_finite(cells, LARGEST, known_names(self.model))
        weight = read_weights(block.weight, block.n_rows)
        if weight is not None:
            cells = cells.take(np.flatnonzero(weight.numpy() > 0))
        if is_words:
            if not cells.is_sparse:
                numbers = torch.from_numpy(cells.with_numbers_only().numbers)
                MultinomialFamily().check(numbers, column_names(self.model))
            return CountStatistics.of(cells)
        return statistics_of(with_asked_numbers(cells, asked_columns(self.model.columns, cells.names)))


def find_columns(model: Any, scan: Scan) -> Columns:
    """The columns of a scan for a model that has not seen it yet."""
    read_rows(model, scan.head().table, reset=True, sparse=model._takes_sparse)
    found: Any = sum_over(scan, BlockStatistics(model), Shown("columns", bool(model.verbose)))
    if isinstance(found, CountStatistics):
        check_no_kinds(model.families, model.columns)
        return count_columns(found)
    columns: Columns = model._learn(found)
    return columns
