"""Files that the page may open: those inside one folder, and those named on the command line."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jensen.studio.ask import Subject

# Data sets that come with scikit-learn need no file.
BUILT_IN = ("digits", "iris", "wine")
TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet", ".feather", ".xlsx", ".npy", ".npz")
MODELS = (".jensen",)
# Pairs of a model and a table that stay open.
KEPT = 4
# The most files of a folder that are listed.
MOST_LISTED = 200

# Reads a model and the rows of a table as that model takes them.
Opener = Callable[[Path, Path], tuple[Any, Any]]


@dataclass
class Folder:
    """A folder, and how its models and tables are read.

    Args:
        root: the folder.
        opener: reads a model and a table.
        given: files named on the command line, by the names that the page shows; they may be elsewhere.
    """

    root: Path
    opener: Opener
    given: Mapping[str, Path] = field(default_factory=dict)
    kept: OrderedDict[tuple[Path, Path], Subject] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listed(self) -> dict[str, list[str]]:
        """Models and tables, by name."""
        found: dict[str, list[str]] = {"models": [], "tables": []}
        names = sorted({path.name for path in self.root.iterdir() if self.is_inside(path)} | {*self.given})
        for name in names[:MOST_LISTED]:
            suffix = Path(name).suffix.lower()
            if suffix in MODELS:
                found["models"].append(name)
            elif suffix in TABLES or name in self.given:
                found["tables"].append(name)
        found["tables"] += [name for name in BUILT_IN if name not in found["tables"]]
        return found

    def is_inside(self, path: Path) -> bool:
        """Whether it is a file of this folder, after links are followed."""
        real = path.resolve()
        return real.is_file() and real.is_relative_to(self.root.resolve())

    def find(self, name: Any) -> Path:
        """A file that the page may open, by its name."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"{name!r} is not the name of a file")
        if name in self.given:
            return self.given[name]
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise PermissionError(
                f"{name[:80]!r} is outside of the folder {self.root}, which is all that the page may open"
            )
        if path.resolve().is_file():
            return path
        if name in BUILT_IN:
            return Path(name)
        raise FileNotFoundError(f"there is no file {name[:80]!r} in {self.root}")

    def open(self, model: Any, table: Any) -> Subject:
        """A fitted model and its rows; the last pairs stay open."""
        pair = self.find(model), self.find(table)
        with self.lock:
            if pair not in self.kept:
                self.kept[pair] = Subject(*self.opener(*pair))
            self.kept.move_to_end(pair)
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
            return self.kept[pair]
