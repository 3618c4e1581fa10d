"""Build the archives and try them as a user would: in a clean environment, outside of the checkout.

    python tools/release_check.py [--extras scale,files]

The wheel and the sdist go to dist/. The script checks what they contain and the description that an index would show.
It runs a smoke test of the installed wheel and of the sdist, installs every extra, and prints the size of the
installation.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

__all__ = ["contents_of", "faults_of"]

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
NEEDED = (
    "jensen/py.typed",
    "jensen/__init__.pyi",
    "jensen/report/page.css",
    "jensen/report/page.js",
    "jensen/studio/web/index.html",
)
UNWANTED = re.compile(r"(^|/)(tests|benchmarks|examples|site|build|\.venv|__pycache__)/|\.(jensen|ckpt|pyc)$")
# For developers, not for users.
NOT_TRIED = {"dev", "docs", "bench"}
# A module that each extra brings.
BROUGHT = {"scale": "dask.array", "files": "openpyxl", "diffusers": "diffusers", "studio": "uvicorn"}
SMOKE = """
import sys
from importlib.metadata import version
import numpy as np
import jensen
assert version("jensen") == jensen.__version__
assert "site-packages" in jensen.__file__, jensen.__file__
rng = np.random.default_rng(0)
x = np.r_[rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 4]
x[::9, 1] = np.nan
model = jensen.GaussianMixture(2, random_state=0).fit(x)
model.save("m.jensen")
assert jensen.load("m.jensen").score(x) == model.score(x)
jensen.write_report(model, x, path="report.html")
page = open("report.html", encoding="utf-8").read()
assert "<style" in page and "<script" in page
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", help="extras to try, separated by commas; all by default")
    asked = parser.parse_args().extras
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = asked.split(",") if asked else sorted(set(project["optional-dependencies"]) - NOT_TRIED)
    for old in DIST.glob("jensen-*"):
        old.unlink()
    run(sys.executable, "-m", "pip", "install", "--quiet", "build", "twine")
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    for archive in (wheel, sdist):
        faults = faults_of(contents_of(archive))
        if faults:
            raise SystemExit(f"{archive.name}: {'; '.join(faults)}")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = environment(folder / "wheel", wheel)
        print(f"the installation takes {megabytes(folder / 'wheel'):.0f} MB", flush=True)
        smoke(python, folder)
        for extra in extras:
            run(python, "-m", "pip", "install", "--quiet", *constrained(), f"jensen[{extra}] @ {wheel.as_uri()}")
            run(python, "-c", f"import jensen, {BROUGHT[extra]}", cwd=folder)
            print(f"jensen[{extra}] is installed", flush=True)
        # The dependencies are there: only the build from source is of interest.
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist)
        smoke(python, folder)
    print(f"{wheel.name} and {sdist.name} can be released", flush=True)


def contents_of(archive: Path) -> list[str]:
    """Names of the files, without the folder that a sdist has around them."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return file.namelist()
    with tarfile.open(archive) as packed:
        names = [member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()]
    return [name.removeprefix("src/") for name in names]


def faults_of(names: list[str]) -> list[str]:
    """What is missing from an archive, and what it should not have."""
    missing = [f"{name} is missing" for name in NEEDED if name not in names]
    return missing + [f"{name} does not belong there" for name in names if UNWANTED.search(name)]


def environment(folder: Path, wheel: Path) -> Path:
    """A clean environment with the wheel; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", *constrained(), wheel)
    return python


def smoke(python: Path, folder: Path) -> None:
    run(python, "-I", "-c", SMOKE, cwd=folder)
    command = python.with_name("jensen")
    run(command, "--version", cwd=folder)
    run(command, "fit", "kmeans", "iris", "--n-clusters", "3", "--output", "k.jensen", cwd=folder)
    run(command, "score", "k.jensen", "iris", cwd=folder)


def constrained() -> list[str]:
    return ["--constraint", str(ROOT / "constraints.txt")]


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def run(*command: object, cwd: Path | None = None) -> None:
    print("$", *command, flush=True) if "-c" not in command else None
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


if __name__ == "__main__":
    main()
