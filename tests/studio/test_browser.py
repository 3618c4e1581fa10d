"""The page in a browser: every explainer opens in silence, and its controls change the numbers to Python's."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
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
    # A screen that was shown before may still be there.
    page.wait_for_selector(f'.host[data-screen="{name}"][data-drawn]', timeout=WAIT)
    settle(page)


def settle(page):
    """Wait until the page has drawn the answer to its last question."""
    page.wait_for_selector(".host:not([aria-busy='true'])", timeout=WAIT)


def press(page, control, key):
    """Press a key on a control and wait for the new values."""
    page.locator(f'[data-control="{control}"]').press(key)
    settle(page)


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


# These train a network first.
DEEP = {name for name in NAMES if find(name).needs}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in DEEP else []) for name in NAMES]
)
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


def test_dragging_a_point_moves_it_and_the_keyboard_does_too(page, server):
    """Python's values for the points as they lie then are those on the page."""
    opened(page, server, "pca")
    before = readings(page)["least error"]
    circle = page.locator(".handle").nth(3)
    box = circle.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] - 40)
    page.mouse.up()
    settle(page)
    after = readings(page)["least error"]
    assert after != before
    page.locator(".handles").focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowUp")
    settle(page)
    assert readings(page)["least error"] != after
    assert page.evaluate("document.activeElement.classList.contains('handles')"), "the focus stays"
    page.get_by_role("button", name="Put the points back").click()
    wait_for_reading(page, "least error", before)


def test_play_moves_the_steps_of_em_and_ln_p_rises(page, server):
    opened(page, server, "em")
    first = readings(page)["= ln p(x), EM"]
    page.get_by_role("button", name="Play: half steps").click()
    page.wait_for_selector('[data-reading="steps"][data-value="2"]', timeout=WAIT)
    page.get_by_role("button", name="Pause: half steps").click()
    assert readings(page)["= ln p(x), EM"] > first


def test_the_keyboard_reaches_every_control(page, server):
    """Tab after tab, from the top of the page."""
    opened(page, server, "em")
    wanted = page.locator("form [data-control], form button:not([disabled]), .handles, nav a, #theme").count()
    reached = set()
    for _ in range(wanted + 15):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    found = page.locator("form [data-control], form button:not([disabled]), .handles, nav a, #theme")
    missing = [
        each for each in found.evaluate_all("all => all.map(e => e.outerHTML.slice(0, 200))") if each not in reached
    ]
    assert missing == []


# Texts of charts that lie upon each other or are cut, and boxes that do.
CLASHES = """() => {
  const upon = (a, b, x, y) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > x
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > y;
  const pairs = (all, x, y) => all.flatMap((a, i) => all.slice(i + 1).filter((b) => upon(
    a.getBoundingClientRect(), b.getBoundingClientRect(), x, y)).map((b) => `${a.textContent} | ${b.textContent}`));
  const found = pairs([...document.querySelectorAll(".figures > figure, .side > *, .below > section")], 1, 1);
  for (const chart of document.querySelectorAll("svg.chart")) {
    const { left, right } = chart.getBoundingClientRect(), texts = [...chart.querySelectorAll("text")];
    found.push(...pairs(texts, 1.5, 3), ...texts.filter((e) => e.getBoundingClientRect().left < left - 1
      || e.getBoundingClientRect().right > right + 1).map((e) => `cut: ${e.textContent}`));
  }
  return found;
}"""


@pytest.mark.parametrize("width", [390, 800])
def test_nothing_overlaps_or_is_cut_on_narrow_pages(page, server, width):
    page.set_viewport_size({"width": width, "height": 800})
    for name in ("em", "ridge", "noising"):
        opened(page, server, name)
        page.wait_for_timeout(200)
        assert page.evaluate(CLASHES) == [], name


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page, server, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for name in ("bound", "stores"):
        opened(page, server, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_colours_change(page, server):
    opened(page, server, "bound")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


# Contrast of text to its ground (WCAG 2.2), from the colours that the browser computed.
CONTRAST = """() => {
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return rgb(colour);
    }
    return [255, 255, 255];
  };
  const texts = "h1, h2, p, a, button:not([disabled]), label, output, dt, dd, li, figcaption, pre, svg text, th, td";
  return [...document.querySelectorAll(texts)].filter((e) => {
    if (!e.textContent.trim() || !e.getClientRects().length) return false;
    const style = getComputedStyle(e);
    const pair = [light(rgb(e instanceof SVGElement ? style.fill : style.color)), light(ground(e))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 4.5;
  }).map((e) => `${e.tagName} ${e.textContent.slice(0, 40)}`);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page, server, scheme):
    page.emulate_media(color_scheme=scheme)
    for name in ("em", "topics", "ask"):
        opened(page, server, name)
        assert page.evaluate(CONTRAST) == []


def test_a_model_is_asked(page, server, folder):
    """A cell moves, another goes missing: the page shows what Python returns for this row."""
    import jensen

    opened(page, server, "ask")
    page.get_by_label("Model").select_option("mixture.jensen")
    page.get_by_label("Table", exact=True).select_option("iris.csv")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector(".host[data-answered]", timeout=WAIT)
    model = jensen.load(folder.root / "mixture.jensen")
    row = pd.read_csv(folder.root / "iris.csv").iloc[[0]]
    assert readings(page)["ln p(x)"] == pytest.approx(model.score_samples(row)[0])
    shares = ", ".join(f"{k}: {100 * weight:.1f} %" for k, weight in enumerate(model.weights_))
    assert shares in page.locator('[data-figure="posterior"]').inner_text()

    name = row.columns[0]
    cell = page.locator(f'[data-column="{name}"]')
    cell.focus()
    cell.press("ArrowRight")
    row.iloc[0, 0] = float(cell.input_value())
    wait_for_reading(page, "ln p(x)", model.score_samples(row)[0])
    other = row.columns[3]
    page.locator(f'[data-missing="{other}"]').check()
    row.iloc[0, 3] = float("nan")
    wait_for_reading(page, "ln p(x)", model.score_samples(row)[0])
    assert other in page.locator('[data-figure="imputed"]').inner_text()

    page.locator(f'[data-given="{name}"]').check()
    page.get_by_role("button", name="Draw rows").click()
    page.wait_for_selector('[data-figure="summaries"]', timeout=WAIT)
    assert page.locator(".error").count() == 0


def wait_for_reading(page, name, value):
    """Wait until a number has this value: the page may still wait for an answer."""
    for _ in range(WAIT // 100):
        if readings(page).get(name) == pytest.approx(value):
            return
        page.wait_for_timeout(100)
    assert readings(page).get(name) == pytest.approx(value)


def test_a_slider_per_latent_dimension(page, server, folder):
    import jensen

    opened(page, server, "ask")
    page.get_by_label("Model").select_option("ppca.jensen")
    page.get_by_label("Table", exact=True).select_option("iris.csv")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector('[data-figure="decoded"] td', timeout=WAIT)
    assert page.locator("[data-latent]").count() == 2
    model, first = jensen.load(folder.root / "ppca.jensen"), pd.read_csv(folder.root / "iris.csv").iloc[[0]]
    z = np.asarray(model.transform(first))
    assert decoded(page) == pytest.approx(np.asarray(model.inverse_transform(z))[0], abs=SHOWN)
    slider = page.locator('[data-latent="1"]')
    slider.press("ArrowRight")
    z[0, 0] = float(slider.input_value())
    expected = np.asarray(model.inverse_transform(z))[0]
    for _ in range(WAIT // 100):
        if decoded(page) == pytest.approx(expected, abs=SHOWN):
            break
        page.wait_for_timeout(100)
    assert decoded(page) == pytest.approx(expected, abs=SHOWN)


# A reader sees three decimals of numbers below ten.
SHOWN = 5.1e-4


def decoded(page):
    return [float(text) for text in page.locator('[data-figure="decoded"] td').all_inner_texts()]


def test_what_a_model_cannot_do_is_explained(page, server):
    opened(page, server, "ask")
    page.get_by_label("Model").select_option("medoids.jensen")
    page.get_by_label("Table", exact=True).select_option("iris.csv")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector(".host[data-answered]", timeout=WAIT)
    assert "no density" in page.locator('[data-reason="log_p"]').inner_text()


def test_a_fit_is_watched(browser, folder):
    """The page draws what the fit has measured, and says when it has ended."""
    import jensen
    from jensen.runtime.watching import Watch, watched
    from jensen.studio.serve import Server, in_background

    watch = Watch("GaussianMixture of iris")
    X = pd.read_csv(folder.root / "iris.csv")
    with in_background(Server(folder, watch=watch)) as server, watched(watch):
        page = browser.new_page()
        page.goto(f"{server.address}#watch")
        page.wait_for_selector("text=Waiting for the first step", timeout=WAIT)
        model = jensen.GaussianMixture(3, random_state=0, verbose=1).fit(X)
        page.wait_for_selector(f'[data-reading="step"][data-value="{model.n_iter_}"]', timeout=WAIT)
        assert readings(page)["objective"] == pytest.approx(model.lower_bound_)
        watch.end = "The fit has ended."
        page.wait_for_selector("text=The fit has ended", timeout=WAIT)
        assert page.locator("h1").inner_text() == "GaussianMixture of iris"
        page.close()
