"""Every example runs, passes its own assertions, draws its figure and uses public names only.

They run in this process: importing torch and scikit-learn for each would take longer than most of them.
"""

from __future__ import annotations

import ast
import os
import runpy
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import pytest
import torch
from PIL import Image

import jensen

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in ("drawing.py", "moving.py"))
# These take ten seconds or more: `make test-slow` and `make docs` run them.
LONG = {
    "diffusion_curve",
    "diffusion_digits",
    "em_moving",
    "inpainting",
    "larger_than_memory",
    "latent_diffusion",
    "leaderboard",
    "losses_and_schedules",
    "mixed_table",
    "naive_bayes_kl",
    "number_of_clusters",
    "outlier_levels",
    "reverse_chain_moving",
    "shapeless_latent",
    "stores",
    "training_moving",
    "vae_digits",
}
RUNS = [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in SCRIPTS]


@pytest.fixture
def as_if_alone(monkeypatch):
    """Restore what a script changes in its process, from threads to colours."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "drawing", raising=False)
    n_threads = torch.get_num_threads()
    with warnings.catch_warnings(), matplotlib.rc_context(), torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(n_threads)
    sys.modules.pop("drawing", None)
    sys.modules.pop("moving", None)


def assert_is_a_picture(path: Path) -> None:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert 1000 < width < 2500
    assert 500 < height < 1500
    # An empty page of this size has about 10 kB.
    assert 30_000 < len(content) < 1_000_000


def assert_moves(path: Path) -> None:
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as picture:
        assert picture.n_frames > 10
        assert 400 < picture.size[0] < 1000


@pytest.mark.parametrize("script", RUNS, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_its_picture(script, tmp_path, monkeypatch, capsys, as_if_alone):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    is_moving = script.stem.endswith("_moving")
    picture = tmp_path / f"{script.stem}.png"
    written = picture.with_suffix(".gif") if is_moving else picture
    assert capsys.readouterr().out.splitlines()[-1] == f"picture: {written.resolve()}"
    if is_moving:
        assert_moves(written)
    else:
        assert_is_a_picture(picture)
    assert picture.exists(), "a moving picture has one that stands still beside it"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_uses_public_names_only(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jensen":
            assert node.module == "jensen", f"line {node.lineno} imports from {node.module}"
            assert {alias.name for alias in node.names} <= set(jensen.__all__)
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("jensen.") for alias in node.names)
        if isinstance(node, ast.Attribute):
            assert node.attr.startswith("__") or not node.attr.startswith("_"), f"line {node.lineno} uses {node.attr}"


def test_an_example_draws_where_it_is_told(tmp_path):
    """In its own process, as a user calls it."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "posterior_sigmoid.py"), "other.png"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["other.png"]
    assert_is_a_picture(tmp_path / "other.png")
