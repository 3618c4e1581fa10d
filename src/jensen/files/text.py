"""Text files of separated cells."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from jensen.files.layout import OTHERS, SAMPLE, Layout, find_layout
from jensen.files.places import ANY_TEXT, SEPARATORS
from jensen.files.reading import Reading
from jensen.files.sources import Source
from jensen.runtime.messages import own_filters

# Before pandas 3.1 the usual parser of numbers may be off by a bit, and imputed files would differ from the read ones.
EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


@dataclass(frozen=True)
class TextTable:
    """A text file: its columns as pandas reads them, and how it is laid out."""

    source: Source
    layout: Layout
    frame: pd.DataFrame

    def written(self, names: Sequence[Any]) -> pd.DataFrame:
        """Columns with every cell as it is written in the file."""
        places = [self.frame.columns.get_loc(name) for name in names]
        options: dict[str, Any] = {"dtype": str, "na_filter": False, "skip_blank_lines": self.frame.shape[1] > 1}
        cells = parse(self.source, self.layout, list(self.frame.columns), usecols=sorted({*places}), **options)
        return cells[list(names)]


def read_text(source: Source, reading: Reading) -> TextTable:
    source.file.seek(0)
    sample = source.file.read(SAMPLE)
    layout = find_layout(sample, SEPARATORS[source.suffix], reading.header, may_be_spaces=source.suffix in ANY_TEXT)
    if source.suffix == ".txt" and not layout.is_table:
        raise ValueError(
            f"{source.path} does not look like a table: no comma, semicolon, tab, bar or space splits all of its lines "
            "into equally many cells; name it .csv if it is one"
        )
    names = None if layout.has_header else list(layout.names)
    as_text = {**reading.fitted, **reading.types}
    options: dict[str, Any] = {"dtype": {name: str for name, kind in as_text.items() if kind in ("text", "as written")}}
    if reading.missing:
        options |= {"na_values": ["", *reading.codes], "keep_default_na": reading.has_usual_codes}
    # A letter behind the sample may not be of the encoding found there; the last of the others has all letters.
    others = () if layout.encoding.startswith("utf-16") else [other for other in OTHERS if other != layout.encoding]
    for encoding in (layout.encoding, *others):
        layout = replace(layout, encoding=encoding)
        try:
            return TextTable(source, layout, parse_whole(source, layout, names, options))
        except UnicodeDecodeError as error:
            reason = error
    raise ValueError(f"{source.path} cannot be read as a table: {reason}")


def parse_whole(source: Source, layout: Layout, names: list[str] | None, options: dict[str, Any]) -> pd.DataFrame:
    path = source.path
    try:
        with own_filters():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            if names is None:
                check_distinct_names(source, layout)
            frame = parse(source, layout, names, **options)
            # In a file of one column a blank line is an empty cell.
            return frame if frame.shape[1] > 1 else parse(source, layout, names, skip_blank_lines=False, **options)
    except UnicodeDecodeError:
        raise
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty: it has no header line") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{path} has more cells in a row than names in its first line; name every column") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None


def parse(source: Source, layout: Layout, names: list[str] | None, **options: Any) -> pd.DataFrame:
    source.file.seek(0)
    header = 0 if layout.has_header else None
    options |= {"index_col": False, "low_memory": False, "header": header, "names": names, **EXACT}
    frame: pd.DataFrame = pd.read_csv(source.file, **layout_options(layout), **options)
    return frame


def layout_options(layout: Layout) -> dict[str, Any]:
    # pandas itself skips the mark of UTF-8, and reads UTF-8 fastest when it is not named.
    encoding = {} if layout.encoding.startswith("utf-8") else {"encoding": layout.encoding}
    return {"sep": layout.separator, "skipinitialspace": layout.is_spaced, **encoding}


def check_distinct_names(source: Source, layout: Layout) -> None:
    """An error for a header line with a name twice, of which pandas would make another name."""
    source.file.seek(0)
    options: dict[str, Any] = {"header": None, "nrows": 1, "dtype": str, "na_filter": False, "index_col": False}
    first = pd.read_csv(source.file, **layout_options(layout), **options)
    twice = [name for name, count in Counter(first.iloc[0]).items() if count > 1 and name]
    if twice:
        raise ValueError(f"its first line has the column name {twice[0]!r} twice; give every column a name of its own")
