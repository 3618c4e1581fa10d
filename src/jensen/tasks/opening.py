"""The table of a job: what the user gave, or what a file holds, and what its columns are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from jensen.data.cells import Cells, read_cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.edits import LEFT_OUT
from jensen.data.infer import learn_columns
from jensen.files.tables import read_file


def opened(table: Any) -> Any:
    """The table itself, or that in a file, if a path is given; `shop.db::orders` names a part of one."""
    return read_file(table) if isinstance(table, str | os.PathLike) else table


def learn_table(table: Table | Cells, asked: Mapping[str | int, Any] | None = None, *, atoms: bool = False) -> Columns:
    """What the columns of a table are, as `learn_columns` finds it, but columns without any value are left out."""
    cells = read_cells(table, dates=True)
    empty = empty_columns(cells)
    if len(cells.names) and len(empty) == len(cells.names):
        raise ValueError("the table has no observed value in any column; there is nothing to learn from")
    named: dict[str | int, Any] = {cells.names[j]: LEFT_OUT for j in empty}
    return learn_columns(cells, {**(asked or {}), **named}, kinds="all", atoms=atoms)


def empty_columns(cells: Cells) -> np.ndarray:
    """The numbers of the columns without any value; a table without rows has none."""
    if not len(cells.numbers):
        return np.zeros(0, dtype=int)
    return np.flatnonzero(np.isnan(cells.numbers).all(0))
