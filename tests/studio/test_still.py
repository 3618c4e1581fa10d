"""Static pages: the values of the library at the stops, and a page that needs no server."""

import json
import re

import pytest

from jensen.studio.answers import plain
from jensen.studio.catalogue import NAMES, find
from jensen.studio.still import DIGITS, rounded, still_page, stored

DEEP = {name for name in NAMES if find(name).needs}


def some_states(name, n=3):
    """The first ones, and the one that the page shows first."""
    explainer = find(name)
    begin = {control["name"]: nearest(control) for control in explainer.describe()["controls"]}
    return [begin, *(state for state in explainer.states()[:n] if state != begin)]


def nearest(control):
    if control["kind"] == "slider":
        return min(control["still"], key=lambda stop: abs(stop - control["value"]))
    return control["value"] if control["kind"] == "points" or control["value"] in control["still"] else None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in DEEP else []) for name in NAMES]
)
def test_stored_values_are_those_of_the_library(name):
    explainer, states = find(name), some_states(name)
    values = json.loads(json.dumps(stored(explainer, states)))
    for key, places, state in zip(values["keys"], values["states"], states, strict=True):
        assert key == [state[each] for each in values["names"]]
        again = plain(explainer.compute(state))
        for what, place in places.items():
            assert rounded(again[what]) == values["pool"][place]


def test_numbers_keep_five_digits():
    assert DIGITS == 5
    assert rounded([1.23456789, 0.000123456789, 2.0, "x", None, True, {"a": -98765.4321}]) == [
        1.2346,
        0.00012346,
        2,
        "x",
        None,
        True,
        {"a": -98765},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_first_state_of_a_page_is_among_its_states(name):
    assert some_states(name)[0] in find(name).states()
    assert len(find(name).states()) <= 1000


def test_equal_values_are_stored_once():
    values = stored(find("bound"), find("bound").states()[:40])
    assert len({json.dumps(each) for each in values["pool"]}) == len(values["pool"])
    assert len(values["pool"]) < 40 * len(values["states"][0]) / 2


def test_a_page_asks_for_nothing():
    page = still_page(find("bound"), stored(find("bound"), some_states("bound")), "../")
    assert not re.search(r'(src|href)="(?!data:|#|\.\./)', page)
    assert "{imports}" not in page
    # Nothing in the data ends its script.
    assert page.count("</script>") == 3


def test_a_static_page_opens_from_a_folder_and_its_slider_moves(browser, tmp_path):
    """The same view as with a server, with numbers from the page."""
    explainer = find("bound")
    (first,) = some_states("bound", 0)
    states = [first | {"q": q} for q in explainer.controls[0].stops()]
    path = tmp_path / "bound.html"
    path.write_text(still_page(explainer, stored(explainer, states), "../"), encoding="utf-8")
    said, asked = [], []
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".host[data-drawn]", timeout=60_000)
    slider = page.locator('[data-control="q"]')
    slider.press("ArrowLeft")
    page.wait_for_selector('.host[data-drawn="2"]', timeout=60_000)
    q = explainer.controls[0].stops()[int(slider.input_value())]
    found = float(page.locator('[data-reading="+ KL(q ‖ posterior), the gap"]').get_attribute("data-value"))
    assert found == pytest.approx(explainer.compute(first | {"q": q})["gap"], rel=1e-4)
    assert page.locator(f'label[for="{slider.get_attribute("id")}"] output').inner_text() == f"{q:g}"
    # Settings that are not stored are explained.
    page.locator('[data-control="draws"]').press("ArrowRight")
    page.wait_for_selector("text=jensen studio computes them", timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
