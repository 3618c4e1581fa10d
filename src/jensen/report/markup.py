"""Pieces of HTML: pictures, tables, and things side by side."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from jensen.report.charts import number
from jensen.report.pictures import image_grid, write_png

__all__ = ["picture", "side_by_side", "table"]

# Columns of a table that a page has room for.
MOST_COLUMNS = 12


def picture(images: np.ndarray, alt: str, limits: tuple[float, float], n_columns: int | None = None) -> str:
    """Images in one, inside the page."""
    file = io.BytesIO()
    # Black on white, as ink, with few pixels: the browser makes them larger.
    write_png(image_grid(images, n_columns, scale=3, limits=limits), file)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img class="pixels" alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def side_by_side(parts: dict[str, str]) -> str:
    return (
        '<div class="pair">'
        + "".join(f"<figure><figcaption>{escape(name)}</figcaption>{body}</figure>" for name, body in parts.items())
        + "</div>"
    )


def table(frame: pd.DataFrame, *, sortable: bool = False, marked: np.ndarray | None = None) -> str:
    """A table of HTML; marked cells are filled in."""
    shown = frame.iloc[:, :MOST_COLUMNS]
    left_out = frame.shape[1] - shown.shape[1]
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(str(name))}</button></th>'
        if sortable
        else f'<th scope="col">{escape(str(name))}</th>'
        for name in shown.columns
    )
    body = "".join(
        "<tr>"
        + "".join(cell(value, marked is not None and bool(marked[i, j])) for j, value in enumerate(row))
        + "</tr>"
        for i, row in enumerate(shown.itertuples(index=False, name=None))
    )
    more = f"<p>and {left_out} columns more</p>" if left_out else ""
    kind = ' class="sortable"' if sortable else ""
    whole = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{whole}</div>{more}'


def cell(value: Any, is_filled: bool = False) -> str:
    kind = ' class="filled"' if is_filled else ""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        text = str(int(value)) if isinstance(value, (int, np.integer)) else number(float(value))
        return f'<td data-value="{float(value)!r}"{kind}>{text}</td>'
    return f"<td{kind}>{'–' if pd.isna(value) else escape(str(value))}</td>"
