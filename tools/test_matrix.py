"""Try jensen with each version of Python, and with the lowest and the newest packages that pyproject.toml allows.

    python tools/test_matrix.py [3.11 3.12 3.13 lowest newest] [--folder build/matrix]

`3.11` to `3.13` install what `constraints.txt` pins. `lowest` installs the lower bound of every package, and `newest`
the newest version, both with the Python that runs this script. torch is the pinned one throughout, since other builds
take gigabytes. Every environment is made anew and runs the same suite of a few minutes. A Python that is not on this
machine is skipped, and the script says so.
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
from pathlib import Path

__all__ = ["lowest_of", "pins_of"]

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = ("diffusers", "files", "scale")
# Beside the extras: the tests, and a table that users may bring.
BROUGHT = ("pytest", "polars")
# Files of 0.1, tables and files of all kinds, executors, the laws of one case per kind of model, and commands.
CASES = "[kmeans] or [ppca] or [mixture-full] or [topics] or [vae] or [diffusion]"
SUITES: tuple[tuple[str, ...], ...] = (
    ("tests/golden", "tests/data", "tests/files/test_formats.py", "tests/contract/test_executors.py"),
    ("tests/laws/test_contract.py", "tests/laws/test_missing.py", "tests/laws/test_bound.py", "-k", CASES),
    ("tests/cli/test_commands.py",),
)
SHOWN = ("numpy", "scipy", "scikit-learn", "pandas", "polars", "narwhals", "pyarrow", "dask", "matplotlib", "torch")


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
    print("\n".join(["", *(f"{name:8} {outcome}" for name, outcome in outcomes.items())]), flush=True)
    if any(outcome.startswith("failed") for outcome in outcomes.values()):
        raise SystemExit(1)


def tried(name: str, folder: Path) -> str:
    """Make an environment and run the suites in it; returns what came out, in one line."""
    base = interpreter(name) if name in PYTHONS else sys.executable
    if base is None:
        return f"skipped: there is no Python {name} on this machine"
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run(base, "-m", "venv", folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(constraints_of(name, project, pinned)) + "\n", encoding="utf-8")
    wanted = [*BROUGHT, "--editable", f"{ROOT}[{','.join(EXTRAS)}]"]
    if run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", constraints, *wanted):
        return "failed: the packages cannot be installed together"
    versions = versions_in(python)
    failed = [suite[0] for suite in SUITES if run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite)]
    took = f"in {(time.monotonic() - started) / 60:.0f} minutes with {versions}"
    return f"failed: {', '.join(failed)}, {took}" if failed else f"passed {took}"


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
