"""The page of a report in a browser: it sorts, hides, shows tips, and says nothing in the console."""

from __future__ import annotations

import shutil

import pytest
from sklearn.datasets import load_iris

import jensen

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    # A long word that has nowhere to break.
    prior = jensen.ConjugatePrior(weight_concentration=1.000000123456789)
    models = {"mixture": jensen.GaussianMixture(3, prior=prior, random_state=0), "PPCA": jensen.ProbabilisticPCA(2)}
    models["k-means"] = jensen.KMeans(3, random_state=0)
    models["absent"] = jensen.KMedoids(3)
    path = tmp_path_factory.mktemp("report") / "page.html"
    jensen.compare(load_iris(as_frame=True).data, models, load_iris().target, cv=3).report(path)
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture
def page(browser, path):
    said, asked = [], []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def order(page):
    return page.locator("#board tbody tr").evaluate_all("rows => rows.map(row => row.dataset.model)")


def test_the_table_sorts_by_a_click_and_by_the_keyboard(page):
    assert order(page) == ["mixture", "PPCA", "k-means", "absent"]
    head = page.locator("#board th", has_text="parameters")
    values = page.locator("#board tbody tr td[data-value]:nth-child(7)")

    def numbers():
        return [float(value) for value in values.evaluate_all("cells => cells.map(cell => cell.dataset.value)")]

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers())
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True)
    assert order(page)[-1] == "absent", "what has no number comes last either way"
    page.locator("#board th", has_text="model").locator("button").click()
    assert order(page) == ["absent", "k-means", "mixture", "PPCA"]


def test_a_box_hides_a_model_everywhere_and_shows_it_again(page):
    section, mark = page.locator("section[data-model=PPCA]"), page.locator("svg g[data-model=PPCA]")
    assert section.is_visible()
    assert mark.is_visible()
    box = page.get_by_label("PPCA", exact=True).and_(page.locator("input"))
    box.uncheck()
    assert not section.is_visible()
    assert not mark.is_visible()
    assert not page.locator("#board tr[data-model=PPCA]").is_visible()
    assert page.locator("section[data-model=mixture]").is_visible()
    box.check()
    assert section.is_visible()


def test_a_legend_hides_a_series(page):
    panel = page.locator("section[data-model=mixture] .panel", has_text="Samples beside real rows")
    key = panel.get_by_role("button", name="samples")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert not panel.locator("g[data-series=samples]").is_visible()
    assert panel.locator("g[data-series=real]").is_visible()


def test_a_tip_follows_the_pointer_and_the_keyboard(page):
    tip = page.locator("#tip")
    assert not tip.is_visible()
    page.locator("svg g[data-model=PPCA] circle").hover()
    assert tip.inner_text().startswith("PPCA: -")
    page.locator("svg g[data-model=mixture]").focus()
    assert tip.inner_text().startswith("mixture: 0")
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_the_colours_change(page):
    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    page.locator("#theme").click()
    assert ground() != light
    page.locator("#theme").click()
    assert ground() == light


def test_paper_is_white_whatever_the_screen_is(page):
    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.emulate_media(color_scheme="dark")
    assert ground() != "rgb(255, 255, 255)"
    page.emulate_media(media="print", color_scheme="dark")
    assert ground() == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="light")
    page.locator("#theme").click()
    page.emulate_media(media="print")
    assert ground() == "rgb(255, 255, 255)"


def test_marks_that_the_keyboard_reaches_have_a_name(page):
    mark = page.locator("svg g[data-model=PPCA]")
    assert mark.get_attribute("aria-label").startswith("PPCA: -")
    assert "95 % interval" in mark.get_attribute("aria-label")
    assert page.locator('svg[role="img"] [tabindex]').count() == 0


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
