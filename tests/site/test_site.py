"""The built site in a browser: every page, the search, the keyboard, contrast and alternative texts.

`make test-site` runs this. The site is built with the figures that `make docs` has cached, and with empty frames in
place of the others.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import jensen
from site_archive import pack

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("mkdocs", reason="the extra docs is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]
# One page of each kind.
KINDS = [
    "index",
    "gaussian-mixture",
    "gallery/index",
    "gallery/em_steps",
    "api/models/VAE",
    "command-line",
    "benchmarks",
]
SCHEMES = ["default", "slate"]

# Pictures that are not shown, or that nothing stands for where they cannot be seen.
PICTURES = """async () => (await Promise.all([...document.querySelectorAll("article img")].map(async img => {
  const is_shown = await img.decode().then(() => img.naturalWidth > 0, () => false)
  return [!is_shown && `${img.src} is not shown`, img.alt.length < 8 && `${img.src} has no alternative text`]
}))).flat().filter(Boolean)"""
# Text with a contrast below 4.5 to 1, or 3 to 1 for large letters (WCAG 2.2, 1.4.3): where, which text, how much.
PALE = """() => {
  const parse = text => {
    const numbers = text.match(/[\\d.]+/g).map(Number)
    return text.startsWith("color(srgb") ? [...numbers.slice(0, 3).map(x => 255 * x), numbers[3] ?? 1]
      : [...numbers.slice(0, 3), numbers[3] ?? 1]
  }
  const over = ([r, g, b, a], below) => [...[r, g, b].map((x, i) => a * x + (1 - a) * below[i]), 1]
  const linear = x => x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4
  const light = colour => colour.slice(0, 3).map(linear)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0)
  const ground = element => {
    if (!element) return [255, 255, 255, 1]
    const own = parse(getComputedStyle(element).backgroundColor)
    return own[3] === 1 ? own : over(own, ground(element.parentElement))
  }
  const found = new Map()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue
    if (element.closest("script, style, svg, noscript") || !element.getClientRects().length) continue
    const style = getComputedStyle(element), below = ground(element), ink = parse(style.color)
    let shown = ink[3]
    for (let e = element; e; e = e.parentElement) shown *= Number(getComputedStyle(e).opacity)
    const [a, b] = [light(over([...ink.slice(0, 3), shown], below)), light(below)]
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize), is_large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)
    if (contrast < (is_large ? 3 : 4.5)) {
      const place = element.tagName.toLowerCase() + (element.className ? "." + element.className : "")
      found.set(place, `${place}: "${text.slice(0, 30)}" ${contrast.toFixed(2)}`)
    }
  }
  return [...found.values()]
}"""
# What can be clicked and has no name for a screen reader.
NAMELESS = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), label[tabindex]")]
  .filter(e => e.checkVisibility({ visibilityProperty: true }) && !e.closest("[hidden]"))
  .filter(e => !(e.innerText.trim() || e.getAttribute("aria-label") || e.title || e.labels?.[0]?.innerText.trim()
    || e.labels?.[0]?.title || e.querySelector("img[alt]:not([alt=''])")))
  .map(e => e.outerHTML.slice(0, 120))"""

# Where the focus is, whether that can be seen, and how it is framed.
FOCUS = """() => {
  const element = document.activeElement, tabs = element.closest(".tabbed-set:has(> input:focus)")
  const drawn = element.matches(".md-option") ? document.querySelector(".md-option + label:not([hidden])")
    : tabs?.querySelector(".tabbed-labels") ?? element
  return [element.closest("header, nav, main, footer")?.className ?? "",
    drawn.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
    getComputedStyle(drawn).outlineStyle]
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "JENSEN_GALLERY": "cached", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="module")
def served():
    """A function: the address of a folder on a server of its own."""
    servers = []

    def start(folder):
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()


@pytest.fixture(scope="module")
def address(site, served):
    return served(site)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture
def faults():
    """What the console said, and requests that left this machine or failed."""
    return []


@pytest.fixture
def page(browser, faults):
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.on("console", lambda message: faults.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))

    def asked(request):
        if not request.url.startswith(("http://127.0.0.1", "file:", "data:", "blob:")):
            faults.append(f"{page.url} asks for {request.url}")

    page.on("request", asked)
    page.on("response", lambda response: response.ok or response.status == 304 or faults.append(response.url))
    yield page
    page.close()
    assert faults == []


def still(page):
    """No transitions: colours are those of the end."""
    page.add_style_tag(content="*, *::before, *::after { transition: none !important; animation: none !important }")


def all_pages(site):
    return [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")) if path.name != "404.html"]


def test_every_page_opens_and_can_be_read(site, address, page, faults):
    """Nothing in the console; pictures have texts, letters contrast and controls names; a phone is wide enough."""
    names = all_pages(site)
    assert len(names) > 100
    for name in names:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{address}/{name}")
        still(page)
        found = page.evaluate(PICTURES)
        if (n_headings := page.locator("h1").count()) != 1:
            found.append(f"{n_headings} main headings")
        # Pages of code have the colours of every other page, and thousands of words in them.
        for scheme in [] if name.startswith("source/") else SCHEMES:
            page.evaluate("scheme => { document.body.dataset.mdColorScheme = scheme }", scheme)
            found += [f"{scheme}: {what}" for what in page.evaluate(PALE)]
        found += [f"has no name: {what}" for what in page.evaluate(NAMELESS)]
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                found.append(f"{wide} pixels wide in a window of {width}")
        faults += [f"{name}: {what}" for what in found]


@pytest.mark.parametrize(("preferred", "scheme"), [*zip(("light", "dark"), SCHEMES, strict=True)])
def test_the_colours_are_those_of_the_system(preferred, scheme, address, page):
    page.emulate_media(color_scheme=preferred)
    page.goto(f"{address}/index.html")
    assert page.evaluate("document.body.dataset.mdColorScheme") == scheme


def test_pale_text_is_found(page):
    page.set_content('<p class="pale" style="color: #999">pale</p><p style="color: #666">dark</p>')
    assert page.evaluate(PALE) == ['p.pale: "pale" 2.85']
    page.set_content("<div style='background: #000'><p style='color: rgb(255 255 255 / 0.3)'>half</p></div>")
    assert len(page.evaluate(PALE)) == 1
    page.set_content("<a href='#'></a><button>name</button>")
    assert page.evaluate(NAMELESS) == ['<a href="#"></a>']


@pytest.mark.parametrize("place", ["server", "folder", "archive"])
def test_the_search_finds_a_page(place, site, address, served, page, tmp_path):
    """Pages opened from a folder have no server, and those of an archive are below their version."""
    if place == "archive":
        with tarfile.open(pack(site, tmp_path, jensen.__version__)) as archive:
            archive.extractall(tmp_path / "www", filter="data")
        page.goto(f"{served(tmp_path / 'www')}/index.html")
        page.wait_for_url(f"**/{jensen.__version__}/index.html")
    else:
        page.goto((site / "index.html").as_uri() if place == "folder" else f"{address}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("varimax")
    result = page.locator(".md-search-result__link").first
    result.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/*h=varimax*")
    assert "varimax" in page.locator("article").inner_text().lower()


@pytest.mark.parametrize("name", KINDS)
def test_the_keyboard_reaches_what_is_seen_and_shows_where_it_is(name, address, page):
    page.goto(f"{address}/{name}.html")
    still(page)
    page.keyboard.press("Tab")
    assert page.locator(".md-skip").evaluate("link => link === document.activeElement")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        place, is_seen, outline = page.evaluate(FOCUS)
        reached.add(place.split(" ")[0])
        assert is_seen, page.evaluate("document.activeElement.outerHTML")[:200]
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")[:200]
    assert {"md-header__inner", "md-tabs"} <= reached
    assert reached & {"md-nav", "md-main", "md-footer"}


def test_the_keyboard_changes_the_colours(address, page):
    page.goto(f"{address}/index.html")
    still(page)

    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    before = ground()
    for _ in range(3):  # the link to the text, the sign of the project, and the switch
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert ground() != before
    page.keyboard.press("Enter")
    assert ground() == before


def test_a_page_that_is_not_there_leads_home(site):
    text = (site / "404.html").read_text(encoding="utf-8")
    assert "404" in text
    assert 'href="/index.html"' in text or 'href="/."' in text
