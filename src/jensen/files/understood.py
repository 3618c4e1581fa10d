"""What was found in a file beyond a plain table, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jensen.files.layout import SPACES

if TYPE_CHECKING:
    from jensen.files.styles import Style

# Columns that a line names.
MOST_NAMES = 5
PLURALS = {"number": "numbers", "date": "dates", "duration": "durations", "category": "categories"}
ENCODINGS = {"cp1252": "Windows-1252", "latin-1": "Latin-1", "utf-16": "UTF-16", "utf-16-le": "UTF-16"}


@dataclass(frozen=True)
class TextForm:
    """How a text table is written; a separator of None is as usual: a comma, or in .tsv files a tab."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"


class Reported(UserWarning):
    """What was understood of a file that is not a plain table."""


@dataclass(frozen=True)
class Understood:
    """What was found in a file. Mappings are by column.

    Args:
        kinds: "number", "text", "date", "duration", "yes/no" or "category".
        encoding, separator: of a text file.
        has_header: whether the first line has the names of the columns.
        is_doubtful: whether these are numbers.
        styles: how a column writes its numbers or dates, if not in the usual way.
        missing: the codes that were read as missing values, and how often.
        offered: numbers that look like codes of missing values and were left as they are, and how often.
        zeros: columns of digits with zeros in front, which were read as numbers, and an example.
        identifiers: columns of whole numbers that count rows.
        many_levels: the number of distinct texts, where these are very many.
        empty: columns without any value.
        choices: what was chosen inside of the file, such as a sheet.
    """

    n_rows: int
    kinds: Mapping[str, str]
    path: str = ""
    encoding: str = "utf-8"
    separator: str = ","
    has_header: bool = True
    is_doubtful: bool = False
    styles: Mapping[str, Style] = field(default_factory=dict)
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    offered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    zeros: Mapping[str, str] = field(default_factory=dict)
    identifiers: tuple[str, ...] = ()
    many_levels: Mapping[str, int] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to report."""
        return not self.findings

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence per finding, each with the option that overrules it."""
        lines = [*self.choices]
        if self.encoding in ENCODINGS:
            lines.append(f"the encoding is {ENCODINGS[self.encoding]}")
        if not self.has_header:
            lines.append(
                f"there is no line of column names, so they are {few(self.kinds, 3)}; --header if the first line is one"
            )
        elif self.is_doubtful:
            lines.append(
                f"the first line is taken as column names, but holds only numbers ({few(self.kinds, 3)}); --no-header "
                "if it is data"
            )
        lines += style_lines(self.styles)
        lines += [
            f"{code!r} is read as missing in {counted(where)}; --missing only,CODES for other codes"
            for code, where in by_code(self.missing).items()
        ]
        lines += [
            f"{code} may stand for a missing value in {counted(where)}; it is read as a number: --missing={code} if "
            "it is a code"
            for code, where in by_code(self.offered).items()
        ]
        lines += [
            f"{name} has zeros in front ({example}) and is read as a number; --types '{name}=text' to keep them"
            for name, example in self.zeros.items()
        ]
        if self.empty:
            lines.append(f"no value in any row: {few(self.empty)}")
        if self.identifiers:
            lines.append(f"{few(self.identifiers)} counts rows like an identifier; --drop to leave it out")
        lines += [
            f"{name} is text with {n} levels; --drop it, or merge rare values" for name, n in self.many_levels.items()
        ]
        return tuple(lines)

    @property
    def form(self) -> TextForm:
        """How to write a text table like this one: in its encoding, and with its separator if it has decimal commas."""
        has_commas = any(getattr(style, "decimal", ".") == "," for style in self.styles.values())
        separator = ";" if self.separator == SPACES else self.separator
        return TextForm(separator, ",", self.encoding) if has_commas else TextForm(encoding=self.encoding)

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} of {PLURALS.get(kind, kind)}" for kind, n in Counter(self.kinds.values()).items())
        first = f"{self.path}: {self.n_rows} rows, {len(self.kinds)} columns ({kinds})"
        return "\n".join([first, *(f"  {line}" for line in self.findings)])


def style_lines(styles: Mapping[str, Style]) -> list[str]:
    """One line for all columns of a style."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, style in styles.items():
        groups.setdefault((str(style), "" if style.is_certain else style.other), []).append(name)
    return [
        f"{few(names)}: {text}" + (f", or the other way round: --types '{names[0]}={other}'" if other else "")
        for (text, other), names in groups.items()
    ]


def by_code(found: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Counts by code and column, of counts by column and code."""
    codes: dict[str, dict[str, int]] = {}
    for name, counts in found.items():
        for code, n in counts.items():
            codes.setdefault(code, {})[name] = n
    return codes


def counted(where: Mapping[str, int]) -> str:
    return few([f"{name} ({n})" for name, n in where.items()])


def few(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Names, and how many more there are."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
