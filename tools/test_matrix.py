"""Try jensen with each version of Python, and with the lowest and the newest packages that pyproject.toml allows.

    python tools/test_matrix.py [3.11 3.12 3.13 lowest newest] [--folder build/matrix]

`3.11` to `3.13` install what `constraints.txt` pins. `lowest` installs the lower bound of every package with the oldest
of these Pythons on this machine, and `newest` the newest versions with the newest Python, since packages drop old ones.
torch is the pinned one throughout. Every environment is made anew, takes up to 6 GB if pip finds no build of torch for
CPUs, and runs the same suite of a few minutes. At the end, the script prints what ran with which versions, and what was
skipped and why. It exits with 1 if a test failed, or if no environment could be tried.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["Outcome", "constraints_of", "exit_code", "interpreter", "lowest_of", "pins_of", "result_of"]

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = ("diffusers", "files", "scale", "studio")
# Beside the extras: the tests, and a table that users may bring.
BROUGHT = ("pytest", "polars")
# Files of 0.1, tables and files of all kinds, executors, the laws of one case per kind of model, commands, and the
# server of the local page with its explainers.
CASES = "[kmeans] or [ppca] or [mixture-full] or [topics] or [vae] or [diffusion]"
SUITES: tuple[tuple[str, ...], ...] = (
    ("tests/golden", "tests/data", "tests/files", "tests/contract/test_executors.py"),
    ("tests/laws/test_contract.py", "tests/laws/test_missing.py", "tests/laws/test_bound.py", "-k", CASES),
    ("tests/cli/test_commands.py",),
    ("tests/studio/test_guard.py", "tests/studio/test_ask.py"),
)
SHOWN = (
    *("numpy", "scipy", "scikit-learn", "pandas", "polars", "narwhals", "pyarrow", "dask", "matplotlib", "torch"),
    *("starlette", "uvicorn"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="environments to try; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix", help="where they are made")
    arguments = parser.parse_args()
    all_names = (*PYTHONS, "lowest", "newest")
    for name in arguments.names:
        if name not in all_names:
            parser.error(f"{name} is none of {', '.join(all_names)}")
    outcomes = {name: tried(name, arguments.folder / name) for name in arguments.names or all_names}
    print("\n" + "\n".join(f"{name:8}{outcome}" for name, outcome in outcomes.items()), flush=True)
    sys.exit(exit_code(outcomes.values()))


@dataclass(frozen=True)
class Outcome:
    """What came out of an environment: "passed", "failed" or "skipped", with the reasons below each other."""

    result: str
    what: str
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n        ".join([f"{self.result}: {self.what}", *self.details])


def exit_code(outcomes: Iterable[Outcome]) -> int:
    results = [outcome.result for outcome in outcomes]
    return int("failed" in results or "passed" not in results)


def tried(name: str, folder: Path) -> Outcome:
    """Make an environment and run the suites in it."""
    found = [path for version in ([name] if name in PYTHONS else PYTHONS) if (path := interpreter(version)) is not None]
    if not found:
        return Outcome(
            "skipped", f"there is no Python {name if name in PYTHONS else ' or '.join(PYTHONS)} on this machine"
        )
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if run(found[-1] if name == "newest" else found[0], "-m", "venv", folder):
        return Outcome("failed", "the environment cannot be made")
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(constraints_of(name, project, pinned)) + "\n", encoding="utf-8")
    wanted = [*BROUGHT, "--editable", f"{ROOT}[{','.join(EXTRAS)}]"]
    if run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", constraints, *wanted):
        return Outcome("failed", "the packages cannot be installed together")
    reports = [folder / f"suite-{number}.xml" for number in range(len(SUITES))]
    options = ("-q", "-p", "no:cacheprovider", "--disable-warnings")
    ends = [
        run(python, "-m", "pytest", *options, f"--junitxml={report}", *suite)
        for suite, report in zip(SUITES, reports, strict=True)
    ]
    minutes = f"in {(time.monotonic() - started) / 60:.0f} minutes"
    return result_of(reports, ends, minutes, versions_in(python))


def result_of(reports: Iterable[Path], ends: Iterable[int], minutes: str, versions: str) -> Outcome:
    """The outcome of suites from the reports and the exit codes of pytest."""
    n_passed, bad, skipped = 0, [], Counter[str]()
    for report, end in zip(reports, ends, strict=True):
        cases = cases_in(report)
        failing = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        reasons = [found.get("message", "") for case in cases if (found := case.find("skipped")) is not None]
        n_passed += len(cases) - len(failing) - len(reasons)
        skipped.update(reasons)
        bad += [f"failed: {case.get('classname')}.{case.get('name')}" for case in failing]
        if end and not failing:
            bad.append(f"failed: pytest ended with code {end} without the failure of a test")
    counts = f"{n_passed} tests passed, {len(bad)} failed, {skipped.total()} were skipped, {minutes}"
    details = (versions, *bad, *(f"skipped {n}: {reason}" for reason, n in skipped.items()))
    return Outcome("failed" if bad else "passed", counts, details)


def cases_in(report: Path) -> list[ElementTree.Element]:
    """The tests in a report of pytest; none if it was killed before it wrote the report."""
    try:
        return [*ElementTree.parse(report).iter("testcase")]
    except (FileNotFoundError, ElementTree.ParseError):
        return []


def interpreter(version: str) -> str | None:
    """The Python of this version: the one that runs this, one on the path, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    candidates = [shutil.which(f"python{version}")]
    if (pyenv := shutil.which("pyenv")) is not None:
        asked = subprocess.run([pyenv, "prefix", version], capture_output=True, text=True, check=False)
        candidates.append(str(Path(asked.stdout.strip()) / "bin" / "python") if asked.returncode == 0 else None)
    # pyenv puts commands on the path that only say that the version is not chosen.
    return next((path for path in candidates if path is not None and works(path, version)), None)


def works(path: str, version: str) -> bool:
    asked = [path, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    return said.returncode == 0 and said.stdout.strip() == version


def constraints_of(name: str, project: dict[str, object], pinned: dict[str, str]) -> list[str]:
    """What pip has to keep to in an environment."""
    if name in PYTHONS:
        return [f"{package}=={version}" for package, version in pinned.items()]
    kept = {"torch": pinned["torch"], "pytest": pinned["pytest"]}
    if name == "lowest":
        kept = lowest_of(project) | kept
    return [f"{package}=={version}" for package, version in kept.items()]


def pins_of(text: str) -> dict[str, str]:
    """The versions that lines such as numpy==2.4.6 name."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))


def lowest_of(project: dict[str, object]) -> dict[str, str]:
    """The lower bound of every package that users install, and of polars."""
    optional = project["optional-dependencies"]
    needs = [*project["dependencies"], *(need for extra in EXTRAS for need in optional[extra])]  # type: ignore[misc,index]
    needs += [need for need in optional["dev"] if need.startswith("polars")]  # type: ignore[index]
    return {found[1]: found[2] for need in needs if (found := re.match(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", need))}


def versions_in(python: Path) -> str:
    """The versions of Python and of the packages that matter most."""
    code = (
        "import platform, sys; from importlib.metadata import version;"
        "print(platform.python_version(), *map(version, sys.argv[1:]))"
    )
    said = subprocess.run([python, "-c", code, *SHOWN], capture_output=True, text=True, check=True).stdout.split()
    return ", ".join(f"{name} {version}" for name, version in zip(("Python", *SHOWN), said, strict=True))


def run(*command: object) -> int:
    """Run a command in the checkout, with one thread; returns its exit code."""
    print("$", *command, flush=True)
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    return subprocess.run([str(word) for word in command], cwd=ROOT, env=os.environ | threads, check=False).returncode


if __name__ == "__main__":
    main()
