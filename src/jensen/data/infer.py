"""What the columns of a table are, found from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jensen.data.cells import Cells, read_cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.scaled import learn_scaled


def learn_columns(
    X: Table | Cells,
    columns: str | Mapping[str | int, Any] | None = None,
    *,
    kinds: str = "scaled",
    shared_scale: bool = False,
    atoms: bool = False,
) -> Columns:
    cells = read_cells(X)
    return learn_scaled(cells, "auto" if columns is None else columns, shared_scale)
