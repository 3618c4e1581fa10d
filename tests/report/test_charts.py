"""Charts: marks stand where their values are."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from jensen.report.charts import HEIGHT, MOST_MARKS, WIDTH, Series, bars, intervals, lines, number, scatter, ticks


def drawn(text):
    """The picture as XML, without the legend behind it."""
    return ElementTree.fromstring(text.partition("</svg>")[0] + "</svg>")


def circles(text):
    return [(float(c.get("cx")), float(c.get("cy"))) for c in drawn(text).iter("circle")]


def test_dots_keep_the_proportions_of_their_values():
    (x0, y0), (x1, y1), (x2, y2) = circles(scatter([Series("a", [0, 1, 4], [0, 2, 8])], "x", "y", ""))
    # Coordinates are written to a tenth of a pixel.
    assert x1 - x0 == pytest.approx((x2 - x0) / 4, abs=0.2)
    assert y0 - y1 == pytest.approx((y0 - y2) / 4, abs=0.2)
    assert 0 < x0 < x2 < WIDTH
    assert 0 < y2 < y0 < HEIGHT


def test_a_bar_is_as_long_as_its_value():
    rects = list(drawn(bars(["a", "b"], [-2.0, 1.0], "nats", "")).iter("rect"))
    widths = [float(r.get("width")) for r in rects]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    zero = float(rects[1].get("x"))
    assert float(rects[0].get("x")) + widths[0] == pytest.approx(zero, abs=0.2)


def test_whiskers_reach_from_low_to_high():
    text = intervals(["best", "other"], [0.0, -2.0], [0.0, -3.0], [0.0, -1.0], "nats", "")
    other = next(g for g in drawn(text).iter("g") if g.get("data-model") == "other")
    line = next(e for e in other.iter("line"))
    dot = next(e for e in other.iter("circle"))
    middle = (float(line.get("x1")) + float(line.get("x2"))) / 2
    assert float(dot.get("cx")) == pytest.approx(middle, abs=0.2)


def test_names_are_escaped():
    text = scatter([Series("<b>&", [0], [0], ['"quoted"'])], "<x>", "y", 'a "summary"')
    root = drawn(text)
    assert root.get("aria-label") == 'a "summary"'
    assert next(root.iter("circle")).get("data-tip") == '"quoted"'
    assert any(t.text == "<x>" for t in root.iter("text"))


def test_several_series_have_a_legend_and_one_has_none():
    one, two = Series("a", [0, 1], [0, 1]), Series("b", [0, 1], [1, 0])
    assert "aria-pressed" not in lines([one], "x", "y", "")
    assert lines([one, two], "x", "y", "").count('aria-pressed="true"') == 2


def test_many_points_are_thinned_and_the_last_one_stays():
    x = np.arange(5000.0)
    marks = circles(lines([Series("a", x, x)], "x", "y", ""))
    assert len(marks) == MOST_MARKS
    assert marks[-1][0] == pytest.approx(WIDTH - 14, abs=0.1)


def test_what_is_not_finite_is_left_out():
    assert len(circles(scatter([Series("a", [0, np.nan, 1, 2], [0, 1, np.inf, 2])], "x", "y", ""))) == 2


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 0.003, [0, 0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.003]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected, abs=1e-15)


def test_one_value_has_a_frame():
    assert len(circles(scatter([Series("a", [3.0], [0.0])], "x", "y", ""))) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (-float("inf"), "-∞"),
        (0.0, "0"),
        (12345678.0, "1.23e+07"),
        (1e-5, "1.00e-05"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text
