"""The files of the page, as they come with the package."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html"}


@cache
def web_files() -> dict[str, str]:
    """Their texts by their paths, such as `views/em.js`."""

    def found(folder: Traversable, start: str) -> dict[str, str]:
        texts: dict[str, str] = {}
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                texts |= found(entry, f"{start}{entry.name}/")
            elif entry.name.rpartition(".")[2] in KINDS:
                texts[start + entry.name] = entry.read_text(encoding="utf-8")
        return texts

    return found(files("jensen.studio").joinpath("web"), "")


def html(nonce: str) -> str:
    """The page of the server; a script may find others by `studio/...`, as on static pages."""
    return web_files()["index.html"].replace("{nonce}", escape(nonce))
