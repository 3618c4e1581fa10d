"""The changelog in the form of Keep a Changelog: versions, newest first, and under each the six kinds of change."""

from __future__ import annotations

import re
from pathlib import Path

import jensen

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
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
    released = [*versions()]
    if released[0] == "Unreleased":  # changes since the last release, if there are any
        released.pop(0)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in released)
    numbers = [tuple(map(int, version.split("."))) for version in released]
    assert numbers == sorted(numbers, reverse=True)
    assert jensen.__version__ == released[0]


def test_citations_name_the_version_and_its_day():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    day = re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1]
    assert f"\nversion: {jensen.__version__}\n" in citation
    assert f"version = {{{jensen.__version__}}}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"## {jensen.__version__} - {day}" in LINES


def test_every_kind_of_change_is_one_of_six_and_comes_once():
    for version, kinds in versions().items():
        assert kinds == [kind for kind in KINDS if kind in kinds], version
        assert kinds, f"{version} has no changes"
