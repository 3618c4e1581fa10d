"""How a table is to be read: what a user or a fitted model says about it, before anything is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TYPES = ("text", "number", "decimal-comma", "date", "day-first", "month-first")
ONLY = "only"


@dataclass(frozen=True)
class Reading:
    """How to read a table.

    Args:
        missing: more codes of missing values, for all columns; after "only" no other codes count, except empty cells.
        header: whether the first line has the names of the columns; found if not given.
        types: what columns are, by name: "text", "number", "decimal-comma", "date", "day-first" or "month-first"
            dates; "plain" for a column in which nothing is looked for, "as written" for the same as text.
        fitted: the same as a fitted model has them: "text", "number", "date" or "as written".
        aside: columns that are no part of a model, about which no hints are given.
        hints: whether identifiers and columns of very many levels are reported; not where a fitted model reads rows.
    """

    missing: tuple[str, ...] = ()
    header: bool | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    fitted: Mapping[str, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    hints: bool = True

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(code for code in self.missing if code != ONLY)

    @property
    def has_usual_codes(self) -> bool:
        return ONLY not in self.missing


def reading_of(missing: str | None = None, header: bool | None = None, types: Sequence[str] = ()) -> Reading:
    """The same from words of a command: "?,-999" and "zip=text,price=number".

    Example:
        >>> from jensen.files.reading import reading_of
        >>> reading_of("?,-999", types=["zip=text,when=day-first"]).types
        {'zip': 'text', 'when': 'day-first'}
    """
    codes = () if missing is None else tuple(code.strip() for code in missing.split(","))
    asked: dict[str, str] = {}
    for part in (part for word in types for part in word.split(",")):
        name, equals, kind = part.rpartition("=")
        if not equals or kind not in TYPES:
            choices = ", ".join(TYPES)
            raise ValueError(f"--types {part!r} must be a column and what it is, such as zip=text; choose {choices}")
        asked[name.strip()] = kind
    return Reading(codes, header, asked)
