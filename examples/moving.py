"""What the moving examples share: frames become an animation, and the last of them a picture that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib.animation import PillowWriter
from matplotlib.figure import Figure

__all__ = ["animate"]


def animate(
    fig: Figure, draw: Callable[[Any], None], frames: Iterable[Any], path: Path, per_second: int = 8, wait: float = 2.5
) -> None:
    """Write an animation: `draw` changes the figure for each frame, and the last one stays for `wait` seconds.

    Beside it, NAME.png holds the last frame, for readers who do not want pictures to move.
    """
    # A frame of half the resolution of a picture; most moving pictures are looked at from a distance.
    writer = PillowWriter(fps=per_second)
    with writer.saving(fig, path, dpi=90):
        for frame in frames:
            draw(frame)
            writer.grab_frame()
        for _ in range(round(wait * per_second)):
            writer.grab_frame()
    fig.savefig(path.with_suffix(".png"), dpi=150)
    print(f"picture: {path.resolve()}")
