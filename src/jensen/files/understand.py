"""From a table of text, or of numbers beside text, to a typed one: codes of missing values, numbers and dates in text.

A rule applies to a column only if all its values fit, and what is not a plain number is reported (`Understood`).
Columns that are numbers, dates or categories already are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from jensen.files.layout import SIGNS, WORDS
from jensen.files.reading import TYPES, Reading
from jensen.files.styles import DateStyle, NumberStyle, Style, styles_of
from jensen.files.understood import Understood

# More texts than this are very many levels.
MANY_LEVELS = 100
# Of more cells than this the first ones are looked at first.
MANY_CELLS = 10_000
# Below this many rows all values may well differ.
MANY_ROWS = 30
NEGATIVE_CODES = (-9.0, -99.0, -999.0, -9999.0, -99999.0, -999999.0)
POSITIVE_CODES = (999.0, 9999.0, 99999.0, 999999.0, 9999999.0)


@dataclass(frozen=True)
class TextColumn:
    """A column of text, or the first rows of it if it has no codes and no style.

    Args:
        rows: the number of the text in every row, -1 where it is missing.
        texts: all texts without codes.
        codes: texts that stand for a missing value, and how often.
        styles: those that all texts fit.
    """

    rows: np.ndarray
    texts: tuple[str, ...]
    codes: Mapping[str, int]
    styles: tuple[Style, ...]


def understand(
    frame: pd.DataFrame,
    reading: Reading,
    separator: str = ",",
    written: Callable[[Sequence[Any]], pd.DataFrame] | None = None,
) -> tuple[pd.DataFrame, Understood]:
    """The same table with numbers and dates in place of texts that write them out, and what was found.

    Args:
        separator: that between cells, which decides where nothing else does what 1,234 is.
        written: a function that returns columns of the file with every cell as it is written.
    """
    texts = {
        name: text_column(column, reading)
        for name, column in frame.items()
        if holds_text(column) and not {"plain", "as written"} & {*asked_of(reading, str(name))}
    }
    chosen = choose(texts, reading, separator)
    out = frame.copy(deep=False)
    for name, column in texts.items():
        out[name] = converted(frame[name], column, chosen.get(name))
    if written is not None and any(isinstance(s, NumberStyle) and s.decimal == "," for s in chosen.values()):
        chosen |= with_thousands(out, reading, written)
    out = as_asked(out, reading)
    numbers = [name for name in out if pd.api.types.is_numeric_dtype(out[name]) and out[name].dtype != bool]
    looked_at = [name for name in out if str(name) not in reading.aside]
    return out, Understood(
        n_rows=len(out),
        styles={str(name): style for name, style in chosen.items() if not style.is_usual},
        missing={
            str(name): codes
            for name, column in texts.items()
            if (codes := {code: n for code, n in column.codes.items() if code})
        },
        offered={
            str(name): found
            for name in numbers
            if name in looked_at and (found := suspicious(out[name])) and not reading.types.get(str(name))
        },
        identifiers=tuple(str(n) for n in numbers if n in looked_at and counts_rows(out[n])) if reading.hints else (),
        many_levels={
            str(name): len(column.texts)
            for name, column in texts.items()
            if name in looked_at and name not in chosen and has_many_levels(column) and reading.hints
        },
        empty=tuple(str(name) for name in looked_at if len(out) and out[name].isna().all()) if reading.hints else (),
        kinds={str(name): kind_of(out[name]) for name in out},
    )


def asked_of(reading: Reading, name: str) -> tuple[str, ...]:
    return tuple(kinds[name] for kinds in (reading.types, reading.fitted) if name in kinds)[:1]


def holds_text(column: pd.Series[Any]) -> bool:
    """Whether all values that are there are texts; categories have levels already."""
    if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind in "biufmMc":
        return False
    return isinstance(column.dtype, pd.StringDtype) or pd.api.types.infer_dtype(column, skipna=True) == "string"


def text_column(column: pd.Series[Any], reading: Reading) -> TextColumn:
    if len(column) > MANY_CELLS:
        # A style must fit all values, so that the first ones can rule it out; few levels and no codes need no more.
        head = text_column(column.iloc[:MANY_CELLS], reading)
        is_settled = head.texts and not (head.styles or head.codes) and len(head.texts) <= MANY_LEVELS
        if is_settled and not column.isin([*WORDS, *SIGNS]).any():
            return head
    rows, distinct = pd.factorize(column)
    texts = tuple(str(text) for text in distinct)
    codes = find_codes(texts) if reading.has_usual_codes else ()
    if codes:
        n_rows = np.bincount(rows[rows >= 0], minlength=len(texts))
        counts = {texts[i].strip(): int(n_rows[i]) for i in codes}
        rest = np.delete(np.arange(len(texts)), codes)
        number = np.full(len(texts) + 1, -1)
        number[rest] = np.arange(len(rest))
        rows, texts = number[rows], tuple(texts[i] for i in rest)
    else:
        counts = {}
    return TextColumn(rows, texts, counts, styles_of(texts))


def find_codes(texts: Sequence[str]) -> list[int]:
    """The numbers of texts that stand for a missing value.

    A sign is one only beside words and numbers: + and - may be two levels.
    """
    is_sign = [text.strip() in SIGNS or not text.strip() for text in texts]
    others = [text for text, sign in zip(texts, is_sign, strict=True) if not sign and text.strip() not in WORDS]
    if not others:
        return []
    signs_count = any(is_sign) and all(any(letter.isalnum() for letter in text) for text in others)
    return [
        i for i, text in enumerate(texts) if text.strip() in WORDS or not text.strip() or (is_sign[i] and signs_count)
    ]


def choose(columns: Mapping[Any, TextColumn], reading: Reading, separator: str) -> dict[Any, Style]:
    """One style per column of numbers or dates. What is open in a column is as in others of the same file."""
    fitting = {name: allowed(column, asked_of(reading, str(name))) for name, column in columns.items()}
    certain = [styles[0] for styles in fitting.values() if len(styles) == 1]
    points = {
        style.decimal for style in certain if isinstance(style, NumberStyle) and (style.decimals or style.thousands)
    }
    orders = {style.is_day_first for style in certain if isinstance(style, DateStyle) and "%m" in style.form[:6]}
    decimal = points.pop() if len(points) == 1 else None
    day_first = orders.pop() if len(orders) == 1 else None
    found: dict[Any, Style] = {}
    for name, styles in fitting.items():
        if len(styles) == 1:
            found[name] = styles[0]
        elif styles and isinstance(styles[0], NumberStyle):
            wanted = decimal or ("." if separator == "," else ",")
            (style,) = (s for s in styles if isinstance(s, NumberStyle) and s.decimal == wanted)
            found[name] = replace(style, is_certain=decimal is not None)
        elif styles:
            wanted_first = True if day_first is None else day_first
            (date,) = (s for s in styles if isinstance(s, DateStyle) and s.is_day_first == wanted_first)
            found[name] = replace(date, is_certain=day_first is not None)
    return found


def allowed(column: TextColumn, asked: tuple[str, ...]) -> tuple[Style, ...]:
    """The styles of a column that are as asked for; a style that was asked for is certain."""
    kind = asked[0] if asked else ""
    fits: dict[str, Callable[[Style], bool]] = {
        "number": lambda style: isinstance(style, NumberStyle),
        "decimal-comma": lambda style: isinstance(style, NumberStyle) and style.decimal == ",",
        "date": lambda style: isinstance(style, DateStyle),
        "day-first": lambda style: isinstance(style, DateStyle) and style.is_day_first,
        "month-first": lambda style: isinstance(style, DateStyle) and not style.is_day_first,
    }
    if kind == "text":
        return ()
    styles = tuple(style for style in column.styles if kind not in fits or fits[kind](style))
    if kind == "number" and len(styles) > 1:
        styles = styles[:1]
    return tuple(replace(style, is_certain=True) for style in styles) if len(styles) == 1 else styles


def converted(column: pd.Series[Any], text: TextColumn, style: Style | None) -> pd.Series[Any]:
    """The column without codes of missing values, and in a style as numbers or dates."""
    if style is None:
        return column.mask(text.rows == -1) if text.codes else column
    values = style.read(pd.Series(text.texts, dtype=str))
    is_whole = isinstance(style, NumberStyle) and not style.decimals and bool((values.abs() < 2**53).all())
    out = values.reindex(text.rows).set_axis(column.index)
    if is_whole and not out.isna().any() and bool((out % 1 == 0).all()):
        return out.astype(np.int64)
    return out


def with_thousands(
    frame: pd.DataFrame, reading: Reading, written: Callable[[Sequence[Any]], pd.DataFrame]
) -> dict[Any, Style]:
    """Beside decimal commas a point separates thousands: 1.234 was read as a number between 1 and 2."""
    names = [n for n in frame if frame[n].dtype.kind == "f" and not asked_of(reading, str(n))]
    names = [
        n
        for n in names
        if bool((frame[n] * 1000 % 1).dropna().pipe(lambda rest: (rest < 1e-6) | (rest > 1 - 1e-6)).all())
    ]
    found: dict[Any, Style] = {}
    for name, cells in (written(names) if names else pd.DataFrame()).items():
        column = text_column(cells.mask(frame[name].isna()), reading)
        style = next((s for s in column.styles if isinstance(s, NumberStyle) and s.decimal == ","), None)
        if style is not None and style.thousands == ".":
            found[name] = replace(style, is_certain=True)
            frame[name] = converted(frame[name], column, style)
    return found


def as_asked(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """Columns as text where that is asked for; an error for types that the values do not have."""
    names = {str(name): name for name in frame}
    for asked, kind in reading.types.items():
        if asked not in names:
            raise ValueError(f"--types names the column {asked!r}, which is not there; there are {', '.join(names)}")
        column = frame[names[asked]]
        if kind in ("text", "as written") and not holds_text(column):
            frame[names[asked]] = column.map(str, na_action="ignore")
        is_number = pd.api.types.is_numeric_dtype(column)
        is_right = {"number": is_number, "decimal-comma": is_number}.get(kind, column.dtype.kind == "M")
        if kind in TYPES[1:] and not is_right:
            example = next((value for value in column.dropna() if not styles_of([str(value)])), column.dropna().iloc[0])
            raise ValueError(
                f"--types {asked}={kind}, but the column holds {str(example)!r}, and not all values can be read so; "
                f"give {asked}=text, or its code of missing values with --missing"
            )
    return frame


def suspicious(column: pd.Series[Any]) -> dict[str, int]:
    """The least and the greatest number of a column if they look like codes of missing values, and their counts.

    A code is far from all other numbers, further than these reach, or the only number below 0.
    """
    found: dict[str, int] = {}
    values = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.to_numpy(np.float64, na_value=np.nan)
    if not len(values):
        return found
    # These ignore NaN, and are many times faster than the methods of pandas.
    for codes, end in ((NEGATIVE_CODES, np.fmin.reduce(values)), (POSITIVE_CODES, np.fmax.reduce(values))):
        if end not in codes:
            continue
        others = column[column != end].dropna()
        if others.nunique() < 2:
            continue
        low, high = float(others.min()), float(others.max())
        is_far = min(abs(end - low), abs(end - high)) > high - low
        if is_far or (end < 0 <= low):
            found[f"{end:g}" if abs(end) < 1e6 else str(int(end))] = int((column == end).sum())
    return found


def counts_rows(column: pd.Series[Any]) -> bool:
    """Whether whole numbers are all distinct and fill at least half of their range, as for columns of models."""
    if column.dtype.kind not in "iu" or len(column) < MANY_ROWS:
        return False
    values = column.to_numpy()
    n_possible = int(values.max()) - int(values.min()) + 1
    return len(values) <= n_possible <= 2 * len(values) and len(np.unique(values)) == len(values)


def has_many_levels(column: TextColumn) -> bool:
    """Very many levels, unless most texts occur once: these identify rows, and models leave them out."""
    return bool(MANY_LEVELS < len(column.texts) <= (column.rows >= 0).sum() / 2)


def kind_of(column: pd.Series[Any]) -> str:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    kinds = {"b": "yes/no", "m": "duration", "M": "date"}
    return (
        "number"
        if pd.api.types.is_numeric_dtype(column) and column.dtype.kind != "b"
        else kinds.get(column.dtype.kind, "text")
    )
