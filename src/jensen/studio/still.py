"""Static pages of the explainers: the same views, with values that the library computed before.

A page is one file that needs no server and no network. It has the values at some stops of every control, each different
value once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from jensen.studio.answers import plain
from jensen.studio.explainer import Explainer
from jensen.studio.page import web_files

# Significant digits of numbers in a page.
DIGITS = 5
# Modules of the page of the server alone.
SERVED = ("main.js", "ask.js", "cells.js", "latent.js", "rows.js", "watch.js")


def stored(explainer: Explainer, states: Iterable[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The values at all stops: `states` has their places in `pool`, by name.

    Args:
        explainer: what is shown.
        states: parameters to compute; all stops if None.
    """
    names = [control.name for control in explainer.controls]
    pool: list[Any] = []
    places: dict[str, int] = {}
    keys, found = [], []
    for state in explainer.states() if states is None else states:
        place = {}
        for name, value in explainer.compute(state).items():
            short = rounded(plain(value))
            text = json.dumps(short)
            if text not in places:
                places[text] = len(pool)
                pool.append(short)
            place[name] = places[text]
        keys.append([state[name] for name in names])
        found.append(place)
    return {"names": names, "keys": keys, "states": found, "pool": pool}


def rounded(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {name: rounded(each) for name, each in value.items()} if isinstance(value, dict) else value


def still_page(explainer: Explainer, values: Mapping[str, Any], home: str) -> str:
    """A page (HTML) with its scripts, its styles and the values.

    Args:
        explainer: what is shown.
        values: of `stored`.
        home: the way from the page to the first page of the documentation.
    """
    files = web_files()
    view = f"views/{explainer.name}.js"
    modules = [name for name in files if name.endswith(".js") and "/" not in name and name not in SERVED]
    imports = {f"studio/{name}": data_address(files[name]) for name in [*modules, view]}
    data = {"explainer": explainer.describe(), "values": values, "home": home}
    parts = {
        "title": explainer.title,
        "css": files["studio.css"],
        "imports": json.dumps({"imports": imports}),
        # A text in the data cannot end the script.
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/"),
        "home": home,
    }
    page = files["still.html"]
    for name, text in parts.items():
        page = page.replace("{" + name + "}", text)
    return page


def data_address(script: str) -> str:
    """A script as its own address: browsers load no modules from files of a folder."""
    return "data:text/javascript;base64," + base64.b64encode(script.encode()).decode()
