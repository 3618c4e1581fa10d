"""The pictures of the pages: one idea each, drawn by a function, small enough for the repository.

    python tools/page_pictures.py [name ...]
writes docs/assets/NAME.png for the names given, by default for all. The names are those of the pages.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "docs" / "assets"
# 960 pixels: sharp in a column of text, and letters can still be read on a phone.
DPI, N_COLOURS = 160, 256


def write(name: str, folder: Path = ASSETS) -> Path:
    """Draw one picture and write it with few colours."""
    import pictures

    content = io.BytesIO()
    pictures.PICTURES[name]().savefig(content, format="png", dpi=DPI)
    path = folder / f"{name}.png"
    with Image.open(content) as picture:
        picture.convert("RGB").quantize(N_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def main() -> None:
    import pictures

    for name in sys.argv[1:] or pictures.PICTURES:
        path = write(name)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main()
