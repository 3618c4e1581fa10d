"""The list of explainers, in the order in which a reader meets them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from jensen.studio.explainer import Explainer

# Each is a module of `jensen.studio.explainers` and a view in `web/views/`.
NAMES = (
    "bound",
    "sigmoid",
    "em",
    "stores",
    "pca",
    "curve",
    "topics",
    "ridge",
    "reparametrisation",
    "latent_map",
    "noising",
    "levels",
    "generate",
    "classifier",
)


def find(name: str) -> Explainer:
    """An explainer by its name."""
    if name not in NAMES:
        raise ValueError(f"there is no explainer {name[:40]!r}; there are {', '.join(NAMES)}")
    return loaded(name)


@cache
def loaded(name: str) -> Explainer:
    found: Explainer = import_module(f"jensen.studio.explainers.{name}").EXPLAINER
    return found


def described() -> list[dict[str, Any]]:
    """What the page needs to list all explainers."""
    return [loaded(name).describe() for name in NAMES]
