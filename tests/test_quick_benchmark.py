"""The comparison of `make benchmark-quick` with the file of the last release; nothing is measured here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LAST = sorted(BENCHMARKS.glob("quick-*.json"))


def results(**cases: tuple[float, float | None]) -> dict:
    found = {
        name: {"ratio": ratio, "peer": "scikit-learn", "memory_mb": memory} for name, (ratio, memory) in cases.items()
    }
    return {"facts": {"jensen": "0.1.0"}, "cases": found}


@pytest.fixture
def compared(tmp_path):
    def run(before: dict, now: dict) -> tuple[int, str]:
        for name, value in (("before", before), ("now", now)):
            (tmp_path / f"{name}.json").write_text(json.dumps(value))
        files = ["--against", str(tmp_path / "before.json"), "--now", str(tmp_path / "now.json")]
        done = subprocess.run([sys.executable, str(BENCHMARKS / "quick.py"), *files], capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_a_fall_of_more_than_a_tenth_is_printed(compared):
    before = results(kmeans=(2.0, 50.0), topics=(1.0, 100.0), vae=(0.8, None), gone=(3.0, 1.0))
    now = results(kmeans=(1.79, 54.9), topics=(0.91, 111.0), vae=(0.9, 10.0), new=(1.0, 1.0))
    assert compared(before, now) == (
        1,
        "kmeans: speed fell by 10%, from 2.00 to 1.79 x scikit-learn's\n"
        "topics: memory rose from 100 to 111 MB\n"
        "gone: was not measured; it had 3.00 x the speed of scikit-learn\n",
    )


def test_smaller_falls_are_noise(compared):
    """Less than a tenth, and less than 5 MB."""
    before, now = results(kmeans=(2.0, 10.0), vae=(1.0, 60.0)), results(kmeans=(1.81, 14.9), vae=(9.0, 65.9))
    assert compared(before, now) == (0, "nothing fell by more than 10% since 0.1.0\n")


def test_the_file_of_the_last_release_is_complete():
    """Every case, and neither the machine's name nor a path in it."""
    text = LAST[-1].read_text(encoding="utf-8")
    found = json.loads(text)
    source = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    assert len(found["cases"]) >= 6
    for name, case in found["cases"].items():
        assert f"def {name}()" in source
        assert case["ratio"] > 0
        assert case["seconds"] > 0
    assert found["facts"]["threads"] == 1
    assert "/" not in text.replace("x86_64", "")
