"""Figures made without pyplot: they need no screen and stay in no list of open windows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Drawn(Figure):
    """A figure that a notebook shows as a picture, also where nothing has imported pyplot."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()
