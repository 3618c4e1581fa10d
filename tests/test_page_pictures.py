"""Every page of a model has a picture, and a script draws each; `make test-slow` draws them all."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from PIL import Image

from pages import ROOT, section

ASSETS = ROOT / "docs" / "assets"
NAMES = re.findall(r'^    "([\w-]+)": \w+\.\w+,$', (ROOT / "tools/pictures/__init__.py").read_text(), re.MULTILINE)
# Written by `make demo`, examples/structures.py and benchmarks/.
OTHERS = {"digits-board", "digits-samples", "mnist-diffusion", "mnist-vae", "structures", "scaling"}
ROWS = re.findall(
    r"^\|.*\| \[.*\]\(docs/(.*)\.md\) \|$", section((ROOT / "README.md").read_text(), "Models"), re.MULTILINE
)


def test_every_picture_has_a_script():
    assert {path.stem for path in ASSETS.glob("*.png")} <= {*NAMES, *OTHERS}
    assert len(NAMES) > 20


@pytest.mark.parametrize("name", sorted({*ROWS, *NAMES}))
def test_a_page_has_its_picture_described_in_words(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    (words,) = re.findall(rf"!\[([^\]]+)\]\(assets/{name}\.png\)", text)
    assert len(words) > 40
    with Image.open(ASSETS / f"{name}.png") as picture:
        assert picture.width == 960
    assert (ASSETS / f"{name}.png").stat().st_size < 80_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_drawn(name, tmp_path):
    """In a process of its own, because the style of the examples is set for all of a process."""
    code = (
        "import sys; from pathlib import Path; from page_pictures import write; write(sys.argv[1], Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, name, str(tmp_path)],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / f"{name}.png") as drawn, Image.open(ASSETS / f"{name}.png") as shown:
        assert drawn.size == shown.size
