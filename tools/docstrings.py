"""Our docstrings as the API reference reads them."""

from __future__ import annotations

from typing import Any

import griffe

from pages import rewritten

__all__ = ["Docstrings"]


class Docstrings(griffe.Extension):
    """Every docstring is read as `rewritten` has it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)
