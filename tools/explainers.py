"""The explainers of `jensen studio` as static pages of the site.

Their values are computed once and cached in `build/explainers` under a hash of the studio's files; `make clean` deletes
the cache. With JENSEN_GALLERY=cached only the first values of a page that is not in the cache are computed, so that its
controls find no others. The tests of the site use it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from jensen.studio.catalogue import NAMES, loaded
from jensen.studio.explainer import Explainer
from jensen.studio.still import still_page, stored
from pages import ROOT

__all__ = ["explainer_index", "explainer_pages"]

STUDIO = ROOT / "src" / "jensen" / "studio"
CACHE = ROOT / "build" / "explainers"
# From explain/NAME.html to the first page.
HOME = "../"


def explainer_pages(say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """The path of each page on the site, and its text."""
    for name in NAMES:
        explainer = loaded(name)
        yield f"explain/{name}.html", still_page(explainer, values_of(explainer, say), HOME)


def values_of(explainer: Explainer, say: Callable[[str], None]) -> dict[str, Any]:
    """The stored values, from the cache if nothing has changed."""
    texts = [path.read_bytes() for path in (STUDIO / "explainer.py", STUDIO / "explainers" / f"{explainer.name}.py")]
    path = CACHE / f"{explainer.name}-{hashlib.sha256(b''.join(texts)).hexdigest()[:16]}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    if os.environ.get("JENSEN_GALLERY") == "cached":
        return stored(explainer, explainer.states()[:1])
    say(f"explainer {explainer.name}: {len(explainer.states())} states")
    values = stored(explainer)
    CACHE.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")
    return values


def explainer_index() -> str:
    """The page that lists all of them."""
    lines = [
        "---",
        "hide: [toc]",
        "---",
        "# Explainers",
        "",
        "Each page has a picture with controls, the formula beside it, and numbers that the library computed. "
        "[jensen studio](../studio.md) has the same pages with every setting, with points that can be dragged, and "
        "with your own models.",
    ]
    group = None
    for name in NAMES:
        explainer = loaded(name)
        if explainer.group != group:
            group = explainer.group
            lines += ["", f"## {group}", ""]
        lines.append(f"- [{explainer.title}]({name}.html): {explainer.lead}")
    return "\n".join(lines) + "\n"
