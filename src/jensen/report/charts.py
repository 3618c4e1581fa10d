"""Charts as inline SVG: they need no script, follow the light or dark theme of the page, and can be printed.

A chart has a summary for screen readers. The script of the page shows the `data-tip` of a mark under the pointer, and
legends hide series by their `data-series`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

import numpy as np

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 44
# Colours in the style sheet; further series reuse them.
N_COLOURS = 10
# For unlabelled rows.
GREY = -1
# More marks cost bytes and show nothing new.
MOST_MARKS = 600

_clip = count()


@dataclass(frozen=True, eq=False)
class Series:
    """Points with a name.

    Args:
        name: in the legend and in tips.
        x, y: coordinates (n,).
        tips: a text per point; the default is its coordinates.
        colour: a colour number of the style sheet, or GREY; None is the position of the series.
    """

    name: str
    x: Any
    y: Any
    tips: Sequence[str] | None = None
    colour: int | None = None


@dataclass(frozen=True)
class Frame:
    """The mapping from values to positions in a picture."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: int = LEFT
    height: int = HEIGHT

    def x(self, values: Any) -> np.ndarray:
        low, high = self.x_range
        return self.left + (np.asarray(values, float) - low) / (high - low) * (WIDTH - RIGHT - self.left)

    def y(self, values: Any) -> np.ndarray:
        low, high = self.y_range
        return self.height - BOTTOM - (np.asarray(values, float) - low) / (high - low) * (self.height - TOP - BOTTOM)


def lines(series: Sequence[Series], x_label: str, y_label: str, summary: str, *, settled: bool = False) -> str:
    """A line per series over numbered steps.

    With `settled`, the first tenth, where a training often starts far away, may leave the frame.
    """
    kept = [thinned(one) for one in series]
    later = [one.y[len(one.y) // 10 :] if settled else one.y for one in kept]
    frame = Frame(span([one.x for one in kept], 0.0), span(later))

    def mark(one: Series) -> str:
        x, y = frame.x(one.x), frame.y(one.y)
        path = "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
        return f'<path class="line" d="{path}"/>' + dots(one, frame, 4, "ghost")

    return chart(kept, frame, mark, x_label, y_label, summary, is_counted=True)


def scatter(series: Sequence[Series], x_label: str, y_label: str, summary: str, *, line: Any = None) -> str:
    """A dot per point; `line` is a list of paths (n, 2) that are drawn over them."""
    kept = [thinned(one) for one in series]
    paths = [] if line is None else [np.asarray(path) for path in line]
    frame = Frame(
        span([one.x for one in kept] + [path[:, 0] for path in paths]),
        span([one.y for one in kept] + [path[:, 1] for path in paths]),
    )
    drawn = "".join(
        '<path class="line curve" d="M'
        + " L".join(f"{a:.1f} {b:.1f}" for a, b in zip(frame.x(path[:, 0]), frame.y(path[:, 1]), strict=True))
        + '"/>'
        for path in paths
    )
    return chart(kept, frame, lambda one: dots(one, frame, 3.2, "dot"), x_label, y_label, summary, over=drawn)


def bars(names: Sequence[str], values: Sequence[float], x_label: str, summary: str) -> str:
    """A bar per name, from zero."""
    frame = side_frame(names, span([[0.0, *values]], 0.06))
    body, zero = [axis_x(frame, x_label)], float(frame.x(0.0))
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y, end = row_of(frame, i, len(names)), float(frame.x(value))
        place = f'x="{min(zero, end):.1f}" y="{y - 9:.1f}" width="{abs(end - zero):.1f}" height="18"'
        body.append(
            f'<g class="mark" {labelled(f"{name}: {number(value)}")}>{row_name(frame, y, name)}'
            f'<rect class="bar" {place}/></g>'
        )
    body.append(f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="{TOP}" y2="{frame.height - BOTTOM}"/>')
    return svg("".join(body), frame.height, summary, "group")


def intervals(
    names: Sequence[str],
    centre: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    x_label: str,
    summary: str,
) -> str:
    """A dot and an interval per name, with a line at zero; rows have `data-model`, so that they can be hidden."""
    frame = side_frame(names, span([[0.0, *centre, *low, *high]], 0.04))
    zero = float(frame.x(0.0))
    body = [axis_x(frame, x_label)]
    body.append(f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="{TOP}" y2="{frame.height - BOTTOM}"/>')
    for i, name in enumerate(names):
        y, a, b, c = row_of(frame, i, len(names)), *map(float, (frame.x(low[i]), frame.x(high[i]), frame.x(centre[i])))
        tip = f"{name}: {number(centre[i])}, 95 % interval {number(low[i])} to {number(high[i])}"
        body.append(
            f'<g class="mark s{i % N_COLOURS}" data-model="{escape(name)}" {labelled(tip)}>'
            f'{row_name(frame, y, name)}<line class="whisker" x1="{a:.1f}" x2="{b:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="dot" cx="{c:.1f}" cy="{y:.1f}" r="5"/></g>'
        )
    return svg("".join(body), frame.height, summary, "group")


def chart(
    series: Sequence[Series],
    frame: Frame,
    mark: Callable[[Series], str],
    x_label: str,
    y_label: str,
    summary: str,
    over: str = "",
    is_counted: bool = False,
) -> str:
    clip = f"clip{next(_clip)}"
    width, height = WIDTH - RIGHT - frame.left, frame.height - TOP - BOTTOM + 12
    box = f'x="{frame.left}" y="{TOP - 6}" width="{width}" height="{height}"'
    groups = "".join(
        f'<g class="s{colour_of(one, i)}" data-series="{escape(one.name)}">{mark(one)}</g>'
        for i, one in enumerate(series)
    )
    inside = f'<clipPath id="{clip}"><rect {box}/></clipPath><g clip-path="url(#{clip})">{groups}{over}</g>'
    body = axis_x(frame, x_label, is_counted) + axis_y(frame, y_label) + inside
    return svg(body, frame.height, summary) + legend(series)


def legend(series: Sequence[Series]) -> str:
    """Buttons that show and hide series, if there are several."""
    if len(series) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" class="key s{colour_of(one, i)}" aria-pressed="true" data-for="{escape(one.name)}">'
        f'<span class="swatch" aria-hidden="true"></span>{escape(one.name)}</button>'
        for i, one in enumerate(series)
    )
    return f'<div class="legend">{buttons}</div>'


def dots(one: Series, frame: Frame, radius: float, kind: str) -> str:
    tips = one.tips or [f"{one.name}: {number(a)}, {number(b)}" for a, b in zip(one.x, one.y, strict=True)]
    return "".join(
        f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}" data-tip="{escape(tip)}"/>'
        for a, b, tip in zip(frame.x(one.x), frame.y(one.y), tips, strict=True)
        if math.isfinite(a) and math.isfinite(b)
    )


def labelled(tip: str) -> str:
    """Attributes of a mark that the keyboard can reach, with a text for tips and screen readers."""
    text = escape(tip)
    return f'tabindex="0" role="img" aria-label="{text}" data-tip="{text}"'


def svg(body: str, height: int, summary: str, role: str = "img") -> str:
    """One picture, or a "group" of marks with a text each."""
    label = escape(summary)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="{role}" aria-label="{label}">{body}</svg>'


def axis_x(frame: Frame, label: str, is_counted: bool = False) -> str:
    bottom, marks = frame.height - BOTTOM, []
    for value in ticks(*frame.x_range):
        if is_counted and value % 1:
            continue
        x = float(frame.x(value))
        marks.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        marks.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>')
    middle = (frame.left + WIDTH - RIGHT) / 2
    title = f'<text class="label" x="{middle:.0f}" y="{frame.height - 6}" text-anchor="middle">{escape(label)}</text>'
    return "".join(marks) + title


def axis_y(frame: Frame, label: str) -> str:
    marks = []
    for value in ticks(*frame.y_range):
        y = float(frame.y(value))
        marks.append(f'<line class="grid" x1="{frame.left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        marks.append(
            f'<text class="tick" x="{frame.left - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>'
        )
    middle = (TOP + frame.height - BOTTOM) / 2
    turned = f'transform="translate(14 {middle:.0f}) rotate(-90)"'
    return "".join(marks) + f'<text class="label" {turned} text-anchor="middle">{escape(label)}</text>'


def side_frame(names: Sequence[str], x_range: tuple[float, float]) -> Frame:
    """A frame with one line per name, and the names on the left."""
    left = min(210, 20 + 8 * max(map(len, names)))
    return Frame(x_range, (0.0, 1.0), left, TOP + BOTTOM + 30 * len(names))


def row_of(frame: Frame, i: int, n: int) -> float:
    return TOP + (i + 0.5) * (frame.height - TOP - BOTTOM) / n


def row_name(frame: Frame, y: float, name: str) -> str:
    return f'<text class="name" x="{frame.left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'


def colour_of(one: Series, place: int) -> str:
    if one.colour == GREY:
        return "grey"
    return str((place if one.colour is None else one.colour) % N_COLOURS)


def thinned(one: Series) -> Series:
    """The series as arrays; of many points only some, evenly spaced, among them the last."""
    x, y = np.asarray(one.x, float), np.asarray(one.y, float)
    if len(x) <= MOST_MARKS:
        return Series(one.name, x, y, one.tips, one.colour)
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_MARKS).round().astype(int))
    return Series(one.name, x[kept], y[kept], one.tips and [one.tips[i] for i in kept], one.colour)


def span(values: Sequence[Any], margin: float = 0.04) -> tuple[float, float]:
    """From the least to the greatest finite value, with a margin."""
    every = np.concatenate([np.asarray(part, float).ravel() for part in values]) if values else np.empty(0)
    every = every[np.isfinite(every)]
    if not every.size:
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        return low - pad, high + pad
    return low - margin * (high - low), high + margin * (high - low)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two: steps of 1, 2 or 5 times a power of ten.

    Example:
        >>> ticks(0.0, 9.0)
        [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    return list(_ticks(low, high, most))


def _ticks(low: float, high: float, most: int) -> Iterator[float]:
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        # Multiples of 0.1 have rounding errors in their last digits.
        yield round(i * step, 12)


def number(value: float) -> str:
    """A number with four significant digits.

    Example:
        >>> number(-1234.5), number(0.000123), number(2.0)
        ('-1234', '0.000123', '2')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-4):
        return f"{value:.2e}"
    return f"{value:.0f}" if size >= 1000 else f"{value:.4g}"
