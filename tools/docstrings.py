"""Docstrings in the form that the API reference expects."""

from __future__ import annotations

from typing import Any

import griffe

from pages import rewritten

__all__ = ["Docstrings"]


class Docstrings(griffe.Extension):
    """Apply `rewritten` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)
