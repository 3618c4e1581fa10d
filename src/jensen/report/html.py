"""Pieces of HTML: pictures, tables, figures side by side and the leaderboard."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from jensen.report.charts import intervals, number
from jensen.report.images import image_grid, write_png

# The most columns of a table on the page.
MOST_COLUMNS = 12


def picture(images: np.ndarray, alt: str, limits: tuple[float, float], n_columns: int | None = None) -> str:
    """Images as one picture inside the page."""
    file = io.BytesIO()
    # Few pixels: the browser enlarges them.
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
    """An HTML table; marked cells are imputed."""
    shown = frame.iloc[:, :MOST_COLUMNS]
    left_out = frame.shape[1] - shown.shape[1]
    # The heading of a column of words stands to the left, as its cells do.
    kinds = ["" if any(map(is_number, shown.iloc[:, j].dropna())) else ' class="word"' for j in range(shown.shape[1])]
    head = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(str(name))}</button></th>'
        if sortable
        else f'<th scope="col"{kind}>{escape(str(name))}</th>'
        for name, kind in zip(shown.columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(cell(value, marked is not None and bool(marked[i, j])) for j, value in enumerate(row))
        + "</tr>"
        for i, row in enumerate(shown.itertuples(index=False, name=None))
    )
    more = f"<p>and {left_out} more columns</p>" if left_out else ""
    kind = ' class="sortable"' if sortable else ""
    whole = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{whole}</div>{more}'


def cell(value: Any, is_filled: bool = False) -> str:
    kind = ' class="filled"' if is_filled else ""
    if is_number(value):
        text = str(int(value)) if isinstance(value, (int, np.integer)) else number(float(value))
        return f'<td data-value="{float(value)!r}"{kind}>{text}</td>'
    return f"<td{kind}>{'–' if pd.isna(value) else escape(in_words(value))}</td>"


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def in_words(value: Any) -> str:
    """A value as text: yes and no, and dates without a midnight."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, pd.Timestamp) and value == value.normalize():
        return f"{value:%Y-%m-%d}"
    return str(value)


# Columns of the leaderboard and their headings.
COLUMNS = {
    "completion": "completion, nats per word",
    "perplexity": "perplexity",
    "nats": "nats per row",
    "standard_error": "± s.e.",
    "nats_per_word": "nats per word",
    "bits_per_dimension": "bits per dim",
    "behind": "to the best ±&nbsp;95&nbsp;%",
    "value": "exact or bound",
    "n_parameters": "parameters",
    "fit_seconds": "fit, s",
    "score_seconds": "score, s",
}


def board_html(table: pd.DataFrame, caption: str) -> str:
    """The table of a `Leaderboard`, best model first."""
    good = table[table["failure"] == ""]
    best = str(good["model"].iloc[0])
    names = [str(name) for name in good["model"]]
    centre, low, high = (good[name].fillna(0.0).tolist() for name in ("behind", "behind_low", "behind_high"))
    summary = f"Difference of every model to {best}: " + ", ".join(
        f"{name} {number(value)}" for name, value in zip(names, centre, strict=True)
    )
    unit = "nats per completed word" if "completion" in table else "nats per row"
    drawn = intervals(names, centre, low, high, f"{unit}, difference to the best", summary)
    boxes = "".join(
        f'<label><input type="checkbox" checked data-toggle="{escape(name)}">{escape(name)}</label>' for name in names
    )
    head = "".join(
        f'<th scope="col" aria-sort="none"{word(key)}><button type="button">{title}</button></th>'
        for key, title in ({"model": "model"} | COLUMNS).items()
        if key in table
    )
    rows = "".join(line(row, row["model"] == best) for row in table.to_dict("records"))
    return (
        '<section class="board" aria-label="Leaderboard"><h2>Leaderboard</h2>'
        '<div class="wide" tabindex="0"><table class="sortable" id="board" aria-describedby="units">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="quiet" id="units">{escape(caption)}.</p>{words()}'
        f'<fieldset class="toggles"><legend>Models shown</legend>{boxes}</fieldset>{drawn}'
        '<p class="quiet">Lines are 95 % confidence intervals.</p></section>'
    )


# Explanations of the columns.
WORDS = {
    "nats per row": "The mean log-likelihood (natural logarithm) of rows that the model was not trained on. Higher is "
    "better. A density may exceed 1, so nats may be positive.",
    "completion": "For documents: the mean log-probability of every second word given the other words of its document. "
    "Higher is better; perplexity is its exponential with the opposite sign.",
    "bits per dim": "The negative log-likelihood per entry, in bits. Lower is better. For probabilities it is a code "
    "length. For densities it is not a code length: it depends on the units of the data and may be negative.",
    "to the best": "The mean difference in nats to the best model over the same rows, with a 95 % confidence interval.",
    "exact or bound": "Exact is ln p(x). A bound is below ln p(x), so the model may be better than its score. More "
    "importance samples or noise levels make it tighter.",
    "dequantised": "The model has a density, and the values lie on a grid, such as pixels. Noise within the grid cells "
    "turns the density into a lower bound of the probability, which can be compared with other probabilities.",
}


def words() -> str:
    listed = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in WORDS.items())
    return f"<details><summary>Explanation of the columns</summary><dl>{listed}</dl></details>"


def word(key: str) -> str:
    return ' class="word"' if key in ("model", "value") else ""


def line(row: dict[Any, Any], is_best: bool) -> str:
    name = escape(str(row["model"]))
    start = f'<tr data-model="{name}"{" class=best" if is_best else ""}><td>{name}</td>'
    if row["failure"]:
        n_columns = sum(key in row for key in COLUMNS)
        return f'{start}<td colspan="{n_columns}" class="reason">not ranked: {escape(row["failure"])}</td></tr>'
    return start + "".join(board_cell(key, row) for key in COLUMNS if key in row) + "</tr>"


def board_cell(key: str, row: dict[Any, Any]) -> str:
    value = row[key]
    if key == "value":
        return f"<td>{escape(str(value))}</td>"
    if value is pd.NA or value is None:
        return '<td data-value="nan">–</td>'
    texts = {
        "n_parameters": lambda: f"{int(value):,}",
        "fit_seconds": lambda: f"{value:.1f}",
        "score_seconds": lambda: f"{value:.1f}",
        "behind": lambda: f"{value:+.3f} ± {row['behind_high'] - value:.3f}" if value else "0",
    }
    text = texts.get(key, lambda: f"{value:.3f}")()
    return f'<td data-value="{float(value)!r}">{text}</td>'
