"""The page in a browser: every explainer opens in silence, and its controls change the numbers to Python's."""

from __future__ import annotations

import math

import pytest

from jensen.studio.catalogue import NAMES, find

WAIT = 120_000


@pytest.fixture
def page(browser, server):
    """A new page; at the end its console must be empty, and nothing may have left this machine."""
    said, asked = [], []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith((server.address, "data:"))] == []


def opened(page, server, name):
    page.goto(f"{server.address}#{name}")
    page.wait_for_selector(".host[data-drawn]", timeout=WAIT)


def drawn(page):
    return int(page.locator(".host").get_attribute("data-drawn"))


def press(page, control, key):
    """Press a key on a control and wait for the new values."""
    before = drawn(page)
    page.locator(f'[data-control="{control}"]').press(key)
    page.wait_for_selector(f'.host[data-drawn]:not([data-drawn="{before}"])', timeout=WAIT)


def readings(page):
    pairs = page.locator("[data-reading]").evaluate_all("all => all.map(e => [e.dataset.reading, e.dataset.value])")
    return {name: math.nan if value == "null" else float(value) for name, value in pairs if is_number(value)}


def is_number(text):
    try:
        float(text)
    except (TypeError, ValueError):
        return text == "null"
    return True


def test_a_slider_changes_the_numbers_to_what_python_computes(page, server):
    opened(page, server, "sigmoid")
    before = readings(page)
    press(page, "std", "ArrowRight")
    found, values = readings(page), find("sigmoid").compute({"std": 1.25})
    assert found["a"] == pytest.approx(values["a"], rel=1e-12)
    assert found["b"] == pytest.approx(values["b"], rel=1e-12)
    assert found["ln p(x)"] == pytest.approx(values["log_p"], rel=1e-12)
    assert found["ln p(x)"] != before["ln p(x)"]


@pytest.mark.parametrize("name", NAMES)
def test_every_explainer_opens(page, server, name):
    opened(page, server, name)
    assert page.locator(".error").count() == 0
    assert page.locator("h1").inner_text() == find(name).title
    assert page.locator("figure svg.chart, figure canvas, figure table").count() > 0
    assert page.locator("text=NaN").count() == 0
    assert page.locator("text=undefined").count() == 0
    # What is a picture or a control has a name for those who do not see it.
    assert page.locator('[role="img"]:not([aria-label])').count() == 0
    for control in page.locator("form [data-control]").all():
        assert page.locator(f'label[for="{control.get_attribute("id")}"]').inner_text().strip()
    for button in page.locator("button").all():
        assert (button.get_attribute("aria-label") or button.inner_text()).strip()
