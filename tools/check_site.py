"""Check the built site: all links and anchors exist, and nothing is loaded from other sites.

    python tools/check_site.py site
Links to other sites are counted, not followed. Markdown that was not rendered, such as a table or a list shown as text,
is reported as well.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "check", "read_page"]

# What a browser loads by itself, as opposed to links that a reader may click.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
RAW = re.compile(r"\| *-{3,}|\n- |^::: |\]\([\w./#-]+\)|^```|<!-- ", re.MULTILINE)


@dataclass
class Page(HTMLParser):
    """Anchors, links and unrendered Markdown of a page.

    Args:
        ids: anchors that a link may name.
        links: (whether a browser loads it, target).
        raw: pieces of Markdown that were not rendered.
    """

    ids: set[str] = field(default_factory=set)
    links: list[tuple[bool, str]] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.depth_of_code = 0
        self.depth_of_paragraph = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.add(str(values["id"]))
        if tag == "a" and values.get("name"):
            self.ids.add(str(values["name"]))
        for name in ("href", "src"):
            target = values.get(name)
            if target is not None and not (tag == "link" and values.get("rel") in ("canonical", "prev", "next")):
                self.links.append(((tag, name) in LOADED, target))
        if tag in ("pre", "code", "script", "style"):
            self.depth_of_code += 1
        if tag == "p":
            self.depth_of_paragraph += 1
            self.text = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("pre", "code", "script", "style"):
            self.depth_of_code -= 1
        if tag == "p" and self.depth_of_paragraph:
            self.depth_of_paragraph -= 1
            if RAW.search(self.text):
                self.raw.append(self.text.strip()[:80])

    def handle_data(self, data: str) -> None:
        if self.depth_of_paragraph and not self.depth_of_code:
            self.text += data


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def check(site: Path) -> tuple[list[str], int, int]:
    """Faults, and the numbers of internal and external links."""
    pages = {path.resolve(): read_page(path) for path in sorted(site.rglob("*.html"))}
    faults, within, outside = [], 0, 0
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        faults += [f"{name}: markdown that was not rendered: {text!r}" for text in page.raw]
        for is_loaded, link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("mailto", "data", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                outside += 1
                if is_loaded:
                    faults.append(f"{name}: loads {link}")
                continue
            within += 1
            # Links of the 404 page start at the root of the site.
            start = site.resolve() if parts.path.startswith("/") else path.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                faults.append(f"{name}: {link} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                faults.append(f"{name}: {link} has no such place")
    for path in sorted(site.rglob("*.css")):
        faults += [
            f"{path.relative_to(site)}: loads {url}"
            for url in re.findall(r"url\([\"']?(https?:[^)\"']+)", path.read_text(encoding="utf-8"))
        ]
    return faults, within, outside


def main() -> None:
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.exit(f"{site} has no index.html; build the site with `make docs`")
    faults, within, outside = check(site)
    if faults:
        sys.exit("\n".join(faults))
    n_pages = sum(1 for _ in site.rglob("*.html"))
    print(f"{n_pages} pages, {within} internal links checked, {outside} external links, nothing loaded from elsewhere")


if __name__ == "__main__":
    main()
