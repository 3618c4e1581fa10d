"""A leaderboard as HTML: a table that sorts, boxes that show and hide models, and how far each is behind the best."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from jensen.report.charts import intervals, number

__all__ = ["board_html"]

# Columns with a value to sort by, and what stands above them.
COLUMNS = {
    "nats": "nats per row",
    "standard_error": "± s.e.",
    "bits_per_dimension": "bits per dim",
    "behind": "to the best ±&nbsp;95&nbsp;%",
    "value": "exact or bound",
    "n_parameters": "parameters",
    "fit_seconds": "fit, s",
    "score_seconds": "score, s",
}


def board_html(table: pd.DataFrame, caption: str) -> str:
    """Of the table of a `Leaderboard`, best first."""
    good = table[table["failure"] == ""]
    best = str(good["model"].iloc[0])
    names = [str(name) for name in good["model"]]
    centre, low, high = (good[name].fillna(0.0).tolist() for name in ("behind", "behind_low", "behind_high"))
    summary = f"How far every model is behind {best}: " + ", ".join(
        f"{name} {number(value)}" for name, value in zip(names, centre, strict=True)
    )
    drawn = intervals(names, centre, low, high, "nats per row, to the best", summary)
    boxes = "".join(
        f'<label><input type="checkbox" checked data-toggle="{escape(name)}">{escape(name)}</label>' for name in names
    )
    head = "".join(
        f'<th scope="col" aria-sort="none"{word(key)}><button type="button">{title}</button></th>'
        for key, title in ({"model": "model"} | COLUMNS).items()
    )
    rows = "".join(line(row, row["model"] == best) for row in table.to_dict("records"))
    return (
        '<section class="board" aria-label="Leaderboard"><h2>Leaderboard</h2>'
        '<div class="wide" tabindex="0"><table class="sortable" id="board" aria-describedby="units">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="quiet" id="units">{escape(caption)}.</p>{words()}'
        f'<fieldset class="toggles"><legend>Models that are shown</legend>{boxes}</fieldset>{drawn}'
        '<p class="quiet">Whiskers are 95 % intervals.</p></section>'
    )


# What stands in the table, for who meets it first.
WORDS = {
    "nats per row": "The natural logarithm of how probable a model finds a row that it has not seen, on average: more "
    "is better. Numbers have a density, which may be above 1, so nats may be positive.",
    "bits per dim": "The same for one entry, in bits; less is better. For probabilities it is a code length. For "
    "densities it is not a code length: it changes with the unit of the data and may be negative.",
    "to the best": "How many nats a model is behind the first one, row by row; the true difference lies within ± of it "
    "in 95 of 100 such tables.",
    "exact or bound": "Exact is ln p(x) itself. A bound lies below it: the model may be better than its number. More "
    "importance samples or levels of noise make it tighter.",
    "dequantised": "A density of values on a grid, such as pixels, with noise inside their cells: a bound of their "
    "probability, so that it can stand beside models that know probabilities.",
}


def words() -> str:
    listed = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in WORDS.items())
    return f"<details><summary>What the words mean</summary><dl>{listed}</dl></details>"


def word(key: str) -> str:
    return ' class="word"' if key in ("model", "value") else ""


def line(row: dict[Any, Any], is_best: bool) -> str:
    name = escape(str(row["model"]))
    start = f'<tr data-model="{name}"{" class=best" if is_best else ""}><td>{name}</td>'
    if row["failure"]:
        return f'{start}<td colspan="{len(COLUMNS)}" class="reason">not ranked: {escape(row["failure"])}</td></tr>'
    return start + "".join(cell(key, row) for key in COLUMNS) + "</tr>"


def cell(key: str, row: dict[Any, Any]) -> str:
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
