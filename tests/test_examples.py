"""Every example runs, holds its own assertions and draws its picture."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "drawing.py")


def run(script: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_is_a_picture(path: Path) -> None:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert 1000 < width < 2500
    assert 500 < height < 1500
    # An empty page of this size has about 10 kB.
    assert 30_000 < len(content) < 1_000_000


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_its_picture(script, tmp_path):
    output = run(script, tmp_path)
    picture = tmp_path / f"{script.stem}.png"
    assert output.splitlines()[-1] == f"picture: {picture.resolve()}"
    assert_is_a_picture(picture)


def test_an_example_draws_where_it_is_told(tmp_path):
    run(EXAMPLES / "posterior_sigmoid.py", tmp_path, "other.png")
    assert [path.name for path in tmp_path.iterdir()] == ["other.png"]
    assert_is_a_picture(tmp_path / "other.png")
