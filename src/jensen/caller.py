"""Where the user's own line is, for a warning to point there."""

from __future__ import annotations

import sys

__all__ = ["levels_inside"]

# Packages between a user and a fit: our own, and those whose wrappers call us.
INSIDE = ("jensen.", "sklearn.", "joblib.", "torch.")


def levels_inside() -> int:
    """The `stacklevel` of a warning that is to point at the first caller outside of these packages."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    return level
