"""Build the archives and try them as a user would: in a clean environment, outside of the checkout.

    python tools/release_check.py [--extras scale,files]

The wheel and the sdist go to dist/. The script checks that both have every file of the package, of any kind, and
nothing else, and the description that an index would show. It runs a smoke test of the installed wheel and of the
sdist, installs every extra and uses it, and prints the size of the installation. What it installs goes to environments
of its own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

__all__ = ["contents_of", "faults_of", "package_files"]

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# What an archive has beside the package: the metadata of a wheel, the files of a sdist.
BESIDE = re.compile(
    r"jensen-[^/]+\.dist-info/.+|PKG-INFO|pyproject\.toml|README\.md|CHANGELOG\.md|LICENSE|NOTICE|CITATION\.cff|"
    r"constraints\.txt|\.gitignore"
)
# For developers, not for users.
NOT_TRIED = {"dev", "docs", "bench"}
# What is run with each extra.
TRIED = {
    "scale": """
import dask.array, accelerate
import numpy as np
import pandas as pd
import jensen
pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"]).to_parquet("rows.parquet")
assert jensen.GaussianMixture(1).fit(jensen.scan("rows.parquet")).weights_.shape == (1,)
""",
    "files": """
import duckdb, openpyxl, zstandard
import numpy as np
import pandas as pd
import jensen
from jensen.files.tables import read_file
rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
rows.to_csv("rows.csv.zst", index=False)
rows.to_excel("rows.xlsx", index=False)
with duckdb.connect("rows.duckdb") as database:
    database.execute("create table a as select 1.0 * range as a from range(50)")
for name in ("rows.csv.zst", "rows.xlsx", "rows.duckdb"):
    assert jensen.GaussianMixture(1).fit(read_file(name)).weights_.shape == (1,)
""",
    "diffusers": """
import diffusers, torch
from jensen import DiffusersUNet
blocks = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2}
network = DiffusersUNet({"block_out_channels": [8, 16], "norm_num_groups": 4, **blocks}).build((3, 8, 8), (3, 8, 8))
assert network(torch.zeros(2, 3, 8, 8), torch.tensor([0.0, 9.5])).shape == (2, 3, 8, 8)
""",
    "studio": """
import re
from pathlib import Path
from urllib.request import urlopen
from jensen.studio.folder import Folder
from jensen.studio.serve import Server, in_background
with in_background(Server(Folder(Path("."), lambda model, table: (None, None)))) as server:
    page = urlopen(server.address).read().decode()
    for path in re.findall(r'(?:src|href)="(web/[^"]+)"', page):
        assert urlopen(server.address + path).read()
    assert b"reparametrisation" in urlopen(server.address + "api/explainers").read()
""",
}
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
    started = time.monotonic()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = asked.split(",") if asked else sorted(set(project["optional-dependencies"]) - NOT_TRIED)
    for old in DIST.glob("jensen-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builder = environment(folder / "build", "build", "twine")
        run(builder, "-m", "build", "--outdir", DIST, ROOT)
        wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
        wanted = package_files(ROOT / "src")
        for archive in (wheel, sdist):
            if faults := faults_of(contents_of(archive), wanted):
                raise SystemExit(f"{archive.name}: {'; '.join(faults)}")
            print(f"{archive.name} has the {len(wanted)} files of the package", flush=True)
        run(builder, "-m", "twine", "check", "--strict", wheel, sdist)
        python = environment(folder / "wheel", *constrained(), wheel)
        print(f"the installation takes {megabytes(folder / 'wheel'):.0f} MB", flush=True)
        smoke(python, folder)
        for extra in extras:
            run(python, "-m", "pip", "install", "--quiet", *constrained(), f"jensen[{extra}] @ {wheel.as_uri()}")
            run(python, "-I", "-c", TRIED[extra], cwd=folder)
            print(f"jensen[{extra}] is installed and works", flush=True)
        # The dependencies are there: only the build from source is of interest.
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist)
        smoke(python, folder)
    seconds = time.monotonic() - started
    print(f"{wheel.name} and {sdist.name} can be released; checked in {seconds:.0f} s", flush=True)


def contents_of(archive: Path) -> list[str]:
    """Names of the files, without the folder that a sdist has around them."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return file.namelist()
    with tarfile.open(archive) as packed:
        names = [member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()]
    return [name.removeprefix("src/") for name in names]


def package_files(source: Path) -> list[str]:
    """All files of the package in the checkout: code, styles, scripts, pages, types and data."""
    paths = (path for path in (source / "jensen").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path.relative_to(source).as_posix() for path in paths)


def faults_of(names: list[str], wanted: list[str]) -> list[str]:
    """What is missing from an archive, and what it should not have: tests, benchmarks, or files of no checkout."""
    missing = [f"{name} is missing" for name in wanted if name not in names]
    known = {*wanted}
    return missing + [
        f"{name} does not belong there" for name in names if name not in known and not BESIDE.fullmatch(name)
    ]


def environment(folder: Path, *packages: object) -> Path:
    """A clean environment with these packages; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", *packages)
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
