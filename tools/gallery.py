"""The gallery: each example is run and has a page with its figure, its output and its source.

A run is cached in `build/gallery` under the hash of the script and of drawing.py; only scripts that have changed run
again. `make clean` deletes the cache. With JENSEN_GALLERY=cached nothing is run: examples that are not in the cache
have an empty frame in place of a figure. The tests of the site use it. An example whose name ends in "_moving" writes a
GIF, and beside it the last frame as a picture for readers who have asked their system for less motion.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

__all__ = ["EXAMPLES", "ORDER", "Example", "Run", "example_page", "examples", "index_page", "run"]

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SHARED = EXAMPLES / "drawing.py"
MODULES = (SHARED, EXAMPLES / "moving.py")
CACHE = ROOT / "build" / "gallery"
THUMBNAIL = 640
SECONDS = 900
# The topic of an example is the first one below that has a name it imports; models built on others come first.
TOPICS = {
    "Jobs in one call": ["impute", "cluster", "synthesize", "outliers"],
    "Many models": ["compare", "Blend"],
    "Diffusion": ["LatentDiffusion", "Diffusion", "Schedule"],
    "Autoencoders": ["VAE", "Autoencoder"],
    "Regression": ["RidgeRegression"],
    "Topics": ["LatentDirichletAllocation"],
    "Subspaces and curves": [
        "LatentCurve",
        "MixtureOfPPCA",
        "MixtureOfFactorAnalysers",
        "FactorAnalysis",
        "ProbabilisticPCA",
    ],
    "Clusters": ["cluster", "KMedoids", "KMeans"],
    "Mixtures and EM": [
        "NaiveBayes",
        "LatentClassAnalysis",
        "BernoulliMixture",
        "PoissonMixture",
        "GaussianMixture",
        "Mixture",
    ],
    "Information": [],
}
ORDER = [
    "Information",
    "Mixtures and EM",
    "Clusters",
    "Subspaces and curves",
    "Topics",
    "Regression",
    "Autoencoders",
    "Diffusion",
    "Many models",
    "Jobs in one call",
]


@dataclass(frozen=True)
class Example:
    """A script: its title is the first line of its docstring.

    Args:
        path: of the script.
        title: without the full stop.
        usage: the command.
        text: the rest of the docstring as Markdown.
        topic: one of `ORDER`.
        source: the whole script.
        names: imports from jensen.
    """

    path: Path
    title: str
    usage: str
    text: str
    topic: str
    source: str
    names: frozenset[str]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def is_moving(self) -> bool:
        return self.name.endswith("_moving")


@dataclass(frozen=True)
class Run:
    """Result of a run: figures by their ending, the last one being the thumbnail, and printed output."""

    pictures: dict[str, Path]
    printed: str


def examples() -> list[Example]:
    """All scripts of the folder, sorted by name."""
    return [read(path) for path in sorted(EXAMPLES.glob("*.py")) if path not in MODULES]


def read(path: Path) -> Example:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, rest = (ast.get_docstring(tree) or path.stem).partition("\n")
    usage = re.search(r"^ +(python examples/.+)\n?", rest, re.MULTILINE)
    names = frozenset(
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jensen"
        for alias in node.names
    )
    topic = next((topic for topic, known in TOPICS.items() if names.intersection(known)), "Information")
    text = rest.replace(usage[0], "") if usage else rest
    return Example(path, title.removesuffix("."), usage[1] if usage else "", prose(text), topic, source, names)


def prose(text: str) -> str:
    """A docstring as Markdown: indented lines are formulas, and other lines are escaped."""
    runs: list[tuple[bool, list[str]]] = []
    for line in text.strip("\n").splitlines():
        is_formula = line.startswith("    ")
        if not runs or runs[-1][0] != is_formula:
            runs.append((is_formula, []))
        runs[-1][1].append(line if is_formula else re.sub(r"([*_<>|\[\]])", r"\\\1", line))
    return "\n\n".join("\n".join(lines).strip("\n") for _, lines in runs)


def run(example: Example, report: Callable[[str], None]) -> Run:
    """Run a script with one thread in a separate process, unless the cache has this version."""
    key = hashlib.sha256(SHARED.read_bytes() + b"\0" + example.source.encode()).hexdigest()[:16]
    endings = [".gif"] * example.is_moving + [".png", ".thumbnail.png"]
    pictures = {ending: CACHE / key / f"{example.name}{ending}" for ending in endings}
    printed = CACHE / key / f"{example.name}.txt"
    if not printed.exists() and os.environ.get("JENSEN_GALLERY") == "cached":
        return Run(dict.fromkeys(pictures, empty()), "")
    if not printed.exists():
        report(f"gallery: running {example.path.name}")
        begin = time.perf_counter()
        printed.parent.mkdir(parents=True, exist_ok=True)
        output = call(example.path, pictures[endings[0]])
        with Image.open(pictures[".png"]) as picture:
            picture.thumbnail((THUMBNAIL, THUMBNAIL))
            picture.convert("RGB").quantize(128).save(pictures[".thumbnail.png"], optimize=True)
        # Written last, so that an interrupted run does not count as complete.
        printed.write_text(output, encoding="utf-8")
        report(f"gallery: {example.path.name} took {time.perf_counter() - begin:.0f} s")
    return Run(pictures, printed.read_text(encoding="utf-8"))


def empty() -> Path:
    """A frame of the shape of most figures."""
    path = CACHE / "empty.png"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (THUMBNAIL, THUMBNAIL // 2), "#dddddd").save(path)
    return path


def call(script: Path, picture: Path) -> str:
    """The output of a script, without the line with the path of the figure."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script), str(picture)],
            cwd=folder,
            env={**os.environ, **threads, "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "ignore", "COLUMNS": "118"},
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
    if done.returncode != 0:
        raise RuntimeError(f"{script.name} failed:\n{done.stderr}")
    if not picture.exists():
        raise RuntimeError(f"{script.name} did not write its figure")
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("picture: ")).strip("\n")


def example_page(example: Example, printed: str, page_of_name: dict[str, str], titles: dict[str, str]) -> str:
    """The page of an example: title, text, figure, output, source and the models it uses."""
    models = sorted({page_of_name[name] for name in example.names if name in page_of_name})
    parts = [
        "---\nhide: [toc]\n---",
        f"# {example.title}",
        example.text,
        moving_picture(example) if example.is_moving else still_picture(example),
        "Guides: " + ", ".join(f"[{titles[page]}](../{page})" for page in models) if models else "",
        f"```sh\n{example.usage}\n```" if example.usage else "",
        f"## Output\n\n```text\n{printed}\n```" if printed else "",
        f'## Script\n\n```python title="examples/{example.path.name}"\n{example.source.strip()}\n```',
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def still_picture(example: Example) -> str:
    return f"[![{alt(example)}](pictures/{example.name}.png){{ .picture }}](pictures/{example.name}.png)"


def moving_picture(example: Example) -> str:
    """A GIF that a browser replaces by its last frame where the reader has asked for less motion."""
    place = f"pictures/{example.name}"
    return (
        f'<picture><source srcset="{place}.png" media="(prefers-reduced-motion: reduce)">'
        f'<img class="picture" src="{place}.gif" alt="{alt(example)}"></picture>'
    )


def index_page(found: list[Example]) -> str:
    """Cards with a thumbnail each, by topic."""
    lines = [
        "---",
        "hide: [toc]",
        "---",
        "# Gallery",
        "",
        "Each figure is drawn by one script, which checks its statements with assertions. The scripts share",
        "[drawing.py](../source/examples/drawing.py.md).",
        "",
    ]
    for topic in ORDER:
        cards = [example for example in found if example.topic == topic]
        if cards:
            lines += [f"## {topic}", "", '<div class="grid cards gallery" markdown>', ""]
            for example in cards:
                lines += [
                    f"-   [![{alt(example)}](pictures/{example.name}.thumbnail.png)]({example.name}.md)",
                    "",
                    f"    [{example.title}]({example.name}.md)",
                    "",
                ]
            lines += ["</div>", ""]
    return "\n".join(lines)


def alt(example: Example) -> str:
    return re.sub(r"[\[\]]", "", example.title)
