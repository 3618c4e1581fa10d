"""How columns of text write out numbers and dates, and the way back for cells that are filled in.

A column is of numbers or dates only if every value fits one style. Which separator is the decimal one, and whether days
or months come first, may be open: 1,234 and 09/10/2022. Then other columns of the same file decide, see `understand`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

CURRENCIES = "€$£¥"
# Spaces between thousands: usual, no-break, narrow.
GROUPS = {".": (",", "'", "’", " ", "\u00a0", "\u202f"), ",": (".", "'", "’", " ", "\u00a0", "\u202f")}
AFFIXED = re.compile(
    rf"(?P<sign>[-+−]?) ?(?P<front>[{CURRENCIES}]?) ?(?P<inner>[-+−]?)"
    rf"(?P<digits>[\d.,'’ \u00a0\u202f]*\d[.,]?(?:[eE][-+]?\d+)?)[ \u00a0]?(?P<back>[{CURRENCIES}%]?)"
)
PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)")
# Numbers with more decimals are results of computations, and not rounded.
MOST_DECIMALS = 6
NAMED_DATE = re.compile(r"(?P<day>\d{1,2})(?P<sep>[ -])(?P<month>[A-Za-z]{3,9})(?P=sep)\d{4}")
MONTH_FIRST = re.compile(r"(?P<month>[A-Za-z]{3,9}) \d{1,2}(?P<comma>,?) \d{4}")
NUMBERS_DATE = re.compile(r"\d{1,2}(?P<sep>[-/.])\d{1,2}(?P=sep)(?P<year>\d{4}|\d\d)")
YEAR_FIRST = re.compile(r"\d{4}(?P<sep>[-/.])\d{1,2}(?P=sep)\d{1,2}")
CLOCK = re.compile(
    r"(?P<gap>[ T])\d{1,2}:\d\d(?P<seconds>:\d\d(?P<part>\.\d{1,6})?)?(?P<half>(?P<space> ?)[AaPp][Mm])?"
)
HOURS = re.compile(r"(?=[ T]\d{1,2}:\d\d)")
ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?P<zone> ?Z| ?[+-]\d\d(?::?\d\d)?)?)?")


@dataclass(frozen=True)
class NumberStyle:
    """Numbers as a column writes them: decimal and thousands separator, currency or per cent, and decimals."""

    decimal: str = "."
    thousands: str = ""
    front: str = ""
    back: str = ""
    gap: str = ""
    decimals: int = 0
    is_certain: bool = True

    @property
    def other(self) -> str:
        """The type that makes the other separator the decimal one."""
        return "number" if self.decimal == "," else "decimal-comma"

    @property
    def is_usual(self) -> bool:
        return self.decimal == "." and not (self.thousands or self.front or self.back)

    def read(self, values: pd.Series[Any]) -> pd.Series[Any]:
        """The numbers that texts write out; Python's own parser, so that they are exact."""
        return pd.Series([self.number(text) for text in values], index=values.index, dtype=np.float64)

    def number(self, text: str) -> float:
        found = AFFIXED.fullmatch(text.strip())
        assert found is not None  # the style was found from this text
        digits = found["digits"].replace(self.thousands, "") if self.thousands else found["digits"]
        number = float(digits.replace(self.decimal, "."))
        return -number if {found["sign"], found["inner"]} & {"-", "−"} else number

    def write(self, value: Any) -> str:
        """A number in this style, rounded to the digits of the column."""
        text = f"{abs(value):,.{self.decimals}f}" if self.thousands else f"{abs(value):.{self.decimals}f}"
        text = text.translate({ord(","): self.thousands, ord("."): self.decimal})
        sign = "-" if value < 0 and float(f"{value:.{self.decimals}f}") else ""
        return f"{sign}{self.front}{text}{self.gap}{self.back}"

    def __str__(self) -> str:
        signs = {"decimal": self.decimal if self.decimal != "." else "", "thousands": self.thousands}
        separators = " and ".join(f"{name} {sign!r}" for name, sign in signs.items() if sign)
        unit = f" in {self.front or self.back}" if self.front or self.back else ""
        return f"numbers{unit}{f' with {separators}' if separators else ''}"


@dataclass(frozen=True)
class PlainStyle:
    """Numbers without any separator but a decimal point, with `fewest` to `most` decimals."""

    fewest: int
    most: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> PlainStyle | None:
        """That of texts, None if they are no such numbers or have the digits of a computer's numbers."""
        digits = [text.strip() for text in texts]
        if not digits or not all(PLAIN.fullmatch(text) for text in digits):
            return None
        decimals = [len(text.partition(".")[2]) for text in digits]
        return cls(min(decimals), max(decimals)) if max(decimals) <= MOST_DECIMALS else None

    def write(self, value: Any) -> str:
        """A number rounded to the digits of the column, without zeros at the end that the column does not have.

        Example:
            >>> from jensen.files.styles import PlainStyle
            >>> PlainStyle.of(["173.4", "180.0"]).write(171.96), PlainStyle.of(["1", "2.25"]).write(1.5)
            ('172.0', '1.5')
        """
        whole, _, part = NumberStyle(decimals=self.most).write(value).partition(".")
        part = part[: self.fewest] + part[self.fewest :].rstrip("0")
        return f"{whole}.{part}" if part else whole


@dataclass(frozen=True)
class DateStyle:
    """Dates as a column writes them, in the codes of `strptime`; "ISO8601" with or without a time and a zone."""

    form: str = "ISO8601"
    has_zone: bool = False
    is_padded: bool = True
    is_certain: bool = True

    def read(self, values: pd.Series[Any]) -> pd.Series[Any]:
        """Dates and times; those with a zone in UTC."""
        read: pd.Series[Any] = pd.to_datetime(values.str.strip(), format=self.form, utc=self.has_zone, errors="coerce")
        return read

    def write(self, value: Any) -> str:
        """A date in this style; ISO dates as pandas writes them."""
        if self.form == "ISO8601":
            return str(value)
        date, *clock = re.split(HOURS, str(pd.Timestamp(value).strftime(self.form)), maxsplit=1)
        return "".join([date if self.is_padded else re.sub(r"\b0(?=\d[-/., ])", "", date), *clock])

    @property
    def is_usual(self) -> bool:
        return self.form == "ISO8601" and not self.has_zone

    @property
    def other(self) -> str:
        """The type in which the other number is the day."""
        return "month-first" if self.is_day_first else "day-first"

    @property
    def is_day_first(self) -> bool:
        return self.form.startswith("%d")

    def __str__(self) -> str:
        if self.form == "ISO8601":
            return "dates with a time zone, as UTC" if self.has_zone else "dates"
        words = {"%d": "day", "%m": "month", "%Y": "year", "%y": "year", "%b": "month", "%B": "month"}
        return f"dates written {'/'.join(words[code] for code in re.findall(r'%[dmYybB]', self.form))}"


Style = NumberStyle | DateStyle


def styles_of(values: Sequence[str]) -> tuple[Style, ...]:
    """The styles that all of these distinct texts fit; two if their meaning is open, the more usual one first.

    Example:
        >>> from jensen.files.styles import styles_of
        >>> [str(style) for style in styles_of(["€1.234,50", "€12,00"])]
        ["numbers in € with decimal ',' and thousands '.'"]
        >>> [str(style) for style in styles_of(["1,234", "5,678"])]
        ["numbers with thousands ','", "numbers with decimal ','"]
        >>> [style.form for style in styles_of(["09/10/2022", "13/10/2022"])]
        ['%d/%m/%Y']
        >>> styles_of(["red", "blue"])
        ()
    """
    texts = [value.strip() for value in values]
    if not texts or not (any(sign.isdigit() for sign in texts[0])):
        return ()
    return number_styles(texts) or date_styles(texts)


def number_styles(texts: Sequence[str]) -> tuple[NumberStyle, ...]:
    matches = []
    for text in texts:
        if (found := AFFIXED.fullmatch(text)) is None:
            return ()
        matches.append(found)
    affixes = {(found["front"], found["back"]) for found in matches}
    signs = {sign for pair in affixes for sign in pair if sign}
    if len(affixes) > 1 or len(signs) > 1 or any(found["sign"] and found["inner"] for found in matches):
        return ()
    digits = [found["digits"] for found in matches]
    front, back = affixes.pop()
    gap = texts[0][len(texts[0]) - len(back) - 1] if back and texts[0][: -len(back)][-1:] in " \u00a0" else ""
    found_styles = [
        NumberStyle(decimal, group, front, back, gap, decimals_of(digits, decimal))
        for decimal in GROUPS
        if (group := group_of(digits, decimal)) is not None
    ]
    # Whole numbers without any separator fit both.
    if len(found_styles) == 2 and found_styles[0].thousands == found_styles[1].thousands:
        found_styles = found_styles[:1]
    is_certain = len(found_styles) == 1
    return tuple(replace(style, is_certain=is_certain) for style in found_styles)


def group_of(digits: Sequence[str], decimal: str) -> str | None:
    """The separator of thousands with which all texts are numbers, "" if they need none, or None."""
    point, exponent = re.escape(decimal), r"(?:[eE][-+]?\d+)?"
    plain = re.compile(rf"(?:\d+(?:{point}\d*)?|{point}\d+){exponent}")
    if all(plain.fullmatch(text) for text in digits):
        return ""
    for sign in GROUPS[decimal]:
        grouped = re.compile(rf"(?:[1-9]\d{{0,2}}(?:{re.escape(sign)}\d{{3}})+|\d+)(?:{point}\d*)?")
        if all(grouped.fullmatch(text) for text in digits):
            return sign
    return None


def decimals_of(digits: Sequence[str], decimal: str) -> int:
    return max(len(re.split("[eE]", text)[0].partition(decimal)[2]) for text in digits)


def date_styles(texts: Sequence[str]) -> tuple[DateStyle, ...]:
    if all(ISO.fullmatch(text) for text in texts):
        has_zone = {bool(found["zone"]) for text in texts if (found := ISO.fullmatch(text))}
        styles = [DateStyle("ISO8601", has_zone.pop())] if len(has_zone) == 1 else []
    else:
        shapes = {shape_of(text) for text in texts[:100]}
        shape = shapes.pop() if len(shapes) == 1 else None
        if shape is None or any(shape_of(text) != shape for text in texts[100:]):
            return ()
        is_padded = not any(re.search(r"(?<!\d)\d(?!\d)", re.split(HOURS, text)[0]) for text in texts)
        styles = [DateStyle(form, is_padded=is_padded) for form in forms_of(shape)]
    values = pd.Series(list(texts), dtype=str)
    fitting = [style for style in styles if bool(style.read(values).notna().all())]
    # May is both short and in full.
    is_certain = len(fitting) == 1 or "%b" in fitting[0].form if fitting else True
    fitting = fitting[:1] if is_certain else fitting
    return tuple(replace(style, is_certain=is_certain) for style in fitting)


def forms_of(shape: str) -> tuple[str, ...]:
    """The forms that dates of this shape may have: months short or in full, days or months first."""
    if "%b" in shape:
        return shape, shape.replace("%b", "%B")
    if shape.startswith(("%d/%m", "%d-%m")):
        return shape, f"%m{shape[2]}%d{shape[5:]}"
    return (shape,)


def shape_of(text: str) -> str | None:
    """The form of a date in the codes of `strptime`, with the day first where that is open."""
    head, *rest = re.split(HOURS, text, maxsplit=1)
    if found := NUMBERS_DATE.fullmatch(head):
        date = f"%d{found['sep']}%m{found['sep']}{'%Y' if len(found['year']) == 4 else '%y'}"
    elif found := YEAR_FIRST.fullmatch(head):
        date = f"%Y{found['sep']}%m{found['sep']}%d"
    elif found := NAMED_DATE.fullmatch(head):
        date = f"%d{found['sep']}%b{found['sep']}%Y"
    elif found := MONTH_FIRST.fullmatch(head):
        date = f"%b %d{found['comma']} %Y"
    else:
        return None
    if not rest:
        return date
    clock = CLOCK.fullmatch(rest[0])
    if clock is None:
        return None
    seconds = f":%S{'.%f' if clock['part'] else ''}" if clock["seconds"] else ""
    hours = f"%I:%M{seconds}{clock['space']}%p" if clock["half"] else f"%H:%M{seconds}"
    return f"{date}{clock['gap']}{hours}"
