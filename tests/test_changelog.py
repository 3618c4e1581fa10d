"""The changelog in the form of Keep a Changelog: versions, newest first, and under each the six kinds of change."""

from __future__ import annotations

import re
from pathlib import Path

import jensen

LINES = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def versions() -> dict[str, list[str]]:
    """The kinds of change under every version, in order."""
    found: dict[str, list[str]] = {}
    for line in LINES:
        if line.startswith("## "):
            found[line.removeprefix("## ").partition(" - ")[0]] = []
        elif line.startswith("### "):
            found[[*found][-1]].append(line.removeprefix("### "))
    return found


def test_versions_are_numbers_the_newest_first():
    first, *rest = versions()
    assert first == "Unreleased"
    numbers = [tuple(map(int, version.split("."))) for version in rest]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in rest)
    assert numbers == sorted(numbers, reverse=True)
    assert jensen.__version__ in rest


def test_every_kind_of_change_is_one_of_six_and_comes_once():
    for version, kinds in versions().items():
        assert kinds == [kind for kind in KINDS if kind in kinds], version
        assert kinds, f"{version} has no changes"
