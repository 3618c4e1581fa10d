"""The table of a job: what the user gave, or what a file holds."""

from __future__ import annotations

import os
from typing import Any

from jensen.files.tables import read_file


def opened(table: Any) -> Any:
    """The table itself, or that in a file, if a path is given; `shop.db::orders` names a part of one."""
    return read_file(table) if isinstance(table, str | os.PathLike) else table
