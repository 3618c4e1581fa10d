"""How a text file is laid out: its encoding, its separator, and whether its first line names the columns.

A sample of its first lines decides. Only the standard library is used, so that names of columns can be checked before
other libraries are loaded.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

# Letters of the file and lines of it that are looked at.
SAMPLE, MOST_LINES = 65_536, 200
CANDIDATES = (",", ";", "\t", "|")
# Runs of spaces and tabs, as pandas writes them.
SPACES = r"\s+"
BYTE_ORDERS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# What a file is read as if it is not UTF-8; the second can read every byte.
OTHERS = ("cp1252", "latin-1")
# Cells that stand for a missing value.
USUAL = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "None", "<NA>", "na", "n.a.", "N.A.", "(null)")
SAID = ("missing", "Missing", "MISSING", "(missing)", "#DIV/0!", "#REF!", "#VALUE!", "#NUM!", "#NULL!", "#NAME?")
WORDS = frozenset((*USUAL, *SAID))
# They may be levels where others are signs as well, such as + and -.
SIGNS = frozenset(("?", "??", "-", "--", "---", "–", "—", ".", "..", "..."))
NUMBER = re.compile(r"[-+]?[€$£¥]? ?[-+]?[.,]?\d[\d.,'’ \u00a0\u202f]*(e[-+]?\d+)? ?[%€$£¥]?", re.IGNORECASE)
DATE = re.compile(
    r"(\d{1,4}([-/.])\d{1,2}\2\d{1,4}|\d{1,2}[ -][a-z]{3,9}[ -]\d{2,4}|[a-z]{3,9} \d{1,2},? \d{4})([ T]\d.*)?",
    re.IGNORECASE,
)
LEAST_STEPS = 3


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out.

    Args:
        names: the names of the columns: the cells of the first line, or x0, x1, ...
        has_header: whether the first line has the names.
        is_doubtful: whether the first line is taken as names although it holds only numbers.
        is_spaced: whether a space follows every separator.
        zeros: the columns in which numbers begin with zeros, such as postcodes: number and an example.
        is_table: whether all lines have equally many cells, and more than one unless that is a number or a date.
    """

    encoding: str = "utf-8"
    separator: str = ","
    names: tuple[str, ...] = ()
    has_header: bool = True
    is_doubtful: bool = False
    is_spaced: bool = False
    zeros: tuple[tuple[int, str], ...] = ()
    is_table: bool = True


def find_layout(sample: bytes, usual: str, header: bool | None = None, *, may_be_spaces: bool = False) -> Layout:
    """The layout of a text that begins like this.

    Args:
        usual: the separator, if others are not clearly better.
        header: whether the first line has the names of the columns; found if not given.
        may_be_spaces: whether runs of spaces separate cells if nothing else does.

    Example:
        >>> from jensen.files.layout import find_layout
        >>> find_layout(b"5.1;setosa\\n4.9;setosa\\n", ",").names
        ('x0', 'x1')
        >>> find_layout(b"length;kind\\n5.1;setosa\\n4.9;setosa\\n", ",").names
        ('length', 'kind')
    """
    encoding = find_encoding(sample)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    separator = find_separator(text, usual, len(sample) >= SAMPLE, may_be_spaces)
    rows = rows_of(text, separator, is_cut=len(sample) >= SAMPLE)
    if not rows:
        return Layout(encoding, separator)
    is_spaced = all(cell.startswith(" ") for row in rows for cell in row[1:] if cell) and len(rows[0]) > 1
    rows = [[cell.strip() for cell in row] for row in rows] if is_spaced else rows
    found = has_header(rows) if header is None else header
    return Layout(
        encoding,
        separator,
        names=tuple(rows[0]) if found else numbered_names(len(rows[0])),
        has_header=found,
        is_doubtful=header is None and found and are_numbers(rows[0]) and not counts_from_zero(rows[0]),
        is_spaced=is_spaced,
        zeros=leading_zeros(rows[1:] if found else rows),
        is_table=are_alike(rows) and len(rows) > 1 and (len(rows[0]) > 1 or are_values(row[0] for row in rows[1:])),
    )


def numbered_names(n: int) -> tuple[str, ...]:
    """The names of columns that have none."""
    return tuple(f"x{j}" for j in range(n))


def find_encoding(sample: bytes) -> str:
    for mark, encoding in BYTE_ORDERS.items():
        if sample.startswith(mark):
            return encoding
    even, odd = sample[::2], sample[1::2]
    # Without a mark, every other byte of Western text in UTF-16 is 0.
    for zeros, letters, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 1 and zeros.count(0) > 0.9 * len(zeros) and letters.count(0) == 0:
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return OTHERS[0]
    return "utf-8"


def rows_of(text: str, separator: str, is_cut: bool) -> list[list[str]]:
    """The cells of the first lines that are not blank; the last of a cut text is not whole."""
    rows: list[list[str]] = []
    options: dict[str, Any] = {"delimiter": separator}
    if separator == SPACES:
        options = {"delimiter": " ", "skipinitialspace": True}
        text = re.sub(r"[ \t]+(?=[\r\n]|$)", "", text.replace("\t", " "))
    try:
        for row in csv.reader(io.StringIO(text, newline=""), **options):
            if row:
                rows.append(row)
            if len(rows) > MOST_LINES:
                return rows
    except csv.Error:  # such as a field larger than its limit
        return rows
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def are_alike(rows: Sequence[Sequence[str]]) -> bool:
    """Whether all rows have equally many cells."""
    return len({len(row) for row in rows}) == 1


def find_separator(text: str, usual: str, is_cut: bool, may_be_spaces: bool = False) -> str:
    """The usual separator if it splits all lines alike, or else one that does, or else what the first line has.

    Semicolons that split all lines alike win if all commas are those of numbers.
    """
    candidates = (usual, *(other for other in CANDIDATES if other != usual))
    rows = {candidate: rows_of(text, candidate, is_cut) for candidate in candidates}
    in_header = [candidate for candidate, found in rows.items() if found and len(found[0]) > 1]
    alike = [candidate for candidate in in_header if are_alike(rows[candidate])]
    with_comma = [cell for row in rows[";"][1:] for cell in row if "," in cell]
    if ";" in alike and with_comma and all(kind_of(cell) == "number" for cell in with_comma):
        return ";"
    # A tab may be one of the spaces, before the only text of a row.
    if may_be_spaces and (not alike or (alike == ["\t"] and any(map(holds_numbers, chain(*rows["\t"]))))):
        spaced = rows_of(text, SPACES, is_cut)
        if spaced and len(spaced[0]) > 1 and are_alike(spaced):
            return SPACES
    return (alike or in_header or [usual])[0]


def kind_of(cell: str) -> str:
    """Whether a cell writes out a "number", a "date" or a "text", or is "missing"."""
    text = cell.strip()
    if not text or text in WORDS or text in SIGNS:
        return "missing"
    return "number" if NUMBER.fullmatch(text) else "date" if DATE.fullmatch(text) else "text"


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has names, and is not like the rows below it.

    A text above numbers or dates is a name. Without such a column the first row is data if it has a number above
    numbers or a date above dates, or if most of its texts occur again below. Numbers in equal steps may be names:
    years, or columns that were counted.
    """
    first, body = rows[0], rows[1:]
    alike = again = new = 0
    for j, cell in enumerate(first):
        column = [row[j] for row in body if j < len(row)]
        kinds = {kind_of(value) for value in column} - {"missing"}
        kind = kind_of(cell)
        if kinds in ({"number"}, {"date"}):
            if kind == "text":
                return True
            alike += {kind} == kinds
        elif kinds and cell.strip():
            again += cell in column or kind == "missing"
            new += not (cell in column or kind == "missing")
    if not body:
        return not are_numbers(first)
    if alike:
        return is_progression(first)
    return again <= new


def holds_numbers(cell: str) -> bool:
    """Whether a cell holds several numbers with spaces between."""
    parts = cell.split()
    return len(parts) > 1 and are_numbers(parts)


def are_values(cells: Iterable[str]) -> bool:
    """Whether no cell is a text."""
    return all(kind_of(cell) != "text" for cell in cells)


def are_numbers(cells: Sequence[str]) -> bool:
    """Whether cells that are not empty are numbers."""
    return all(kind_of(cell) == "number" for cell in cells if cell)


def is_progression(cells: Sequence[str]) -> bool:
    """Whether the numbers among the cells follow in equal steps, as years do, or count from 0."""
    if counts_from_zero(cells):
        return True
    try:
        numbers = [float(cell) for cell in cells if kind_of(cell) == "number"]
    except ValueError:
        return False
    steps = [b - a for a, b in pairwise(numbers)]
    return (
        len(numbers) >= LEAST_STEPS and steps[0] != 0 and all(abs(s - steps[0]) < 1e-9 * abs(steps[0]) for s in steps)
    )


def counts_from_zero(cells: Sequence[str]) -> bool:
    """Whether the numbers among the cells are 0, 1, 2, ..., as columns of an array are called."""
    numbers = [cell.strip() for cell in cells if kind_of(cell) == "number"]
    return bool(numbers) and numbers == [str(j) for j in range(len(numbers))]


def leading_zeros(rows: Sequence[Sequence[str]]) -> tuple[tuple[int, str], ...]:
    """Columns of digits of one length, some of them with a zero in front."""
    found = []
    for j in range(len(rows[0]) if rows else 0):
        cells = [row[j] for row in rows if j < len(row) and kind_of(row[j]) != "missing"]
        are_digits = all(re.fullmatch(r"\d+", cell) for cell in cells) and len({len(cell) for cell in cells}) == 1
        padded = [cell for cell in cells if cell.startswith("0") and len(cell) > 1]
        if are_digits and padded and any(int(cell) for cell in padded):
            found.append((j, padded[0]))
    return tuple(found)
